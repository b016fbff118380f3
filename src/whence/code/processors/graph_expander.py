"""The graph expander: nodes of a snapshot in, the nodes and edges around them out.

The store checks rights at every step of the walk: a hidden node is not walked through, uses no place and is in
no count. A hidden seed gives the same error as a missing one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from whence.processors.base import EXPAND, Context, Processor
from whence.schema.errors import BadInput
from whence.schema.graph import ExpandRequest, ExpandResponse

if TYPE_CHECKING:
    from whence.code.snapshots.protocols import CodeStore


class GraphExpanderParameters(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Settings of the graph expander."""

    max_depth: Annotated[int, msgspec.Meta(ge=1)] = 100
    """Largest `max_depth` of a request; a larger one is refused."""
    max_nodes: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Largest `max_nodes` of a request; a larger one is refused."""
    travel: bool = False
    """Whether a walk continues behind nodes that the reader may not see. They are left out all the same, but a
    reader can infer that a path exists. A setting of the owner; no request can change it."""


class GraphExpanderProcessor(Processor):
    """Expands dependencies. Cost: grows with the nodes visited and their edges, not with the graph."""

    type_name = "graph-expander"
    summary = "nodes of code to the visible nodes and edges around them"
    serves = EXPAND
    Parameters = GraphExpanderParameters
    needs = ("snapshots",)

    parameters: GraphExpanderParameters

    def __init__(
        self, parameters: GraphExpanderParameters | None = None, *, snapshots: CodeStore
    ) -> None:
        super().__init__(parameters)
        self._snapshots = snapshots

    async def handle(self, message: ExpandRequest, context: Context) -> ExpandResponse:
        """Walk once."""
        for name, value, most in (
            ("max_depth", message.max_depth, self.parameters.max_depth),
            ("max_nodes", message.max_nodes, self.parameters.max_nodes),
        ):
            if value > most:
                raise BadInput(
                    f"{name} must be at most {most}, not {value}",
                    hint=f"ask for less, or raise `{name}` of the graph expander",
                )
        return await self._snapshots.expand(message, travel=self.parameters.travel)
