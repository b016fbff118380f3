"""Another name for a collection, for the owner of the database."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec

from whence.operations.operation import Offered, Operation
from whence.operations.output_files import write_text
from whence.operations.trace_access import wait_for_traces
from whence.operations.watch import watch_states
from whence.retrieval.pipeline import check_text
from whence.schema.errors import BadInput
from whence.store.validation import check_name

if TYPE_CHECKING:
    from whence.operations.session import Session


class CollectionRenaming(msgspec.Struct, frozen=True, kw_only=True):
    """A collection that has another name."""

    collection: str
    """Its name now."""
    former: str
    documents: int
    traces: int
    """Traces of answers that name it by its new name now; 0 when it had that name already."""


class RenameCollection(Operation[CollectionRenaming], frozen=True):
    """Rename a collection: documents, rights, vectors, folders and answers stay, and go by the new name."""

    NAME: ClassVar[str] = "rename collection"

    name: Annotated[str, Offered(metavar="NAME")]
    """Name of the collection."""
    new_name: Annotated[str, Offered(metavar="NEW")]
    """The new name."""

    def check(self) -> None:
        """Raise `BadInput` for a name that no collection can have."""
        check_text("the collection's name", self.name)
        check_name(self.new_name)
        if self.name == self.new_name:
            raise BadInput(f"collection {self.name!r} has that name")

    async def run(self, session: Session) -> CollectionRenaming:
        """Return what was renamed. All of it is, or nothing; the same call again changes nothing.

        Raises:
            NotFound: There is no such collection.
            BadInput: Another collection has the name, or a watch keeps one of the two equal to folders.
        """
        self.check()
        _check_not_watched(session, {self.name, self.new_name})
        await wait_for_traces(session)
        store = await session.store()
        traces = await store.rename_collection(self.name, self.new_name)
        if (folder := session.settings.trace_dir) is not None:
            await asyncio.to_thread(_rename_in_files, folder, self.name, self.new_name)
        info = await store.collection(self.new_name)
        return CollectionRenaming(
            collection=self.new_name,
            former=self.name,
            documents=info.documents if info else 0,
            traces=traces,
        )

    def count(self, result: CollectionRenaming) -> int:
        """Return the number of documents."""
        return result.documents


def _check_not_watched(session: Session, names: set[str]) -> None:
    """Refuse while a watch of this home would make the collection again under its former name."""
    for one in watch_states(Path(session.settings.home).expanduser()):
        if one.is_running and one.collection in names:
            raise BadInput(
                f"{', '.join(one.paths)} is watched for collection {one.collection!r}",
                hint="stop that `whence watch` or `serve --watch`, rename, then start it with the new name",
            )


def _rename_in_files(folder: Path, former: str, name: str) -> None:
    """Let pipeline traces name chunks as the collection does, so that erasing a document finds them."""
    before, after = (f"urn:chunk:{one}:" for one in (former, name))
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        text = path.read_text(encoding="utf-8")
        if before in text:
            write_text(path, text.replace(before, after))
