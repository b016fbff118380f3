"""From the tree of a flow file to its definition, every problem noted at its place.

Keys of a flow: `flow`, `description`, `namespace`, `parameters`, `processors`, `interfaces`. Keys of a
processor: `type`, `replicas`, `concurrency`, `prefetch`, `parameters`, `topics`, `retry`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from whence.broker.transport import RetryPolicy
from whence.flow.definition import (
    EXPLAIN,
    MAX_CONCURRENCY,
    MAX_PREFETCH,
    MAX_PROCESSORS,
    MAX_REPLICAS,
    FlowDefinition,
    InterfaceDefinition,
    ParameterDefinition,
    ProcessorDefinition,
    nearest,
)
from whence.flow.parameters import Knobs, read_knobs
from whence.flow.registry import Registry
from whence.flow.topology import Wired, WiredInterface, check_wiring, read_topics
from whence.flow.yaml_nodes import Entry, Node, Problems
from whence.processors.base import Processor
from whence.schema.errors import ConfigError
from whence.schema.topics import DEFAULT_NAMESPACE, full_topic

__all__ = ("build_flow",)

_FLOW_KEYS = ("flow", "description", "namespace", "parameters", "processors", "interfaces")
_PROCESSOR_KEYS = (
    "type",
    "replicas",
    "concurrency",
    "prefetch",
    "parameters",
    "topics",
    "retry",
)
_SCALE_KEYS: tuple[str, ...] = ("replicas", "concurrency", "prefetch")
_INTERFACE_KEYS = ("request", "response", "topic")
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_NAMESPACE = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+\Z")


class _Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How many, with their ranges."""

    replicas: Annotated[int, msgspec.Meta(ge=1, le=MAX_REPLICAS)] = 1
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=MAX_CONCURRENCY)] = 1
    prefetch: Annotated[int, msgspec.Meta(ge=1, le=MAX_PREFETCH)] | None = None


class _Retry(msgspec.Struct, frozen=True, kw_only=True):
    """`RetryPolicy` with the ranges of its fields."""

    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5
    base_delay_s: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.2
    factor: Annotated[float, msgspec.Meta(ge=1, le=100)] = 2.0
    max_delay_s: Annotated[float, msgspec.Meta(ge=0, le=86400)] = 30.0
    jitter: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.2


def build_flow(
    root: Node, problems: Problems, registry: Registry, values: Mapping[str, Any]
) -> FlowDefinition:
    """Build the definition of a flow.

    Args:
        root: The whole file.
        problems: Takes what is wrong; raised here when it is anything.
        registry: Where processor types are looked up.
        values: Values of flow parameters given by the caller.

    Raises:
        FlowError: Something is wrong with the file.
        ConfigError: Something is wrong with `values`.
    """
    builder = _Builder(problems, registry)
    return builder.build(root, values)


class _Builder:
    def __init__(self, problems: Problems, registry: Registry) -> None:
        self._problems = problems
        self._registry = registry
        self._namespace = DEFAULT_NAMESPACE
        self._knobs = Knobs({}, problems)

    def build(self, root: Node, values: Mapping[str, Any]) -> FlowDefinition:
        fields = self._problems.fields(root, "the flow", _FLOW_KEYS, ("flow", "processors"))
        name = self._problems.text(fields.get("flow"), "the name of the flow")
        if name and not _NAME.match(name):
            self._bad_name(fields["flow"].node, name, "flow")
        self._namespace = self._read_namespace(fields.get("namespace"))
        self._knobs = read_knobs(fields.get("parameters"), self._problems, values)
        wired = self._read_processors(fields.get("processors"))
        interfaces = self._read_interfaces(fields.get("interfaces"))
        check_wiring(wired, interfaces, self._problems)
        self._problems.raise_if_any()
        return FlowDefinition(
            name=name,
            description=self._problems.text(fields.get("description"), "the description"),
            namespace=self._namespace,
            parameters=tuple(self._knobs.definitions.values()),
            processors=tuple(one.definition for one in wired if one.definition is not None),
            interfaces=tuple(one.definition for one in interfaces),
            source=self._problems.source,
        )

    def _bad_name(self, node: Node, name: str, what: str) -> None:
        self._problems.at(
            node,
            f"{name!r} is no name for a {what}",
            "use lower-case words joined by -, e.g. text-fetcher",
        )

    def _read_namespace(self, entry: Entry | None) -> str:
        text = self._problems.text(entry, "the namespace", DEFAULT_NAMESPACE)
        if entry is not None and not _NAMESPACE.match(text):
            self._problems.at(
                entry.node,
                f"{text!r} is no namespace",
                f"use TENANT/NAME, e.g. {DEFAULT_NAMESPACE}",
            )
        return text

    def _read_processors(self, entry: Entry | None) -> list[Wired]:
        if entry is None:
            return []
        declared = self._problems.fields(entry.node, "processors")
        if entry.node.kind == "mapping" and not entry.node.entries:
            self._problems.at(entry.node, "a flow needs at least one processor")
        if len(declared) > MAX_PROCESSORS:
            self._problems.at(entry.key, f"a flow may have {MAX_PROCESSORS} processors at most")
            return []
        return [self._read_processor(name, item) for name, item in declared.items()]

    def _read_processor(self, name: str, entry: Entry) -> Wired:
        what = f"processor {name!r}"
        if not _NAME.match(name):
            self._bad_name(entry.key, name, "processor")
        fields = self._problems.fields(entry.node, what, _PROCESSOR_KEYS, ("type",))
        cls = self._read_class(fields.get("type"), what)
        wired = Wired(name, entry.key, cls)
        if cls is None:
            return wired
        topics = fields.get("topics")
        wired.ports = read_topics(topics, cls, what, entry.key, self._namespace, self._problems)
        scale = {key: fields[key] for key in _SCALE_KEYS if key in fields}
        size = self._struct(_Scale, scale, what)
        retry = self._read_struct(_Retry, fields.get("retry"), f"retry of {what}")
        parameters = self._read_struct(
            cls.Parameters, fields.get("parameters"), f"parameters of {what}"
        )
        if size is None or retry is None or parameters is None:
            return wired
        wired.definition = ProcessorDefinition(
            name=name,
            type=cls.type_name,
            cls=cls,
            parameters=parameters,
            topics={port: topic.name for port, topic in wired.ports.items()},
            retry=RetryPolicy(**msgspec.structs.asdict(retry)),
            **msgspec.structs.asdict(size),
        )
        return wired

    def _read_class(self, entry: Entry | None, what: str) -> type[Processor] | None:
        name = self._problems.text(entry, f"type of {what}")
        if entry is None or not name:
            return None
        try:
            return self._registry.get(name)
        except ConfigError as error:
            self._problems.at(entry.node, error.message, error.hint)
            return None

    def _read_struct(
        self, cls: type[msgspec.Struct], entry: Entry | None, what: str
    ) -> msgspec.Struct | None:
        """Read a mapping into a struct; None when something is wrong with it."""
        names = tuple(field.encode_name for field in msgspec.structs.fields(cls))
        before = len(self._problems.found)
        fields = self._problems.fields(entry.node, what, names) if entry else {}
        built = self._struct(cls, fields, what, entry.node if entry else None)
        return built if len(self._problems.found) == before else None

    def _struct(
        self,
        cls: type[msgspec.Struct],
        entries: Mapping[str, Entry],
        what: str,
        place: Node | None = None,
    ) -> msgspec.Struct | None:
        before = len(self._problems.found)
        types = {field.encode_name: field.type for field in msgspec.structs.fields(cls)}
        values: dict[str, Any] = {}
        for name, entry in entries.items():
            has_value, value, knob = self._knobs.resolve(entry.node, f"{name!r} in {what}")
            if has_value:
                values[name] = value
                self._check_value(entry.node, f"{name!r} in {what}", value, types[name], knob)
        if len(self._problems.found) > before:
            return None
        try:
            return msgspec.convert(values, cls)
        except (msgspec.ValidationError, ValueError) as error:
            # What fits field by field can still be refused as a whole.
            node = place or next((entry.key for entry in entries.values()), Node("scalar", 1, 1))
            self._problems.at(node, f"{what}: {_words(error)}")
            return None

    def _check_value(
        self, node: Node, what: str, value: Any, kind: Any, knob: ParameterDefinition | None
    ) -> None:
        reason = _refusal(value, kind)
        if reason:
            near = _near_choice(value, kind)
            source = f" (from parameter {knob.name!r})" if knob else ""
            self._problems.at(node, f"{what} is {value!r}{source}: {reason}{near}")
            return
        # A parameter must not promise what the processor will refuse.
        for allowed in (knob.minimum, knob.maximum, *knob.choices) if knob else ():
            reason = _refusal(allowed, kind) if allowed is not None else ""
            if knob and reason:
                self._problems.at(
                    node, f"parameter {knob.name!r} may be {allowed!r}, but {what} not: {reason}"
                )
                return

    def _read_interfaces(self, entry: Entry | None) -> list[WiredInterface]:
        declared = self._problems.fields(entry.node, "interfaces") if entry else {}
        found = [self._read_interface(name, item) for name, item in declared.items()]
        return [interface for interface in found if interface is not None]

    def _read_interface(self, name: str, entry: Entry) -> WiredInterface | None:
        what = f"interface {name!r}"
        if not _NAME.match(name):
            self._bad_name(entry.key, name, "interface")
        before = len(self._problems.found)
        fields = self._problems.fields(entry.node, what, _INTERFACE_KEYS)
        if set(fields) not in ({"request", "response"}, {"topic"}) or (
            name == EXPLAIN and "topic" not in fields
        ):
            wanted = "`topic`" if name == EXPLAIN else "`request` and `response`, or `topic`"
            if len(self._problems.found) == before:
                self._problems.at(entry.key, f"{what} must have {wanted}")
            return None
        topics = {key: self._read_topic(field, f"{key} of {what}") for key, field in fields.items()}
        if not all(topics.values()):
            return None
        places = {key: field.node for key, field in fields.items()}
        return WiredInterface(InterfaceDefinition(name=name, **topics), places)

    def _read_topic(self, entry: Entry, what: str) -> str:
        text = self._problems.text(entry, what)
        try:
            return full_topic(text, namespace=self._namespace) if text else ""
        except ConfigError as error:
            self._problems.at(entry.node, error.message, error.hint)
            return ""


def _refusal(value: Any, kind: Any) -> str:
    """Return the reason why a value is not of a type, or "" when it is."""
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, ValueError) as error:
        return _words(error)
    return ""


def _words(error: Exception) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]


def _near_choice(value: Any, kind: Any) -> str:
    """Name the nearest member of a `Literal`, when the type is one."""
    members = [member for member in getattr(kind, "__args__", ()) if isinstance(member, str)]
    if not isinstance(value, str) or not members:
        return ""
    return nearest(value, members) or f"; one of {', '.join(members)}"
