"""Leaves processors out of a flow when a setting disables what they need (`WHENCE_RERANKER=none`)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from whence.flow.definition import FlowDefinition, inbound_port
from whence.schema.errors import ConfigError


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
