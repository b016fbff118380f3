"""What a cosine means in a collection, learnt from its own passages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.retrieval.calibration import (
    GAP,
    OVERLAP,
    QUERIES,
    REFERENCE,
    SERVED,
    UNRELATED,
    calibrate,
    not_served,
)
from whence.retrieval.fusion import UNCALIBRATED, evidence, score_of
from whence.retrieval.hybrid import SearchParameters, SearchService
from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import Unavailable
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.search import Candidate, SearchRequest
from whence.store.memory.store import MemoryStore
from whence.store.protocols import EmbeddedDocument
from whence.store.vector_statistics import SampledPassage, VectorStatistics, vector_statistics
from whence.testing.store_samples import unit

OTHER = EmbeddingModel(name="other", dimension=3)
MINILM = EmbeddingModel(name=REFERENCE, dimension=384)
FEW = st.integers(2, 128)
COSINES = st.floats(-1, 1)


def statistics(**fields: Any) -> VectorStatistics:
    """Return statistics of a full sample with an encoder whose cosines are narrow and high."""
    usual: dict[str, Any] = {
        "passages": 128,
        "judged": 128,
        "unrelated": 0.7,
        "spread": 0.05,
        "related": 0.8,
        "agreement": SERVED,
        "language": "english",
        "overlap": OVERLAP,
    }
    return VectorStatistics(**(usual | fields))


def test_minilm_keeps_its_cosines_of_english_texts() -> None:
    """The scale is defined on them: the score of each passage is what it was, to the bit."""
    found = calibrate(MINILM, statistics())
    one = Candidate(
        chunk_id="urn:c", document_id="d", score=0, rank=1, dense_score=0.37, sparse_score=0.2
    )

    assert (found.slope, found.offset, found.dense_weight) == (1.0, 0.0, 0.35)
    assert evidence(one, found) == evidence(one) == 0.35 * 0.37 + (1 - 0.35) * 0.2
    assert calibrate(MINILM, statistics(language="german")).slope != 1.0


@pytest.mark.parametrize("model", [None, OTHER])
def test_without_a_sample_cosines_count_as_they_are(model: EmbeddingModel | None) -> None:
    """A collection of one document, and one that is gone, teach nothing."""
    found = calibrate(model, None)

    assert (found.slope, found.offset, found.dense_weight) == (1.0, 0.0, 0.35)
    assert (found.passages, found.unrelated) == (0, None)


def test_both_anchors_lie_on_the_scale() -> None:
    """Unrelated and related cosines of a full sample lead to where MiniLM has them."""
    found = calibrate(OTHER, statistics())
    query = 0.7 - QUERIES * 0.05

    assert found.on_scale(query) == pytest.approx(UNRELATED, abs=0.01)
    assert found.on_scale(query + 0.1) == pytest.approx(UNRELATED + GAP, abs=0.03)


@given(
    st.builds(
        statistics,
        passages=FEW,
        judged=st.integers(0, 128),
        unrelated=COSINES,
        spread=st.floats(0.001, 1),
        related=COSINES,
        agreement=st.floats(0, 1),
        overlap=st.floats(0, 1),
    ),
    COSINES,
    COSINES,
)
def test_the_order_of_dense_retrieval_stays(
    sample: VectorStatistics, one: float, other: float
) -> None:
    """Whatever the sample says, a higher cosine never counts less, and each counts 0 to 1."""
    found = calibrate(OTHER, sample)
    low, high = sorted((one, other))

    assert 0 <= found.on_scale(low) <= found.on_scale(high) <= 1
    assert found.slope > 0
    assert 0 <= found.dense_weight <= UNCALIBRATED.dense_weight


def test_a_small_sample_changes_little() -> None:
    """Three passages say little of an encoder; thirty say most of where its cosines lie."""
    three, thirty = (calibrate(OTHER, statistics(passages=n, judged=n)) for n in (3, 30))

    assert abs(three.on_scale(0.7) - 0.7) < 0.12
    assert thirty.on_scale(0.7) < 0.35


@pytest.mark.parametrize(
    ("agreement", "judged", "served"),
    [(SERVED, 128, True), (0.85, 128, True), (0.7, 128, False), (0.5, 128, False), (0.5, 20, True)],
)
def test_an_encoder_that_does_not_serve_the_texts_loses_its_weight(
    agreement: float, judged: int, served: bool
) -> None:
    """Vectors that tell nothing of words count little; a few passages do not show it."""
    found = calibrate(OTHER, statistics(agreement=agreement, judged=judged))

    assert (not not_served(found)) is served
    assert (found.dense_weight >= 0.175) is served


def passage(document_id: str, vector: list[float], *words: str) -> SampledPassage:
    """Return a passage of a sample."""
    length = np.linalg.norm(vector)
    return SampledPassage(
        document_id=document_id,
        vector=np.array(vector) / length,
        terms=dict.fromkeys(words, 1),
        language="english",
    )


def test_the_anchors_of_a_sample() -> None:
    """Pairs of one document do not count; the related passage has most of the words, not the nearest vector."""
    sample = [
        passage("a", [1, 0], "kiln", "clay"),
        passage("a", [1, 0], "kiln", "clay"),
        passage("b", [0, 1], "kiln", "clay", "glaze"),
        passage("c", [1, 0], "clay", "glaze"),
    ]
    found = vector_statistics(sample)

    assert found is not None
    assert (found.passages, found.judged) == (4, 4)
    assert found.unrelated == pytest.approx((2 * 0 + 2 * 1 + 0) / 5, abs=1e-4)
    assert found.related == pytest.approx(0.0, abs=1e-4)
    assert vector_statistics(sample[:2]) is None
    assert vector_statistics([]) is None


@given(st.permutations(range(6)), st.integers(0, 2**32 - 1))
def test_names_of_terms_change_no_bit(order: list[int], seed: int) -> None:
    """One store names terms by words, another by numbers, and each in its own order."""
    rng = np.random.default_rng(seed)
    vectors, counts = rng.normal(size=(9, 4)), rng.integers(0, 4, (9, 6))

    def sample(names: list[Any]) -> list[SampledPassage]:
        return [
            SampledPassage(
                document_id=str(n),
                vector=row / np.linalg.norm(row),
                terms={names[k]: int(terms[k]) for k in order if terms[k]},
                language="english",
            )
            for n, (row, terms) in enumerate(zip(vectors, counts, strict=True))
        ]

    words = list("abcdef")
    assert vector_statistics(sample(words)) == vector_statistics(sample([*range(6)]))


TOPICS = ("kiln clay glaze", "tide moon harbour", "yeast flour oven", "engine valve piston")


def _documents(count: int, tags: DocumentTags, *, served: bool = True) -> list[EmbeddedDocument]:
    """Return documents on four topics, whose vectors are narrow, and tell the topics apart when served."""
    rng = np.random.default_rng(7)
    found = []
    for n in range(count):
        topic = n % 4
        values = np.full(8, 2.0) + 0.3 * rng.normal(size=8)
        values[topic if served else rng.integers(4)] += 2.0
        draft = DocumentDraft(
            document_id=f"d{n}",
            chunks=(ChunkDraft(content=f"{TOPICS[topic]} number{n} item{n % 7}"),),
            tags=tags,
        )
        found.append(EmbeddedDocument(draft=draft, vectors=unit(*values).reshape(1, 8)))
    return found


async def _searched(store: MemoryStore, access: Access, **parameters: Any) -> Any:
    vector = np.full(8, 8**-0.5, dtype="<f4")
    request = SearchRequest(
        access=access,
        collection="c",
        limit=5,
        mode="hybrid",
        query_text="kiln clay",
        vector=vector.tobytes(),
    )
    return await SearchService(store, SearchParameters(**parameters)).search(request)


@pytest.mark.parametrize("tags", [DocumentTags(), DocumentTags(("a",))])
async def test_a_hybrid_search_states_its_calibration(tags: DocumentTags) -> None:
    """Scores follow from it, also where no document is public; `dense_score` stays the cosine."""
    store = MemoryStore()
    await store.ensure_collection("c", EmbeddingModel(name="narrow", dimension=8))
    await store.replace_documents("c", _documents(100, tags))
    found = await _searched(store, Access({"a"}))
    best, used = found.candidates[0], found.calibration

    assert (used.encoder, used.language, used.passages) == ("narrow", "english", 100)
    assert used.slope > 1.2
    total = 0.35 * used.on_scale(best.dense_score) + 0.65 * best.sparse_score
    assert best.score == pytest.approx(1.42 * total / (total + 0.42))
    assert used.on_scale(used.unrelated) < 0.4
    assert used.unrelated > 0.9
    assert found.degraded == ()
    assert (await _searched(store, Access({"a"}), fusion="rrf")).calibration is None
    if tags.acl:
        public = await _searched(store, Access.public())
        assert (public.candidates, public.calibration.passages) == ((), 0)


async def test_a_search_names_an_encoder_that_does_not_serve_the_texts() -> None:
    """Words then rank nearly alone."""
    store = MemoryStore()
    await store.ensure_collection("c", EmbeddingModel(name="deaf", dimension=8))
    await store.replace_documents("c", _documents(128, DocumentTags(), served=False))
    found = await _searched(store, Access.public())

    assert [one.code for one in found.degraded] == ["language_not_served"]
    assert "deaf" in found.degraded[0].reason
    assert found.calibration.dense_weight < 0.175


async def test_a_search_without_statistics_counts_cosines_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store that cannot read its sample leaves the ranking as it was, and says so."""
    store = MemoryStore()
    await store.ensure_collection("c", EmbeddingModel(name="narrow", dimension=8))
    await store.replace_documents("c", _documents(30, DocumentTags()))

    async def fail(*_: Any) -> None:
        raise Unavailable("no sample")

    monkeypatch.setattr(store, "vector_statistics", fail)
    found = await _searched(store, Access.public())

    assert [one.code for one in found.degraded] == ["calibration_missing"]
    assert found.candidates[0].score == score_of(evidence(found.candidates[0]))
