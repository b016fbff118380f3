"""The table of commands. A command's module is imported when the command is used.

Importing all modules and building their options takes longer than most commands need to start.

Other packages add commands through the entry-point group `whence.commands`: the name of an entry point is
that of the command, its value a `Command`. A built-in command is found without reading entry points.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.main import get_command, get_group

from whence.surfaces.cli.options import with_common_options

GROUP = "whence.commands"


class Command(NamedTuple):
    """A command, or a group of commands."""

    function: str
    """`module:function`; of a group, that of the bare group, empty for none."""
    panel: str
    """Heading under which `whence --help` lists it."""
    examples: tuple[str, ...]
    """Valid command lines, given the files and ids they name."""
    members: Mapping[str, str] = {}
    """`module:function` by name, of a group."""
    help: str = ""
    """Help of a group without a function."""
    bare: str = ""
    """Member that is meant when a word is the name of none."""
    after: str = ""
    """Command that `whence --help` lists before it; without it the command comes last."""


def _command(function: str, panel: str, *examples: str, **group: Any) -> Command:
    """Return a command whose functions are in modules of this package."""
    one = Command(function and f"{__package__}.{function}", panel, examples, **group)
    members = {name: f"{__package__}.{place}" for name, place in one.members.items()}
    return one._replace(members=members)


#: The built-in commands in the order of `whence --help`.
_BUILT_IN: Mapping[str, Command] = {
    "index": _command(
        "index:index",
        "Documents",
        "whence index docs/",
        "whence index docs/ --prune",
        "whence index share/ --exclude '*.tmp' --rights rights.toml --dry-run",
        "whence index contracts/ --acl legal --clearance 2",
    ),
    "watch": _command(
        "watch:watch",
        "Documents",
        "whence watch docs/",
        "whence watch share/ --rights rights.toml --prune",
    ),
    "search": _command(
        "search:search",
        "Documents",
        'whence search "how many days of leave"',
        'whence search "leave" --mode bm25 --filter lang=en --top-k 20',
        'whence search "process a payment" --snapshot release-1.0 --json',
    ),
    "changes": _command(
        "diff:changes", "Documents", "whence changes", "whence changes --since 2026-11-01"
    ),
    "collections": _command(
        "status:collections",
        "Documents",
        "whence collections",
        "whence collections --rename drafts handbook",
        "whence collections --remove drafts",
    ),
    "reembed": _command(
        "reembed:reembed",
        "Documents",
        "whence reembed --embedder bge-small-en-v1.5",
        "whence reembed --embedder bge-small-en-v1.5 --compare",
        "whence reembed --promote",
        "whence reembed --back",
    ),
    "documents": _command(
        "documents:documents",
        "Documents",
        "whence documents",
        "whence documents --state failed",
        "whence documents --limit 1000 --json",
    ),
    "stale": _command("stale:stale", "Documents", "whence stale", "whence stale --since 7d --json"),
    "show": _command(
        "show:show", "Documents", "whence show people/leave.md", "whence show CHUNK_ID --json"
    ),
    "erase": _command(
        "erase:erase",
        "Documents",
        "whence erase people/salaries.md",
        "whence erase people/salaries.md --dry-run",
        "whence erase people/salaries.md --reask",
        "whence erase a.md b.md --json",
    ),
    "access": _command(
        "",
        "Documents",
        "whence access share/ --rights rights.toml",
        "whence access explain people/salaries.md --acl finance",
        "whence access preview people/salaries.md --acl board",
        "whence access preview --source people --acl staff",
        members={"explain": "access:explain", "preview": "access:preview", "paths": "access:paths"},
        help="Who sees a document or file, and what other tags would change.",
        bare="paths",
    ),
    "ask": _command(
        "ask:ask",
        "Answers",
        'whence ask "How many days of leave do we get?"',
        'whence ask "What did the board decide?" --acl board --stream',
        'whence ask "Who may rent a bike?" --broker pulsar://localhost:6650',
    ),
    "explain": _command(
        "traces:explain",
        "Answers",
        "whence explain ANSWER_ID",
        "whence explain ANSWER_ID --format svg > trace.svg",
        'whence explain ANSWER_ID --sparql "SELECT ?s WHERE { ?s a ?type }"',
    ),
    "why-not": _command(
        "traces:why_not", "Answers", "whence why-not people/leave.md --answer ANSWER_ID"
    ),
    "replay": _command("diff:replay", "Answers", "whence replay ANSWER_ID"),
    "diff": _command("diff:diff", "Answers", "whence diff ANSWER_A ANSWER_B"),
    "verify": _command(
        "verify:verify",
        "Answers",
        "whence verify",
        "whence verify ANSWER_ID --json",
        "whence verify --public-key",
    ),
    "traces": _command(
        "",
        "Answers",
        "whence traces prune --older-than 90d --dry-run",
        members={"prune": "prune:prune"},
        help="Remove old traces.",
    ),
    "run": _command(
        "run:run",
        "Operation",
        "whence run document-rag",
        "whence run document-rag --broker pulsar://localhost:6650 --only search,reranker",
        "whence run my-flow.yaml --check",
    ),
    "serve": _command(
        "serve:serve",
        "Operation",
        "whence serve",
        "whence serve --host 0.0.0.0 --tokens tokens.toml --require-token",
        "whence serve --stdio",
    ),
    "tokens": _command(
        "",
        "Operation",
        "whence tokens new finance-desk --acl finance --clearance 2 --expires 90d",
        "whence tokens list",
        "whence tokens revoke finance-desk",
        members={
            "new": "tokens:new",
            "list": "tokens:list_tokens",
            "revoke": "tokens:revoke",
        },
        help="Tokens of `whence serve`, and their rights.",
    ),
    "status": _command(
        "status:status",
        "Operation",
        "whence status",
        "whence status --broker pulsar://localhost:6650",
    ),
    "config": _command(
        "",
        "Operation",
        "whence config show",
        "whence config set collection handbook",
        "whence config set writer ollama:llama3.2 --here",
        members={"show": "config:show", "set": "config:set_value"},
        help="Show the settings, and write them into whence.toml.",
    ),
    "doctor": _command("doctor:doctor", "Operation", "whence doctor", "whence doctor --json"),
    "demo": _command("demo:demo", "Operation", "whence demo"),
    "help": _command("help_reference:show_page", "Operation", "whence help search"),
    "models": _command(
        "",
        "Operation",
        "whence models list",
        "whence models install",
        "whence models install multilingual-e5-small",
        members={
            "install": "models:install",
            "list": "models:list_models",
            "status": "models:status",
        },
        help="Install the local models and check them.",
    ),
    "dlq": _command(
        "",
        "Operation",
        "whence dlq list",
        "whence dlq replay service.ingest",
        members={
            "list": "dead_letters:list_letters",
            "show": "dead_letters:show",
            "replay": "dead_letters:replay",
            "drop": "dead_letters:drop",
        },
        help="Dead letters: messages that could not be processed.",
    ),
}


class _Table(Mapping[str, Command]):
    """All commands by name, in the order of `whence --help`."""

    def __getitem__(self, name: str) -> Command:
        if name in _BUILT_IN:
            return _BUILT_IN[name]
        from whence.schema.plugins import load_plugin

        found = load_plugin(GROUP, name, what="the command")
        if found is None:
            raise KeyError(name)
        command: Command = found
        return command

    def __iter__(self) -> Iterator[str]:
        from whence.schema.plugins import plugin_names

        added = [name for name in plugin_names(GROUP) if name not in _BUILT_IN]
        followers: dict[str, list[str]] = {}
        for name in added:
            after = self[name].after
            known = after in _BUILT_IN or after in added
            followers.setdefault(after if known else "", []).append(name)

        def listed(names: Iterable[str]) -> Iterator[str]:
            for name in names:
                yield name
                yield from listed(followers.get(name, ()))

        yield from listed((*_BUILT_IN, *followers.get("", ())))

    def __len__(self) -> int:
        return sum(1 for _ in self)


#: Every command, those of other packages included.
COMMANDS: Mapping[str, Command] = _Table()


class _Command(TyperCommand):
    """A command whose help names its arguments as `PATH...`, not as `{PATH...}` with the type beside it."""

    def __init__(self, *names: Any, **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        for one in self.params:
            if isinstance(one, TyperArgument):
                kind: Any = copy(one.type)
                kind.get_metavar = lambda *_, **__: ""
                one.type = kind

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words after the name of the command."""
        pieces = super().collect_usage_pieces(ctx)
        return [piece.replace("{", "").replace("}", "") for piece in pieces]


class LazyGroup(TyperGroup):
    """The program: builds the commands of `COMMANDS` on first use."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()  # type: ignore[assignment] # a read-only mapping is enough


class _Commands(Mapping[str, Any]):
    """Commands by name, each built on first use."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _build(name, COMMANDS[name])
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def _build(name: str, one: Command) -> Any:
    app = typer.Typer(add_completion=False)
    # One example a paragraph, because rich joins lines; brackets are markup.
    examples = (line.replace("[", r"\[") for line in one.examples)
    page: dict[str, Any] = {
        "rich_help_panel": one.panel,
        "epilog": "\n\n".join(("[dim]Examples[/]", *examples)),
    }
    if not one.members:
        _add_command(app, name, one.function, **page)
        return get_command(app)
    group = typer.Typer(no_args_is_help=not one.function, cls=_group_class(one.bare))
    if one.function:
        own = with_common_options(_function(one.function))
        group.callback(invoke_without_command=True, help=_help_of(own))(own)
    else:
        group.info.help = one.help
    for member, place in one.members.items():
        _add_command(group, member, place)
    app.add_typer(group, name=name, **page)
    return get_group(app).commands[name]


def _group_class(bare: str) -> type[TyperGroup]:
    """Return the class of a group that passes words to a member when they begin with no other's name."""

    class Group(TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            if bare and args and args[0] not in self.commands:
                args = [bare, *args]
            return super().resolve_command(ctx, args)

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            # An option may come before the first path.
            if bare and args and args[0].startswith("--") and args[0] != "--help":
                args = [bare, *args]
            return super().parse_args(ctx, args)

    return Group


def _add_command(app: typer.Typer, name: str, place: str, **page: Any) -> None:
    function = with_common_options(_function(place))
    app.command(name, cls=_Command, help=_help_of(function), **page)(function)


def _help_of(function: Callable[..., Any]) -> str:
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(one.split()) for one in paragraphs)


def _function(place: str) -> Callable[..., int | None]:
    module, _, name = place.partition(":")
    function: Callable[..., int | None] = getattr(import_module(module), name)
    return function
