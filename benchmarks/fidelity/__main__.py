"""Measure how faithfully files are read, beside markitdown and docling, on test files of document libraries.

    python -m benchmarks.fidelity [--home FOLDER] [--only SUFFIX...] [--judge] [--worst N] [--json]

The source packages are fetched by name, and kept in the home with an environment for each other reader. What is
expected of a file is the text that its package has beside it, or what a library of its format reads; the words
of a PDF are those that pypdf and pdfminer.six both see. A file of which they read no words is not taken.

Printed for each format: files, and for each reader the share of the expected words that it kept, of those in
their order, of the cells of tables that stand in a row with the others of theirs, of crossed-out and hidden
words that are gone, and the files that it did not read in time. Two thirds of the files, by the hash of their
name, are for choosing; `--judge` reads the others, and then no file is named.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.fidelity.files import DOCLING, Sample, environment, samples
from benchmarks.fidelity.measures import compare

LIMIT_S = 30
MEASURES = ("words", "order", "cells", "hidden")
READERS = ("whence", "markitdown", "docling")
_SCRIPT = Path(__file__).with_name("reading.py")


class Reader:
    """A process that reads files, started again after a file that took too long."""

    def __init__(self, python: Path, name: str) -> None:
        self._command = [str(python), str(_SCRIPT), name]
        self._process: subprocess.Popen[str] | None = None

    def read(self, path: Path) -> dict[str, Any]:
        """Return what the reader makes of a file."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        print(path, file=process.stdin, flush=True)
        ready, _, _ = select.select([process.stdout], [], [], LIMIT_S)
        line = process.stdout.readline() if ready else ""
        if not line:
            self.close()
            return {"error": f"took longer than {LIMIT_S} s or ended"}
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def measure(files: list[Sample], home: Path) -> list[dict[str, Any]]:
    """Read all files by all readers; return one record for each file that can be judged."""
    peers = environment(home)
    readers = {name: Reader(peers, name) for name in ("expected", "markitdown")}
    readers["docling"] = Reader(environment(home, DOCLING), "docling")
    readers["whence"] = Reader(Path(sys.executable), "whence")
    results = []
    for file in files:
        expected = readers["expected"].read(file.expected or file.path)
        if not expected.get("words", "").strip():
            continue
        record: dict[str, Any] = {"name": file.name, "format": file.format}
        for name in READERS:
            found = readers[name].read(file.path)
            record[name] = compare(expected, found.get("text", "")) if found else {}
            record[f"{name}_error"] = found.get("error", "")
        results.append(record)
    for reader in readers.values():
        reader.close()
    return results


def summary(results: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return by format and for all the mean share of each measure over the files that have it."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in results:
        groups[record["format"]].append(record)
        groups["all"].append(record)
    return {
        key: {"files": len(own)} | {name: _shares(own, name) for name in READERS}
        for key, own in sorted(groups.items(), key=lambda each: (each[0] == "all", each[0]))
    }


def _shares(records: list[dict[str, Any]], reader: str) -> dict[str, Any]:
    shares: dict[str, Any] = {}
    for measure in MEASURES:
        values = [
            right / of for right, of in (one[reader].get(measure, (0, 0)) for one in records) if of
        ]
        shares[measure] = round(sum(values) / len(values), 4) if values else None
    shares["failed"] = sum(bool(one[f"{reader}_error"]) for one in records)
    return shares


def report(found: dict[str, dict[str, Any]]) -> None:
    """Print a table for people: Whence / markitdown / docling."""
    print(f"{'format':8} {'files':>5}  " + "".join(f"{name:>25}" for name in (*MEASURES, "failed")))
    for key, one in found.items():
        cells = []
        for measure in MEASURES:
            shares = [one[name][measure] for name in READERS]
            cells.append(" / ".join("-" if each is None else f"{each:.1%}" for each in shares))
        cells.append(" / ".join(str(one[name]["failed"]) for name in READERS))
        print(f"{key:8} {one['files']:5}  " + "".join(f"{cell:>25}" for cell in cells))


def worst(results: list[dict[str, Any]], count: int) -> None:
    """Print the files of which we lost most, or in which another reader is better."""
    losses = []
    for record in results:
        for measure in MEASURES:
            (right, of), *others = (record[name].get(measure, (0, 0)) for name in READERS)
            if right < of:
                best = max(other for other, _ in others)
                losses.append((max(0, best - right) / of, (of - right) / of, measure, record))
    for behind, lost, measure, record in sorted(losses, key=lambda each: each[:2], reverse=True)[:count]:  # fmt: skip
        print(f"{measure:7} lost {lost:6.1%}  behind {behind:6.1%}  {record['name']}  {record['whence_error']}")  # fmt: skip


def main() -> int:
    """Fetch, read, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("--home", type=Path, default=cache / "whence-fidelity", help="folder that is kept")  # fmt: skip
    parser.add_argument("--only", nargs="+", default=[], metavar="SUFFIX", help="such as .docx")
    parser.add_argument("--judge", action="store_true", help="the third that is kept for judging")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="name the worst files")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.judge and options.worst:
        parser.error("--worst names files for choosing only")
    files = [
        file
        for file in samples(options.home.resolve())
        if file.is_for_judging == options.judge
        and (not options.only or file.format in options.only)
    ]
    results = measure(files, options.home.resolve())
    found = summary(results)
    print(json.dumps(found, indent=2)) if options.json else report(found)
    worst(results, options.worst)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
