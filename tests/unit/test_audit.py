"""The audit log: one line an operation, which no question can forge or prevent."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whence.flow.settings import Settings
from whence.operations.audit import STDERR, AuditLog
from whence.operations.operation import Call, Operation
from whence.schema.access import Access
from whence.schema.errors import NotFound, Unavailable
from whence.surfaces.python.methods import method

R = TypeVar("R")

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
READER = Access(frozenset({"b", "a"}), frozenset({"x"}), 3)


class Find(Operation[list[str]], frozen=True):
    """Return the query."""

    NAME: ClassVar[str] = "find"

    query: str
    nodes: Sequence[str] = ()
    access: Access = READER
    collection: str = "default"
    fail: BaseException | None = None

    async def run(self, session: Any) -> list[str]:
        """Return the query."""
        session.append(list(self.nodes))
        if self.fail is not None:
            raise self.fail
        return ["text of a document", self.query]

    def count(self, result: list[str]) -> int:
        """Return the number of texts."""
        return len(result)


class Library:
    """Has one method that is logged."""

    def __init__(self, target: str | None) -> None:
        self.asked: list[list[str]] = []
        self._log = None
        if target is not None:
            self._log = AuditLog(target, now=lambda: NOON, monotonic=iter(range(99)).__next__)
        self._session: Any = self

    async def run(self, operation: Operation[R]) -> R:
        """Run an operation as a session does."""
        session: Any = self.asked
        call: Call[R] = operation.run
        return await (call if self._log is None else self._log.around(operation, call))(session)

    find = method(Find)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_the_fields_of_a_line(tmp_path: Path) -> None:
    """Time, operation, question, collection, rights, number of results and duration; no text of documents."""
    log = tmp_path / "audit.jsonl"
    await Library(str(log)).find("a question", access=READER)
    (line,) = lines(log)

    uid = line.pop("uid")
    assert uid is None or uid >= 0
    assert line == {
        "time": "2026-03-01T12:00:00+00:00",
        "operation": "find",
        "query": "a question",
        "collection": "default",
        "rights": {"acl": ["a", "b"], "labels": ["x"], "clearance": 3},
        "results": 2,
        "duration_ms": 1000,
    }


async def test_the_file_is_private_and_grows(tmp_path: Path) -> None:
    """A new file is readable by its owner only, and lines are appended."""
    log = tmp_path / "audit.jsonl"
    library = Library(str(log))
    await library.find("one")
    await library.find("two")

    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert [line["query"] for line in lines(log)] == ["one", "two"]


async def test_iterators_reach_the_method(tmp_path: Path) -> None:
    """An iterator is logged and passed on completely."""
    log = tmp_path / "audit.jsonl"
    library = Library(str(log))
    await library.find("q", (node for node in ("n1", "n2")))

    assert library.asked == [["n1", "n2"]]
    assert lines(log)[0]["items"] == ["n1", "n2"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("there is no document with secrets"), "not-found"),
        (RuntimeError("secrets"), "RuntimeError"),
        (asyncio.CancelledError(), "cancelled"),
    ],
)
async def test_a_failure_is_logged_by_its_code(
    tmp_path: Path, error: BaseException, code: str
) -> None:
    """A failed operation is logged without the message of its error, which is raised."""
    log = tmp_path / "audit.jsonl"
    with pytest.raises(type(error)):
        await Library(str(log)).find("q", fail=error)
    (line,) = lines(log)

    assert line["error"].replace("_", "-") == code
    assert "results" not in line
    assert "secrets" not in log.read_text()


async def test_an_unwritable_log_prevents_the_operation(tmp_path: Path) -> None:
    """When the log cannot be opened the operation does not start."""
    library = Library(str(tmp_path / "missing" / "audit.jsonl"))
    with pytest.raises(Unavailable, match="audit log"):
        await library.find("q")

    assert library.asked == []


async def test_a_line_that_cannot_be_written_withholds_the_result() -> None:
    """When the line cannot be written the result is withheld."""
    if not Path("/dev/full").exists():
        pytest.skip("there is no device that is always full")
    library = Library("/dev/full")
    with pytest.raises(Unavailable, match="audit log"):
        await library.find("q")

    assert library.asked == [[]]


async def test_the_log_can_be_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """`stderr` is a target; nothing is written to standard output."""
    await Library(STDERR).find("q")
    out, err = capsys.readouterr()

    assert out == ""
    assert json.loads(err)["query"] == "q"


async def test_the_log_is_off_by_default(tmp_path: Path) -> None:
    """Without the setting there is no log."""
    library = Library(None)

    assert Settings.load(environ={}, folder=tmp_path).audit is None
    assert await library.find("q")
    assert list(tmp_path.iterdir()) == []


def test_the_setting_names_a_file_or_standard_error(tmp_path: Path) -> None:
    """A relative path is relative to the working folder; `stderr` is not a file."""
    load = Settings.load
    relative = load(environ={"WHENCE_AUDIT": "log.jsonl"}, folder=tmp_path)
    assert relative.audit == str(Path("log.jsonl").absolute())
    assert load(environ={"WHENCE_AUDIT": "stderr"}, folder=tmp_path).audit == "stderr"


@given(query=st.text(st.characters(codec=None), max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_no_question_forges_a_line(tmp_path: Path, query: str) -> None:
    """Any question is logged as one line of ASCII that decodes to itself."""
    log = tmp_path / "audit.jsonl"
    log.unlink(missing_ok=True)
    asyncio.run(Library(str(log)).find(query))
    raw = log.read_bytes()

    assert raw.isascii()
    assert raw.count(b"\n") == 1
    assert json.loads(raw).get("query", "") == query
