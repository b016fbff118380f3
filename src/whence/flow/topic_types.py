"""Registers the message type of each topic with brokers that keep schemas.

Such a broker refuses producers and consumers of an incompatible type when they connect. Reply topics carry
several types and are not registered.
"""

from __future__ import annotations

from whence.broker.transport import SupportsSchemas, Transport
from whence.flow.definition import FlowDefinition, ProcessorDefinition, inbound_port, inbound_type
from whence.schema.message import Message


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
