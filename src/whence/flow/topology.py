"""Every port is bound and the graph is acyclic."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from whence.flow.definition import (
    InterfaceDefinition,
    ProcessorDefinition,
    did_you_mean,
    inbound_port,
    inbound_type,
)
from whence.flow.yaml_nodes import TypedReader
from whence.schema.topics import short_topic


def callers_first(processors: Sequence[ProcessorDefinition]) -> list[ProcessorDefinition]:
    """Return processors in an order in which each comes before those that it sends to."""
    by_name = {one.name: one for one in processors}
    order = TopologicalSorter(_targets(processors)).static_order()
    return [by_name[name] for name in order][::-1]


def _targets(processors: Sequence[ProcessorDefinition]) -> dict[str, list[str]]:
    return {
        one.name: [
            target.name
            for port, topic in one.topics.items()
            if port != inbound_port(one.cls)
            for target in processors
            if target.topics.get(inbound_port(target.cls)) == topic
        ]
        for one in processors
    }


class TopologyCheck:
    """Reports every port and interface whose topic does not fit. Cost: linear in the ports.

    Args:
        processors: The processors whose type is known.
        interfaces: The interfaces.
        reader: Collects the problems.
        complete: Whether `processors` are all of the flow; if not, a topic without a counterpart is no problem.
    """

    def __init__(
        self,
        processors: Sequence[ProcessorDefinition],
        interfaces: Sequence[InterfaceDefinition],
        reader: TypedReader,
        *,
        complete: bool,
    ) -> None:
        self._processors = processors
        self._interfaces = interfaces
        self._reader = reader
        self._complete = complete
        #: Processors that receive from each topic.
        self._receivers: dict[str, list[ProcessorDefinition]] = {}
        for one in processors:
            if inbound_port(one.cls) in one.topics:
                self._receivers.setdefault(one.inbound, []).append(one)
        #: Of these, the processors that answer requests on each topic.
        self._servers = {
            topic: servers
            for topic, receivers in self._receivers.items()
            if (servers := [one for one in receivers if one.cls.serves is not None])
        }
        self._emitted = {
            topic
            for one in processors
            for port, topic in one.topics.items()
            if port in one.cls.emits
        }
        self._events = {one.topic for one in interfaces if one.topic}

    def run(self) -> None:
        """Report the problems to the reader."""
        for processor in self._processors:
            for port, topic in processor.topics.items():
                self._check_port(processor, port, topic)
        self._check_servers()
        for interface in self._interfaces:
            if interface.topic:
                self._check_events(interface)
            else:
                self._check_service(interface)
        self._check_cycles()

    def _check_port(self, processor: ProcessorDefinition, port: str, topic: str) -> None:
        cls, what = processor.cls, f"port {port!r} of {processor.name!r}"
        path = ("processors", processor.name, "topics", port)
        receivers = self._receivers.get(topic, [])
        if port in cls.calls:
            sent = cls.calls[port].request
            servers = self._servers.get(topic)
            if not servers:
                self._report_missing(path, topic, "serves", what, self._fitting(sent))
            elif all(inbound_type(one.cls) is not sent for one in servers):
                self._report_mismatch(path, topic, what, sent, servers[0])
        elif port in cls.emits:
            sent = cls.emits[port]
            if not receivers and topic not in self._events:
                fitting = [*self._fitting(sent), *self._events]
                self._report_missing(path, topic, "consumes", what, fitting)
            for receiver in receivers:
                if inbound_type(receiver.cls) is not sent:
                    self._report_mismatch(path, topic, what, sent, receiver)
        elif cls.serves is None and topic not in self._emitted | self._events:
            known = [*self._emitted, *self._events]
            self._report_missing(path, topic, "publishes to", what, known)

    def _fitting(self, sent: Any) -> list[str]:
        """Return the topics on which a type of message is received."""
        return [
            topic
            for topic, receivers in self._receivers.items()
            if any(inbound_type(one.cls) is sent for one in receivers)
        ]

    def _report_missing(
        self, path: tuple[str, ...], topic: str, verb: str, what: str, fitting: Sequence[str]
    ) -> None:
        if not self._complete:
            return
        short = short_topic(topic)
        known = sorted({short_topic(name) for name in fitting})
        near = did_you_mean(short, known)
        if not near and len(known) == 1:
            near = f"; did you mean {known[0]!r}?"
        self._reader.report(
            path,
            f"no processor {verb} the topic {short!r} ({what}){near}",
            f"topics that fit: {', '.join(known)}" if known else "add a processor for it",
        )

    def _report_mismatch(
        self, path: tuple[str, ...], topic: str, what: str, sent: Any, other: ProcessorDefinition
    ) -> None:
        fitting = sorted(short_topic(name) for name in self._fitting(sent))
        self._reader.report(
            path,
            f"{what} sends {sent.TYPE}, but {other.name!r} on {short_topic(topic)!r} takes"
            f" {getattr(inbound_type(other.cls), 'TYPE', 'nothing')}{did_you_mean(path[-1], fitting)}",
            f"topics that fit: {', '.join(fitting)}" if fitting else "",
        )

    def _check_servers(self) -> None:
        for topic, servers in self._servers.items():
            for other in servers[1:]:
                self._reader.report(
                    ("processors", other.name, "topics", "request"),
                    f"two processors serve the topic {short_topic(topic)!r}:"
                    f" {servers[0].name!r} and {other.name!r}",
                    "give one of them a topic of its own; for more of the same use `replicas`",
                )

    def _check_events(self, interface: InterfaceDefinition) -> None:
        if interface.topic not in self._emitted and interface.topic not in self._receivers:
            what, path = f"interface {interface.name!r}", ("interfaces", interface.name, "topic")
            self._report_missing(path, interface.topic, "publishes to", what, [*self._emitted])

    def _check_service(self, interface: InterfaceDefinition) -> None:
        what, path = f"interface {interface.name!r}", ("interfaces", interface.name)
        if interface.request not in self._servers:
            known = [*self._servers]
            self._report_missing((*path, "request"), interface.request, "serves", what, known)
        if interface.response in {*self._receivers, *self._emitted, interface.request}:
            self._reader.report(
                (*path, "response"),
                f"{what}: the response topic {short_topic(interface.response)!r} is in use already",
                "give the responses a topic of their own",
            )
        first = next(one for one in self._interfaces if one.request == interface.request)
        if first is not interface:
            self._reader.report(
                (*path, "request"),
                f"interfaces {first.name!r} and {interface.name!r} are both for"
                f" {short_topic(interface.request)!r}",
                "keep one of the two",
            )

    def _check_cycles(self) -> None:
        try:
            callers_first(self._processors)
        except CycleError as error:
            # Each name is followed by one that sends to it; the last repeats the first.
            cycle: list[str] = error.args[1][:0:-1]
            first = next(one for one in self._processors if one.name in cycle)
            start = cycle.index(first.name)
            cycle = [*cycle[start:], *cycle[:start], first.name]
            last = next(one for one in self._processors if one.name == cycle[-2])
            port = next(
                port
                for port, topic in last.topics.items()
                if port != inbound_port(last.cls) and topic == first.inbound
            )
            self._reader.report(
                ("processors", last.name, "topics", port),
                f"a cycle: {' -> '.join(cycle)} (closed by port {port!r} of {last.name!r})",
                "a request that comes back to its sender would never end",
            )
