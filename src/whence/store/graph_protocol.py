"""What the graph expander asks of the store."""

from __future__ import annotations

from typing import Protocol

from whence.schema.graph import ExpandRequest, ExpandResponse

__all__ = ("GraphStore",)


class GraphStore(Protocol):
    """Snapshots of code as graphs."""

    async def expand(self, request: ExpandRequest, *, travel: bool = False) -> ExpandResponse:
        """Walk the graph of a snapshot from some nodes, breadth first, as far as a reader may see it.

        The order is by depth, then relation, then id, so that equal requests give equal answers. Cost: grows
        with the nodes visited and their edges, not with the graph.

        Args:
            request: Where from, how far, over which edges, for whom.
            travel: False stops the walk at nodes that the reader may not see. True walks through them and
                leaves them out: what lies behind can then be seen, and that something lies between.

        Raises:
            BadInput: A limit is out of range, there are more seeds than `max_nodes`, a seed is of another
                snapshot, or a relation is neither one that bundles are known to have nor that of an edge
                between nodes that the reader may see.
            NotFound: There is no such snapshot, or a seed does not exist or is hidden.
        """
        ...
