"""`whence dlq`: list, show, replay or drop dead letters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from whence.operations.json_documents import select_fields
from whence.schema.errors import NotFound
from whence.surfaces.cli.output import console, note, one_line, plain_table, print_json
from whence.surfaces.cli.session import as_json, settings_of, start_logging

if TYPE_CHECKING:
    from whence.broker.dead_letters import DeadLetter, DeadLetters

T = TypeVar("T")

_Topic = Annotated[
    str,
    typer.Argument(
        help="Topic of the messages, e.g. embedding.request; by default all topics of the shipped flows.",
        show_default=False,
    ),
]
_Flow = Annotated[
    str, typer.Option(help="Flow file whose topics to use instead of the shipped flows.")
]
_Ids = Annotated[
    list[str] | None,
    typer.Option("--id", metavar="ID", help="Only this message; repeatable."),
]
_Limit = Annotated[int, typer.Option(min=1, help="Maximum messages of a topic.")]


def list_letters(
    context: typer.Context, topic: _Topic = "", flow: _Flow = "", limit: _Limit = 100
) -> int:
    """List dead letters, oldest first."""
    found = _list(context, topic, flow, limit)
    if as_json(context):
        _print_document(found, _facts)
    elif not any(found.values()):
        note("no dead letters")
    else:
        _print_table(found)
    return 0


def show(
    context: typer.Context,
    topic: _Topic = "",
    ids: _Ids = None,
    flow: _Flow = "",
    limit: _Limit = 100,
) -> int:
    """Show dead letters with their headers and bodies."""
    found = _list(context, topic, flow, limit)
    if ids:
        found = {name: [one for one in letters if one.id in ids] for name, letters in found.items()}
        if not any(found.values()):
            raise NotFound(
                f"no dead letter has the id {', '.join(ids)}", hint="see `whence dlq list`"
            )
    if as_json(context):
        _print_document(found, _details)
        return 0
    out = console()
    for name, letters in found.items():
        for letter in letters:
            out.print(f"[bold]{letter.id}[/] {name}", soft_wrap=True)
            for key, value in sorted(letter.headers.items()):
                out.print(f"  {key}: {one_line(value)}", markup=False, soft_wrap=True)
            out.print(one_line(_body(letter)), markup=False, soft_wrap=True)
    return 0


def replay(
    context: typer.Context,
    topic: _Topic = "",
    ids: _Ids = None,
    flow: _Flow = "",
    limit: _Limit = 1000,
) -> int:
    """Send dead letters again under their ids; attempts are counted from zero."""
    return _change(
        context, topic, flow, "replayed", lambda one, name: one.replay(name, ids, limit=limit)
    )


def drop(
    context: typer.Context,
    topic: _Topic = "",
    ids: _Ids = None,
    flow: _Flow = "",
    limit: _Limit = 1000,
) -> int:
    """Delete dead letters."""
    return _change(
        context, topic, flow, "dropped", lambda one, name: one.drop(name, ids, limit=limit)
    )


def _list(context: typer.Context, topic: str, flow: str, limit: int) -> dict[str, list[DeadLetter]]:
    return _for_each_topic(
        context, topic, flow, lambda letters, name: letters.list(name, limit=limit)
    )


def _change(
    context: typer.Context,
    topic: str,
    flow: str,
    verb: str,
    act: Callable[[DeadLetters, str], Awaitable[int]],
) -> int:
    done = _for_each_topic(context, topic, flow, act)
    if as_json(context):
        print_json({"topics": [{"topic": name, verb: count} for name, count in done.items()]})
        return 0
    for name, count in done.items():
        if count:
            note(f"{name}: {count} {verb}")
    if not any(done.values()):
        note(f"nothing {verb}: no matching dead letters")
    return 0


def _for_each_topic(
    context: typer.Context,
    topic: str,
    flow: str,
    act: Callable[[DeadLetters, str], Awaitable[T]],
) -> dict[str, T]:
    import asyncio

    from whence.broker.connect import connect
    from whence.broker.dead_letters import DeadLetters
    from whence.flow.status import has_global_stats, topics_of
    from whence.schema.topics import full_topic

    start_logging()
    settings = settings_of(context)
    names = [full_topic(topic.removesuffix(".dlq"))] if topic else topics_of([flow] if flow else ())

    async def session() -> dict[str, T]:
        transport = await connect(settings.broker)
        try:
            letters = DeadLetters(transport)
            # Reading a topic creates it: empty topics are skipped where the broker counts messages.
            counted = await has_global_stats(transport)
            present = [name for name in names if not counted or await letters.count(name)]
            results = await asyncio.gather(*(act(letters, name) for name in present))
            return dict(zip(present, results, strict=True))
        finally:
            await transport.aclose()

    return asyncio.run(session())


def _print_document(
    found: Mapping[str, list[DeadLetter]], form: Callable[[DeadLetter], dict[str, Any]]
) -> None:
    topics = [{"topic": name, "messages": list(map(form, found[name]))} for name in found]
    print_json({"topics": topics})


def _facts(letter: DeadLetter) -> dict[str, Any]:
    from whence.broker.transport import Headers

    names = ("id", "reason", "exception", "group", "attempts", "first_at", "last_at")
    return select_fields(letter, names) | {
        "type": letter.headers.get(Headers.TYPE, ""),
        "bytes": len(letter.payload),
    }


def _details(letter: DeadLetter) -> dict[str, Any]:
    return {**_facts(letter), "headers": dict(letter.headers), "payload": _body(letter)}


def _body(letter: DeadLetter) -> str:
    return letter.payload.decode("utf-8", "replace")


def _print_table(found: Mapping[str, list[DeadLetter]]) -> None:
    from datetime import UTC, datetime

    table = plain_table("topic", "id", "when (UTC)", "attempts", "reason")
    for name, letters in found.items():
        topic = name.rsplit("/", 1)[-1]
        for one in letters:
            when = datetime.fromtimestamp(one.last_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
            table.add_values(topic, one.id, when, one.attempts, one_line(one.reason))
    console().print(table, markup=False)
