"""`whence verify`: whether stored traces are as they were recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from whence.operations.owner import Verify
from whence.schema.errors import NotFound
from whence.surfaces.cli.output import console, print_json
from whence.surfaces.cli.session import as_json, run_operation, settings_of

if TYPE_CHECKING:
    from whence.schema.integrity import Integrity


def verify(
    context: typer.Context,
    asked: Verify,
    *,
    public_key: Annotated[
        bool,
        typer.Option(
            "--public-key", help="Print the public keys that sign traces, and check nothing."
        ),
    ] = False,
) -> int:
    """Find traces that were altered, shortened, swapped or removed; exit 1 when there is one."""
    if public_key:
        return _print_keys(context)
    one = asked.answer_id
    report = run_operation(context, asked, reads="traces" if one is None else f"answer {one!r}")
    print_json(report) if as_json(context) else _print(report)
    return 0 if report.ok else 1


def _print_keys(context: typer.Context) -> int:
    from whence.store.chain_key import ChainKey

    folder = settings_of(context).integrity
    keys = ChainKey(folder).trusted
    if not keys:
        raise NotFound(f"there is no key in {folder}", hint="the first question makes one")
    print_json({"public_keys": keys}) if as_json(context) else console().print("\n".join(keys))
    return 0


def _print(report: Integrity) -> None:
    out = console()
    for fault in report.faults:
        out.print(f"{fault.answer_id or 'chain'}: {fault.what}", markup=False, soft_wrap=True)
    for what in report.unchecked:
        out.print(f"not checked: {what}", style="dim", markup=False, soft_wrap=True)
    traces = "1 trace" if report.traces == 1 else f"{report.traces:,} traces"
    found = "as recorded" if report.ok else f"{len(report.faults):,} faults"
    out.print(f"{traces}: {found}", style="green" if report.ok else "bold red")
