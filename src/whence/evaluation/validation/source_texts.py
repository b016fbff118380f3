"""Source texts that results are compared with: indexed files, or web pages."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from whence.evaluation.validation.target import Passage
from whence.ingest.chunking import Chunker
from whence.ingest.documents import load
from whence.ingest.load_results import LoadedDocument
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    import httpx

_PAGE_TIMEOUT_S = 10.0
_LARGEST_PAGE = 8 * 2**20
_AT_ONCE = 4


class Page(NamedTuple):
    """The answer of an address."""

    text: str
    fault: str
    """Reason why it could not be read; empty when it could."""


class SourceTexts(NamedTuple):
    """Source texts of some passages."""

    documents: dict[str, str] | None
    """Text by document id and by address; None when no sources were given."""
    pages: dict[str, Page]
    """Pages by address; empty when no pages were fetched."""


def read_documents(paths: Sequence[Path], wanted: Collection[str]) -> dict[str, str]:
    """Read files and folders as indexing does, and return the texts that are wanted.

    Cost: linear in the files; memory holds the wanted texts.

    Raises:
        BadInput: A path does not exist, or two files would get one id.
    """
    texts: dict[str, str] = {}
    # Only texts are needed, so any count of tokens will do.
    chunker = Chunker(lambda parts: [len(part.split()) for part in parts])
    for item in load(paths, chunker=chunker):
        if isinstance(item, LoadedDocument):
            draft = item.draft
            for name in (draft.document_id, draft.source_file, draft.source_url):
                if name in wanted:
                    texts[name] = item.text
    return texts


async def fetch_pages(addresses: Sequence[str]) -> dict[str, Page]:
    """Read web pages, a few at a time; a page that cannot be read has a fault."""
    import httpx

    slots = asyncio.Semaphore(_AT_ONCE)
    async with httpx.AsyncClient(timeout=_PAGE_TIMEOUT_S, follow_redirects=True) as client:

        async def fetch(address: str) -> Page:
            async with slots:
                return await _fetch(client, address)

        pages = await asyncio.gather(*(fetch(address) for address in addresses))
    return dict(zip(addresses, pages, strict=True))


async def _fetch(client: httpx.AsyncClient, address: str) -> Page:
    import httpx

    if not address.startswith(("http://", "https://")):
        return Page("", "the address is not an http or https URL")
    body = bytearray()
    try:
        async with client.stream("GET", address) as response:
            if response.status_code >= 400:
                return Page("", f"the page answered {response.status_code}")
            async for part in response.aiter_bytes():
                body += part
                if len(body) > _LARGEST_PAGE:
                    return Page("", f"the page is larger than {_LARGEST_PAGE} bytes")
            text = body.decode(response.charset_encoding or "utf-8", "replace")
            html = "html" in response.headers.get("content-type", "")
    except (httpx.HTTPError, httpx.InvalidURL, LookupError) as error:
        return Page("", f"the page cannot be read: {str(error) or type(error).__name__}")
    return Page(_words_of_html(text) if html else text, "")


def _words_of_html(text: str) -> str:
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(text)
    tree.strip_tags(["script", "style"], recursive=True)
    return tree.root.text(separator=" ") if tree.root else ""


def read_source_texts(
    passages: Sequence[Passage], paths: Sequence[Path], pages: dict[str, Page]
) -> SourceTexts:
    """Collect the source texts of passages."""
    if not paths:
        return SourceTexts(None, pages)
    wanted = {name for one in passages for name in (one.document_id, one.source_url) if name}
    texts = read_documents(paths, wanted)
    if wanted and not texts:
        raise BadInput(
            "the sources hold none of the documents that were found",
            hint="give the same files and folders that were indexed",
        )
    return SourceTexts(texts, pages)
