"""Build a document from the text, blocks and front matter of a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from urllib.parse import quote

from whence.ingest.blocks import Block, Member, ParsedDocument
from whence.ingest.field_validation import (
    TAG_NAMES,
    parse_tags,
    single_line,
    split_source_url,
    validate_metadata,
)
from whence.ingest.front_matter import FrontMatter
from whence.ingest.sources import SourceFile
from whence.schema.places import Place

#: Longest heading, in characters; each chunk below it repeats it.
MAX_HEADING = 200
#: Longest text of a document, in characters.
MAX_TEXT = 4 * 2**20
_FIRST_LINE = 80
_NO_FRONT_MATTER = FrontMatter()


def build_document(
    file: SourceFile,
    text: str,
    blocks: tuple[Block, ...],
    *,
    front: FrontMatter = _NO_FRONT_MATTER,
    title: str = "",
    encoding: str = "",
    places: tuple[Place, ...] = (),
    date: str = "",
    left_out: Mapping[str, int] | None = None,
    members: tuple[Member, ...] = (),
    is_preformatted: bool = False,
) -> ParsedDocument:
    """Return the document of a file.

    Args:
        file: The file.
        text: Its text.
        blocks: Blocks of the text.
        front: Its front matter, which takes precedence.
        title: Title found in the text.
        encoding: Detected encoding other than UTF-8; it becomes metadata.
        places: Where parts of the text stand in the file: `blocks.line_places` if the text is that of the file.
        date: Its own date, ISO 8601.
        left_out: What the loader saw and did not take, by kind in the plural; counts of 0 are left out.
        members: Documents inside it.
        is_preformatted: Whether its line ends and signs are those of code; it becomes metadata.
    """
    tags = parse_tags(front.values)
    source_url, rest = split_source_url(front.values)
    stated_title = single_line(rest.pop("title", None), "title")
    for name in TAG_NAMES:
        rest.pop(name, None)
    if encoding:
        rest["encoding"] = encoding
    if is_preformatted:
        rest["preformatted"] = True
    stem = PurePosixPath(file.document_id).stem
    return ParsedDocument(
        document_id=file.document_id,
        display_path=file.display_path,
        text=text,
        blocks=blocks,
        title=stated_title or title,
        fallback_title=stated_title or first_line(text, blocks) or stem,
        tags=tags,
        source_file=file.document_id,
        source_url=source_url or quote(file.document_id),
        metadata=validate_metadata(rest),
        places=places,
        date=date,
        encoding=encoding,
        left_out={kind: count for kind, count in (left_out or {}).items() if count},
        members=members,
    )


def first_heading(blocks: tuple[Block, ...]) -> str:
    """Return the first heading of some blocks; empty if there is none."""
    return next((block.path[0] for block in blocks if block.kind == "heading"), "")


def lone_heading(blocks: tuple[Block, ...]) -> str:
    """Return the only heading of the top level, which is the title of a text; empty if there are several."""
    tops = [block.path[0] for block in blocks if block.kind == "heading" and len(block.path) == 1]
    return tops[0] if len(tops) == 1 else ""


def first_line(text: str, blocks: tuple[Block, ...]) -> str:
    """Return the first line of the text, shortened, for use as a heading; empty unless it begins with prose."""
    if not blocks or blocks[0].kind == "atomic":
        return ""
    start = blocks[0].parts[0][0]
    return shorten(text[start : start + 2 * _FIRST_LINE].partition("\n")[0], _FIRST_LINE)


def shorten(text: str, length: int) -> str:
    """Return a text as one line of at most `length` characters, cut between words if possible.

    >>> shorten("All  about sea eagles", 12)
    'All about…'
    """
    line = " ".join(text.split())
    if len(line) <= length:
        return line
    head = line[: length - 1]
    return (head.rpartition(" ")[0] or head) + "…"
