"""`whence index`: index files and folders into a collection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.schema.errors import BadInput
from whence.surfaces.cli.options import OwnTags
from whence.surfaces.cli.output import (
    INTERRUPTED,
    console,
    counted,
    counts_text,
    facts_table,
    fail,
    note,
    note_some,
    plain_table,
    print_json,
    progress_bars,
)
from whence.surfaces.cli.session import as_json, run_with_engine

if TYPE_CHECKING:
    from whence.operations.results import IndexReport

_COUNTS = ("added", "updated", "unchanged", "removed", "skipped", "failed")
_MULTILINGUAL = "multilingual-e5-small"
#: Failures printed as text; JSON lists all.
_MAX_FAILURES = 20


_TokenVectors = Annotated[
    str | None,
    typer.Option(
        metavar="on|off",
        help="Keep token vectors for the local reranker: WHENCE_TOKEN_VECTORS, else on.",
    ),
]


def index(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    *,
    tags: OwnTags,
    boost: Annotated[
        list[str] | None,
        typer.Option(
            "--boost",
            metavar="FIELD=N",
            help="Weight N for words of title, heading or path in the whole collection; repeatable.",
        ),
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove documents that are in no PATH.")
    ] = False,
    token_vectors: _TokenVectors = None,
    no_wait: Annotated[
        bool,
        typer.Option(
            "--no-wait",
            help="Return when words are searchable; the next `index`, or a running `serve`, makes the vectors.",
        ),
    ] = False,
) -> int:
    """Index files and folders; unchanged documents are skipped.

    Words are searchable first, also for other processes, while vectors follow.

    Formats: Markdown, reStructuredText, text, HTML, PDF, Word (.docx), source code (Python, C#, SQL,
    TypeScript, JavaScript, Go, Java, Rust, C, C++) and records (.jsonl). An unreadable file is reported and
    does not stop the others: exit 1. Without documents nothing is indexed: exit 0. --prune keeps what is stored
    of a file that failed, or whose format nothing reads any more.

    For example: whence index wiki/ --acl staff --prune
    """
    from whence.flow.setting_values import is_on

    keep = None if token_vectors is None else is_on("--token-vectors", token_vectors)
    boosts = _boosts(boost)
    done = 0

    def move(count: int, total: int | None) -> None:
        nonlocal done
        done = count
        moved(count, total)

    try:
        with progress_bars("indexing", "vectors") as (moved, embedded):
            report = run_with_engine(
                context,
                lambda engine, settings: engine.index(
                    paths,
                    collection=settings.collection,
                    tags=tags,
                    prune=prune,
                    boosts=boosts,
                    token_vectors=keep,
                    wait=not no_wait,
                    progress=move,
                    on_vectors=embedded,
                ),
            )
    except KeyboardInterrupt:
        message = f"interrupted after {done:,} documents; stored documents are complete and stay"
        hint = "run the same command again: it continues and embeds no document twice"
        return fail("interrupted", message, hint, INTERRUPTED, as_json=as_json(context))
    print_json(report) if as_json(context) else _print_report(report)
    return 1 if report.documents.failed else 0


def _boosts(given: list[str] | None) -> dict[str, int] | None:
    if not given:
        return None
    from whence.store.field_boosts import parse_field_boosts

    found: dict[str, int] = {}
    for one in given:
        field, _, number = one.partition("=")
        if not (number.isascii() and number.isdecimal() and len(number) < 10):
            raise BadInput(f"--boost {one!r} is not FIELD=N", hint="for example --boost title=3")
        found[field] = int(number)
    parse_field_boosts(found)
    return found


def _print_report(report: IndexReport) -> None:
    counts = report.documents
    table = plain_table(*(f">{name}" for name in _COUNTS))
    table.add_values(*(getattr(counts, name) for name in _COUNTS))
    out = console()
    read = sum(report.kinds.values())
    if read or counts.removed or counts.failed:
        out.print(f"collection [bold]{report.collection}[/]", markup=True)
        out.print(table)
    else:
        files = "no file of a format that Whence reads" if counts.skipped else "no files"
        note(f"nothing was indexed: the paths contain {files}")
    time = f"{report.seconds:.1f} s"
    if read and report.seconds >= 1:
        rate = read / report.seconds
        time += f", {rate:,.{1 if rate < 10 else 0}f} documents a second"
    facts = {
        "read": counts_text(report.kinds),
        "skipped": counts_text(report.skipped),
        "chunks": f"{report.chunks:,} written, {report.embedded:,} embedded" if read else "",
        "time": time,
    }
    out.print(facts_table(facts))
    if report.waiting:
        how = report.waiting_reason or "run the same command again, or `whence serve`, to make them"
        note(f"{counted(report.waiting, 'passage')} without vectors, found by words alone: {how}")
    if report.not_served:
        note(
            f"the encoder does not serve the language of {counted(sum(report.not_served.values()), 'document')}"
            f" ({counts_text(report.not_served)}): run `whence models install {_MULTILINGUAL}`, then index into a"
            f" new collection with --embedder {_MULTILINGUAL}"
        )
    note_some("failed", [f"{one.path}: {one.reason}" for one in report.failures], _MAX_FAILURES)
    if report.gone:
        others = f", and {counted(report.elsewhere, 'document')} of other paths"
        note(
            f"not in these paths any more: {counted(report.gone, 'stored document')}; `--prune` removes"
            f" {'it' if report.gone == 1 else 'them'}{others if report.elsewhere else ''}"
        )
    if report.kept_skipped:
        note(
            f"not pruned: {counted(report.kept_skipped, 'document')} of skipped files, whose format nothing here"
            " reads; `whence erase` removes them"
        )
    if report.kept:
        note(
            f"not pruned: {counted(report.kept, 'document')} in no path, because a failed file may contain them;"
            " correct the failures, then run the same command again"
        )
