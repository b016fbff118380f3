"""Write the reference pages under `docs/reference/` from the code; a test fails when one is stale.

`python tools/reference.py` renews them: the command line, the settings, the messages, the processors with their
parameters, the errors, the metrics and the HTTP interface.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import msgspec
from typer.main import get_command

import whence.schema
from whence.cli.help_examples import EXAMPLES, GROUPS
from whence.cli.main import app
from whence.flow.registry import BUILT_IN, Registry
from whence.flow.settings import SETTINGS
from whence.flow.telemetry.metrics import METRICS
from whence.gateway import events
from whence.gateway.auth import AccessBody
from whence.gateway.failures import STATUSES
from whence.gateway.mcp import REVISIONS, TOOLS
from whence.gateway.requests import AskBody, SearchBody
from whence.processors.base import Processor
from whence.schema.errors import WhenceError
from whence.schema.message import message_types

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference"
NOTE = "<!-- Written by tools/reference.py from the code; change that, not this. -->\n\n"
#: Options that every command takes are told of once.
COMMON = (
    "home",
    "database_url",
    "broker",
    "embedder",
    "writer",
    "reranker",
    "collection",
    "as_json",
    "help",
)


def cell(text: object) -> str:
    """Give a text fit for one cell of a table."""
    joined = " ".join(str(text).split())
    return re.sub(r"(?<!\\)\|", r"\\|", joined)


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Give a table; empty when there are no rows."""
    head = list(head)
    body = ["| " + " | ".join(map(cell, row)) + " |" for row in rows]
    if not body:
        return ""
    return "\n".join(["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *body]) + "\n"


# The command line


def commands() -> str:
    """Give the page of all commands."""
    root: Any = get_command(app)
    out = ["# Command line\n"]
    out.append(
        "With `--json`, which every command takes, stdout is exactly one JSON document. Errors are one line\n"
        "`error:` and one line `hint:` on stderr.\n"
    )
    out.append(table(("Exit", "Meaning"), EXITS))
    out.append("## Options of every command\n")
    every = next(iter(root.commands.values()))
    out.append(options(p for p in every.params if p.name in COMMON and p.name != "help"))
    for group, names in GROUPS.items():
        out.append(f"## {group}\n")
        for name in names:
            out.extend(command(f"whence {name}", root.commands[name], level=3))
            out.append(examples(name))
    return "\n".join(part for part in out if part)


EXITS = (
    (0, "done"),
    (
        1,
        "done, and the answer is no: a gate or validation failed, some documents failed, a fault was found, a replay differs",
    ),
    (2, "wrong usage or bad input; nothing was changed"),
    (3, "not found, or not visible to this access: the two cannot be told apart"),
    (4, "a service or model that is needed is unavailable"),
    (130, "interrupted; what was committed stays, nothing is half written"),
)


def command(name: str, one: Any, *, level: int) -> Iterator[str]:
    """Give the section of a command, and of the commands below it."""
    yield f"{'#' * level} `{name}`\n"
    text = inspect.cleandoc(one.help or "").replace("\f", "")
    if text:
        yield text + "\n"
    arguments = [p for p in one.params if p.param_type_name == "argument"]
    if arguments:
        rows = ((f"`{p.human_readable_name}`", getattr(p, "help", "") or "") for p in arguments)
        yield table(("Argument", "Meaning"), rows)
    own = [p for p in one.params if p.param_type_name == "option" and p.name not in COMMON]
    yield options(own)
    for below, child in getattr(one, "commands", {}).items():
        yield from command(f"{name} {below}", child, level=level + 1)


def options(params: Iterable[Any]) -> str:
    """Give the table of some options."""
    return table(("Option", "Meaning", "Default"), (option(p) for p in params))


def option(param: Any) -> tuple[str, str, str]:
    """Give the row of an option."""
    names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    default = param.default
    shown = "" if default in (None, "", False, ()) or callable(default) else f"`{default}`"
    return names, param.help or "", shown


def examples(name: str) -> str:
    """Give the examples of a command."""
    return "```sh\n" + "\n".join(EXAMPLES[name]) + "\n```\n"


# Settings


def settings() -> str:
    """Give the page of all settings."""
    rows = (
        (
            f"`{one.name}`",
            f"`{one.variable}`",
            f"`{one.default}`" if one.default else "",
            one.meaning,
        )
        for one in SETTINGS
    )
    return (
        "# Settings\n\n"
        "A setting is taken from the option of the command, else from the environment, else from `whence.toml` in\n"
        "the working folder, else it has its default. `whence doctor` shows each with its origin.\n\n"
        + table(("Name in `whence.toml`", "Variable", "Default", "Meaning"), rows)
        + "\nBeside these `WHENCE_LOG` names the level from which log lines go to standard error (`debug` to\n"
        "`critical`; warnings of `run` and `serve`, else only what is fatal), and `WHENCE_DEBUG=1` shows where a\n"
        "fault of Whence happened.\n"
    )


# Messages

WIRE = (
    "JSON on the wire; the name of the type travels in the `type` header. Fields with a default may be left\n"
    "out. `bytes` are base64. Within a version fields are only ever added.\n"
)


def messages() -> str:
    """Give the page of all messages that travel, and of the parts they are made of."""
    for module in iter_modules(whence.schema.__path__):
        import_module(f"whence.schema.{module.name}")
    # Whoever registered others in this process, such as a test, is no part of the project.
    named = {
        name: cls for name, cls in message_types().items() if cls.__module__.startswith("whence.")
    }
    parts = sorted(parts_of(named.values()) - set(named.values()), key=lambda cls: cls.__name__)
    out = [
        "# Messages\n",
        WIRE,
    ]
    for name, cls in named.items():
        out.append(f"## `{name}`\n")
        out.extend(struct(cls))
    out.append("## Parts of messages\n")
    for cls in parts:
        out.append(f"### `{cls.__name__}`\n")
        out.extend(struct(cls))
    return "\n".join(out)


def parts_of(classes: Iterable[type[Any]]) -> set[type[Any]]:
    """Give every struct that occurs in the fields of some structs."""
    found: set[type[Any]] = set()
    waiting = list(classes)
    while waiting:
        for kind in typing.get_type_hints(waiting.pop()).values():
            for inner in structs_in(kind):
                if inner not in found:
                    found.add(inner)
                    waiting.append(inner)
    return found


def structs_in(kind: Any) -> Iterator[type[Any]]:
    """Give the structs that a type names."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for argument in typing.get_args(kind):
        yield from structs_in(argument)


def struct(cls: type[Any]) -> Iterator[str]:
    """Give the description of a struct and the table of its fields."""
    yield inspect.cleandoc(cls.__doc__ or "") + "\n"
    told = field_docs(cls)
    rows = []
    for field in msgspec.structs.fields(cls):
        required = field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
        default = "required" if required else f"`{shown_default(field)}`"
        rows.append(
            (f"`{field.name}`", f"`{shown_type(field.type)}`", default, told.get(field.name, ""))
        )
    yield table(("Field", "Type", "Default", "Meaning"), rows)


def shown_default(field: Any) -> str:
    """Give a default as it may be written."""
    if field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
        return "[]" if isinstance(value, list | tuple | set | frozenset) else repr(value)
    if isinstance(field.default, tuple | frozenset):
        return "[]"
    if isinstance(field.default, msgspec.Struct):
        return "{}"
    return repr(field.default)


def shown_type(kind: Any) -> str:
    """Give a type in the words of Python, without the modules."""
    text = kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
    text = re.sub(r"\b(?:[a-z_]\w*\.)+", "", text)
    return re.sub(r"Annotated\[(.+), Meta\((.+)\)\]", r"\1, \2", text)


def field_docs(cls: type[Any]) -> dict[str, str]:
    """Give the text that follows each field in the source, those of its parents included."""
    told: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if (
            not (isinstance(base, type) and issubclass(base, msgspec.Struct))
            or base is msgspec.Struct
        ):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError):
            continue
        body = tree.body[0].body  # type: ignore[attr-defined]
        for before, after in pairwise(body):
            is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if (
                isinstance(before, ast.AnnAssign)
                and isinstance(before.target, ast.Name)
                and is_text
            ):
                told[before.target.id] = inspect.cleandoc(str(after.value.value))  # type: ignore[attr-defined]
    return told


# Processors


def processors() -> str:
    """Give the page of all processor types."""
    out = [
        "# Processors\n",
        "What a flow file may name as `type`. Others come through the entry-point group `whence.processors`.\n",
    ]
    registry = Registry(plug_ins=())
    for name in sorted(BUILT_IN):
        cls = registry.get(name)
        out.append(f"## `{name}`\n")
        out.append(f"{cls.summary[:1].upper()}{cls.summary[1:]}.\n")
        out.append(ports(cls))
        parameters = "".join(part + "\n" for part in list(struct(cls.Parameters))[1:])
        out.append(parameters if parameters.strip() else "No parameters.\n")
    return "\n".join(out)


def ports(cls: type[Processor]) -> str:
    """Give what a processor takes, calls and emits."""
    rows: list[tuple[str, str]] = []
    if cls.serves is not None:
        rows.append(("serves", f"`{cls.serves.request.TYPE}`"))
    if cls.consumes is not None:
        rows.append(("consumes", f"`{cls.consumes.TYPE}`"))
    for port, service in cls.calls.items():
        optional = ", may be left out" if port in cls.optional_calls else ""
        rows.append(("calls", f"`{port}` (`{service.request.TYPE}`{optional})"))
    rows.extend(("emits", f"`{port}` (`{message.TYPE}`)") for port, message in cls.emits.items())
    rows.extend(("needs", f"the {need}") for need in cls.needs)
    return table(("It", "What"), rows)


# Errors and metrics


def errors() -> str:
    """Give the page of all errors."""
    rows = [
        (
            f"`{cls.code}`",
            f"`{cls.__name__}`",
            cls.exit_code,
            "yes" if cls.retryable else "no",
            first_line(cls),
        )
        for cls in sorted(every_error(WhenceError), key=lambda cls: (cls.exit_code, cls.code))
    ]
    return "# Errors\n\nEvery error says what happened, to which id, and what to do.\n\n" + table(
        ("Code", "Class", "Exit", "Can a retry help?", "Meaning"), rows
    )


def every_error(cls: type[WhenceError]) -> Iterator[type[WhenceError]]:
    """Give the classes of errors that have a code of their own."""
    for below in cls.__subclasses__():
        if below.__module__.startswith("whence.schema"):
            yield below
            yield from every_error(below)


def first_line(cls: type[Any]) -> str:
    """Give the first line of what a class says of itself."""
    return inspect.cleandoc(cls.__doc__ or "").splitlines()[0]


def metrics() -> str:
    """Give the page of all metrics."""
    rows = ((f"`{name}`", text) for name, text in METRICS.items())
    return (
        "# Metrics\n\n`whence run --metrics [HOST:]PORT` serves these at `/metrics`, and the probes `/live` and"
        " `/ready`. With\n`OTEL_EXPORTER_OTLP_ENDPOINT` set and the extra `otel` installed, every message handled"
        " is a span too.\n\n" + table(("Metric", "Meaning"), rows)
    )


# The gateway

PATHS = """| Path | Answer |
|---|---|
| `GET /` | the page |
| `POST /v1/search` | passages: the document of `whence search --json` |
| `POST /v1/ask` | an answer: the document of `whence ask --json`; events with `Accept: text/event-stream` |
| `GET /v1/answers/{answer_id}` | its trace; `?format=json`, `tree`, `nquads`, `trig`, `jsonld` or `svg` |
| `GET /v1/answers/{answer_id}/why-not?item=ID` | what became of a passage or document |
| `POST /mcp` | the Model Context Protocol |
| `GET /openapi.json` | all of this for machines |
| `GET /live`, `GET /ready` | 200 while it serves |
"""


def http() -> str:
    """Give the page of the gateway's interface."""
    out = ["# HTTP\n", "`whence serve` answers at these paths.\n", PATHS]
    for path, body in (("/v1/search", SearchBody), ("/v1/ask", AskBody)):
        out.append(f"## Body of `{path}`\n")
        out.append(table(("Field", "Type", "Default", "Meaning"), map(body_field, fields_of(body))))
    out.append("## `access`\n")
    out.extend(struct(AccessBody))
    out.append("## Events\n")
    out.append("\n".join(events.__doc__.splitlines()[2:]) + "\n")
    out.append("## Statuses of errors\n")
    out.append("The body is `{error: {code, message, hint}}`.\n")
    rows = [(status, f"`{kind.code}`", first_line(kind)) for kind, status in STATUSES]
    rows += [
        (413, "`bad_input`", "The request is too large."),
        (500, "`internal`", "A fault of ours."),
    ]
    out.append(table(("Status", "Code", "Meaning"), sorted(rows, key=lambda row: row[:2])))
    out.append("## Tools of the Model Context Protocol\n")
    revisions = ", ".join(REVISIONS)
    out.append(f"Revisions {revisions}. Arguments are those of the paths above.\n")
    tools = ((f"`{tool.name}`", tool.title, required(tool.body)) for tool in TOOLS)
    out.append(table(("Tool", "What it does", "Needs"), tools))
    return "\n".join(out)


def fields_of(body: type[Any]) -> tuple[Any, ...]:
    """Give the fields of a request."""
    return msgspec.structs.fields(body)


def required(body: type[Any]) -> str:
    """Give the fields that a request must have."""
    needed = (f for f in fields_of(body) if f.required)
    return ", ".join(f"`{field.name}`" for field in needed)


def body_field(field: Any) -> tuple[str, str, str, str]:
    """Give the row of a field of a request; its meaning stands in its type."""
    kind, meta = typing.get_args(field.type)[:2]
    default = "required" if field.required else f"`{shown_default(field)}`"
    return f"`{field.name}`", f"`{shown_type(kind)}`", default, meta.description


PAGES: dict[str, Callable[[], str]] = {
    "cli.md": commands,
    "settings.md": settings,
    "messages.md": messages,
    "processors.md": processors,
    "errors.md": errors,
    "metrics.md": metrics,
    "http.md": http,
}


def pages() -> dict[str, str]:
    """Give the text of every page by the name of its file."""
    return {name: NOTE + write().rstrip() + "\n" for name, write in PAGES.items()}


if __name__ == "__main__":
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (TARGET / name).write_text(text, encoding="utf-8")
