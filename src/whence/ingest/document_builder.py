"""Text, blocks and front matter of a file, put together to a document."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import quote

from whence.ingest.blocks import Block, ParsedDocument
from whence.ingest.field_validation import checked_metadata, one_line, take_source_url
from whence.ingest.loaders.front_matter import FrontMatter
from whence.ingest.sources import SourceFile
from whence.ingest.tags import TAG_NAMES, own_tags

__all__ = ("MAX_HEADING", "file_document", "first_line", "shortened")

#: Longest heading in characters; it is repeated in the metadata of each chunk below it.
MAX_HEADING = 200
_FIRST_LINE = 80


def file_document(
    file: SourceFile,
    text: str,
    front: FrontMatter,
    blocks: tuple[Block, ...],
    *,
    title: str = "",
    encoding: str = "",
    pages: tuple[int, ...] = (),
) -> ParsedDocument:
    """Return the document of a file; `title` is what the text itself has for a title.

    An encoding other than UTF-8 becomes metadata, since it was guessed. Without an address in the front matter
    the document's path stands for it, as a relative URL.

    Raises:
        BadInput: The front matter states rights, a title or metadata that are not understood.
    """
    tags = own_tags(front.values)
    source_url, rest = take_source_url(front.values)
    stated = one_line(rest.pop("title", None), "title")
    for name in TAG_NAMES:
        rest.pop(name, None)
    stem = PurePosixPath(file.document_id).stem
    return ParsedDocument(
        document_id=file.document_id,
        shown=file.shown,
        text=text,
        blocks=blocks,
        title=stated or title,
        fallback=stated or first_line(text, blocks) or stem,
        tags=tags,
        source_file=file.document_id,
        source_url=source_url or quote(file.document_id),
        metadata=checked_metadata(rest if not encoding else rest | {"encoding": encoding}),
        pages=pages,
    )


def first_line(text: str, blocks: tuple[Block, ...]) -> str:
    """Return the first line of the text for a heading, shortened; empty when there is no text."""
    if not blocks:
        return ""
    start = blocks[0].parts[0][0]
    # A line of ten million characters is not looked through for its end.
    return shortened(text[start : start + 2 * _FIRST_LINE].partition("\n")[0], _FIRST_LINE)


def shortened(text: str, length: int) -> str:
    """Return a text as one line of at most `length` characters, cut at a word when there is one.

    >>> shortened("All  about sea eagles", 12)
    'All about…'
    """
    line = " ".join(text.split())
    if len(line) <= length:
        return line
    head = line[: length - 1]
    return (head.rpartition(" ")[0] or head) + "…"
