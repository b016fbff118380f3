"""A loader of subtitles, SubRip (`.srt`) and WebVTT (`.vtt`): the spoken lines alone."""

from __future__ import annotations

import re

from whence.ingest.blocks import ParsedDocument, prose_blocks
from whence.ingest.decoding import decode_text
from whence.ingest.document_builder import build_document
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile

TIMES = re.compile(r"[\d:.,]+ --> [\d:.,]+")
TAG = re.compile(r"<[^<>]*>")


def load_subtitles(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a file of subtitles; each cue is a paragraph.

    Raises:
        BadInput: The bytes are not text.
    """
    decoded = decode_text(data, file.encoding)
    cues = re.split(r"\n[ \t]*\n", decoded.text.replace("\r\n", "\n"))
    text = "\n\n".join(spoken for cue in cues if (spoken := _spoken(cue)))
    blocks = prose_blocks(text, 0, len(text))
    return build_document(file, text, blocks, encoding=decoded.encoding)


def _spoken(cue: str) -> str:
    """Return the lines below the times of a cue; nothing for a header or a comment."""
    lines = cue.strip().split("\n")
    times = next((n for n, line in enumerate(lines) if TIMES.match(line)), len(lines))
    return TAG.sub("", " ".join(lines[times + 1 :])).strip()


SUBTITLES = Loader(name="subtitles", suffixes=(".srt", ".vtt"), parse_file=load_subtitles)
