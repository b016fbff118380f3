"""Measure the reading of PDFs with tables: pages a second of the processor, beside pdfplumber and pdfminer.

    python -m benchmarks.bench_pdf [--pages 100] [--rounds 3] [--home FOLDER] [--json]

A file has pages of two columns of text, of a table with lines and of one without, in turn. Whence returns text
with tables, pdfplumber the text and the tables of each page, pdfminer the text alone. The last two are of the
environment of `benchmarks.fidelity`. Each run has a process of its own; imports are not counted; rounds
alternate, and the best of each counts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.pdf_canvas import Canvas, canvas_pdf

from benchmarks.fidelity.files import environment

_TIMED = """
import sys, time
from pathlib import Path
{imports}
path = sys.argv[1]
started = time.process_time()
{work}
print(time.process_time() - started)
"""
WORK = {
    "whence": (
        """import pypdfium2
from whence.ingest.loaders.pdf import load_pdf
from whence.ingest.sources import SourceFile""",
        "load_pdf(SourceFile(path=path, document_id='a', suffix='.pdf'), Path(path).read_bytes())",
    ),
    "pdfplumber": (
        "import pdfplumber",
        "for page in pdfplumber.open(path).pages: page.extract_text(), page.extract_tables()",
    ),
    "pdfminer": ("from pdfminer.high_level import extract_text", "extract_text(path)"),
}
_TEXT = "ship harbour book table river stone winter letter paper garden market bridge engine"
_WORDS = _TEXT.split()


def columns(random_: random.Random) -> Canvas:
    """Return a page of two columns."""
    page = Canvas()
    for x in (60, 320):
        page.lines(x, 740, [" ".join(random_.choices(_WORDS, k=7)) for _ in range(52)], size=9)
    return page


def table(random_: random.Random, *, ruled: bool) -> Canvas:
    """Return a page with a paragraph and a table of thirty rows and five columns."""
    page = Canvas()
    page.lines(60, 750, [" ".join(random_.choices(_WORDS, k=14)) for _ in range(6)], size=9)
    for at in range(31):
        y = 660 - 18 * at
        page.text(62, y, " ".join(random_.choices(_WORDS, k=2)) if at else "Item", size=9)
        for column in range(4):
            value = f"{random_.randrange(100, 99_999):,}" if at else str(2021 + column)
            page.text(270 + 85 * column, y, value, size=9, align="right")
        if ruled:
            page.line(60, y - 5, 530, y - 5)
    if ruled:
        for x in (60, 190, 275, 360, 445, 530):
            page.line(x, 115, x, 673)
        page.line(60, 673, 530, 673)
    return page


def make(pages: int) -> bytes:
    """Return a file of so many pages."""
    random_ = random.Random(5)
    kinds = (columns, lambda one: table(one, ruled=True), lambda one: table(one, ruled=False))
    return canvas_pdf([kinds[at % 3](random_) for at in range(pages)])


def seconds(name: str, python: Path, path: Path) -> float:
    """Return the time of the processor that one reader takes for a file."""
    imports, work = WORK[name]
    command = [str(python), "-c", _TIMED.format(imports=imports, work=work), str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--home", type=Path, default=cache / "whence-fidelity")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    peers = environment(options.home.resolve())
    best = dict.fromkeys(WORK, float("inf"))
    with tempfile.NamedTemporaryFile(suffix=".pdf") as file:
        file.write(make(options.pages))
        file.flush()
        for _ in range(options.rounds):
            for name in WORK:
                python = Path(sys.executable) if name == "whence" else peers
                best[name] = min(best[name], seconds(name, python, Path(file.name)))
    rates = {name: options.pages / taken for name, taken in best.items()}
    if options.json:
        print(json.dumps({name: round(rate, 1) for name, rate in rates.items()}))
        return 0
    for name, rate in rates.items():
        print(f"{name:12} {rate:7.1f} pages a second of the processor   whence {rates['whence'] / rate:5.2f}x")  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
