"""An operation is declared once: its fields stand in few files, and a new one needs one declaration."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.testing import CliRunner

import whence
from whence import operations
from whence.operations.collection_removal import RemoveCollection
from whence.operations.operation import Operation, parameters
from whence.operations.owner import Erase, PreviewErasure
from whence.operations.search import Search
from whence.surfaces.cli.commands import COMMANDS
from whence.surfaces.cli.options import ChosenBy, OptionGroup, with_common_options
from whence.surfaces.python.methods import method

SOURCE = Path(whence.__file__).parent
#: Most files in which the name of a field may stand.
MOST = 3
#: Fields that stand in more files, and why.
EXCEPTIONS = {
    "words of the field that mean other things elsewhere": (
        "access", "active", "after", "answer_id", "back", "budget", "change", "citation", "collection", "compare",
        "deep", "digest", "direction", "embedder",
        "distinct", "diversity", "document_id", "document_ids", "encoding", "exact", "exclude", "explain", "filters",
        "folder", "follow", "graph", "history", "item", "limit", "locations", "match", "mode", "name", "names",
        "nodes", "note", "order", "page", "paths", "previous_answer", "progress", "prune", "query", "question", "reader", "record", "references",
        "relations", "repo", "rerank", "reusable", "rights", "root", "seeds", "session", "since", "snapshot", "state",
        "steps", "stop", "streaming", "tags", "threshold", "timeout_s", "unread", "verdict", "wait", "writer", "replace",
    ),
    "arguments of `DocumentRag`, whose signature is another project's, and parameters of flows": (
        "chunk_callback", "dense_weight", "diversity_lambda", "doc_limit", "explain_callback", "fetch_limit",
        "rerank_limit",
    ),
    "fields of messages and tables of code, below the operations": (
        "boosts", "bundles", "dense_weight", "dry_run", "max_depth", "max_nodes", "previous_answer", "prioritize",
        "seed_only",
        "set_name", "token_vectors", "top_k",
    ),
    "what goes to the process that reads documents": ("passwords",),
    "settings of the writer, which a question may state, too": (
        "answer_instructions", "answer_language", "day", "writer_max_tokens", "writer_sampling",
        "writer_temperature",
    ),
    "the conversation, which the prompts and the chat endpoint state, too": ("previous_answer",),
    "words of prose": ("follow",),
    "facts of a trace and of the audit log": ("answer_a", "as_of", "revision_of"),
}  # fmt: skip

#: Options of commands beside those of their operations, and why they are the command line's own.
OWN_OPTIONS = {
    "how the result is printed": {"ask": {"stream"}, "explain": {"form", "sparql"}},
    "a file of the caller": {name: {"trace"} for name in ("ask", "expand", "fetch", "search")},
    "which flow answers, and what runs no operation": {"ask": {"flow"}, "verify": {"public_key"}},
    "a question on the terminal": {"collections": {"yes"}},
    "a budget in the units that a caller counts in": {
        "fetch": {"max_chars", "budget_tokens", "budget_from_settings", "settings"}
    },
}

#: A parameter, and its only use: the two files of a change.
DECLARED = '''    tone: Annotated[str, Meta(pattern="^[a-z]+$")] = "plain"
    """Tone of the answer."""
    exact: bool = False
    """Search'''
USED = '            "threshold": options.threshold,\n            "tone": getattr(self.request, "tone", ""),\n'


def fields() -> Iterator[str]:
    """Yield the names of the fields of all operations."""
    for module in pkgutil.iter_modules(operations.__path__):
        importlib.import_module(f"whence.operations.{module.name}")
    importlib.import_module("whence.code.operations")
    waiting: list[type[Operation[Any]]] = [Operation]
    while waiting:
        one = waiting.pop()
        waiting += one.__subclasses__()
        if one.__module__.startswith(("whence.operations", "whence.code")):
            yield from parameters(one)


def test_the_name_of_a_field_stands_in_few_files() -> None:
    """Each field of each operation stands in at most three files, or is an exception with a reason."""
    words = {
        path: set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
        for path in SOURCE.rglob("*.py")
        if "testing" not in path.relative_to(SOURCE).parts
    }
    many = {name for name in fields() if sum(name in each for each in words.values()) > MOST}

    assert many == {name for names in EXCEPTIONS.values() for name in names}


def test_commands_read_their_options_from_operations() -> None:
    """A command that runs an operation declares no option of its own but those that are no parameter of it."""
    found: dict[str, set[str]] = {}
    for name, command in COMMANDS.items():
        for place in filter(None, (command.function, *command.members.values())):
            module, _, function = place.partition(":")
            call = getattr(importlib.import_module(module), function)
            hints = get_type_hints(call, include_extras=True)
            _, *arguments = inspect.signature(call).parameters
            own = {each for each in arguments if not _is_read(hints[each])}
            if any("operations" in repr(hints[each]) for each in arguments):
                found.setdefault(name, set()).update(own)
    allowed: dict[str, set[str]] = {}
    for commands in OWN_OPTIONS.values():
        for name, options in commands.items():
            allowed.setdefault(name, set()).update(options)

    assert {name: own for name, own in found.items() if own} == allowed


def _is_read(hint: Any) -> bool:
    """Return whether an argument of a command is made by an operation's declaration or a group."""
    if isinstance(hint, type):
        return issubclass(hint, Operation)
    return any(isinstance(one, OptionGroup | ChosenBy) for one in hint.__metadata__)


def test_an_option_chooses_another_operation() -> None:
    """Its value is what that operation requires beside what the first one has; without it there is none."""
    seen: list[Any] = []

    def command(
        context: typer.Context,
        asked: Erase,
        *,
        preview: Annotated[PreviewErasure | None, ChosenBy("--dry-run")] = None,
        remove: Annotated[RemoveCollection | None, ChosenBy("--remove")] = None,
    ) -> None:
        seen.append((asked, preview, remove))

    app = typer.Typer()
    app.command()(with_common_options(command))
    run = CliRunner().invoke
    assert run(app, ["a.md", "b.md", "--dry-run", "--collection", "c"]).exit_code == 0
    assert run(app, ["a.md", "--remove", "drafts", "--collection", "c"]).exit_code == 0

    erase = Erase(["a.md", "b.md"], "c")
    assert seen[0] == (erase, PreviewErasure(["a.md", "b.md"], "c"), None)
    assert seen[1] == (Erase(["a.md"], "c"), None, RemoveCollection("drafts"))


def test_a_new_parameter_is_declared_once(tmp_path: Path) -> None:
    """A change of two files is seen on every surface, in the trace and in a replay."""
    source = tmp_path / "src" / "whence"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(SOURCE.parents[1] / "flows", tmp_path / "flows")
    change(source / "operations/ask.py", '    exact: bool = False\n    """Search', DECLARED)
    change(
        source / "answering/state.py",
        '            "threshold": options.threshold,\n',
        USED,
    )
    seen = subprocess.run(
        [sys.executable, "-c", SURFACES],
        env={"PYTHONPATH": str(source.parent), "PATH": "", "HOME": str(tmp_path), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert seen.returncode == 0, seen.stderr
    found = json.loads(seen.stdout)

    expected = {"type": "string", "pattern": "^[a-z]+$", "default": "plain"}
    expected["description"] = "Tone of the answer."
    assert re.search(r"--tone +TONE +Tone of the answer. \[default: plain\]", found["help"])
    assert found["openapi"] == found["mcp"] == expected
    assert found["body"] == "kind"
    assert found["python"] == "plain"
    assert found["sent"] == {"tone": "kind"}
    assert found["stored"]["tone"] == "kind"
    assert found["trace"] == "kind"
    assert found["replayed"] == "kind"
    assert found["identical"]


def change(path: Path, before: str, after: str) -> None:
    """Replace the only occurrence of a text in a file."""
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, after), encoding="utf-8")


#: Prints what each surface has of the parameter, and what is recorded and asked again.
SURFACES = """
import asyncio, inspect, json, re
from typer.testing import CliRunner
import whence.surfaces.cli.main as cli
from whence.surfaces.python.engine import Engine
from whence.operations.recorded_answers import replay_request
from whence.surfaces.http.auth import Caller
from whence.surfaces.http.bodies import read_operation
from whence.surfaces.mcp.offer import tools
from whence.surfaces.http.openapi import openapi
from whence.operations.ask import Ask, DocumentRagRequest
from whence.schema.access import Access
from whence.schema.codec import to_builtins
from whence.store.memory.store import MemoryStore
from whence.testing.stub_models import EchoWriter, HashEmbedder

help = CliRunner(env={"TERM": "dumb", "NO_COLOR": "1"}).invoke(cli.app, ["ask", "--help"]).output
(tool,) = [one.description() for one in tools().values() if one.name == "ask"]
asked = read_operation(
    {"question": "How long?", "tone": "kind"}, Ask, Caller("", Access.public()), "default"
)
message = DocumentRagRequest.of(asked, streaming=False)

async def main():
    store = MemoryStore()
    async with Engine(store=store, embedder=HashEmbedder(), writer=EchoWriter()) as engine:
        folder = __import__("pathlib").Path(__import__("os").environ["HOME"]) / "docs"
        folder.mkdir()
        (folder / "a.md").write_text("Books may be borrowed for 28 days.")
        await engine.index([folder])
        answer = await engine.run(asked)
        record = (await store.trace(answer.answer_id)).record
        again = await engine.replay(answer.answer_id)
        return record, again

record, again = asyncio.run(main())
print(json.dumps({
    "help": re.sub("[^ -~]+", " ", help),
    "openapi": openapi()["components"]["schemas"]["AskBody"]["properties"]["tone"],
    "mcp": tool["inputSchema"]["properties"]["tone"],
    "body": asked.tone,
    "python": inspect.signature(Engine.ask).parameters["tone"].default,
    "sent": {"tone": to_builtins(message)["tone"]},
    "stored": json.loads(record.settings["operation"]),
    "trace": record.settings["tone"],
    "replayed": replay_request(record).tone,
    "identical": again.identical,
}))
"""


async def test_none_stands_for_an_empty_collection() -> None:
    """A caller may pass None for a mapping or a sequence, and not for a number or a name."""

    class Session:
        async def run(self, operation: Any) -> Any:
            return operation

    class Caller:
        _session: Any = Session()
        search = method(Search)

    asked = await Caller().search("leave", filters=None, threshold=None, top_k=3)  # type: ignore[arg-type]

    assert asked == Search("leave", threshold=None, top_k=3)  # type: ignore[comparison-overlap]
