"""The stored document that a citation quotes, with the cited words marked, and the file it was read from."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

import msgspec
from msgspec import Meta

from whence.ingest.loader_registry import loaders_by_suffix
from whence.ingest.page_picture import PictureJob, draw_page
from whence.ingest.sources import file_digest
from whence.operations.freshness import dated_citations
from whence.operations.operation import Operation, R
from whence.operations.source_roots import own_store, source_path
from whence.operations.trace_access import ReadableTrace, load_trace
from whence.provenance.erasing import ERASED
from whence.schema.access import Access
from whence.schema.errors import NotFound
from whence.store.chunk_ids import collection_of

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.schema.document_rag import Citation
    from whence.schema.places import DocumentText
    from whence.store.source_states import SourceRoot

Media = Literal["text", "markdown", "code", "table", "pdf", "slides", "mail"]

#: Most characters of a window, and those of it before the quote.
_WINDOW: Final = 40_000
_BEFORE: Final = 15_000
#: Characters before a quote that tell which of several equal places is meant.
_BEFORE_QUOTE: Final = 200
#: Largest file that is read to be shown, in bytes.
_MOST_BYTES: Final = 160 * 2**20
#: Headings of a document at most.
_MOST_HEADINGS: Final = 2_000
_BY_SUFFIX: Final[dict[str, Media]] = {
    **dict.fromkeys((".pdf",), "pdf"),
    **dict.fromkeys((".pptx", ".pptm", ".potx", ".ppsx", ".ppsm", ".odp", ".otp"), "slides"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xltx", ".xls", ".xlsb", ".ods"), "table"),
    **dict.fromkeys((".csv", ".tsv", ".tab", ".psv"), "table"),
    **dict.fromkeys((".eml", ".mbox", ".mbx"), "mail"),
}
#: Formats that are stored in the form of `ingest.text_builder`, which can be read as Markdown.
_MARKDOWN: Final = frozenset(
    [
        ".md",
        ".markdown",
        ".rst",
        ".rest",
        ".html",
        ".htm",
        ".xhtml",
        ".mhtml",
        ".mht",
        ".docx",
        ".docm",
        ".dotx",
        ".dotm",
        ".odt",
        ".ott",
        ".rtf",
        ".epub",
        ".ipynb",
    ]
)
#: Formats whose lines are shown as they are.
_PLAIN: Final = frozenset((".txt", ".text", ".log", ".conf", ".ini", ".jsonl"))


class MailHead(msgspec.Struct, frozen=True, kw_only=True):
    """Who wrote a mail to whom; what is not known is empty."""

    sender: str = msgspec.field(name="from", default="")
    to: str = ""
    date: str = ""
    subject: str = ""


class SourceView(msgspec.Struct, frozen=True, kw_only=True):
    """The document of a citation, or a window of it around the quote."""

    collection: str
    document_id: str
    title: str
    root: str
    path: str
    media: Media
    text: str
    """At most 40,000 characters of the stored text; the quote, when the document does not have it any more."""
    offset: int
    """Offset of `text` in the stored text, in code points."""
    total: int
    """Characters of the stored text."""
    marks: list[tuple[int, int]]
    """Offsets of the cited words in `text`, in code points."""
    more_before: bool
    more_after: bool
    headings: list[str]
    """Headings of the passages in `text`."""
    page: int | None
    """Page, slide or sheet of the quote, from 1."""
    pages: int | None
    """Highest page that is known."""
    has_file: bool
    """Whether the file can be read, is the one that was indexed, and holds no other document."""
    source_url: str
    document_date: str | None
    indexed_at: str | None
    changed: bool | None
    """Whether the source is another one now; null when that cannot be known."""
    head: MailHead | None


class OfCitation(Operation[R], frozen=True):
    """What is asked of one citation of an answer."""

    answer_id: str
    """Id of the answer."""
    citation: Annotated[int, Meta(ge=0)]
    """Index of the citation, from 0."""
    access: Access = Access.public()
    """Rights to read with."""


class ShowSource(OfCitation[SourceView], frozen=True):
    """Show the document that a citation quotes, with the cited words marked."""

    NAME: ClassVar[str] = "source"

    async def run(self, session: Session) -> SourceView:
        """Return the document.

        Raises:
            NotFound: There is no such answer or citation, or the reader may not see it.
        """
        loaded, citation = await find_citation(session, self.answer_id, self.citation, self.access)
        collection = _collection(loaded, citation)
        store = await session.store()
        texts = await store.document_texts(collection, [citation.document_id], self.access)
        document = texts.get(citation.document_id)
        (dated,) = await dated_citations(session, collection, [citation], self.access, past=True)
        has_file = dated.changed is False and bool(
            await _file_path(session, collection, citation.document_id, self.access)
        )
        return await asyncio.to_thread(_view, collection, dated, document, has_file)


class ReadSourceFile(OfCitation[bytes], frozen=True):
    """Read the file that a cited document came from, if it is still the one that was indexed."""

    NAME: ClassVar[str] = "source file"

    async def run(self, session: Session) -> bytes:
        """Return the bytes of the file.

        Raises:
            NotFound: There is no such citation, the reader may not see it, or its file is gone, is another one
                now, or holds other documents, too.
        """
        loaded, citation = await find_citation(session, self.answer_id, self.citation, self.access)
        collection, name = _collection(loaded, citation), citation.document_id
        found = await _file_path(session, collection, name, self.access)
        data = None
        if found is not None:
            path, digest = found
            data = await asyncio.to_thread(_read, path, digest)
        if data is None:
            raise NotFound(
                f"the file of {name!r} cannot be shown: it is not here, or not the one that was indexed",
                hint="the stored text is in the source of the citation",
            )
        return data


class DrawSourcePage(OfCitation[bytes], frozen=True):
    """Draw a page of the PDF that a citation quotes, with the cited words marked."""

    NAME: ClassVar[str] = "source page"

    page: Annotated[int, Meta(ge=1)] | None = None
    """Number of the page, from 1; that of the quote when null."""

    async def run(self, session: Session) -> bytes:
        """Return the picture as PNG.

        Raises:
            NotFound: As for `ReadSourceFile`, or the citation is of no PDF.
            BadInput: There is no such page, or it takes too much time or memory to draw.
        """
        loaded, citation = await find_citation(session, self.answer_id, self.citation, self.access)
        if media_of(citation.source_file or citation.document_id) != "pdf":
            raise NotFound(f"citation {self.citation} is of no PDF", hint="see its source")
        data = await ReadSourceFile(self.answer_id, self.citation, self.access).run(session)
        store = await session.store()
        texts = await store.document_texts(
            _collection(loaded, citation), [citation.document_id], self.access
        )
        before = ""
        if citation.document_id in texts:
            text = texts[citation.document_id].text
            start, _ = _find_quote(text, citation) or (0, 0)
            before = text[max(0, start - _BEFORE_QUOTE) : start]
        own = citation.location.page if citation.location else None
        job = PictureJob(data, self.page or own or 1, citation.quote, before)
        return await asyncio.to_thread(draw_page, job)


async def find_citation(
    session: Session, answer_id: str, number: int, access: Access
) -> tuple[ReadableTrace, Citation]:
    """Return the trace of an answer and one of its citations, by index.

    Raises:
        NotFound: There is none, or the reader may not see it.
    """
    loaded = await load_trace(session, answer_id, access)
    answer = loaded.record.answer
    citations = answer.citations if answer is not None else ()
    if number >= len(citations):
        raise NotFound(
            f"answer {answer_id!r} has no citation {number}",
            hint=f"it has {len(citations)}, counted from 0",
        )
    return loaded, citations[number]


def _collection(loaded: ReadableTrace, citation: Citation) -> str:
    """Return the collection of a citation, also where several were asked."""
    collection = loaded.record.collection
    return collection_of(collection, citation.chunk_id) or collection


async def _file_path(
    session: Session, collection: str, document_id: str, access: Access
) -> tuple[Path, str] | None:
    """Return the file of a visible document and the digest of its bytes; None unless it holds nothing else.

    A file of records or messages holds several documents, each with rights of its own. So may a mail: its
    attachments must be visible, too.
    """
    store = await own_store(session)
    if store is None:
        return None
    described = await store.describe_documents(collection, [document_id], access)
    known = described.get(document_id)
    if known is None or not known.file_digest or known.size > _MOST_BYTES:
        return None
    named = await store.documents_named(collection, f"{known.root}/{known.path}", None)
    inside = await store.document_ids(collection, prefix=f"{document_id}/")
    seen = await store.describe_documents(collection, inside, access) if inside else {}
    if named != [document_id] or len(seen) < len(inside):
        return None
    roots = await store.source_roots(collection)
    path = await asyncio.to_thread(_below_root, source_path(roots, known.root, known.path), roots)
    return None if path is None else (path, known.file_digest)


def _below_root(path: Path | None, roots: Sequence[SourceRoot]) -> Path | None:
    """Return a path unless links lead out of all roots."""
    if path is None:
        return None
    whole = path.resolve()
    folders = [Path(one.path).resolve() for one in roots if one.path]
    return whole if any(whole.is_relative_to(one) for one in folders) else None


def _read(path: Path, digest: str) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return data if file_digest(data) == digest else None


def _view(
    collection: str, citation: Citation, document: DocumentText | None, has_file: bool
) -> SourceView:
    span = None if document is None else _find_quote(document.text, citation)
    location = citation.location
    path = citation.source_file or citation.document_id
    if document is None or span is None:
        # What the answer stood on is shown, also when the document is another one now.
        text, offset, marks = citation.quote, 0, [(0, len(citation.quote))]
        total, headings, pages = len(text), [], None
    else:
        offset = max(0, span[0] - _BEFORE)
        text = document.text[offset : offset + max(_WINDOW, span[1] - offset)]
        marks = [(span[0] - offset, span[1] - offset)]
        total = len(document.text)
        end = offset + len(text)
        inside = (
            one.heading
            for one in document.chunks
            if one.char_start < end and one.char_end > offset and one.heading
        )
        headings = list(dict.fromkeys(inside))[:_MOST_HEADINGS]
        pages = max((one.page for one in document.places), default=0) or None
    return SourceView(
        collection=collection,
        document_id=citation.document_id,
        title=citation.title or path,
        root=citation.root,
        path=path,
        media=media_of(path),
        text=text,
        offset=offset,
        total=total,
        marks=marks,
        more_before=offset > 0,
        more_after=offset + len(text) < total,
        headings=headings,
        page=None if location is None else location.page,
        pages=pages,
        has_file=has_file,
        source_url=citation.source_url,
        document_date=citation.document_date,
        indexed_at=citation.indexed_at,
        changed=True if span is None else citation.changed,
        head=None if document is None else _mail_head(path, document, citation),
    )


def _find_quote(text: str, citation: Citation) -> tuple[int, int] | None:
    """Return where the quote stands in a text: at its recorded place, else where it stands first."""
    quote, location = citation.quote, citation.location
    if not quote or quote == ERASED:
        return None
    start = -1 if location is None or location.char_start is None else location.char_start
    if start < 0 or text[start : start + len(quote)] != quote:
        start = text.find(quote)
    return None if start < 0 else (start, start + len(quote))


def media_of(path: str) -> Media:
    """Return how a document is shown, by the suffix of its file.

    >>> media_of("plans/budget.xlsx"), media_of("src/main.py"), media_of("README.md"), media_of("scan.png")
    ('table', 'code', 'markdown', 'text')
    """
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    if suffix in _MARKDOWN:
        return "markdown"
    loader = loaders_by_suffix().get(suffix)
    # The text of a picture or of a binary document is prose; so is that of a file without a suffix.
    is_code = loader is not None and suffix and not loader.is_binary and suffix not in _PLAIN
    return "code" if is_code else "text"


def _mail_head(path: str, document: DocumentText, citation: Citation) -> MailHead | None:
    if media_of(path) != "mail":
        return None
    sender, to = (str(document.metadata.get(name) or "") for name in ("from", "to"))
    sent_at = citation.location.message if citation.location else None
    date = sent_at or citation.document_date or ""
    return MailHead(sender=sender, to=to, date=date, subject=document.title)
