"""The rights that files would have, by rules of folders and by what they state; nothing is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec

from whence.operations.operation import CLI, PYTHON, Offered, Operation
from whence.schema.access import DocumentTags
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from whence.ingest.catalogue import Catalogue
    from whence.ingest.folder_rights import FolderRights
    from whence.ingest.reader import DocumentReader
    from whence.operations.session import Session


class FileRights(msgspec.Struct, frozen=True, kw_only=True):
    """The rights of a document, or why a file would not be stored."""

    path: str
    """Relative to the folder."""
    document_id: str | None = None
    """Null for a file that would not be stored."""
    rule: str = ""
    """Pattern of the rule that holds; empty for none."""
    acl: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    clearance: int = 0
    public: bool = False
    """Whether everybody could read it."""
    reason: str = ""
    """Why it would not be stored."""


class PreviewRights(Operation[list[FileRights]], frozen=True):
    """Show the rights that files would have; nothing is stored."""

    NAME: ClassVar[str] = "rights"
    audited: ClassVar[bool] = False

    paths: Annotated[
        Sequence[str | PathLike[str]],
        Offered(metavar="PATH...", on=frozenset({CLI, PYTHON})),
    ]
    """Files and folders."""
    rights: Annotated[str | PathLike[str] | None, Offered(metavar="FILE")] = None
    """File of rules that give files tags by their path; a file without a rule is refused."""
    tags: DocumentTags = DocumentTags()
    """Rights that readers need, in addition to each document's own."""
    exclude: Annotated[tuple[str, ...], Offered(metavar="GLOB")] = ()
    """Files to leave out, in the syntax of `.gitignore`."""
    collection: str = "default"
    """Collection whose folders are known: a file below one of them is that folder's."""

    async def run(self, session: Session) -> list[FileRights]:
        """Return the rights of each document, and the files that would not be stored, in the order of reading.

        Raises:
            BadInput: A path does not exist, or a pattern or rule is invalid.
        """
        from whence.ingest.folder_rights import read_folder_rights
        from whence.operations.source_roots import open_catalogue

        rules = None if self.rights is None else read_folder_rights(self.rights)
        paths = [Path(path) for path in self.paths]
        catalogue = await open_catalogue(session, self.collection, paths, dry_run=True)
        with session.readers.reader() as reader:
            return await asyncio.to_thread(lambda: list(self._preview(rules, catalogue, reader)))

    def _preview(
        self, rules: FolderRights | None, catalogue: Catalogue | None, reader: DocumentReader
    ) -> Iterator[FileRights]:
        from whence.ingest.chunking import Chunker
        from whence.ingest.documents import load_documents
        from whence.ingest.load_results import LoadedDocument, Unchanged

        # Only tags are needed, so any count of tokens will do.
        found = load_documents(
            [Path(path) for path in self.paths],
            chunker=Chunker(lambda parts: [len(part.split()) for part in parts]),
            tags=self.tags,
            reader=reader,
            catalogue=catalogue,
            exclude=self.exclude,
            rights=rules,
        )
        for item in found:
            if isinstance(item, LoadedDocument):
                tags, path = item.draft.tags, item.source.file if item.source else ""
                yield FileRights(
                    path=path,
                    document_id=item.draft.document_id,
                    rule=_rule(rules, path),
                    acl=tags.acl,
                    labels=tags.labels,
                    clearance=tags.clearance,
                    public=tags == DocumentTags(),
                )
            elif not isinstance(item, Unchanged):
                path = item.file or item.path
                yield FileRights(path=path, rule=_rule(rules, path), reason=item.reason)


def _rule(rules: FolderRights | None, path: str) -> str:
    try:
        return "" if rules is None else rules.rule_of(path)[0]
    except BadInput:
        return ""
