"""`whence index`: index files and folders into a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from msgspec.structs import replace

from whence.operations.index import Index
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
    reasons_text,
    size,
)
from whence.surfaces.cli.session import as_json, run_operation

if TYPE_CHECKING:
    from whence.operations.results import Estimate, IndexReport

_COUNTS = ("added", "updated", "unchanged", "removed", "skipped", "failed")
_MULTILINGUAL = "multilingual-e5-small"
#: Failures printed as text; JSON lists all.
_MAX_FAILURES = 20
#: Files that a dry run prints.
_MAX_FILES = 200


def index(context: typer.Context, asked: Index) -> int:
    """Index files and folders; unchanged documents are skipped.

    Words are searchable first, also for other processes, while vectors follow.

    Formats: Markdown, reStructuredText, HTML, saved pages, e-books, notebooks, PDF, Word, PowerPoint, Excel,
    OpenDocument, RTF, CSV, mail (.eml, .mbox), JSON, YAML, TOML, XML, logs and any other text, source code, and
    records (.jsonl). An unreadable file
    is reported and does not stop the others: exit 1, as for a file that is named and not read. --prune keeps
    what is stored of a file that failed, or whose format nothing reads any more. Patterns of files to leave
    out also stand in .whenceignore, and in a checkout in .gitignore.

    For example: whence index wiki/ --acl staff --prune
    """
    done = 0

    def move(count: int, total: int | None) -> None:
        nonlocal done
        done = count
        moved(count, total)

    try:
        with progress_bars("indexing", "vectors") as (moved, embedded):
            report = run_operation(context, replace(asked, progress=move, on_vectors=embedded))
    except KeyboardInterrupt:
        message = f"interrupted after {done:,} documents; stored documents are complete and stay"
        hint = "run the same command again: it continues and embeds no document twice"
        return fail("interrupted", message, hint, INTERRUPTED, as_json=as_json(context))
    print_json(report) if as_json(context) else _print_report(report)
    return 1 if report.documents.failed or report.not_read else 0


def _print_report(report: IndexReport) -> None:
    if report.estimate is not None:
        _print_estimate(report, report.estimate)
    else:
        _print_counts(report)
    _note_files(report)


def _print_counts(report: IndexReport) -> None:
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
        "skipped": reasons_text(report.skipped),
        "chunks": f"{report.chunks:,} written, {report.embedded:,} embedded" if read else "",
        "time": time,
    }
    out.print(facts_table(facts))
    if report.read_again:
        note(
            f"read again: {counted(report.read_again, 'document')} whose bytes are stored: they have another place,"
            " tags or settings, or another version stored them"
        )
    if report.encoder:
        note(f"the vectors are those of {report.encoder}: {report.encoder_reason}")
    if report.waiting:
        how = report.waiting_reason or "run the same command again, or `whence serve`, to make them"
        note(f"{counted(report.waiting, 'passage')} without vectors, found by words alone: {how}")


def _note_files(report: IndexReport) -> None:
    """Print what needs attention."""
    if report.not_served:
        note(
            f"the encoder does not serve the language of {counted(sum(report.not_served.values()), 'document')}"
            f" ({counts_text(report.not_served)}): run `whence models install {_MULTILINGUAL}`, then"
            f" `whence reembed --embedder {_MULTILINGUAL}`"
        )
    note_some("failed", [f"{one.path}: {one.reason}" for one in report.failures], _MAX_FAILURES)
    for name in report.not_read:
        why = next((one.reason for one in report.files if name.endswith(one.path)), "")
        if why not in {one.reason for one in report.failures}:
            note(f"not read: {name}: {why}")
    if report.gone:
        note(
            f"not in these paths any more: {counted(report.gone, 'stored document')}; `--prune` removes"
            f" {'it' if report.gone == 1 else 'them'}"
        )
    if report.kept_skipped:
        note(
            f"not pruned: {counted(report.kept_skipped, 'document')} of skipped files, whose format nothing here"
            " reads; `whence erase` removes them"
        )
    if report.kept:
        note(
            f"not pruned: {counted(report.kept, 'document')} that a failed file may contain"
            f" ({', '.join(report.kept_by)}); correct the failures, then run the same command again"
        )
    if report.unrooted:
        note(
            f"not pruned: {counted(report.unrooted, 'document')} of an earlier version, whose folder is not known;"
            " `whence erase` removes them"
        )


def _print_estimate(report: IndexReport, estimate: Estimate) -> None:
    """Print what would be done with each file, and what it would take."""
    table = plain_table("file", "would be", "because")
    names = {"read": "read", "unchanged": "left as it is", "skipped": "skipped", "failed": "failed"}
    for one in report.files[:_MAX_FILES]:
        table.add_values(one.path, names.get(one.state, one.state), one.reason)
    out = console()
    out.print(table)
    if len(report.files) > _MAX_FILES:
        note(f"{len(report.files) - _MAX_FILES:,} more files; --json lists all")
    out.print(
        f"nothing was stored; it would take about {estimate.seconds:,.0f} s and {size(estimate.bytes)}"
    )
