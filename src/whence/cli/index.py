"""`whence index`: put documents into a collection, again and again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.output import console, fail, note, one_line, plain_table, print_json, progress
from whence.cli.session import as_json, run_with_engine
from whence.schema.access import DocumentTags
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from whence.engine.results import IndexReport

__all__ = ("index",)

_COUNTS = ("added", "updated", "unchanged", "removed", "skipped", "failed")
#: Failures named on a terminal; a folder of a thousand broken files would push all else away.
_FAILURES_SHOWN = 20


def index(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(help="Files and folders.", show_default=False)],
    acl: Annotated[
        list[str] | None,
        typer.Option("--acl", metavar="TAG", help="Readers need one of these tags."),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="L", help="Readers need all of these labels."),
    ] = None,
    clearance: Annotated[int, typer.Option(help="Readers need at least this level.")] = 0,
    boost: Annotated[
        list[str] | None,
        typer.Option(
            "--boost",
            metavar="FIELD=N",
            help="Words of title, heading or path count N times, in all of the collection; repeat for more.",
        ),
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove documents that are no longer in PATHS.")
    ] = False,
) -> int:
    """Index files and folders; what has not changed costs nothing.

    Read are Markdown, reStructuredText, text, HTML, PDF, Word (.docx), source code (Python, C#, SQL,
    TypeScript, JavaScript, Go, Java, Rust, C, C++) and records (.jsonl); what cannot be read fails alone.

    For example: whence index wiki/ --acl staff --prune
    """
    boosts = _boosts(boost)
    tags = DocumentTags(tuple(acl or ()), tuple(label or ()), clearance)
    done = 0

    def move(count: int, total: int | None) -> None:
        nonlocal done
        done = count
        moved(count, total)

    try:
        with progress("indexing") as moved:
            report = run_with_engine(
                context,
                lambda engine, settings: engine.index(
                    paths,
                    collection=settings.collection,
                    tags=tags,
                    prune=prune,
                    boosts=boosts,
                    progress=move,
                ),
            )
    except KeyboardInterrupt:
        message = f"interrupted after {done:,} documents; those that were stored stay, whole"
        hint = "run the same command again: it goes on from there and embeds nothing twice"
        return fail("interrupted", message, hint, 130, as_json=as_json(context))
    print_json(report) if as_json(context) else _tell(report)
    return 1 if report.documents.failed else 0


def _boosts(given: list[str] | None) -> dict[str, int] | None:
    """Read options; None when there are none.

    Raises:
        BadInput: One is no field and number, or out of range.
    """
    if not given:
        return None
    from whence.store.field_boosts import parse_field_boosts

    found: dict[str, int] = {}
    for one in given:
        field, _, number = one.partition("=")
        if not (number.isascii() and number.isdecimal() and len(number) < 10):
            raise BadInput(f"--boost {one!r} is no field and number", hint="write --boost title=3")
        found[field] = int(number)
    parse_field_boosts(found)
    return found


def _tell(report: IndexReport) -> None:
    from rich.table import Table

    counts = report.documents
    table = plain_table(*(f">{name}" for name in _COUNTS))
    table.add_row(*(f"{getattr(counts, name):,}" for name in _COUNTS))
    out = console()
    out.print(f"collection [bold]{report.collection}[/]", markup=True)
    out.print(table)
    facts = Table.grid(padding=(0, 2, 0, 0))
    for name, value in (
        ("read", _listed(report.kinds)),
        ("skipped", _listed(report.skipped)),
        ("chunks", f"{report.chunks:,} written, {report.embedded:,} embedded"),
        ("time", _time(report)),
    ):
        if value:
            facts.add_row(name, value)
    out.print(facts)
    for failure in report.failures[:_FAILURES_SHOWN]:
        note(f"failed: {one_line(failure.path)}: {one_line(failure.reason)}")
    if len(report.failures) > _FAILURES_SHOWN:
        note(f"failed: {len(report.failures) - _FAILURES_SHOWN:,} more; --json names all")
    if report.kept:
        note(
            f"not pruned: {report.kept:,} that no path has any more, for what failed may be one of them;"
            " repair that, then run the same command again"
        )


def _listed(parts: dict[str, int]) -> str:
    """Name kinds or reasons with their numbers, the most frequent first."""
    ordered = sorted(parts.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(f"{name} {count:,}" for name, count in ordered)


def _time(report: IndexReport) -> str:
    read = sum(report.kinds.values())
    if report.seconds < 1 or not read:
        return f"{report.seconds:.1f} s"
    rate = read / report.seconds
    return f"{report.seconds:.1f} s, {rate:,.{1 if rate < 10 else 0}f} documents a second"
