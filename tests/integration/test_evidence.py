"""Evidence of an answer is verified without Whence, and tells a reader nothing that is hidden from him."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from whence import Access, Engine
from whence.operations import evidence_verifier, trace_access
from whence.operations.evidence_verifier import ORDER, is_signed
from whence.schema.access import DocumentTags
from whence.schema.errors import NotFound
from whence.store.chain_key import ChainKey
from whence.store.postgres.store import PostgresStore
from whence.testing.stub_models import HashEmbedder, OverlapReranker

pytestmark = pytest.mark.postgres

VERIFIER = Path(evidence_verifier.__file__)
QUESTION = "When is the merger signed?"
HIDDEN = "quokkatext"


@pytest.fixture
async def engine(tmp_path: Path, new_home: Callable[[Path], Path]) -> AsyncIterator[Engine]:
    """An engine with three public documents."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "merger.md").write_text("# Merger\n\nThe merger is signed in June.\n")
    (folder / "lunch.md").write_text(f"# Lunch\n\nLunch is signed for by {HIDDEN}.\n")
    (folder / "other.md").write_text("# Other\n\nWho signed what, and when, is in the book.\n")
    home = new_home(tmp_path / "home")
    async with Engine(home=home, embedder=HashEmbedder(), reranker=OverlapReranker()) as engine:
        await engine.index([folder])
        yield engine


def _key(engine: Engine) -> str:
    return ChainKey(engine._session.settings.integrity).trusted[0]


def _verify(found: Any, key: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the verifier of the file in an interpreter without packages."""
    (folder / "verify.py").write_text(VERIFIER.read_text())
    (folder / "evidence.json").write_text(json.dumps(found))
    command = [sys.executable, "-I", "-S", "verify.py", "evidence.json", key]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={"PATH": os.defpath}
    )


async def test_evidence_is_verified_by_a_bare_interpreter(engine: Engine, tmp_path: Path) -> None:
    """The file and the public key are enough; the verifier in the file is the one that is tested."""
    answer = await engine.ask(QUESTION)
    await engine.explain(answer.answer_id)
    found = await engine.evidence(answer.answer_id)
    good = _verify(found, _key(engine), tmp_path)
    other = _verify(found, "00" * 32, tmp_path)

    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.startswith("good: recorded ")
    assert other.returncode == 1
    assert found["verifier"] == VERIFIER.read_text()
    assert found["question"] == QUESTION
    assert found["answer"] == answer.text
    assert {HIDDEN in one["text"] for one in found["passages"]} == {True, False}
    assert len(VERIFIER.read_text().splitlines()) <= 150


async def test_tampered_evidence_is_refused(engine: Engine) -> None:
    """A change of any value in the file is a fault, but for the verifier and the keys that it repeats."""
    answer = await engine.ask(QUESTION)
    await engine.explain(answer.answer_id)
    good, key = await engine.evidence(answer.answer_id), _key(engine)
    accepted = []
    for path in _places(
        {name: good[name] for name in good if name not in {"verifier", "public_keys"}}
    ):
        bad = copy.deepcopy(good)
        holder = bad
        for step in path[:-1]:
            holder = holder[step]
        value = holder[path[-1]]
        holder[path[-1]] = (
            value + 1
            if isinstance(value, int)
            else f"{value[:-1]}{'0' if value[-1:] != '0' else '1'}"
        )
        if not evidence_verifier.faults(bad, key):
            accepted.append(path)
    for name in ("passages", "leaves", "hidden", "entries"):
        bad = copy.deepcopy(good)
        if name != "passages":
            del bad[name][0]
            assert evidence_verifier.faults(bad, key), name

    assert not evidence_verifier.faults(good, key)
    assert accepted == []


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all texts and numbers; of long lists the first and the last."""
    if isinstance(value, dict):
        return [one for name, part in value.items() for one in _places(part, (*path, name))]
    if isinstance(value, list):
        ends = sorted({0, len(value) // 2, len(value) - 1})
        return [one for place in ends for one in _places(value[place], (*path, place))]
    return [path]


async def test_hidden_parts_are_only_hashes(engine: Engine, tmp_path: Path) -> None:
    """A reader who may no longer see a candidate gets evidence without its words and names that verifies."""
    answer = await engine.ask(QUESTION, doc_limit=1, fetch_limit=20)
    await engine.explain(answer.answer_id)
    assert {one.document_id for one in answer.citations} <= {"merger.md"}
    store: PostgresStore = await engine._session.store()  # type: ignore[assignment]
    everything = await engine.evidence(answer.answer_id)
    await store.retag_documents("default", {"lunch.md": DocumentTags(("board",))})
    found = await engine.evidence(answer.answer_id)
    verified = _verify(found, _key(engine), tmp_path)
    text = json.dumps(found)

    assert (verified.returncode, verified.stderr) == (0, "")
    assert "lunch" in json.dumps(everything)
    assert "lunch" not in text
    assert HIDDEN not in text
    assert "other.md" in text
    assert len(found["leaves"]) < len(everything["leaves"])
    assert len(found["leaves"]) + len(found["hidden"]) == 256
    with pytest.raises(NotFound):
        await engine.evidence("f" * 32)


async def test_hidden_answers_are_refused_as_late_as_missing_ones(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trace that is read before it is refused, and one that is not there, wait for the same multiple."""
    answer = await engine.ask(QUESTION, doc_limit=1, fetch_limit=20)
    await engine.explain(answer.answer_id)
    store: PostgresStore = await engine._session.store()  # type: ignore[assignment]
    await store.retag_documents("default", {"merger.md": DocumentTags(("board",))})
    ends, now = [], iter([7.03, 7.08, 20.03, 20.031, 31.02, 31.15])
    monkeypatch.setattr(trace_access, "time", SimpleNamespace(monotonic=lambda: next(now)))
    monkeypatch.setattr(trace_access, "_record", _found_at_once)

    async def sleep(seconds: float) -> None:
        ends.append(round(seconds, 6))

    monkeypatch.setattr(trace_access, "asyncio", SimpleNamespace(sleep=sleep))
    for refused, read in (
        (answer.answer_id, engine.explain),
        ("f" * 32, engine.evidence),
        (answer.answer_id, engine.replay),
    ):
        with pytest.raises(NotFound):
            await read(refused)

    assert ends == [0.05, 0.099, 0.07]


async def _found_at_once(store: PostgresStore, answer_id: str, access: Access, _: float) -> Any:
    stored = await store.trace(answer_id, access)
    return None if stored is None else stored.record


@pytest.mark.parametrize("number", range(8))
def test_signatures_are_verified_as_by_cryptography(number: int) -> None:
    """The verifier takes the signatures that the library makes, and none that was changed."""
    private = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
    public, message = private.public_key().public_bytes_raw(), bytes([number]) * number
    signature = private.sign(message)
    scalar = int.from_bytes(signature[32:], "little")

    assert is_signed(public, message, signature)
    assert not is_signed(public, message + b"x", signature)
    assert not is_signed(public, message, bytes([signature[0] ^ 1]) + signature[1:])
    assert not is_signed(bytes([public[0] ^ 1]) + public[1:], message, signature)
    assert not is_signed(public, message, b"")
    assert not is_signed(b"\xff" * 32, message, signature)
    # The same number modulo the order of the curve: a second form of one signature.
    assert not is_signed(public, message, signature[:32] + (scalar + ORDER).to_bytes(32, "little"))
