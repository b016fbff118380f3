"""Operations that store documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar

import msgspec

from whence.operations.operation import CLI, PYTHON, Offered, Operation
from whence.operations.results import IndexReport
from whence.schema.access import Access, DocumentTags
from whence.store.field_boosts import parse_boost_options

if TYPE_CHECKING:
    from whence.operations.session import Session

R = TypeVar("R")
Progress = Callable[[int, int | None], None]
"""Takes the number of items done and their total; the total is None until they are counted."""

_PROGRESS = Offered(on=frozenset({PYTHON}), local=True)


def _on_or_off(given: str) -> bool:
    from whence.flow.setting_values import is_on

    return is_on("--token-vectors", given)


class ReadsFolders(Operation[R], frozen=True):
    """What is read into a collection, and the rights of what is read."""

    paths: Annotated[
        Sequence[str | PathLike[str]],
        Offered(metavar="PATH...", on=frozenset({CLI, PYTHON})),
    ]
    """Files, folders, and addresses of sources such as `git+file:///srv/handbook@main`."""
    collection: str = "default"
    """Name of the collection; created when missing."""
    tags: DocumentTags = DocumentTags()
    """Rights that readers need, in addition to each document's own."""
    root: str | None = None
    """Name for the folder, which documents of equal paths are told apart by; its own name by default."""
    prune: bool = False
    """Remove documents of these paths whose files are not there any more."""
    exclude: Annotated[tuple[str, ...], Offered(metavar="GLOB")] = ()
    """Files to leave out, in the syntax of `.gitignore`."""
    encoding: Annotated[str, Offered(metavar="NAME")] = ""
    """Encoding of text that declares none and is not UTF-8, e.g. `cp1255`; empty to detect it."""
    rights: Annotated[str | PathLike[str] | None, Offered(metavar="FILE")] = None
    """File of rules that give files tags by their path; a file without a rule is refused."""
    passwords: Annotated[str | PathLike[str] | None, Offered(metavar="FILE", local=True)] = None
    """File of passwords, one a line, for encrypted PDF and Office files; they are never stored."""
    dry_run: bool = False
    """Store nothing: list the files, and estimate time and disk."""


class Index(ReadsFolders[IndexReport], frozen=True):
    """Index files and folders into a collection; unchanged documents are not stored again."""

    NAME: ClassVar[str] = "index"

    boosts: Annotated[
        Mapping[str, int] | None,
        Offered(option="--boost", metavar="FIELD=N", parse=parse_boost_options),
    ] = None
    """Weight of words of `title`, `heading` and `path`, 1 for the text; unchanged when null."""
    reread: bool = False
    """Read all files, also those whose size and time of change are those of the last run."""
    token_vectors: Annotated[bool | None, Offered(metavar="on|off", parse=_on_or_off)] = None
    """Whether token vectors are kept for the local reranker; null for the setting."""
    wait: Annotated[bool, Offered(option="--wait/--no-wait")] = True
    """Return when the vectors are there; else the next `index`, or a server, makes them, and words are
    searchable meanwhile."""
    progress: Annotated[Progress | None, _PROGRESS] = None
    """Called with the number of documents done and their total (None until counted)."""
    on_vectors: Annotated[Progress | None, _PROGRESS] = None
    """Called with the number of passages that got vectors and their total."""

    async def run(self, session: Session) -> IndexReport:
        """Return what was stored.

        Raises:
            BadInput: A path does not exist, or the collection's name, a boost, a pattern or a rule is invalid.
            Unavailable: A service that is needed does not answer; stored documents stay, and words find them.
        """
        from whence.operations.indexing import index_paths

        return await index_paths(session, self)

    def count(self, result: IndexReport) -> int:
        """Return the number of documents that were stored."""
        return _stored(result)


class StoreFiles(Operation[IndexReport], frozen=True):
    """Index the files of a folder that is not kept, for somebody who stores them."""

    NAME: ClassVar[str] = "index"

    writer: Access | None
    """Rights of who stores them; null for the owner's. Documents that these do not see are neither stored nor
    replaced, and fail."""
    folder: Path
    """The folder; ids of documents are paths relative to it."""
    collection: str = "default"
    """Name of the collection; created when missing."""
    tags: DocumentTags = DocumentTags()
    """Rights that readers need, in addition to each document's own."""
    rights: str | PathLike[str] | None = None
    """File of rules that give files tags by their path; a file without a rule is refused."""

    async def run(self, session: Session) -> IndexReport:
        """Return what was stored."""
        from whence.operations.indexing import index_paths

        index = Index([self.folder], collection=self.collection, tags=self.tags, rights=self.rights)
        report = await index_paths(session, index, writer=self.writer, upload=True)
        report.failures = [
            msgspec.structs.replace(one, path=one.path.removeprefix(f"{self.folder}/"))
            for one in report.failures
        ]
        return report

    def count(self, result: IndexReport) -> int:
        """Return the number of documents that were stored."""
        return _stored(result)


def _stored(report: IndexReport) -> int:
    return report.documents.added + report.documents.updated
