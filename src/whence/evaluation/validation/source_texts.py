"""Source texts that results are compared with: indexed files, or web pages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from whence.evaluation.searcher import Passage
from whence.ingest.chunking import Chunker
from whence.ingest.documents import load_documents
from whence.ingest.limited_process import Limits
from whence.ingest.load_results import LoadedDocument
from whence.ingest.reader import DocumentReader
from whence.schema.errors import BadInput, error_text

if TYPE_CHECKING:
    import httpx

_PAGE_TIMEOUT_S = 10.0
_LARGEST_PAGE = 8 * 2**20
_AT_ONCE = 4


class Page(NamedTuple):
    """The answer of an address."""

    text: str | None
    """None when it could not be read."""
    fault: str = ""
    """Reason why it could not be read; empty when it could."""


class SourceTexts(NamedTuple):
    """Source texts of some passages."""

    documents: dict[str, str] | None
    """Text by document id; None when no sources are known."""
    pages: dict[str, Page]
    """Pages by address; empty when addresses are not checked."""
    required: bool = True
    """True when a document without a text is a fault."""

    def page(self, passage: Passage) -> Page:
        """Return the page of a passage's address."""
        return self.pages.get(passage.source_url or "", Page(None))


def read_documents(
    passages: Iterable[Passage], roots: Sequence[Path], reader: DocumentReader
) -> dict[str, str]:
    """Read the files of passages as indexing does, and return the texts of their documents by id.

    Cost: linear in these files; other files below the roots are not read.
    """
    wanted: dict[str, set[str]] = {}
    for passage in passages:
        wanted.setdefault(passage.source_file or passage.document_id, set()).add(
            passage.document_id
        )
    # Only texts are needed, so any count of tokens will do.
    chunker = Chunker(lambda parts: [len(part.split()) for part in parts])
    texts: dict[str, str] = {}
    for name, ids in wanted.items():
        for path in _files(name, roots):
            for item in load_documents([path], chunker=chunker, reader=reader):
                if not isinstance(item, LoadedDocument):
                    continue
                # A file on its own has its name as id, a record the same id as ever.
                own = item.draft.document_id
                found = name if own == path.name and name in ids else own
                if found in ids:
                    texts.setdefault(found, item.text)
    return texts


def _files(name: str, roots: Sequence[Path]) -> Iterator[Path]:
    """Yield the files of that name at or below indexed paths."""
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts or "\0" in name:
        return
    for root in roots:
        path = root / relative if root.is_dir() else root
        if path.is_file() and (root.is_dir() or root.name == name):
            yield path


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

    body = bytearray()
    try:
        async with client.stream("GET", address) as response:
            if response.status_code >= 400:
                return Page(None, f"the page answered {response.status_code}")
            async for part in response.aiter_bytes():
                body += part
                if len(body) > _LARGEST_PAGE:
                    return Page(None, f"the page is larger than {_LARGEST_PAGE} bytes")
            text = body.decode(response.charset_encoding or "utf-8", "replace")
            html = "html" in response.headers.get("content-type", "")
    except (httpx.HTTPError, httpx.InvalidURL, LookupError) as error:
        return Page(None, f"the page cannot be read: {error_text(error)}")
    return Page(_words_of_html(text) if html else text)


def _words_of_html(text: str) -> str:
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(text)
    tree.strip_tags(["script", "style"], recursive=True)
    return tree.root.text(separator=" ") if tree.root else ""


def is_web_address(address: str) -> bool:
    """Return whether an address is that of a web page, not of a file below an indexed folder."""
    return address.startswith(("http://", "https://"))


def read_source_texts(
    passages: Sequence[Passage],
    roots: Sequence[Path],
    pages: Mapping[str, Page],
    *,
    required: bool = True,
    check_files: bool = False,
    limits: Limits | None = None,
) -> SourceTexts:
    """Collect the source texts of passages.

    Args:
        passages: Results.
        roots: Files and folders that were indexed.
        pages: Web pages by address.
        required: Whether the roots must have every document.
        check_files: Whether the addresses of passages that are no web addresses must be files.
        limits: Limits of reading one file; the default ones when None.

    Raises:
        BadInput: The roots are required and have none of the documents.
    """
    with closing(DocumentReader(limits or Limits())) as reader:
        texts = read_documents(passages, roots, reader)
    if required and roots and passages and not texts:
        raise BadInput(
            "the sources hold none of the documents that were found",
            hint="give the same files and folders that were indexed",
        )
    places = ", ".join(map(str, roots)) or "any folder that is known to have been indexed"
    missing = {
        passage.source_url: Page(None, f"there is no such document in {places}")
        for passage in passages
        if check_files
        and passage.source_url
        and not is_web_address(passage.source_url)
        and passage.document_id not in texts
    }
    return SourceTexts(texts if roots else None, {**pages, **missing}, required)
