"""Code behind an engine, `engine.code`: import bundles, manage snapshots and sets, expand, fetch and ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.engine.methods import method
from whence.operations.code import (
    AskCode,
    Expand,
    Fetch,
    ImportBundles,
    ListSnapshots,
    MakeSet,
    PurgeSnapshot,
    RemoveSet,
    SetActive,
)

if TYPE_CHECKING:
    from whence.engine.session import EngineSession


class CodeSnapshots:
    """Snapshots of code. A `snapshot` is an id, head sha, branch or tag, or a `SnapshotChoice`.

    Args:
        session: The flow behind the engine.
    """

    def __init__(self, session: EngineSession) -> None:
        self._session = session

    import_bundles = method(ImportBundles)
    overview = method(ListSnapshots)
    make_set = method(MakeSet)
    set_active = method(SetActive)
    remove_set = method(RemoveSet)
    purge = method(PurgeSnapshot)
    expand = method(Expand)
    fetch = method(Fetch)
    ask = method(AskCode)
