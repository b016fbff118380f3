"""Titles of documents: an operation, which the command `whence titles` and an MCP tool of that name run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from msgspec import Meta

from whence.operations.documents import ListDocuments
from whence.operations.operation import Operation
from whence.schema.access import Access
from whence.surfaces.cli.commands import Command
from whence.surfaces.cli.output import print_json
from whence.surfaces.cli.session import as_json, run_operation
from whence.surfaces.mcp.offer import Tool

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.surfaces.http.auth import Caller
    from whence.surfaces.http.service import Service


class ListTitles(Operation[list[str]], frozen=True):
    """List the titles of documents."""

    NAME: ClassVar[str] = "titles"

    limit: Annotated[int, Meta(ge=1)] = 100
    """Most documents."""
    access: Access = Access.public()
    """Rights to read with."""
    collection: str = "default"
    """Collection to read."""

    async def run(self, session: Session) -> list[str]:
        """Return the titles in order of document id."""
        listed = await ListDocuments(self.access, self.collection, self.limit).run(session)
        return [one.title or one.document_id for one in listed]


def titles(context: typer.Context, asked: ListTitles) -> int:
    """List the titles of documents, among those you may see."""
    found = run_operation(context, asked)
    print_json({"titles": found}) if as_json(context) else print("\n".join(found))
    return 0


async def _titles(service: Service, caller: Caller, asked: ListTitles, _: object) -> dict[str, Any]:
    return {"titles": await service.run(caller, asked)}


COMMAND = Command(
    "whence_titles:titles", "Documents", ("whence titles", "whence titles --limit 5"), after="show"
)
TOOL = Tool("titles", "Titles of documents", ListTitles, _titles)
