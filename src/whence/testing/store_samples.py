"""Documents, traces and hypothesis strategies of the store suites."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from whence.schema.access import Access, DocumentTags
from whence.schema.document_rag import Answer, Citation, ExplainEvent, TraceRecord
from whence.schema.embedding import EmbeddingModel
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.search import Candidate
from whence.schema.terms import Term, Triple, iri, literal
from whence.store.protocols import ChunkStore, EmbeddedDocument, Store

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODEL = EmbeddingModel(name="suite", revision="r1", precision="float32", dimension=4)
EVERYTHING = Access(frozenset({"a", "b", "c"}), frozenset({"x", "y"}), 9)
QUERY = np.array([1, 0, 0, 0], dtype=np.float32)

ODD_IDS = (
    "plain",
    "with space and ümlaut/文件.md",
    "a:b:c",
    "100%",
    "%61",
    "q'uote\"s\\back",
    "{curly},[square]",
    "tab\tnew\nline",
    "😀",
    "-",
    "." * 600,
)


def unit(*values: float) -> NDArray[np.float32]:
    """Return the unit vector in a direction, float32."""
    vector = np.array(values, dtype=np.float64)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def make_document(
    document_id: str,
    vectors: Sequence[NDArray[np.float32]] = (QUERY,),
    tags: DocumentTags | None = None,
    **fields: Any,
) -> EmbeddedDocument:
    """Return a document with one chunk for each vector."""
    chunks = tuple(
        ChunkDraft(content=f"{document_id} part {index}", start=index, end=index + 1)
        for index in range(len(vectors))
    )
    draft = DocumentDraft(
        document_id=document_id, chunks=chunks, tags=tags or DocumentTags(), **fields
    )
    width = len(vectors[0]) if len(vectors) else MODEL.dimension
    stacked = np.array(list(vectors), dtype=np.float32).reshape(len(vectors), width)
    return EmbeddedDocument(draft=draft, vectors=stacked)


def ids_of(candidates: Iterable[Candidate]) -> list[str]:
    """Return the documents of a ranking, best first."""
    return [candidate.document_id for candidate in candidates]


# Few tags over many documents: overlaps, subsets and equal sets all occur often.
_acl = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3)
_labels = st.lists(st.sampled_from(["x", "y", "X"]), max_size=2)
_levels = st.integers(min_value=0, max_value=3)
any_tags = st.builds(DocumentTags, _acl, _labels, _levels)
any_access = st.builds(Access, _acl, _labels, _levels)
# Components of a coarse grid: ties are common, and every inner product is exact in float32.
_vectors = st.sampled_from(
    [np.array(v, np.float32) for v in ([1, 0, 0, 0], [0, 1, 0, 0], [0.5] * 4, [-1, 0, 0, 0])]
)
any_corpus = st.lists(st.tuples(any_tags, st.lists(_vectors, min_size=1, max_size=3)), max_size=8)
any_text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


def _json_values(floats: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | floats | any_text,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
        max_leaves=6,
    )


any_json = _json_values(st.floats(allow_nan=False, allow_infinity=False))
# Metadata may be kept as decimal numbers: a whole float beyond 2**53 comes back as the integer it is written
# as, which can differ from it in the last digit.
any_metadata = _json_values(st.floats(min_value=-(2.0**53), max_value=2.0**53))
_objects = st.builds(literal, any_text, any_text) | st.builds(iri, any_text)
_triples = st.builds(
    Triple, st.builds(iri, any_text), st.builds(iri, any_text), _objects, st.none() | any_text
)
any_events = st.builds(
    ExplainEvent,
    answer_id=any_text,
    stage=any_text,
    sequence=st.integers(0, 100),
    explain_id=any_text,
    triples=st.lists(_triples, max_size=3).map(tuple),
)

#: The store is shared by the examples of one test; each example has a collection of its own.
on_one_store = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,
        HealthCheck.too_slow,
    ],
)
serial_numbers = itertools.count()


async def fill_collection(
    store: ChunkStore, *documents: EmbeddedDocument, model: EmbeddingModel = MODEL
) -> str:
    """Create a collection with these documents; return its name."""
    name = f"suite-{next(serial_numbers)}"
    await store.ensure_collection(name, model)
    await store.replace_documents(name, documents)
    return name


async def search_all(store: Store, name: str, access: Access = EVERYTHING) -> list[Candidate]:
    """Return all visible chunks, ranked by `QUERY`."""
    return await store.search_dense(name, QUERY, limit=10_000, access=access)


def make_trace(answer_id: str, **fields: Any) -> TraceRecord:
    """Return a trace with defaults for the fields not given."""
    defaults: dict[str, Any] = {
        "collection": "default",
        "question": "why?",
        "access": Access.public(),
        "events": (),
    }
    return TraceRecord(answer_id=answer_id, **(defaults | fields))


def make_trace_with_term(
    answer_id: str, collection: str, term: Term, citations: tuple[Citation, ...]
) -> TraceRecord:
    """Return a trace of one triple."""
    triples = (Triple(iri("urn:s"), iri("urn:p"), term, "urn:g"),)
    event = ExplainEvent(
        answer_id=answer_id, stage="question", sequence=0, explain_id="urn:s", triples=triples
    )
    answer = Answer(answer_id=answer_id, question="why?", text="so", citations=citations)
    return make_trace(answer_id, collection=collection, events=(event,), answer=answer)
