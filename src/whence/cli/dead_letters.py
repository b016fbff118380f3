"""`whence dlq`: list, show, replay or drop dead letters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from whence.cli.output import console, note, one_line, plain_table, print_json
from whence.cli.session import as_json, settings_of, start_logging

if TYPE_CHECKING:
    from whence.broker.dead_letters import DeadLetter, DeadLetters

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
_Found: TypeAlias = "list[tuple[str, list[DeadLetter]]]"
_Limit = Annotated[int, typer.Option(min=1, help="Maximum messages of a topic.")]


def list_letters(
    context: typer.Context, topic: _Topic = "", flow: _Flow = "", limit: _Limit = 100
) -> int:
    """List dead letters, oldest first."""
    found = _list(context, topic, flow, limit)
    if as_json(context):
        _print_document(found, _facts)
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
    wanted = [
        (name, [one for one in letters if not ids or one.id in ids]) for name, letters in found
    ]
    if ids and not any(letters for _, letters in wanted):
        from whence.schema.errors import NotFound

        raise NotFound(f"no dead letter has the id {', '.join(ids)}", hint="see `whence dlq list`")
    if as_json(context):
        _print_document(wanted, _details)
        return 0
    out = console()
    for name, letters in wanted:
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


def _list(context: typer.Context, topic: str, flow: str, limit: int) -> _Found:
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
        print_json({"topics": [{"topic": name, verb: count} for name, count in done]})
        return 0
    for name, count in done:
        if count:
            note(f"{name}: {count} {verb}")
    if not any(count for _, count in done):
        note(f"nothing {verb}: no matching dead letters")
    return 0


def _for_each_topic(
    context: typer.Context,
    topic: str,
    flow: str,
    act: Callable[[DeadLetters, str], Awaitable[Any]],
) -> list[tuple[str, Any]]:
    import asyncio

    from whence.broker.connect import connect
    from whence.broker.dead_letters import DeadLetters
    from whence.flow.status import has_global_stats, topics_of
    from whence.schema.topics import full_topic

    start_logging()
    settings = settings_of(context)
    names = [full_topic(topic.removesuffix(".dlq"))] if topic else topics_of([flow] if flow else ())

    async def session() -> list[tuple[str, Any]]:
        transport = await connect(settings.broker)
        try:
            letters = DeadLetters(transport)
            # Reading a topic creates it: empty topics are skipped where the broker counts messages.
            counted = await has_global_stats(transport)
            present = [name for name in names if not counted or await letters.count(name)]
            results = await asyncio.gather(*(act(letters, name) for name in present))
            return list(zip(present, results, strict=True))
        finally:
            await transport.aclose()

    return asyncio.run(session())


def _print_document(found: _Found, form: Callable[[DeadLetter], dict[str, Any]]) -> None:
    topics = [
        {"topic": name, "messages": [form(one) for one in letters]} for name, letters in found
    ]
    print_json({"topics": topics})


def _facts(letter: DeadLetter) -> dict[str, Any]:
    from whence.broker.transport import Headers

    return {
        "id": letter.id,
        "type": letter.headers.get(Headers.TYPE, ""),
        "reason": letter.reason,
        "exception": letter.exception,
        "group": letter.group,
        "attempts": letter.attempts,
        "first_at": letter.first_at,
        "last_at": letter.last_at,
        "bytes": len(letter.payload),
    }


def _details(letter: DeadLetter) -> dict[str, Any]:
    return {**_facts(letter), "headers": dict(letter.headers), "payload": _body(letter)}


def _body(letter: DeadLetter) -> str:
    return letter.payload.decode("utf-8", "replace")


def _print_table(found: _Found) -> None:
    from datetime import UTC, datetime

    if not any(letters for _, letters in found):
        note("no dead letters")
        return
    table = plain_table("topic", "id", "when (UTC)", "attempts", "reason")
    for name, letters in found:
        for one in letters:
            when = datetime.fromtimestamp(one.last_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
            table.add_row(
                name.rsplit("/", 1)[-1], one.id, when, str(one.attempts), one_line(one.reason)
            )
    console().print(table, markup=False)
