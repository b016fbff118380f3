"""Ask our questions in fourteen languages, and count which answers hold the fact.

    python -m benchmarks.languages [--home FOLDER] [--embedder NAME] [--only LANGUAGE...] [--verbose] [--json]

The documents of each language are indexed by the installed command into a home of its own. Every question goes
through `Engine.ask` and `Engine.search` with their defaults. Nothing is tuned to these questions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from benchmarks.languages.questions import Language, Question, names, read_languages
from whence.schema import Answer
from whence.surfaces.python.engine import Engine

_COLUMNS = ("right", "wrong", "wrongly refused", "unanswerable refused", "document first")
_MARKER = re.compile(r"\s*\[\d+\]")


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What one question showed."""

    question: str
    kind: str
    answerable: bool
    outcome: Literal["right", "wrong", "refused"]
    """Right: the fact is in the answer and its document is cited. Wrong: answered in another way."""
    first: bool
    """A search for the same words has the document at rank one."""
    score: float
    cited: tuple[str, ...]
    answer: str


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--home", type=Path, help="folder that is kept; a temporary one by default")
    parser.add_argument("--embedder", help="an encoder of `whence models list`")
    parser.add_argument("--only", nargs="+", default=names(), choices=names(), metavar="LANGUAGE")
    parser.add_argument(
        "--verbose", action="store_true", help="print every question, answer and verdict"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser.parse_args()


def index(language: Language, place: Path) -> Path:
    """Write the documents into a folder, index them with the installed command, and return the home.

    Raises:
        SystemExit: The command failed.
    """
    documents, home = place / "documents", place / "whence"
    documents.mkdir(parents=True, exist_ok=True)
    for name, text in language.documents.items():
        (documents / name).write_text(text, encoding="utf-8")
    whence = Path(sys.executable).with_name("whence")
    command: list[str | Path] = [whence, "index", documents, "--prune", "--home", home, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{language.language}: {done.stderr.strip()[-2000:]}")
    return home


async def measure(language: Language, home: Path) -> list[Verdict]:
    """Ask every question once; cost: a search and an answer each."""
    async with Engine(home=home) as engine:
        return [
            judge(
                one,
                await engine.ask(one.question),
                [hit.document_id for hit in await engine.search(one.question, top_k=1)],
            )
            for one in language.questions
        ]


def judge(question: Question, answer: Answer, ranked: Sequence[str]) -> Verdict:
    """Judge an answer; `ranked` has the document ids of the hits of a search, best first."""
    cited = tuple(one.document_id for one in answer.citations)
    text = _MARKER.sub("", answer.text)
    outcome: Literal["right", "wrong", "refused"] = "wrong"
    if not (answer.found and cited):
        outcome = "refused"
    elif question.holds(text) and question.document in cited:
        outcome = "right"
    return Verdict(
        question=question.question,
        kind=question.kind,
        answerable=question.answerable,
        outcome=outcome,
        first=question.document in ranked[:1],
        score=answer.score or 0.0,
        cited=cited,
        answer=text,
    )


def row(verdicts: Sequence[Verdict]) -> list[str]:
    """Return the figures of the columns, each as a count and what it is a count of."""
    asked = [one for one in verdicts if one.answerable]
    other = [one for one in verdicts if not one.answerable]
    counts = [sum(one.outcome == kind for one in asked) for kind in ("right", "wrong", "refused")]
    counts.append(sum(one.outcome == "refused" for one in other))
    counts.append(sum(one.first for one in asked))
    wholes = [len(asked)] * 3 + [len(other), len(asked)]
    return [f"{count}/{whole}" for count, whole in zip(counts, wholes, strict=True)]


def main() -> int:
    """Index, ask, print."""
    options = arguments()
    if options.embedder:
        os.environ["WHENCE_EMBEDDER"] = options.embedder
    found: dict[str, list[Verdict]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name, language in read_languages(options.only).items():
            home = index(language, (options.home or Path(temporary)).resolve() / name)
            found[name] = asyncio.run(measure(language, home))
            for one in found[name] if options.verbose else ():
                mark = "" if one.answerable else " (unanswerable)"
                print(
                    f"== {name} [{one.kind}] {one.question}\n   {one.outcome}{mark}; score {one.score:.2f}; first {one.first}"
                )
                print(f"   cites {', '.join(one.cited) or 'nothing'}\n{one.answer}\n", flush=True)
    rows = {name: row(verdicts) for name, verdicts in found.items()}
    rows["**all**"] = row([one for verdicts in found.values() for one in verdicts])
    if options.json:
        figures = {name: dict(zip(_COLUMNS, one, strict=True)) for name, one in rows.items()}
        document = {"languages": figures, "verdicts": msgspec.to_builtins(found)}
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(f"| language | {' | '.join(_COLUMNS)} |\n{'|---' * (len(_COLUMNS) + 1)}|")
        print("\n".join(f"| {name} | {' | '.join(one)} |" for name, one in rows.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
