"""Texts longer than an embedding server reads: the limit is found, and no text is read in part."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.embedding_server import EmbeddingModel, Kind
from tests.support.model_server import Server

from whence.models.endpoints import Endpoint
from whence.models.openai import OpenAIEmbedder
from whence.schema.errors import BadInput


def embedder_of(server: Server, **given: int) -> OpenAIEmbedder:
    return OpenAIEmbedder("m", Endpoint(url=f"{server.url}/v1", timeout_s=10.0), **given)


@pytest.mark.parametrize(
    ("kind", "limit", "least", "most", "requests"),
    [
        ("cuts", 256, 256, 256, 4),
        ("cuts", 77, 77, 77, 4),
        ("cuts", 8192, 512, 512, 3),
        ("cuts, no count", 256, 170, 192, 10),
        ("counts before", 256, 170, 192, 10),
        ("refuses", 256, 120, 192, 10),
        ("refuses", 8192, 512, 512, 3),
        ("tei", 300, 300, 300, 1),
        ("vllm", 4096, 4096, 4096, 2),
        ("constant", 256, 256, 256, 5),
    ],
)
async def test_the_limit_is_found(
    kind: Kind, limit: int, least: int, most: int, requests: int
) -> None:
    """What the server says or counts is exact; what is only measured stays below the limit."""
    with Server(EmbeddingModel(limit, kind)) as server:
        embedder = embedder_of(server)
        await embedder.prepare()
        asked = len(server.requests)
        await embedder.prepare()
        await embedder.aclose()

    assert least <= embedder.max_tokens <= most
    assert asked == len(server.requests) <= requests


@pytest.mark.parametrize("kind", ["cuts", "cuts, no count", "refuses", "tei", "vllm"])
@pytest.mark.parametrize("batch", [1, 7])
async def test_no_text_is_read_in_part(kind: Kind, batch: int) -> None:
    """Of texts that are up to four times too long every word is read, and the vector depends on the last."""
    model = EmbeddingModel(100, kind)
    words = [f"word{place}" for place in range(400)]
    texts = [" ".join(words[: 400 // (place + 1)]) for place in range(batch)]
    with Server(model) as server:
        embedder = embedder_of(server)
        vectors = await embedder.embed([*texts, texts[0] + " omega" * 9, "short"], "document")
        alone = await embedder.embed(texts[:1], "document")
        await embedder.aclose()

    assert model.read >= {*words, "omega", "short"}
    np.testing.assert_array_equal(vectors[0], alone[0])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-6)
    assert 1e-5 < 1.0 - vectors[0] @ vectors[batch] < 0.1


async def test_a_setting_replaces_the_measurement() -> None:
    """With a setting nothing is asked; a text that reaches it is read in parts."""
    model = EmbeddingModel(50)
    text = " ".join(f"word{place}" for place in range(200))
    with Server(model) as server:
        embedder = embedder_of(server, max_tokens=50, batch=2)
        await embedder.embed([text, *["a b"] * 5])
        await embedder.aclose()

    assert embedder.max_tokens == 50
    assert {path for path, _, _ in server.requests} == {"/v1/embeddings"}
    assert max(len(body["input"]) for _, _, body in server.requests) == 2
    assert model.read >= set(text.split())


async def test_a_refusal_for_another_reason_stays_one() -> None:
    """Only a text that is too long is tried in parts."""
    refusal = (400, {}, b'{"error": {"message": "the model is not for you"}}')
    with Server(lambda path, body: refusal) as server:
        embedder = embedder_of(server, max_tokens=50)
        with pytest.raises(BadInput, match="not for you"):
            await embedder.embed(["a " * 400])
        await embedder.aclose()

    assert len(server.requests) == 1
