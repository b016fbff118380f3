"""A flow without what the settings switch off.

A processor that needs a resource which is switched off (`WHENCE_RERANKER=none`) is left out, and so are the
optional ports that lead to it; flow files stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from whence.flow.definition import FlowDefinition, ProcessorDefinition, inbound_port, is_required
from whence.schema.errors import ConfigError

__all__ = ("without",)


def without(definition: FlowDefinition, absent: Mapping[str, str]) -> FlowDefinition:
    """Return the flow without the processors that need something absent.

    Args:
        definition: The whole flow.
        absent: Resources that are switched off, with the reason for each, e.g. `WHENCE_RERANKER=none`.

    Raises:
        ConfigError: A processor that stays needs one that goes.
    """
    gone = {
        one.name: one
        for one in definition.processors
        if not absent.keys().isdisjoint(one.cls.needs)
    }
    if not gone:
        return definition
    reasons = ", ".join(absent.values())
    topics = {one.inbound for one in gone.values()}
    # A topic that somebody else takes too is still there.
    topics -= {one.inbound for one in definition.processors if one.name not in gone}
    return msgspec.structs.replace(
        definition,
        processors=tuple(
            _unbound(one, topics, reasons) for one in definition.processors if one.name not in gone
        ),
        interfaces=tuple(one for one in definition.interfaces if one.request not in topics),
    )


def _unbound(
    processor: ProcessorDefinition, gone: Collection[str], reasons: str
) -> ProcessorDefinition:
    kept: dict[str, str] = {}
    for port, topic in processor.topics.items():
        if topic not in gone or port == inbound_port(processor.cls):
            kept[port] = topic
        elif is_required(processor.cls, port):
            raise ConfigError(
                f"processor {processor.name!r} needs what its port {port!r} leads to,"
                f" and that is switched off ({reasons})",
                hint="change the setting, or leave the processor out with --only",
            )
    return msgspec.structs.replace(processor, topics=kept)
