"""`Engine.owner`: operations of the owner of the database, who may see every document; no server has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.operations.collection_removal import PreviewCollectionRemoval, RemoveCollection
from whence.operations.collection_renaming import RenameCollection
from whence.operations.history import ExportCases
from whence.operations.owner import (
    Erase,
    ExplainAccess,
    ListFolder,
    PreviewAccess,
    PreviewErasure,
    PruneTraces,
    Verify,
)
from whence.operations.reembedding import Reembed
from whence.surfaces.python.methods import method

if TYPE_CHECKING:
    from whence.operations.session import Session


class OwnerOperations:
    """Erase documents, explain who sees them, prune traces, change encoders, while the engine is open."""

    def __init__(self, session: Session) -> None:
        self._session = session

    erase = method(Erase)
    preview_erasure = method(PreviewErasure)
    verify = method(Verify)
    explain_access = method(ExplainAccess)
    documents_below = method(ListFolder)
    preview_access = method(PreviewAccess)
    prune_traces = method(PruneTraces)
    reembed = method(Reembed)
    preview_collection_removal = method(PreviewCollectionRemoval)
    remove_collection = method(RemoveCollection)
    rename_collection = method(RenameCollection)
    export_cases = method(ExportCases)
