"""`whence erase`: remove documents, their words in traces, and the bytes that these leave in files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from msgspec.structs import replace

from whence.operations.owner import Erase, PreviewErasure
from whence.surfaces.cli.options import ChosenBy
from whence.surfaces.cli.output import console, note, note_some, plain_table, print_json, progress
from whence.surfaces.cli.session import as_json, run_operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from whence.operations.erasure import AffectedAnswer, Erasure, ErasurePreview
    from whence.store.protocols import Expunged

#: Answers and files printed; JSON lists all.
_MOST = 20
#: What documents of one call have in common.
_SHARED = ("collection", "physical", "asked_again")


def erase(
    context: typer.Context,
    asked: Erase,
    *,
    preview: Annotated[PreviewErasure | None, ChosenBy("--dry-run")] = None,
) -> int:
    """Erase documents: chunks, vectors and postings, their words in answers, and the bytes left in files.

    Traces keep a tombstone. The tables of the embedded database are rewritten, once for all documents, and
    its files are searched for the erased words, which takes as long as copying the home. Exit 1 when words
    were found. On a database of your own the command says what is left to do.
    """
    reads = f"document {asked.document_ids[0]!r}"
    if preview is not None:
        found = run_operation(context, preview, reads=reads)
        print_json(_report(found)) if as_json(context) else _print_preview(found)
        return 0
    with progress("erasing") as moved:
        done = run_operation(context, replace(asked, progress=moved), reads=reads)
    print_json(_report(done)) if as_json(context) else _print_erased(done)
    return 1 if done[0].physical.found else 0


def _report(found: Sequence[Erasure] | Sequence[ErasurePreview]) -> dict[str, Any]:
    """Return one document's report as it is; several in a list, with what they share beside it."""
    reports = [msgspec.structs.asdict(one) for one in found]
    if len(reports) == 1:
        return reports[0]
    shared: dict[str, Any] = {}
    for report in reports:
        shared = {name: report.pop(name) for name in _SHARED if name in report}
    return {**shared, "documents": reports}


def _print_preview(found: Sequence[ErasurePreview]) -> None:
    out = console()
    for one in found:
        out.print(
            f"would erase {one.document_id} from {one.collection}", markup=False, soft_wrap=True
        )
        table = plain_table("stored", ">now")
        for name in one.before.__struct_fields__:
            table.add_values(name.replace("_", " "), getattr(one.before, name))
        out.print(table)
        _print_answers(out, one.answers)


def _print_answers(out: Console, answers: Sequence[AffectedAnswer]) -> None:
    if answers:
        table = plain_table("answer", "text", ">citations", "question")
        for one in answers[:_MOST]:
            falls = "erased" if one.falls else "stays"
            table.add_values(one.answer_id, falls, one.citations, one.question)
        out.print(table)
    if len(answers) > _MOST:
        out.print(f"{len(answers) - _MOST:,} more answers; --json lists all")


def _print_erased(done: Sequence[Erasure]) -> None:
    out = console()
    for one in done:
        table = plain_table("stored", ">before", ">after")
        for name in one.before.__struct_fields__:
            counts = (getattr(side, name) for side in (one.before, one.after))
            table.add_values(name.replace("_", " "), *counts)
        out.print(f"erased {one.document_id} from {one.collection}", markup=False, soft_wrap=True)
        out.print(table)
        _print_answers(out, one.answers)
    for asked in done[0].asked_again:
        new = asked.new_answer_id or f"failed: {asked.error}"
        out.print(f"asked again: {asked.question} -> {new}", markup=False, soft_wrap=True)
    _print_physical(out, done[0].physical)


def _print_physical(out: Console, physical: Expunged) -> None:
    if physical.files_searched:
        words = f"{physical.files_searched:,} files searched for {physical.strings:,} strings"
        out.print(f"{words}: {physical.found or 'none'} found")
    note_some("found", physical.files, _MOST)
    if physical.hint:
        note(f"not gone yet: {physical.hint}")
