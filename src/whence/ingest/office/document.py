"""The document of an office file, once its parts are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from whence.ingest.blocks import ParsedDocument
from whence.ingest.document_builder import build_document
from whence.ingest.office.archive import OfficeArchive
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import TextBuilder
from whence.schema.errors import BadInput


@contextmanager
def nesting_refused() -> Iterator[None]:
    """Raise `BadInput` for elements that are nested deeper than they can be read."""
    try:
        yield
    except RecursionError as error:
        raise BadInput("has elements that are nested too deeply") from error


def office_document(
    file: SourceFile,
    archive: OfficeArchive,
    text: TextBuilder,
    counts: Counter[str],
    *,
    title: str,
    date: str,
) -> ParsedDocument:
    """Return the document of a file; parts that could not be read count as left out."""
    left_out = {**counts, "parts": counts["parts"] + len(archive.damaged)}
    return build_document(
        file,
        text.text,
        text.blocks,
        title=title,
        places=text.places,
        date=date,
        left_out=left_out,
    )
