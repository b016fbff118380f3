"""Operations that store documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec

from whence.operations.operation import CLI, PYTHON, Offered, Operation
from whence.operations.results import IndexReport
from whence.schema.access import Access, DocumentTags

if TYPE_CHECKING:
    from whence.operations.session import Session

Progress = Callable[[int, int | None], None]
"""Takes the number of items done and their total; the total is None until they are counted."""

_PROGRESS = Offered(on=frozenset({PYTHON}), local=True)


class _Stores(Operation[IndexReport], frozen=True):
    NAME: ClassVar[str] = "index"

    def count(self, result: IndexReport) -> int:
        """Return the number of documents that were stored."""
        return result.documents.added + result.documents.updated


class Index(_Stores, frozen=True):
    """Index files and folders into a collection; unchanged documents are not stored again."""

    paths: Annotated[Sequence[str | PathLike[str]], Offered(on=frozenset({CLI, PYTHON}))]
    """Files and folders."""
    collection: str = "default"
    """Name of the collection; created when missing."""
    tags: DocumentTags = DocumentTags()
    """Rights that readers need, in addition to each document's own."""
    prune: bool = False
    """Whether documents of the collection that are in no path are removed."""
    boosts: Annotated[Mapping[str, int] | None, Offered(option="--boost")] = None
    """Weight of words of `title`, `heading` and `path`, 1 for the text; unchanged when null."""
    token_vectors: bool | None = None
    """Whether token vectors are kept for the local reranker; null for the setting."""
    wait: bool = True
    """Whether vectors are made before it returns; else the next `index`, or a server, makes them. Words are
    searchable meanwhile."""
    progress: Annotated[Progress | None, _PROGRESS] = None
    """Called with the number of documents done and their total (None until counted)."""
    on_vectors: Annotated[Progress | None, _PROGRESS] = None
    """Called with the number of passages that got vectors and their total."""

    async def run(self, session: Session) -> IndexReport:
        """Return what was stored.

        Raises:
            BadInput: A path does not exist, or the collection's name or a boost is invalid.
            Unavailable: A service that is needed does not answer; stored documents stay, and words find them.
        """
        from whence.operations.indexing import index_paths

        return await index_paths(session, self)


class StoreFiles(_Stores, frozen=True):
    """Index the files of a folder that is not kept, for somebody who stores them."""

    writer: Access | None
    """Rights of who stores them; null for the owner's. Documents that these do not see are neither stored nor
    replaced, and fail."""
    folder: Path
    """The folder; ids of documents are paths relative to it."""
    collection: str = "default"
    """Name of the collection; created when missing."""
    tags: DocumentTags = DocumentTags()
    """Rights that readers need, in addition to each document's own."""

    async def run(self, session: Session) -> IndexReport:
        """Return what was stored."""
        from whence.operations.indexing import index_paths

        index = Index([self.folder], collection=self.collection, tags=self.tags)
        report = await index_paths(session, index, writer=self.writer, remember=False)
        report.failures = [
            msgspec.structs.replace(one, path=one.path.removeprefix(f"{self.folder}/"))
            for one in report.failures
        ]
        return report
