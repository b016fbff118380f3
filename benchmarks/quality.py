"""Measure retrieval quality of every search mode on open test collections, and check the conditions.

    python -m benchmarks.quality [FOLDER] [--home FOLDER] [--only NAME...] [--sample N] [--write] [--json]

FOLDER has collections in BEIR's layout, as folders or as `.tar.gz` archives. The index is kept in the
home, so that a second run embeds nothing. `--write` writes table and chart to
`docs/`. The exit code is 1 when a condition is violated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.quality_measures import PROMISES, Measured, broken, measure_all
from benchmarks.quality_pages import chart, table, write_section

ROOT = Path(__file__).resolve().parent.parent
PAGE, CHART = ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "quality.svg"


def cache_folder() -> Path:
    """Return the folder for what is unpacked and indexed, outside of the repository."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "whence-quality"


def collections(folder: Path, cache: Path) -> list[Path]:
    """Return the collections of a folder by name, those in archives unpacked into the cache."""
    for archive in sorted(folder.glob("*.tar.gz")):
        place = cache / "data"
        if not (place / archive.name.removesuffix(".tar.gz")).is_dir():
            place.mkdir(parents=True, exist_ok=True)
            with tarfile.open(archive) as members:
                members.extractall(place, filter="data")
    found = [*folder.glob("*/corpus.jsonl"), *(cache / "data").glob("*/corpus.jsonl")]
    by_name = {path.parent.name: path.parent for path in found}
    return [by_name[name] for name in sorted(by_name)]


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--home", type=Path, default=cache_folder() / "home")
    parser.add_argument("--only", nargs="+", default=[], help="names of collections")
    parser.add_argument(
        "--sample",
        type=int,
        help="queries of each collection that are reranked, all by default; 0 leaves out reranking",
    )
    parser.add_argument("--no-published", action="store_true", help="leave out SciFact in float32")
    parser.add_argument("--write", action="store_true", help="write docs/")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> int:
    """Measure, print, and tell whether all promises are kept."""
    options = arguments()
    folders = collections(options.folder, cache_folder())
    if options.only:
        folders = [one for one in folders if one.name in options.only]
    if not folders:
        sys.exit(f"no collection in {options.folder}")
    options.home.mkdir(parents=True, exist_ok=True)
    measured = asyncio.run(
        measure_all(
            folders,
            options.home,
            sample=options.sample,
            published=not options.no_published,
            tell=_tell,
        )
    )
    faults = broken(measured)
    if options.write and not options.only:
        CHART.write_text(chart(measured), encoding="utf-8")
        write_section(PAGE, table(measured))
    print(json.dumps(_document(measured, faults), indent=2) if options.json else table(measured))
    for fault in faults:
        print(f"broken: {fault}", file=sys.stderr)
    return 1 if faults else 0


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _document(measured: Measured, faults: list[str]) -> dict[str, Any]:
    return {
        "collections": measured.collections,
        "answerable_kept": measured.kept,
        "unanswerable_emptied": measured.emptied,
        "leave_one_out": measured.leave_one_out,
        "rerank_shares": msgspec.to_builtins(measured.rerank_shares),
        "rerank_in_use": msgspec.to_builtins(measured.rerank_in_use),
        "scifact_float32": measured.published,
        "promises": PROMISES,
        "broken": faults,
    }


if __name__ == "__main__":
    sys.exit(main())
