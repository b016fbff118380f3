"""A checked flow: its processors, the topics between them and its interfaces.

Topic names are full names, and parameters are checked structs of the processors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from whence.broker.transport import RetryPolicy, SupportsSchemas, Transport
from whence.processors.base import Processor
from whence.schema.errors import ConfigError
from whence.schema.message import Message
from whence.schema.topics import DEFAULT_NAMESPACE

#: Name of the interface on which explain events are published.
EXPLAIN = "explain"
MAX_REPLICAS = 64
MAX_CONCURRENCY = 256
MAX_PREFETCH = 1024
#: Processors of one flow.
MAX_PROCESSORS = 256

# A field of `ProcessorDefinition` is called `type`, which hides the builtin in its class body.
ProcessorClass: TypeAlias = type[Processor]
ParameterKind = Literal["string", "integer", "number", "boolean", "choice", "list"]


class ParameterFile(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter of the whole flow as its file declares it."""

    type: ParameterKind
    """`choice` is one of the strings in `choices`; `list` is a list of strings."""
    default: Any
    minimum: float | int | None = None
    maximum: float | int | None = None
    choices: Annotated[list[str], msgspec.Meta(min_length=1)] | None = None
    description: Annotated[str, msgspec.Meta(min_length=1)] | None = None


class ParameterDefinition(ParameterFile, frozen=True, kw_only=True):
    """A checked parameter of a flow, and its value."""

    name: str
    value: Any
    """The value given by the caller, else the default."""


class ProcessorDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One processor of a flow."""

    name: str
    """Name in the flow; also the name of its consumer group, so that copies share the work."""
    type: str
    cls: ProcessorClass
    parameters: msgspec.Struct
    """An instance of the class's `Parameters`."""
    topics: Mapping[str, str]
    """Full topic name by port; an optional port without a topic is missing."""
    replicas: int = 1
    """Instances of the processor in one process, 1 to 64."""
    concurrency: int = 1
    """Messages that one instance handles at a time, 1 to 256."""
    prefetch: int | None = None
    """Messages that one instance holds; None for one and a half times `concurrency`."""
    retry: RetryPolicy = RetryPolicy()
    """Attempts at a failed message and the waits between them."""

    @property
    def inbound(self) -> str:
        """Full name of the topic that it receives its messages from."""
        return self.topics[inbound_port(self.cls)]


class InterfaceDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """An entry point of the flow: a service (`request` and `response`) or events (`topic`)."""

    name: str
    request: str = ""
    """Full topic that requests go to; empty for events."""
    response: str = ""
    """Full topic for replies to requests that name no reply topic of their own; empty for events."""
    topic: str = ""


class FlowDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A checked flow."""

    name: str
    description: str = ""
    namespace: str = DEFAULT_NAMESPACE
    """Tenant and namespace of its topics."""
    parameters: tuple[ParameterDefinition, ...] = ()
    processors: tuple[ProcessorDefinition, ...] = ()
    """In the order of the file; names are unique."""
    interfaces: tuple[InterfaceDefinition, ...] = ()
    """In the order of the file; names are unique."""
    source: str = ""

    def interface(self, name: str) -> InterfaceDefinition:
        """Return an interface by name."""
        for interface in self.interfaces:
            if interface.name == name:
                return interface
        names = [interface.name for interface in self.interfaces]
        raise ConfigError(
            f"flow {self.name!r} has no interface {name!r}{did_you_mean(name, names)}",
            hint=f"its interfaces: {', '.join(names) or 'none'}",
        )

    def only(self, names: tuple[str, ...]) -> tuple[ProcessorDefinition, ...]:
        """Return the processors of these names, in the order of the file; all of them when none is given."""
        known = [processor.name for processor in self.processors]
        for name in names:
            if name not in known:
                raise ConfigError(
                    f"flow {self.name!r} has no processor {name!r}{did_you_mean(name, known)}",
                    hint=f"its processors: {', '.join(known)}",
                )
        return tuple(
            processor for processor in self.processors if not names or processor.name in names
        )


def inbound_port(cls: type[Processor]) -> str:
    """Return the port on which a processor receives its messages: `request` or `input`."""
    return "request" if cls.serves is not None else "input"


def inbound_type(cls: type[Processor]) -> Any:
    """Return the message type that a processor receives; None for one that receives no messages."""
    return cls.serves.request if cls.serves is not None else cls.consumes


def ports(cls: type[Processor]) -> tuple[str, ...]:
    """Return the names of a processor's ports, the inbound one first."""
    return (inbound_port(cls), *cls.calls, *cls.emits)


def without_disabled(definition: FlowDefinition, disabled: Mapping[str, str]) -> FlowDefinition:
    """Return a flow without the processors that need a disabled resource, and without the ports to them.

    Args:
        definition: The whole flow.
        disabled: Disabled resources with the setting that disables each, e.g. `WHENCE_RERANKER=none`.

    Raises:
        ConfigError: A processor that stays cannot do without one that is left out.
    """
    kept = [one for one in definition.processors if disabled.keys().isdisjoint(one.cls.needs)]
    if len(kept) == len(definition.processors):
        return definition
    # A topic that another processor receives from, too, stays.
    served = {one.inbound for one in kept}
    unserved = {one.inbound for one in definition.processors} - served
    processors = []
    for one in kept:
        lost = {port for port, topic in one.topics.items() if topic in unserved}
        for port in lost - one.cls.optional_calls - {inbound_port(one.cls)}:
            raise ConfigError(
                f"processor {one.name!r} needs the processor on its port {port!r}, which is disabled"
                f" ({', '.join(disabled.values())})",
                hint="change the setting, or leave the processor out with --only",
            )
        topics = {port: topic for port, topic in one.topics.items() if port not in lost}
        processors.append(msgspec.structs.replace(one, topics=topics))
    return msgspec.structs.replace(
        definition,
        processors=tuple(processors),
        interfaces=tuple(one for one in definition.interfaces if one.request not in unserved),
    )


def check_report(definition: FlowDefinition) -> dict[str, Any]:
    """Return what `whence run --check` prints: processors and interfaces with full topic names."""
    return {
        "flow": definition.name,
        "processors": [
            {
                "name": processor.name,
                "type": processor.type,
                "replicas": processor.replicas,
                "concurrency": processor.concurrency,
                "topics": dict(processor.topics),
                "parameters": msgspec.to_builtins(processor.parameters),
            }
            for processor in definition.processors
        ],
        "interfaces": {
            interface.name: {"topic": interface.topic}
            if interface.topic
            else {"request": interface.request, "response": interface.response}
            for interface in definition.interfaces
        },
        "parameters": {parameter.name: parameter.value for parameter in definition.parameters},
    }


def did_you_mean(name: str, known: list[str] | tuple[str, ...]) -> str:
    """Return `; did you mean 'X'?` for the nearest known name, or an empty text when none is near."""
    from difflib import get_close_matches

    matches = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def topic_types(definition: FlowDefinition) -> dict[str, type[Message]]:
    """Return the message type of each topic by full name; the loader checked that it is unique."""
    types: dict[str, type[Message]] = {}
    for processor in definition.processors:
        for port, topic in processor.topics.items():
            types.setdefault(topic, _type_of(processor, port))
    return types


def register_types(definition: FlowDefinition, transport: Transport) -> None:
    """Register the types of a flow's topics, before anything is published or subscribed to.

    Raises:
        ConfigError: Another type is registered for one of them.
    """
    if isinstance(transport, SupportsSchemas):
        for topic, message_type in topic_types(definition).items():
            transport.register_topic(topic, message_type)


def _type_of(processor: ProcessorDefinition, port: str) -> type[Message]:
    cls = processor.cls
    if port == inbound_port(cls):
        inbound: type[Message] = inbound_type(cls)
        return inbound
    return cls.calls[port].request if port in cls.calls else cls.emits[port]
