"""The local embedder and reranker on their real weights."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cross_encoder import write_cross_encoder
from tests.support.older_cpu import older_cpu_environment
from tokenizers import Tokenizer

from whence.models import local_embedder, onnx_sessions
from whence.models.factory import ModelSettings, make_embedder, make_reranker
from whence.models.flashrank_reranker import FlashrankReranker
from whence.models.installed import find_model
from whence.models.late_interaction import LateInteractionReranker
from whence.models.local_embedder import LocalEmbedder, TokenCounts
from whence.models.onnx_sessions import Workers
from whence.models.protocols import Embedder, Reranker, Writer
from whence.models.weights import EMBEDDER_NAME, RERANKER_NAME
from whence.quoting.extractive_writer import ExtractiveWriter
from whence.schema.access import Access
from whence.schema.errors import ConfigError, ModelMissing
from whence.store.memory.store import MemoryStore
from whence.surfaces.python.engine import Engine
from whence.testing.stub_models import EchoWriter

pytestmark = pytest.mark.models

LONG = "The harbour master keeps a ledger of all ships that enter or leave the port. " * 40
TEXTS = (
    "Books may be borrowed for 28 days.",
    "How long can I keep a book?",
    "",
    " \n",
    "[CLS] literal [SEP] tokens [PAD]",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8 h\u00e9llo \U0001f389",
    LONG,
    "x" * 5000,
)


@pytest.fixture(scope="module")
def w8() -> LocalEmbedder:
    return LocalEmbedder(precision="w8")


@pytest.fixture(scope="module")
def float32() -> LocalEmbedder:
    return LocalEmbedder(precision="float32", threads=1)


@pytest.fixture(scope="module")
def older_cpu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return older_cpu_environment(tmp_path_factory.mktemp("cpu"))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(find_model(EMBEDDER_NAME) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@pytest.fixture(scope="module")
def reranker(w8: LocalEmbedder) -> LateInteractionReranker:
    return LateInteractionReranker(w8)


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = ("paris", "long", "walks", "borrowed", "days", "query", "text")
    return write_cross_encoder(tmp_path_factory.mktemp("models") / "tiny", words)


@given(st.lists(st.sampled_from(TEXTS) | st.text(max_size=60), max_size=12), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
async def test_a_vector_depends_on_its_own_text_only(
    w8: LocalEmbedder, texts: list[str], seed: int
) -> None:
    """A text's vector is equal bit for bit, alone or among others, in any order."""
    together = await w8.embed(texts)
    order = np.random.default_rng(seed).permutation(len(texts))
    shuffled = await w8.embed([texts[place] for place in order])

    assert together.shape == (len(texts), 384)
    assert together.dtype == np.float32
    assert np.array_equal(together[order], shuffled)
    for text, row in zip(texts, together, strict=True):
        assert np.array_equal((await w8.embed([text]))[0], row)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)


async def test_queries_at_once_have_the_vectors_of_queries_alone(
    w8: LocalEmbedder, float32: LocalEmbedder
) -> None:
    """Queries that wait together are computed together, and no bit of a vector changes."""
    queries = [f"{'who wrote ' * (n % 3)}letter {n}?" for n in range(60)]
    for embedder in (w8, float32):
        alone = [await embedder.embed([one]) for one in queries]
        together = await asyncio.gather(*(embedder.embed([one]) for one in queries))
        listed = await embedder.embed(queries)
        for one, other, vector in zip(alone, together, listed, strict=True):
            assert one.tobytes() == other.tobytes() == vector.tobytes()


async def test_words_are_compared_without_their_sentences(
    w8: LocalEmbedder, float32: LocalEmbedder
) -> None:
    """A text with the words of a question, or words like them, is nearer; others of the call change nothing."""
    questions = ["Who repairs the ships?", ""]
    texts = ["The vessels are mended at the pier.", "Repairs of ships: who?", "A cold soup.", ""]
    _, near = await w8.compare_words(questions, texts)

    like, same, other, empty = near[0]
    assert same > like > other > empty == 0.0
    assert near[1] == [0.0] * 4
    for place, text in enumerate(texts):
        assert (await float32.compare_words(questions[:1], [text]))[1] == [[near[0][place]]]
    assert (await w8.compare_words([], texts))[1] == []
    assert (await w8.compare_words(questions, []))[1] == [[], []]


async def test_float32_does_not_depend_on_the_batch_either(float32: LocalEmbedder) -> None:
    """The published weights give the same vectors alone and in a batch, up to the last bits."""
    together = await float32.embed(TEXTS)
    alone = np.concatenate([await float32.embed([text]) for text in TEXTS])

    np.testing.assert_allclose(together, alone, atol=1e-6)


async def test_float32_is_the_published_model(float32: LocalEmbedder) -> None:
    """Vectors agree with those that sentence-transformers computes from the same weights."""
    vectors = await float32.embed(["Books may be borrowed for 28 days.", "How tall is a giraffe?"])

    np.testing.assert_allclose(vectors[:, :6], REFERENCE, atol=2e-6)


#: First numbers of the vectors of sentence-transformers 6 on torch, float32, for the two texts above.
REFERENCE = np.array(
    [
        [-0.03956134, 0.02845574, 0.05972512, 0.06031605, -0.06590132, 0.04914590],
        [-0.00751801, 0.07883664, -0.02367650, 0.02198607, -0.12831140, -0.04132227],
    ]
)


async def test_w8_is_close_to_float32(w8: LocalEmbedder, float32: LocalEmbedder) -> None:
    """Vectors of 8-bit weights have a cosine above 0.98 to those of float32."""
    texts = [text for text in TEXTS if text.strip()]
    cosines = ((await w8.embed(texts)) * (await float32.embed(texts))).sum(axis=1)

    assert cosines.min() > 0.98


async def test_meaning_is_kept(w8: LocalEmbedder) -> None:
    """A question is nearer to its answer than to another sentence."""
    answer, question, other = await w8.embed([TEXTS[0], TEXTS[1], "The flood came in 1962."])

    assert question @ answer > question @ other + 0.3


async def test_only_the_first_256_tokens_count(w8: LocalEmbedder) -> None:
    """A longer text is cut, not refused: 254 words and two special tokens."""
    base, more, other = await w8.embed(
        ["ship " * 254, "ship " * 254 + "moon", "ship " * 253 + "moon"]
    )

    assert np.array_equal(base, more)
    assert not np.array_equal(base, other)


def test_tokens_are_counted_whole(w8: LocalEmbedder) -> None:
    """Counting neither truncates nor pads, and excludes special tokens."""
    assert w8.count_tokens(["", "one two", "ship " * 1000]) == [0, 2, 1000]


@given(
    st.lists(
        st.text(st.characters(codec="ascii"), max_size=40)
        | st.text(max_size=20)
        | st.lists(
            st.sampled_from(
                [
                    "Harbour",
                    "it's",
                    "x" * 40,
                    "y" * 101,
                    "[SEP]",
                    "C++",
                    "a_b",
                    "\x1f",
                    "\x0b",
                    "\t",
                ]
            ),
            max_size=8,
        ).map(" ".join)
        | st.sampled_from(TEXTS),
        max_size=6,
    )
)
@settings(max_examples=300, deadline=None)
def test_cached_token_counts_are_exact(
    w8: LocalEmbedder, tokenizer: Tokenizer, texts: list[str]
) -> None:
    """Counting with cached words equals the tokenizer's count of the whole text."""
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False)

    assert w8.count_tokens(texts) == [len(one) for one in encodings]


def test_the_word_cache_is_bounded(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of cached words is bounded, and long words are not cached."""
    monkeypatch.setattr(local_embedder, "_CACHE_WORDS", 10)
    counts = TokenCounts(tokenizer)
    long = "ship" * 20
    found = [counts.count([f"ship {n} {long}"])[0] for n in range(40)]

    assert found == counts.count([f"ship {n} {long}" for n in range(40)])
    assert 0 < len(counts._cache) <= 10
    assert long not in counts._cache


async def test_many_calls_at_once(w8: LocalEmbedder) -> None:
    """Concurrent calls do not affect one another."""
    calls = await asyncio.gather(*(w8.embed(list(TEXTS[n:])) for n in range(4)))

    for n, vectors in enumerate(calls):
        assert np.array_equal(vectors, calls[0][n:])


async def test_a_closed_embedder_loads_again() -> None:
    """A closed embedder loads its model again on use."""
    embedder = LocalEmbedder(threads=1)
    first = await embedder.embed(["text"])
    await embedder.aclose()
    await embedder.aclose()

    assert np.array_equal(first, await embedder.embed(["text"]))
    await embedder.aclose()


@pytest.mark.parametrize("name", ["w8.bin", "tokenizer.json"])
@pytest.mark.parametrize("how", ["missing", "cut"])
async def test_damaged_models_are_not_loaded(tmp_path: Path, name: str, how: str) -> None:
    """A missing or truncated file is an error that names the folder and the remedy."""
    folder = tmp_path / EMBEDDER_NAME
    shutil.copytree(
        find_model(EMBEDDER_NAME), folder, ignore=shutil.ignore_patterns("model.safetensors")
    )
    # A link, and no hard one: the folder may be on another file system.
    (folder / "model.safetensors").symlink_to(find_model(EMBEDDER_NAME) / "model.safetensors")
    path = folder / name
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    embedder = LocalEmbedder(models=tmp_path, precision="w8", threads=1)

    with pytest.raises(ModelMissing, match=str(folder)) as raised:
        await embedder.embed(["text"])
    assert "whence models install" in raised.value.hint
    await embedder.aclose()


async def test_cancelling_stops_soon(w8: LocalEmbedder) -> None:
    """A cancelled call starts no further batch, and the embedder keeps working."""
    task = asyncio.create_task(w8.embed([LONG + str(n) for n in range(3000)]))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (await asyncio.wait_for(w8.embed(["text"]), 20)).shape == (1, 384)


async def test_workers_raise_the_error_itself() -> None:
    """An error in a thread reaches the caller unchanged."""
    workers = Workers(2, "test")

    def fail(item: int) -> int:
        if item == 3:
            raise ModelMissing("gone")
        return item

    with pytest.raises(ModelMissing, match="gone"):
        await workers.map(fail, range(10))
    assert await workers.map(fail, [1, 2]) == [1, 2]
    await workers.aclose()


async def test_reranker_ranks_the_answer_first(reranker: LateInteractionReranker) -> None:
    """The passage that answers is first, a blank one last; scores are floats in 0 to 1."""
    passages = [
        "Bananas are yellow.",
        "Paris is the capital of France.",
        "",
        "Berlin is a capital.",
    ]
    scores = await reranker.score("What is the capital of France?", passages)

    assert sorted(range(4), key=lambda row: -scores[row]) == [1, 3, 0, 2]
    assert all(type(score) is float and 0.0 <= score <= 1.0 for score in scores)


@given(st.lists(st.sampled_from(TEXTS) | st.text(max_size=40), max_size=6), st.sampled_from(TEXTS))
@settings(max_examples=20, deadline=None)
async def test_a_score_depends_on_its_own_pair_only(
    reranker: LateInteractionReranker, documents: list[str], query: str
) -> None:
    """A document has the same score alone and among others; the caller's list is unchanged."""
    before = list(documents)
    scores = await reranker.score(query, documents)

    assert documents == before
    for document, score in zip(documents, scores, strict=True):
        assert await reranker.score(query, [document]) == [score]


@given(st.lists(st.sampled_from(TEXTS) | st.text(max_size=40), max_size=6), st.data())
@settings(max_examples=20, deadline=None)
async def test_a_code_stands_for_its_text(
    w8: LocalEmbedder, reranker: LateInteractionReranker, documents: list[str], data: st.DataObject
) -> None:
    """Codes made at indexing give the same scores bit for bit as the texts, in any mixture."""
    vectors, codes = await w8.embed_coded(documents)
    some = [data.draw(st.sampled_from([code, b""])) for code in codes]
    texts = [text if not code else "" for text, code in zip(documents, some, strict=True)]

    assert np.array_equal(vectors, await w8.embed(documents))
    assert all(len(code) % 48 == 0 for code in codes)
    expected = await reranker.score("Paris and long walks", documents)
    assert await reranker.score_coded("Paris and long walks", texts, some) == expected


async def test_a_score_estimates_late_interaction(w8: LocalEmbedder) -> None:
    """Scores of codes follow the weighted mean of the best cosine of each word."""
    texts = [text for text in TEXTS if text.strip()]
    ids, tokens = await w8.read_query("How long may a book be kept?")
    weights = np.log(np.maximum(np.array(ids) - 1995, 1)) + 0.5
    unit = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
    exact = []
    for text in texts:
        _, words = await w8.read_query(text)
        words = words / np.linalg.norm(words, axis=1, keepdims=True)
        exact.append(float(weights @ (unit @ words.T).max(axis=1) / weights.sum()))
    scores = await LateInteractionReranker(w8).score("How long may a book be kept?", texts)

    assert int(np.argmax(exact)) == int(np.argmax(scores)) == 1
    assert float(np.corrcoef(exact, scores)[0, 1]) > 0.9


async def test_scores_are_those_of_flashrank(
    cross_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flashrank's own `Ranker` gives the same scores for the same model."""
    from flashrank import Config
    from flashrank.Ranker import Ranker, RerankRequest

    monkeypatch.setitem(Config.model_file_map, "tiny", "model.onnx")
    ranker = Ranker("tiny", cache_dir=str(cross_encoder.parent), log_level="ERROR")
    reranker = FlashrankReranker(cross_encoder)
    for text in (text for text in TEXTS if text.strip()):
        request = RerankRequest("Paris and long walks", [{"text": text}])
        expected = float(ranker.rerank(request)[0]["score"])
        (score,) = await reranker.score("Paris and long walks", [text])
        assert score == pytest.approx(expected, abs=1e-6)
    await reranker.aclose()


def test_reranker_changes_no_global_state(cross_encoder: Path) -> None:
    """Loading the reranker configures no logging, leaves flashrank's table unchanged, and needs no hub."""
    code = (
        "import asyncio, logging, socket, sys\n"
        "def refuse(*a, **k): raise OSError('no network here')\n"
        "socket.socket.connect = refuse\n"
        "from whence.models.flashrank_reranker import FlashrankReranker\n"
        "from flashrank.Config import model_file_map\n"
        "before = dict(model_file_map)\n"
        "async def main():\n"
        "    reranker = FlashrankReranker(sys.argv[1])\n"
        "    await reranker.score('query', ['text'])\n"
        "    await reranker.aclose()\n"
        "asyncio.run(main())\n"
        "print(logging.getLogger().handlers, logging.getLogger().level, before == model_file_map)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(cross_encoder)], capture_output=True, text=True, check=True
    )

    assert result.stdout.strip() == "[] 30 True"
    assert result.stderr == ""


async def test_unsigned_weights_give_the_bits_of_signed_ones(
    w8: LocalEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 bit weights give the same vectors in the way of processors that lack the VNNI instructions."""
    monkeypatch.setattr(onnx_sessions, "int8_is_exact", lambda: False)
    other = LocalEmbedder()
    vectors, codes = await other.embed_coded(TEXTS)
    await other.aclose()
    expected, expected_codes = await w8.embed_coded(TEXTS)

    assert other.model == w8.model
    assert vectors.tobytes() == expected.tobytes()
    assert codes == expected_codes


@pytest.mark.parametrize("precision", ["w8", "float32"])
async def test_an_older_processor_computes_equal_bits(
    precision: local_embedder.Precision, older_cpu: dict[str, str]
) -> None:
    """A processor with AVX2 and without AVX-512 and VNNI gives the same vectors and codes to the bit."""
    code = (
        "import asyncio, sys\n"
        "from tests.integration.test_models_local import TEXTS\n"
        "from whence.models.local_embedder import LocalEmbedder\n"
        "from whence.models.onnx_sessions import int8_is_exact\n"
        "assert not int8_is_exact()\n"
        "vectors, codes = asyncio.run(LocalEmbedder(precision=sys.argv[1]).embed_coded(TEXTS))\n"
        "sys.stdout.buffer.write(vectors.tobytes() + b''.join(codes))"
    )
    root = Path(__file__).resolve().parents[2]
    older = subprocess.run(
        [sys.executable, "-c", code, precision],
        env=older_cpu,
        cwd=root,
        capture_output=True,
        check=True,
    )
    ours = LocalEmbedder(precision=precision)
    vectors, codes = await ours.embed_coded(TEXTS)
    await ours.aclose()

    assert older.stdout == vectors.tobytes() + b"".join(codes)


def test_the_runtime_leaves_nothing_in_the_home_of_the_user(tmp_path: Path) -> None:
    """Computing with a local model writes no device id and no usage events, whatever the environment says."""
    code = (
        "import asyncio\n"
        "from whence.models.local_embedder import LocalEmbedder\n"
        "asyncio.run(LocalEmbedder(threads=1).embed(['text']))\n"
    )
    places = {name: str(tmp_path) for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")}
    subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **places, "ORT_DISABLE_TELEMETRY": "0"},
        check=True,
    )

    assert list(tmp_path.iterdir()) == []


async def test_reranker_folders_are_checked(tmp_path: Path, cross_encoder: Path) -> None:
    """A complete folder works under any name; an empty or incomplete one is an error."""
    copy = tmp_path / "my-ranker"
    shutil.copytree(cross_encoder, copy)
    ours, theirs = FlashrankReranker(cross_encoder), FlashrankReranker(copy)
    assert await theirs.score("query", ["text"]) == await ours.score("query", ["text"])
    await theirs.aclose()
    await ours.aclose()

    (copy / "config.json").unlink()
    with pytest.raises(ModelMissing, match=r"config\.json is missing"):
        await FlashrankReranker(copy).score("query", ["text"])
    (tmp_path / "ms-marco-MiniLM-L-12-v2").mkdir()
    with pytest.raises(ModelMissing, match="incomplete"):
        await FlashrankReranker("ms-marco-MiniLM-L-12-v2", models=tmp_path).score("q", ["t"])
    with pytest.raises(ConfigError, match="no-such"):
        await FlashrankReranker("no-such", models=tmp_path).score("q", ["t"])


async def test_choices_fit_the_protocols() -> None:
    """Models made from settings satisfy the protocols; the local reranker loads no second model."""
    embedder: Embedder = make_embedder("local", ModelSettings(threads=1))
    writer: Writer = ExtractiveWriter(embedder)
    reranker: Reranker = make_reranker("auto", None, embedder)

    assert (writer.model, writer.is_language_model) == ("extractive", False)
    assert reranker.model == RERANKER_NAME
    await reranker.score("a query", ["a text"])
    assert isinstance(embedder, LocalEmbedder)
    assert embedder.loaded
    await embedder.aclose()


@pytest.mark.parametrize("keep", [True, False])
async def test_token_vectors_are_kept_when_wanted(tmp_path: Path, keep: bool) -> None:
    """Documents are stored with the codes of their chunks, or without; a question is reranked either way."""
    (tmp_path / "a.md").write_text("# Loans\n\nBooks may be borrowed for 28 days.\n")
    (tmp_path / "b.md").write_text("# Hours\n\nThe library opens at nine.\n")
    store = MemoryStore()
    async with Engine(store=store, writer=EchoWriter()) as engine:
        await engine.index([tmp_path], token_vectors=keep)
        answer = await engine.ask("How long may a book be borrowed?")
        trace = await engine.explain(answer.answer_id)
    ids = [f"urn:chunk:default:{name}:0" for name in ("a.md", "b.md")]
    codes = await store.token_codes("default", ids, Access.public())

    assert sorted(codes) == (ids if keep else [])
    assert [one.chunk_id for one in trace.selections] == ids
    assert all(one.raw_score != one.final_score for one in trace.selections)
