"""`whence show`: the stored text of a document, which citations point into."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from whence.operations.documents import Show
from whence.operations.json_documents import document_json
from whence.operations.source_roots import ListRoots, source_path
from whence.schema.places import locate
from whence.surfaces.cli.output import console, print_json
from whence.surfaces.cli.session import as_json, run_with_engine

if TYPE_CHECKING:
    from pathlib import Path

    from whence.flow.settings import Settings
    from whence.schema.places import DocumentText
    from whence.surfaces.python.engine import Engine


def show(context: typer.Context, asked: Show) -> int:
    """Print the stored text of a document; a chunk is set in bold in its document."""
    reads = f"collection {asked.collection!r}"

    async def shown(engine: Engine, _: Settings) -> tuple[DocumentText, Path | None]:
        document = await engine.run(asked)
        roots = await engine.run(ListRoots(asked.collection))
        return document, source_path(roots, document.root, document.source_file)

    document, path = run_with_engine(context, shown, reads=reads)
    print_json(document_json(document)) if as_json(context) else _print(document, asked.item, path)
    return 0


def _print(document: DocumentText, item: str, path: Path | None) -> None:
    from rich.text import Text

    from whence.surfaces.cli.safe_console import source_link

    out = console()
    chosen = next((chunk for chunk in document.chunks if chunk.id == item), None)
    place = locate(document.places, chosen.char_start, chosen.char_end) if chosen else None
    name = document.source_file or document.document_id
    out.print(source_link(name, document.source_url, place, path), style="cyan", soft_wrap=True)
    if document.title:
        out.print(document.title, style="dim", markup=False)
    out.print()
    text = Text(document.text)
    if chosen:
        text.stylize("bold", chosen.char_start, chosen.char_end)
    out.print(text, soft_wrap=False)
