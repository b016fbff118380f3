"""What there is: collections, files that were not read, models, where data lies, and questions to begin with.

All of it is counted and chosen from what the reader may see.
"""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal
from urllib.parse import urlsplit

import msgspec

from whence.models.endpoints import endpoint_of
from whence.operations.citation_source import media_of
from whence.operations.operation import Operation
from whence.operations.search import Search
from whence.retrieval.results import WEAK_SCORE
from whence.schema.access import Access
from whence.schema.errors import WhenceError

if TYPE_CHECKING:
    from whence.flow.settings import Settings
    from whence.operations.session import Session
    from whence.schema.places import DocumentText
    from whence.store.protocols import ListedCollection, ListedDocument, Store

#: Example questions, and documents of a collection from which they are chosen.
_EXAMPLES: Final = 3
_MOST_LISTED: Final = 200
_MOST_READ: Final = 6
#: Characters of a heading that makes a question, and least characters of the passage below it.
_HEADING_CHARACTERS: Final = range(4, 61)
_LEAST_PASSAGE: Final = 80
_QUESTION_MARKS: Final = "?\N{FULLWIDTH QUESTION MARK}\N{ARABIC QUESTION MARK}"
#: Question marks of scripts, by the first word of the Unicode names of their letters; others have `?`.
_MARK_OF_SCRIPT: Final = {
    "ARABIC": "\N{ARABIC QUESTION MARK}",
    **dict.fromkeys(("CJK", "HIRAGANA", "KATAKANA"), "\N{FULLWIDTH QUESTION MARK}"),
}


def example_folder() -> Path | None:
    """Return the folder of the example handbook: of the package, else of the checkout; None without both."""
    here = Path(__file__).resolve()
    folders = (here.parents[1] / "examples", here.parents[3] / "examples")
    found = (one / "handbook" for one in folders if (one / "demo_questions.json").is_file())
    return next(found, None)


class CollectionOverview(msgspec.Struct, frozen=True, kw_only=True):
    """A collection as a reader sees it."""

    name: str
    documents: int
    chunks: int
    changed_at: str
    """When one of its documents was stored last, ISO 8601 in UTC."""
    unread_files: int
    """Files of its folders that were not read."""
    vectors_share: float
    """Part of its passages that have vectors, 0 to 1."""


class ExampleQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question that a document answers."""

    collection: str
    question: str


class DataPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where documents, vectors and answers lie."""

    where: Literal["embedded", "server", "memory"]
    """In the database of this installation, in a database server, or in the memory of the process."""


class UsedModels(msgspec.Struct, frozen=True, kw_only=True):
    """The models that run."""

    encoder: str
    reranker: str
    writer: str
    writer_server: str | None
    """Host of the server that gets question and passages; null when nothing leaves this machine."""


class OverviewReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader finds at the beginning."""

    collections: list[CollectionOverview]
    examples: list[ExampleQuestion]
    """At most three."""
    data: DataPlace
    models: UsedModels


class Overview(Operation[OverviewReport], frozen=True):
    """Show collections, models, where data lies, and example questions."""

    NAME: ClassVar[str] = "overview"
    audited: ClassVar[bool] = False

    access: Access = Access.public()
    """Rights to read with."""
    collection: str = "default"
    """Collection that example questions are made from, if it has documents."""

    async def run(self, session: Session) -> OverviewReport:
        """Return what the reader may see of it. Cost: linear in the documents."""
        store = await session.store()
        listed = await store.visible_collections(self.access)
        asked_first = sorted(listed, key=lambda one: (one.name != self.collection, one.name))
        return OverviewReport(
            collections=[await _collection(store, one, self.access) for one in listed],
            examples=await _examples(session, [one.name for one in asked_first], self.access),
            data=DataPlace(where=_place_of(session.settings, store)),
            models=_models(session, asked_first[0].model.name if asked_first else ""),
        )

    def count(self, result: OverviewReport) -> int:
        """Return the number of collections."""
        return len(result.collections)


async def _collection(store: Store, one: ListedCollection, access: Access) -> CollectionOverview:
    unread, _ = await store.unread_files(one.name, access, most=0)
    vectors = await store.vector_share(one.name, access)
    return CollectionOverview(
        name=one.name,
        documents=one.documents,
        chunks=one.chunks,
        changed_at=one.changed_at,
        unread_files=unread,
        vectors_share=vectors.share,
    )


def _place_of(settings: Settings, store: Store) -> Literal["embedded", "server", "memory"]:
    if settings.database_url:
        return "server"
    return "embedded" if hasattr(store, "pool") else "memory"


def _models(session: Session, encoder: str) -> UsedModels:
    settings = session.settings
    provider = settings.writer.partition(":")[0]
    server = None
    if provider in ("openai", "ollama"):
        try:
            server = urlsplit(endpoint_of("writer", provider, settings).url).hostname
        except WhenceError:
            # The question that needs it says what is wrong.
            server = provider
    reranker = "none" if "reranker" in session.resources.disabled else settings.reranker
    return UsedModels(
        encoder=encoder or settings.embedder,
        reranker=reranker,
        writer=settings.writer,
        writer_server=server,
    )


async def _examples(
    session: Session, collections: Sequence[str], access: Access
) -> list[ExampleQuestion]:
    """Return questions about headings of visible documents, one a document, of the first collections.

    Those come first whose search finds the document that they are made from. Cost: a search each.
    """
    store = await session.store()
    good: dict[str, ExampleQuestion] = {}
    others: dict[str, ExampleQuestion] = {}
    for name in collections[:_EXAMPLES]:
        listed = await store.visible_documents(name, access, limit=_MOST_LISTED)
        written = [one for one in listed if media_of(one.path or one.document_id or "") != "code"]
        chosen = [
            one.document_id for one in _spread(written or listed) if one.document_id is not None
        ]
        texts = await store.document_texts(name, chosen, access)
        asked = {one: _question(texts[one]) for one in chosen if one in texts}
        asked = {one: question for one, question in asked.items() if question}
        finds = await asyncio.gather(
            *(_finds(session, name, access, *each) for each in asked.items())
        )
        for question, is_found in zip(asked.values(), finds, strict=True):
            example = ExampleQuestion(collection=name, question=question)
            (good if is_found else others).setdefault(question, example)
        if len(good) >= _EXAMPLES:
            break
    return list((good | others).values())[:_EXAMPLES]


async def _finds(
    session: Session, collection: str, access: Access, document_id: str, question: str
) -> bool:
    """Return whether a question finds a document, with a score that is not weak."""
    asked = Search(question, top_k=1, threshold=WEAK_SCORE, access=access, collection=collection)
    try:
        report = await asked.run(session)
    except WhenceError:
        # A model or service that is missing is no fault of the question.
        return False
    return any(one.document_id == document_id for one in report.results)


def _spread(listed: Sequence[ListedDocument]) -> Iterator[ListedDocument]:
    """Yield documents from all over a list, which is in order of their paths."""
    step = max(1, len(listed) // _MOST_READ)
    yield from listed[::step][:_MOST_READ]


def _question(document: DocumentText) -> str:
    """Return a question about the heading above the longest passage; empty when no heading is fit.

    The title of the document tells which part of the world is meant, and any language puts the two like this.
    Of 16 headings of the example handbook all are answered so, 9 with words of a question around the heading.
    """
    fit = [
        (one.char_end - one.char_start, heading)
        for one in document.chunks
        if one.char_end - one.char_start >= _LEAST_PASSAGE
        and len(heading := " ".join(one.heading.split())) in _HEADING_CHARACTERS
        and 2 * sum(map(str.isalpha, heading)) > len(heading)
    ]
    # Its title is no more than the name of a document that has other headings.
    title = " ".join(document.title.split())
    parts = [one for one in fit if one[1] != title] or fit
    if not parts:
        return ""
    _, heading = max(parts)
    # Plain text may begin a heading with marks.
    words = re.sub(r"^\W+", "", heading).rstrip(f"{_QUESTION_MARKS}.: ")
    is_named = words.casefold() in title.casefold() or len(title) not in _HEADING_CHARACTERS
    return f"{words if is_named else f'{title}: {words}'}{_question_mark(words)}"


def _question_mark(words: str) -> str:
    """Return the question mark of the script of the last letter."""
    letter = next(filter(str.isalpha, reversed(words)), "")
    script = unicodedata.name(letter, "").partition(" ")[0] if letter else ""
    return _MARK_OF_SCRIPT.get(script, "?")
