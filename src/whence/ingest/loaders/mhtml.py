"""Load pages that a browser saved as one file (MHTML): the page, without the pictures and styles beside it."""

from __future__ import annotations

from email import message_from_bytes, policy
from email.message import EmailMessage

from whence.ingest.blocks import ParsedDocument
from whence.ingest.decoding import DecodedText, decode_text
from whence.ingest.html_metadata import web_address
from whence.ingest.loaders.base import Loader
from whence.ingest.loaders.html import decode_html, load_page
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput

_PAGES = frozenset(["text/html", "application/xhtml+xml"])


def load_mhtml(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a saved page; its address is the one that it was saved from. Frames are left out and counted."""
    message = message_from_bytes(data, policy=policy.default)
    pages = [part for part in message.walk() if part.get_content_type() in _PAGES]
    start = str(message.get_param("start") or "")
    first = [part for part in pages if start and str(part.get("Content-ID", "")) == start]
    if not pages:
        raise BadInput("is not a saved page: it has no part with HTML")
    page = (first or pages)[0]
    stated = page.get("Content-Location") or message.get("Snapshot-Content-Location") or ""
    address = web_address(str(message.get("Snapshot-Content-Location") or stated))
    return load_page(
        file,
        _decoded(page, file.encoding),
        url=address,
        title=str(message.get("Subject") or "").strip(),
    )


def _decoded(part: EmailMessage, encoding: str) -> DecodedText:
    """Return the text of a page in the encoding that its part or the page itself declares."""
    payload = part.get_payload(decode=True)
    body = payload if isinstance(payload, bytes) else b""
    charset = part.get_content_charset("")
    if charset and charset not in ("utf-8", "utf8", "us-ascii"):
        return decode_text(body, encoding, declared=charset)
    return decode_html(body, encoding)


LOADERS = (
    Loader(name="saved pages", suffixes=(".mhtml", ".mht"), parse_file=load_mhtml, version="4"),
)
