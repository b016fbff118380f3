"""A collection of Qdrant, searched and validated in the client's in-process mode, and never written to."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from whence.evaluation.qdrant_searcher import QdrantTarget
from whence.evaluation.searcher import Passage
from whence.evaluation.validation.report import Thresholds, build_report, load_documents
from whence.evaluation.validation.run import Limits, run_validation
from whence.evaluation.validation.source_texts import SourceTexts
from whence.evaluation.validation.suite_file import ValidationSuite, generate_suite
from whence.evaluation.validation.target import TargetInfo
from whence.schema.access import Access
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import (
    BadInput,
    ConfigError,
    DeadlineExceeded,
    ModelMismatch,
    NotFound,
    Unavailable,
)
from whence.store.qdrant import QdrantChunk, QdrantCollection, parse_address
from whence.surfaces.python.retriever import Retriever
from whence.testing.stub_models import HashEmbedder

NAME = "book-rag-embeddings"
PAGES = {
    "kinematics": "Kinematics relates the joint angles of a humanoid robot to the pose of its hands.",
    "isaac": "Isaac Sim runs physics simulation on the GPU with thousands of robots side by side.",
    "ros": "Nodes of a robot exchange messages on topics, services and actions.",
    "vision": "Cameras give images in which a network finds objects and their distance.",
    "speech": "Spoken commands become text, and text becomes a plan of actions.",
}
EMBEDDER = HashEmbedder(256)


class ReadOnly:
    """Lets reading calls through to a client and refuses all others."""

    ALLOWED = ("collection_exists", "get_collection", "query_points", "scroll")

    def __init__(self, client: AsyncQdrantClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        assert name in self.ALLOWED, f"{name} may write"
        return getattr(self._client, name)


def _payload(name: str, text: str, index: int) -> dict[str, Any]:
    return {
        "text": f"# Chapter {name}\n{text}",
        "source_url": f"https://book.example/module-{index}-{name}",
        "section_path": ["Book", f"Chapter {name}"],
        "heading": f"Chapter {name}",
        "chunk_index": 0,
    }


@pytest.fixture
async def client() -> AsyncIterator[AsyncQdrantClient]:
    """Return a client with a collection of five pages."""
    made = AsyncQdrantClient(":memory:")
    size = models.VectorParams(size=256, distance=models.Distance.COSINE)
    await made.create_collection(NAME, vectors_config=size)
    vectors = await EMBEDDER.embed(list(PAGES.values()), "document")
    points = [
        models.PointStruct(id=number, vector=vector.tolist(), payload=_payload(name, text, number))
        for number, ((name, text), vector) in enumerate(zip(PAGES.items(), vectors, strict=True), 1)
    ]
    await made.upsert(NAME, points)
    yield made
    await made.close()


def collection(client: Any, name: str = NAME, **options: Any) -> QdrantCollection:
    """Return a collection that can only be read."""
    return QdrantCollection(ReadOnly(client), name, **options)


async def one(text: str) -> Any:
    """Embed a text."""
    return (await EMBEDDER.embed([text]))[0]


async def test_a_collection_is_validated(client: AsyncQdrantClient) -> None:
    """Every query passes, every field of a result is present, and nothing is written or embedded."""
    suite = msgspec.convert(
        {
            "queries": [
                {
                    "query_text": "humanoid robot kinematics of joint angles",
                    "expected_topics": ["kinematics"],
                    "min_results": 3,
                },
                {
                    "query_text": "Isaac Sim GPU simulation runs thousands of robots",
                    "expected_topics": ["simulation"],
                    "min_results": 3,
                    "source_url_pattern": "module-2-isaac",
                },
            ]
        },
        ValidationSuite,
    )
    before = await client.count(NAME)
    target = QdrantTarget(collection(client), EMBEDDER)
    run = await run_validation(target, suite, Limits(clients=2))
    report = build_report(
        run,
        suite,
        origin="test",
        about=await target.describe(),
        thresholds=Thresholds(threshold=0.4),
        stored=await load_documents(target, run),
        sources=SourceTexts(None, {}),
    )
    first = report.results[0].results[0]

    assert [result.reason for result in report.results] == ["", ""]
    assert report.passed
    assert (first.id, first.section_path, first.chunk_index) == (
        "1",
        "Book > Chapter kinematics",
        0,
    )
    assert 0.0 <= first.score <= 1.0
    assert (report.about.dimension, report.about.collection) == (256, NAME)
    assert await client.count(NAME) == before
    assert {len(texts) for texts in EMBEDDER.calls[-10:]} == {1}


async def test_a_suite_is_generated_from_headings(client: AsyncQdrantClient) -> None:
    """Each query is a section heading of another page."""
    target = QdrantTarget(collection(client), EMBEDDER)
    suite = generate_suite(await target.sections(40))

    assert len(suite.queries) == 5
    assert {query.expected_topics[0] for query in suite.queries if query.expected_topics} == {
        f"Chapter {name}" for name in PAGES
    }


class Prepared:
    """A collection of prepared chunks that notes what it is asked for."""

    name, shown = "book", "http://host.example:1"

    def __init__(self, *chunks: QdrantChunk) -> None:
        self.found = chunks
        self.asked: list[tuple[Any, ...]] = []

    async def dimension(self) -> int:
        return 3

    async def search(self, vector: Any, *, limit: int, access: Access) -> list[QdrantChunk]:
        self.asked.append((vector, limit, access))
        return list(self.found)

    async def chunks(self, limit: int, *, source_url: str | None = None) -> list[QdrantChunk]:
        self.asked.append((limit, source_url))
        return [one for one in self.found if source_url in (None, one.metadata.get("source_url"))]


class Embedding:
    """An embedder of an unknown dimension, or of a known one."""

    def __init__(self, dimension: int = 0) -> None:
        self.model = EmbeddingModel(name="m", revision="1", dimension=dimension)
        self.asked: list[tuple[Any, ...]] = []

    async def embed(self, texts: Any, kind: str = "document") -> list[str]:
        self.asked.append((list(texts), kind))
        return [f"vector of {text}" for text in texts]


def _qdrant_chunk(number: int, **metadata: Any) -> QdrantChunk:
    return QdrantChunk(
        id=f"{number}",
        content=f"text {number}",
        score=number - 1.5,
        metadata=metadata,
        document_id="" if number == 3 else f"page-{number % 2}",
    )


CHUNKS = (
    _qdrant_chunk(1, source_url="u", section_path="s", heading="h", chunk_index=2, title="T"),
    _qdrant_chunk(2, source_url="u", chunk_index=True, title=7, page_title="P"),
    _qdrant_chunk(3, source_url=5, section_path=None, heading=[], chunk_index="1"),
    _qdrant_chunk(4, source_url="u", chunk_index=1),
)


async def test_what_is_read_of_payloads() -> None:
    """Each field with its type or as missing; queries are embedded as queries, pages are read once."""
    prepared, embedding = Prepared(*CHUNKS), Embedding()
    target = QdrantTarget(prepared, embedding)  # type: ignore[arg-type]
    found = await target("q", mode="dense", limit=7)
    pages = [await target.document(one) for one in (*found.passages, found.passages[0])]

    assert embedding.asked == [(["q"], "query")]
    assert prepared.asked == [("vector of q", 7, Access.public()), (2000, "u")]
    assert 0.0 <= found.embedding_ms + found.search_ms < 60_000.0
    assert [page.text for page in pages] == ["P\ntext 2\n\ntext 4\nT\ntext 1"] * 2 + [
        "text 3",
        pages[0].text,
        pages[0].text,
    ]
    assert msgspec.to_builtins(found.passages) == [
        msgspec.to_builtins(Passage(id=f"{number}", text=f"text {number}", **fields))
        for number, fields in enumerate(
            (
                {
                    "score": 0.0,
                    "source_url": "u",
                    "section_path": "s",
                    "heading": "h",
                    "chunk_index": 2,
                    "document_id": "page-1",
                    "title": "T",
                },
                {"score": 0.5, "source_url": "u", "document_id": "page-0"},
                {"score": 1.0, "document_id": "3"},
                {"score": 1.0, "source_url": "u", "chunk_index": 1, "document_id": "page-0"},
            ),
            1,
        )
    ]


async def test_sections_are_those_of_different_pages_first() -> None:
    """Each page once before any twice, in the order of the digests of ids; fields without text are None."""
    prepared = Prepared(*(_qdrant_chunk(number) for number in (1, 2, 4, 5, 6, 7)), CHUNKS[0])
    target = QdrantTarget(prepared, Embedding())  # type: ignore[arg-type]
    sections = await target.sections(6)
    seven = await target.sections(7)

    texts = [section.text for section in seven]
    assert texts == ["text 4", "text 1", "text 1", "text 2", "text 7", "text 6", "text 5"]
    assert sections == seven[:6]
    assert prepared.asked == [(1000, None)] * 2
    assert {(one.heading, one.section_path, one.source_url) for one in seven} == {
        (None, None, None),
        ("h", "s", "u"),
    }
    assert not await target.contains(["a"])


@pytest.mark.parametrize(("dimension", "known"), [(0, True), (3, True), (1, False)])
async def test_a_target_is_described(dimension: int, *, known: bool) -> None:
    """A model tells its dimension with its first answer, or must have that of the collection."""
    target = QdrantTarget(Prepared(), Embedding(dimension))  # type: ignore[arg-type]
    if not known:
        with pytest.raises(ModelMismatch, match="m makes vectors of 1 numbers"):
            await target.describe()
        return
    assert await target.describe() == TargetInfo(
        store="qdrant (http://host.example:1)", collection="book", model="m", dimension=3
    )


async def test_a_retriever_searches_a_collection(client: AsyncQdrantClient) -> None:
    """Results are sorted, with metadata, above the threshold."""
    retriever = Retriever(EMBEDDER, collection(client))
    found = await retriever.asearch("joint angles of a humanoid robot", top_k=3)

    assert found[0].chunk.metadata["heading"] == "Chapter kinematics"
    assert found[0].chunk.metadata["header_path"] == "Book > Chapter kinematics"
    assert found[0].document_id == "https://book.example/module-1-kinematics"
    scores = [hit.similarity_score for hit in found]
    assert scores == sorted(scores, reverse=True)


async def test_scores_are_exact_cosines(client: AsyncQdrantClient) -> None:
    """Scores by id and by rank equal the cosines of numpy; unknown ids are left out."""
    vector = await one("robots exchange messages")
    ranked = await collection(client).search(vector, limit=5, access=Access.public())
    by_id = await collection(client).scores(
        vector, ["1", "3", "99", "5f0c7a3e-0000-4000-8000-000000000000"], access=Access.public()
    )
    vectors = await EMBEDDER.embed(list(PAGES.values()), "document")

    assert by_id.keys() == {"1", "3"}
    for chunk in ranked:
        assert chunk.score == pytest.approx(float(vectors[int(chunk.id) - 1] @ vector), abs=1e-5)
    assert by_id["3"] == pytest.approx(next(c.score for c in ranked if c.id == "3"), abs=1e-6)


async def test_rights_are_applied_before_the_limit(client: AsyncQdrantClient) -> None:
    """Points with an ACL or a clearance are visible with these rights, points with labels to nobody."""
    vector = await one(PAGES["ros"])
    tags: tuple[dict[str, Any], ...] = (
        {"acl": ["staff"]},
        {"clearance": 2},
        {"labels": ["secret"]},
        {"metadata": {"acl": ["staff"], "text": "nested"}},
    )
    await client.upsert(
        NAME,
        [
            models.PointStruct(id=100 + number, vector=vector.tolist(), payload={"text": "x"} | tag)
            for number, tag in enumerate(tags)
        ],
    )

    async def seen(access: Access, *, public: bool = False) -> set[str]:
        found = await collection(client, public=public).search(vector, limit=4, access=access)
        return {chunk.id for chunk in found} & {"100", "101", "102", "103"}

    assert await seen(Access.public()) == set()
    assert await seen(Access({"staff"})) == {"100", "103"}
    assert await seen(Access(clearance=2)) == {"101"}
    assert await seen(Access({"staff"}, {"secret"}, 9)) == {"100", "101", "103"}
    assert await seen(Access.public(), public=True) == {"100", "101", "102", "103"}


async def test_payloads_of_other_pipelines_are_read(client: AsyncQdrantClient) -> None:
    """Other field names, nested and missing fields are read; no value is made up."""
    vector = np.zeros(256, dtype=np.float32)
    vector[7] = 1.0
    nested = {"page_content": "body", "metadata": {"source_url": "u", "heading": 5}}
    await client.upsert(NAME, [models.PointStruct(id=50, vector=vector.tolist(), payload=nested)])
    found = await collection(client).search(vector, limit=1, access=Access.public())
    target = QdrantTarget(collection(client), EMBEDDER)
    sections = await target.sections(100)

    assert (found[0].content, found[0].document_id) == ("body", "u")
    assert found[0].metadata == {"source_url": "u", "heading": 5}
    assert next(one for one in sections if one.text == "body").heading is None


async def test_unsuitable_collections_are_refused(client: AsyncQdrantClient) -> None:
    """A missing collection, another dimension or distance, and several vectors are errors."""
    size = models.VectorParams(size=3, distance=models.Distance.DOT)
    await client.create_collection("dot", vectors_config=size)
    cosine = models.VectorParams(size=3, distance=models.Distance.COSINE)
    await client.create_collection("two", vectors_config={"a": cosine, "b": cosine})
    await client.create_collection("one", vectors_config={"a": cosine})

    with pytest.raises(NotFound, match="'nothing'"):
        await collection(client, "nothing").dimension()
    with pytest.raises(ConfigError, match="Dot"):
        await collection(client, "dot").dimension()
    with pytest.raises(ConfigError, match="a, b"):
        await collection(client, "two").dimension()
    assert await collection(client, "two", vector="b").dimension() == 3
    assert await collection(client, "one").dimension() == 3
    with pytest.raises(ModelMismatch, match="256"):
        await QdrantTarget(collection(client), HashEmbedder(64)).describe()
    with pytest.raises(ModelMismatch, match="3 numbers"):
        await collection(client).search(np.ones(3, np.float32), limit=1, access=Access.public())


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, BadInput),
        (401, Unavailable),
        (403, Unavailable),
        (404, NotFound),
        (408, DeadlineExceeded),
        (429, Unavailable),
        (500, Unavailable),
        (504, DeadlineExceeded),
    ],
)
async def test_errors_of_the_server_are_translated(status: int, error: type[Exception]) -> None:
    """Every status has one error class; the message has the server's address."""

    class Refusing:
        async def collection_exists(self, collection_name: str) -> bool:
            raise UnexpectedResponse(status, "reason", b"", httpx_headers())

    with pytest.raises(error, match=r"host\.example"):
        await QdrantCollection(Refusing(), "c", shown="http://host.example:1").dimension()  # type: ignore[arg-type]


def httpx_headers() -> Any:
    """Return empty headers."""
    import httpx

    return httpx.Headers()


async def test_a_server_that_is_lost_is_unavailable() -> None:
    """A refused connection and a timeout have different messages."""
    import httpx

    faults = itertools.cycle((httpx.ConnectError("refused"), httpx.ReadTimeout("slow")))

    class Gone:
        async def collection_exists(self, collection_name: str) -> bool:
            raise ResponseHandlingException(next(faults))

    gone = QdrantCollection(Gone(), "c", shown="http://host.example:1")  # type: ignore[arg-type]
    with pytest.raises(Unavailable, match=r"host\.example.*refused"):
        await gone.dimension()
    with pytest.raises(DeadlineExceeded):
        await gone.dimension()


def test_addresses() -> None:
    """Host, port, scheme, collection and options are parsed; a folder is an address, too."""
    plain = parse_address("qdrant://db.example/my%20book?vector=text")
    secure = parse_address("qdrant+https://[::1]:7000/book?public=yes")
    local = parse_address("qdrant+file:///srv/data/book")

    assert plain[:4] == (
        "http://db.example:6333",
        {"url": "http://db.example:6333"},
        "my book",
        "text",
    )
    assert (secure.shown, secure.public) == ("https://[::1]:7000", True)
    assert (local.client, local.collection) == ({"path": "/srv/data"}, "book")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "qdrant://",
        "qdrant://host",
        "qdrant://host/",
        "qdrant:///book",
        "qdrant://host:port/book",
        "qdrant://host/a/b",
        "qdrant://host/book?nonsense=1",
        "qdrant://host/book?nonsense",
        "qdrant+file://host/folder/book",
        "weaviate://host/book",
        "qdrant://user:hunter2@host/book",
    ],
)
def test_invalid_addresses_are_refused(address: str) -> None:
    """The hint has the right form and does not repeat a password."""
    with pytest.raises(ConfigError) as caught:
        parse_address(address)

    assert "hunter2" not in caught.value.message + caught.value.hint
