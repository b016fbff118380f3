"""Change the encoder of a collection: new vectors beside those that searches use, then one switch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar, cast

import msgspec

from whence.operations.index import Progress
from whence.operations.operation import PYTHON, Offered, Operation
from whence.operations.pending_vectors import collection_embedder
from whence.processors.embedding import EmbeddingProcessor
from whence.processors.pending_vectors import PendingVectors
from whence.schema.embedding import EmbeddingModel, EmbeddingRequest
from whence.schema.errors import BadInput
from whence.schema.message import Message
from whence.store.protocols import SampledText, VectorProgress
from whence.store.validation import describe_model, missing_collection
from whence.text.sentences import sentence_spans

if TYPE_CHECKING:
    from whence.models.protocols import Embedder
    from whence.operations.session import Session
    from whence.processors.base import Context
    from whence.store.protocols import Store

M = TypeVar("M", bound=Message)

_PROGRESS = Offered(on=frozenset({PYTHON}), local=True)
#: Passages embedded at a time.
_PASSAGES = 128
_MAX_BYTES = 500_000
#: Seconds before passages that another process embeds are looked at again.
_POLL_S = 0.25
#: Passages whose questions are asked of both encoders, and places of a ranking that count. A share of 200
#: questions has a standard error of .03.
_QUESTIONS, _PLACES = 200, 10
#: A heading of fewer words is no question.
_LEAST_WORDS = 3


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """How well an encoder finds passages by their headings or first sentences."""

    encoder: str
    found: float
    """Share of the questions whose passage is among the first ten, 0 to 1."""
    reciprocal_rank: float
    """Mean of 1 / rank of the passage, 0 where it is not among the first ten; 0 to 1."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two encoders on the collection's own questions."""

    questions: int
    used: Figures | None
    """The encoder that searches use; None when it is not here."""
    new: Figures


class ReembedReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the vectors of a collection."""

    collection: str
    encoder: str
    """The encoder that searches use now."""
    other: str
    """The encoder of the other vectors; empty when there are none."""
    switched: bool
    """Whether searches use another encoder than before."""
    passages: int
    """Passages of the collection."""
    embedded: int
    """Texts that were embedded, equal ones once."""
    waiting: int
    """Passages without vector of the encoder that searches use."""
    comparison: Comparison | None = None
    seconds: float = 0.0


class Reembed(Operation[ReembedReport], frozen=True):
    """Make vectors of another encoder while searches go on with the former ones, then switch.

    An interrupted call is continued by the next one. Ids of documents, passages and answers stay.
    """

    NAME: ClassVar[str] = "reembed"

    embedder: Annotated[str | None, Offered(on=frozenset({PYTHON}))] = None
    """The encoder, as in the setting; null for that of the engine."""
    collection: str = "default"
    """The collection."""
    compare: bool = False
    """Compare both encoders on the collection's own headings and sentences; `promote` switches."""
    promote: bool = False
    """Use the vectors that were made with `compare`."""
    back: bool = False
    """Use the former vectors again."""
    progress: Annotated[Progress | None, _PROGRESS] = None
    """Called with the number of passages that have the new vectors and their total."""

    async def run(self, session: Session) -> ReembedReport:
        """Return what was done.

        Raises:
            BadInput: There is nothing to promote or to return to, or too many wishes are stated.
            NotFound: There is no such collection.
            Unavailable: The store or a service does not answer; the next call continues.
        """
        if self.compare + self.promote + self.back > 1:
            raise BadInput("give one of compare, promote and back")
        started = time.monotonic()
        work = _Reembedding(await session.store(), self.collection)
        before = await work.state()
        comparison, embedded = None, 0
        if self.back:
            await work.switch_back(before)
        elif self.promote:
            await work.promote(before)
        else:
            embedder, given = await self._embedder(session)
            try:
                embedded = await work.make(embedder, self.progress)
                if self.compare:
                    used = await collection_embedder(session, self.collection)
                    comparison = await work.compare(used, embedder)
                else:
                    await work.use(await model_of(embedder))
            finally:
                if not given:
                    await embedder.aclose()
        after = await work.state()
        return ReembedReport(
            collection=self.collection,
            encoder=describe_model(after.model),
            other="" if after.other is None else describe_model(after.other.model),
            switched=after.model != before.model,
            passages=after.passages,
            embedded=embedded,
            waiting=after.pending,
            comparison=comparison,
            seconds=round(time.monotonic() - started, 3),
        )

    async def _embedder(self, session: Session) -> tuple[Embedder, bool]:
        """Return the embedder, and whether it belongs to the session."""
        if self.embedder is None:
            return await session.resources.get("embedder"), True
        from whence.models.factory import make_embedder

        return make_embedder(self.embedder, session.resources.model_settings()), False


class _Reembedding:
    """The vectors of one collection."""

    def __init__(self, store: Store, collection: str) -> None:
        self._store = store
        self._collection = collection

    async def state(self) -> VectorProgress:
        found = await self._store.vector_progress(self._collection)
        if found is None:
            raise missing_collection(self._collection)
        return found

    async def make(self, embedder: Embedder, report: Progress | None) -> int:
        """Make the vectors of an encoder beside those that searches use, or what is missing of these."""
        model = await model_of(embedder)
        before = await self.state()
        other = model != before.model
        if other:
            # One that is not installed, or does not answer, costs no former vectors.
            await embedder.embed(["one text"], "document")
            await self._store.begin_vectors(self._collection, model)
        service = _EmbeddingService(embedder)
        embedded = 0
        while True:
            pending = PendingVectors(
                self._store, service, self._collection, _MAX_BYTES, other=other
            )
            done = await pending.embed(_PASSAGES)
            embedded += done.embedded
            if report is not None:
                report(before.passages - done.waiting, before.passages)
            if not done.waiting:
                return embedded
            if not done.stored and not done.refused:
                await asyncio.sleep(_POLL_S)

    async def use(self, model: EmbeddingModel) -> None:
        """Have searches use the vectors that were made."""
        now = await self.state()
        if now.model != model:
            await self._store.switch_vectors(self._collection)

    async def promote(self, before: VectorProgress) -> None:
        """Use vectors that were made before; refuse when some are missing."""
        other = before.other
        if other is None or other.former:
            raise BadInput(
                f"collection {self._collection!r} has no new vectors",
                hint="make them: whence reembed --embedder NAME --compare",
            )
        if other.pending:
            raise BadInput(
                f"{other.pending:,} passages of {self._collection!r} have no new vector yet",
                hint="run `whence reembed --compare` with the same --embedder again: it continues",
            )
        await self._store.switch_vectors(self._collection)

    async def switch_back(self, before: VectorProgress) -> None:
        """Use the former vectors again."""
        if before.other is None or not before.other.former:
            raise BadInput(
                f"collection {self._collection!r} has no former vectors",
                hint="they are kept after `whence reembed` until the next one begins",
            )
        await self._store.switch_vectors(self._collection)

    async def compare(self, used: Embedder, new: Embedder) -> Comparison:
        """Ask both encoders for passages by their headings or first sentences."""
        sample = await self._store.sample_passages(self._collection, _QUESTIONS)
        questions = own_questions(sample)
        progress = await self.state()
        figures = None
        if await model_of(used) == progress.model:
            figures = await self._figures(used, questions, other=False)
        other = progress.model != await model_of(new)
        return Comparison(
            questions=len(questions),
            used=figures,
            new=await self._figures(new, questions, other=other),
        )

    async def _figures(
        self, embedder: Embedder, questions: Sequence[tuple[str, str]], *, other: bool
    ) -> Figures:
        ranks: list[int] = []
        vectors = await embedder.embed([text for text, _ in questions], "query")
        for (_, wanted), vector in zip(questions, vectors, strict=True):
            found = await self._store.nearest_passages(
                self._collection, vector, _PLACES, other=other
            )
            ranks += [found.index(wanted) + 1] if wanted in found else []
        count = max(1, len(questions))
        return Figures(
            encoder=describe_model(await model_of(embedder)),
            found=round(len(ranks) / count, 4),
            reciprocal_rank=round(sum(1 / rank for rank in ranks) / count, 4),
        )


class _EmbeddingService:
    """Embeds with one embedder, as the service of a flow does."""

    def __init__(self, embedder: Embedder) -> None:
        self._processor = EmbeddingProcessor(embedder=embedder)

    async def call(self, port: str, message: Message, reply: type[M]) -> M:
        """Answer an embedding request."""
        assert port == "embedding"
        assert isinstance(message, EmbeddingRequest)
        return cast("M", await self._processor.handle(message, cast("Context", None)))


async def model_of(embedder: Embedder) -> EmbeddingModel:
    """Return the model of an embedder; a server tells its dimension with a first vector."""
    if not embedder.model.dimension:
        await embedder.embed(["dimension"], "document")
    return embedder.model


def own_questions(sample: Sequence[SampledText]) -> list[tuple[str, str]]:
    """Return questions with the id of the passage that each asks for.

    A heading that one passage of the sample has is a question, else the first sentence of a passage of several.
    """
    headings = [one.heading for one in sample]
    questions = []
    for one in sample:
        if len(one.heading.split()) >= _LEAST_WORDS and headings.count(one.heading) == 1:
            questions.append((one.heading, one.chunk_id))
            continue
        spans = list(sentence_spans(one.text, 0, len(one.text)))
        if len(spans) > 1:
            questions.append((one.text[slice(*spans[0])], one.chunk_id))
    return questions
