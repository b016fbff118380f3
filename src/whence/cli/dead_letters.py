"""`whence dlq`: look at the messages that were given up, send them again, or drop them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.cli.output import console, note, one_line, print_json
from whence.cli.session import as_json, settings_of, start_logging

if TYPE_CHECKING:
    from whence.broker.dead_letters import DeadLetter, DeadLetters

__all__ = ("drop", "list_letters", "replay", "show")

_Topic = Annotated[
    str,
    typer.Argument(
        help="Topic they were sent to, e.g. embedding.request; all of the shipped flows when not given.",
        show_default=False,
    ),
]
_Flow = Annotated[
    str, typer.Option(help="Take the topics of this flow file instead of the shipped ones.")
]
_Ids = Annotated[
    list[str] | None,
    typer.Option("--id", metavar="ID", help="Only this message; repeat for more."),
]
_Limit = Annotated[int, typer.Option(min=1, help="Most messages of a topic.")]


def list_letters(
    context: typer.Context, topic: _Topic = "", flow: _Flow = "", limit: _Limit = 100
) -> int:
    """List what was given up, oldest first; everything stays where it is."""
    found = _look(context, topic, flow, limit)
    if as_json(context):
        print_json(
            {"topics": [{"topic": name, "messages": list(map(_facts, one))} for name, one in found]}
        )
    else:
        _tell(found)
    return 0


def show(
    context: typer.Context,
    topic: _Topic = "",
    ids: _Ids = None,
    flow: _Flow = "",
    limit: _Limit = 100,
) -> int:
    """Show messages that were given up with their headers and bodies."""
    found = _look(context, topic, flow, limit)
    wanted = [
        (name, [one for one in letters if not ids or one.id in ids]) for name, letters in found
    ]
    if ids and not any(letters for _, letters in wanted):
        from whence.schema.errors import NotFound

        raise NotFound(f"no dead letter has the id {', '.join(ids)}", hint="see `whence dlq list`")
    if as_json(context):
        print_json(
            {
                "topics": [
                    {"topic": name, "messages": list(map(_whole, one))} for name, one in wanted
                ]
            }
        )
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
    """Send messages again under their old ids; attempts begin anew."""
    return _take(
        context,
        topic,
        flow,
        "replayed",
        lambda letters, name: letters.replay(name, ids, limit=limit),
    )


def drop(
    context: typer.Context,
    topic: _Topic = "",
    ids: _Ids = None,
    flow: _Flow = "",
    limit: _Limit = 1000,
) -> int:
    """Forget messages that were given up."""
    return _take(
        context, topic, flow, "dropped", lambda letters, name: letters.drop(name, ids, limit=limit)
    )


def _look(
    context: typer.Context, topic: str, flow: str, limit: int
) -> list[tuple[str, list[DeadLetter]]]:
    return _each(context, topic, flow, lambda letters, name: letters.list(name, limit=limit))


def _take(
    context: typer.Context,
    topic: str,
    flow: str,
    verb: str,
    act: Callable[[DeadLetters, str], Awaitable[int]],
) -> int:
    done = _each(context, topic, flow, act)
    if as_json(context):
        print_json({"topics": [{"topic": name, verb: count} for name, count in done]})
        return 0
    for name, count in done:
        if count:
            note(f"{name}: {count} {verb}")
    if not any(count for _, count in done):
        note(f"nothing {verb}: there are no such dead letters")
    return 0


def _each(
    context: typer.Context,
    topic: str,
    flow: str,
    act: Callable[[DeadLetters, str], Awaitable[Any]],
) -> list[tuple[str, Any]]:
    """Do something with the dead letters of every topic asked for, at the same time; none are skipped."""
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
            # Reading a topic makes it; where the broker counts, those without dead letters are left alone.
            counted = await has_global_stats(transport)
            here = [name for name in names if not counted or await letters.count(name)]
            results = await asyncio.gather(*(act(letters, name) for name in here))
            return list(zip(here, results, strict=True))
        finally:
            await transport.aclose()

    return asyncio.run(session())


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


def _whole(letter: DeadLetter) -> dict[str, Any]:
    return {**_facts(letter), "headers": dict(letter.headers), "payload": _body(letter)}


def _body(letter: DeadLetter) -> str:
    return letter.payload.decode("utf-8", "replace")


def _tell(found: list[tuple[str, list[DeadLetter]]]) -> None:
    from datetime import UTC, datetime

    from rich.table import Table

    if not any(letters for _, letters in found):
        note("no dead letters")
        return
    table = Table("topic", "id", "when (UTC)", "attempts", "reason", box=None, header_style="bold")
    for name, letters in found:
        for one in letters:
            when = datetime.fromtimestamp(one.last_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
            table.add_row(
                name.rsplit("/", 1)[-1], one.id, when, str(one.attempts), one_line(one.reason)
            )
    console().print(table, markup=False)
