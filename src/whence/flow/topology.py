"""Do the topics of a flow fit? Every port leads somewhere, every door opens, nothing runs in a ring."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from whence.flow.definition import (
    InterfaceDefinition,
    ProcessorDefinition,
    inbound_port,
    inbound_type,
    is_required,
    nearest,
)
from whence.flow.yaml_nodes import Entry, Node, Problems
from whence.processors.base import Processor
from whence.schema.errors import ConfigError
from whence.schema.topics import full_topic, short_topic

__all__ = ("PortTopic", "Wired", "WiredInterface", "check_wiring", "read_topics")


class PortTopic:
    """The topic of a port and where the file says so."""

    def __init__(self, name: str, node: Node) -> None:
        self.name = name
        self.node = node


class Wired:
    """A processor while the flow is being checked."""

    def __init__(self, name: str, place: Node, cls: type[Processor] | None) -> None:
        self.name = name
        self.place = place
        #: None when its type is unknown; then nothing is said of its ports.
        self.cls = cls
        self.ports: dict[str, PortTopic] = {}
        #: None while something is wrong with it.
        self.definition: ProcessorDefinition | None = None


class WiredInterface:
    """An interface while the flow is being checked."""

    def __init__(self, definition: InterfaceDefinition, places: dict[str, Node]) -> None:
        self.definition = definition
        self.places = places


def read_topics(
    entry: Entry | None,
    cls: type[Processor],
    what: str,
    place: Node,
    namespace: str,
    problems: Problems,
) -> dict[str, PortTopic]:
    """Read the `topics` of a processor; note unknown ports, bad names and ports left out."""
    allowed = (inbound_port(cls), *cls.calls, *cls.emits)
    ports: dict[str, PortTopic] = {}
    declared = problems.fields(entry.node, "topics") if entry else {}
    for port, item in declared.items():
        if port not in allowed:
            problems.at(
                item.key,
                f"unknown port {port!r} of {what}{nearest(port, allowed)}",
                f"its ports: {', '.join(allowed)}",
            )
            continue
        text = problems.text(item, f"topic of port {port!r}")
        try:
            name = full_topic(text, namespace=namespace) if text else ""
        except ConfigError as error:
            problems.at(item.node, error.message, error.hint)
            name = ""
        ports[port] = PortTopic(name, item.node)
    for port in allowed:
        if port not in declared and is_required(cls, port):
            problems.at(
                entry.key if entry else place,
                f"{what} has no topic for its port {port!r}",
                f"add `{port}: TOPIC` to its topics",
            )
    # A bad name was noted already; the port counts as given and is left out of further checks.
    return {port: topic for port, topic in ports.items() if topic.name}


def check_wiring(
    processors: list[Wired], interfaces: list[WiredInterface], problems: Problems
) -> None:
    """Note every topic that joins what does not fit. Cost: linear in the ports, plus one walk."""
    _Wiring(processors, interfaces, problems).check()


class _Wiring:
    def __init__(
        self, processors: list[Wired], interfaces: list[WiredInterface], problems: Problems
    ) -> None:
        self._processors = processors
        self._interfaces = interfaces
        self._problems = problems
        #: With a type unknown, a topic that seems to lead nowhere may be that processor's.
        self._complete = all(processor.cls is not None for processor in processors)
        self._takers: dict[str, list[Wired]] = {}
        self._emitted: set[str] = set()
        for processor in processors:
            self._index(processor)
        self._doors = {one.definition.topic for one in interfaces if one.definition.topic}

    def _index(self, processor: Wired) -> None:
        if processor.cls is None:
            return
        inbound = processor.ports.get(inbound_port(processor.cls))
        if inbound is not None:
            self._takers.setdefault(inbound.name, []).append(processor)
        for port in processor.cls.emits:
            if port in processor.ports:
                self._emitted.add(processor.ports[port].name)

    def check(self) -> None:
        for processor in self._processors:
            if processor.cls is not None:
                self._check_ports(processor, processor.cls)
        self._check_servers()
        for interface in self._interfaces:
            self._check_interface(interface)
        self._check_cycles()

    def _check_ports(self, processor: Wired, cls: type[Processor]) -> None:
        for port, topic in processor.ports.items():
            if port in cls.calls:
                self._check_call(processor, port, topic, cls.calls[port].request)
            elif port in cls.emits:
                self._check_emit(processor, port, topic, cls.emits[port])
            elif cls.serves is None:
                self._check_input(processor, topic)

    def _check_call(self, processor: Wired, port: str, topic: PortTopic, sent: Any) -> None:
        servers = [one for one in self._takers.get(topic.name, []) if _serves(one)]
        if not servers:
            fitting = [name for name, takers in self._takers.items() if _takes(takers, sent)]
            self._missing(topic, "serves", f"port {port!r} of {processor.name!r}", fitting)
        elif not _takes(servers, sent):
            self._mismatch(processor, port, topic, sent, servers[0])

    def _check_emit(self, processor: Wired, port: str, topic: PortTopic, sent: Any) -> None:
        takers = self._takers.get(topic.name, [])
        if not takers and topic.name not in self._doors:
            fitting = [name for name, some in self._takers.items() if _takes(some, sent)]
            fitting.extend(self._doors)
            self._missing(topic, "consumes", f"port {port!r} of {processor.name!r}", fitting)
        for taker in takers:
            if not _takes([taker], sent):
                self._mismatch(processor, port, topic, sent, taker)

    def _check_input(self, processor: Wired, topic: PortTopic) -> None:
        if topic.name not in self._emitted and topic.name not in self._doors:
            known = [*self._emitted, *self._doors]
            self._missing(topic, "publishes to", f"port 'input' of {processor.name!r}", known)

    def _missing(self, topic: PortTopic, verb: str, what: str, fitting: list[str]) -> None:
        if not self._complete:
            return
        short = short_topic(topic.name)
        known = sorted({short_topic(name) for name in fitting})
        near = nearest(short, known)
        if not near and len(known) == 1:
            near = f"; did you mean {known[0]!r}?"
        self._problems.at(
            topic.node,
            f"no processor {verb} the topic {short!r} ({what}){near}",
            f"topics that fit: {', '.join(known)}" if known else "add a processor for it",
        )

    def _mismatch(
        self, processor: Wired, port: str, topic: PortTopic, sent: Any, taker: Wired
    ) -> None:
        taken = inbound_type(taker.cls) if taker.cls else None
        fitting = [short_topic(name) for name, some in self._takers.items() if _takes(some, sent)]
        hint = f"topics that fit: {', '.join(sorted(fitting))}" if fitting else ""
        self._problems.at(
            topic.node,
            f"port {port!r} of {processor.name!r} sends {_type_name(sent)}, but {taker.name!r} on"
            f" {short_topic(topic.name)!r} takes {_type_name(taken)}"
            f"{nearest(port, sorted(fitting))}",
            hint,
        )

    def _check_servers(self) -> None:
        for topic, takers in self._takers.items():
            servers = [taker for taker in takers if _serves(taker)]
            for other in servers[1:]:
                self._problems.at(
                    other.ports["request"].node,
                    f"two processors serve the topic {short_topic(topic)!r}:"
                    f" {servers[0].name!r} and {other.name!r}",
                    "give one of them a topic of its own; for more of the same use `replicas`",
                )

    def _check_interface(self, interface: WiredInterface) -> None:
        definition, places = interface.definition, interface.places
        if definition.topic:
            if definition.topic not in self._emitted and definition.topic not in self._takers:
                topic = PortTopic(definition.topic, places["topic"])
                known = [*self._emitted]
                self._missing(topic, "publishes to", f"interface {definition.name!r}", known)
            return
        servers = [one for one in self._takers.get(definition.request, []) if _serves(one)]
        if not servers:
            topic = PortTopic(definition.request, places["request"])
            known = [name for name, takers in self._takers.items() if any(map(_serves, takers))]
            self._missing(topic, "serves", f"interface {definition.name!r}", known)
        self._check_response(definition, places["response"])
        first = next(
            one for one in self._interfaces if one.definition.request == definition.request
        )
        if first is not interface:
            self._problems.at(
                places["request"],
                f"interfaces {first.definition.name!r} and {definition.name!r} are both for"
                f" {short_topic(definition.request)!r}",
                "keep one of the two",
            )

    def _check_response(self, definition: InterfaceDefinition, node: Node) -> None:
        taken = {*self._takers, *self._emitted, definition.request}
        if definition.response in taken:
            self._problems.at(
                node,
                f"interface {definition.name!r}: the response topic"
                f" {short_topic(definition.response)!r} is in use for something else",
                "give the responses a topic of their own",
            )

    def _check_cycles(self) -> None:
        done: set[str] = set()
        for processor in self._processors:
            self._walk(processor, [], done)

    def _walk(self, processor: Wired, path: list[str], done: set[str]) -> None:
        if processor.name in done:
            return
        path.append(processor.name)
        for port, topic, target in self._edges(processor):
            if target.name in path:
                ring = " -> ".join([*path[path.index(target.name) :], target.name])
                self._problems.at(
                    topic.node,
                    f"a cycle: {ring} (closed by port {port!r} of {processor.name!r})",
                    "a request that comes back to its sender would never end",
                )
            else:
                self._walk(target, path, done)
        path.pop()
        done.add(processor.name)

    def _edges(self, processor: Wired) -> Iterator[tuple[str, PortTopic, Wired]]:
        if processor.cls is None:
            return
        inbound = inbound_port(processor.cls)
        for port, topic in processor.ports.items():
            if port != inbound:
                for target in self._takers.get(topic.name, []):
                    yield port, topic, target


def _serves(processor: Wired) -> bool:
    return processor.cls is not None and processor.cls.serves is not None


def _takes(takers: list[Wired], sent: Any) -> bool:
    return any(taker.cls is not None and inbound_type(taker.cls) is sent for taker in takers)


def _type_name(cls: Any) -> str:
    return getattr(cls, "TYPE", "") or "nothing"
