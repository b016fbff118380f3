"""Ask our questions about documentation from package indexes, and count which answers hold the fact.

    python -m benchmarks.answers [--home FOLDER] [--only SET...] [--split choose|judge] [--verbose]
        [--calibrate] [--json]

The documents are fetched by package name and version and indexed by the installed command; both are kept in the
home. Every question goes through `Engine.ask` with its defaults, after one that warms the models. Constants are
chosen on the split `choose`; only figures of `judge` are reported. `--calibrate` asks the questions of each set
of the documents of another one, too, and prints for each floor what it would refuse;
`whence.quoting.evidence_choice.FLOOR` was chosen so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.answers.questions import Question, read_questions
from benchmarks.answers.scoring import Verdict, floors, judge, summary
from benchmarks.answers.sets import DocumentSet, OutOfReach, fetch, index, read_sets
from whence.schema import Answer
from whence.surfaces.python.engine import Engine

#: Hits that are looked through for the right document.
_HITS = 10
_COLUMNS = {
    "questions": "questions",
    "fact": "fact in answer",
    "right_document": "right document cited",
    "refused": "unanswerable refused",
    "wrongly_refused": "wrongly refused",
    "markup": "with markup",
    "invented_stops": "invented stops",
    "median_words": "median words",
    "p50_s": "p50 s",
    "first": "document first",
    "among_five": "among five",
}


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument(
        "--home", type=Path, default=cache / "whence-answers", help="folder that is kept"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="SET", help="names of sets")
    parser.add_argument(
        "--split", choices=("choose", "judge"), help="half of the questions; all by default"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="print every question, answer and verdict"
    )
    parser.add_argument(
        "--calibrate", action="store_true", help="print what each floor would refuse"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser.parse_args()


def prepared(options: argparse.Namespace) -> tuple[list[DocumentSet], dict[str, str]]:
    """Fetch and index the sets; return those that are there, and the reasons of the others."""
    there, missing = [], {}
    for one in read_sets():
        if options.only and one.name not in options.only:
            continue
        try:
            documents = fetch(one, options.home)
        except OutOfReach as reason:
            missing[one.name] = str(reason)
            continue
        _tell(f"{one.name}: {index(one, documents, options.home)['documents']}")
        there.append(one)
    return there, missing


async def foreign_scores(
    questions: Sequence[Question], names: Sequence[str], home: Path
) -> list[float]:
    """Ask the answerable questions of each set of the set half-way round; return the scores, warm or not.

    A few have an answer there as well, so that the share that is refused is less than what it should be.
    """
    others = dict(zip(names, [*names[len(names) // 2 :], *names], strict=False))
    async with Engine(home=home) as engine:
        return [
            (await engine.ask(one.question, collection=others[one.set])).score or 0.0
            for one in questions
            if one.answerable and others[one.set] != one.set
        ]


async def measure(questions: list[Question], home: Path, verbose: bool) -> list[Verdict]:
    """Ask every question once, the models warm; cost: a search and an answer each."""
    verdicts = []
    async with Engine(home=home, warm_up="questions") as engine:
        for number, question in enumerate(questions):
            if number == 0:
                await engine.ask(question.question, collection=question.set)
            started = time.perf_counter()
            answer = await engine.ask(question.question, collection=question.set)
            seconds = time.perf_counter() - started
            hits = await engine.search(question.question, collection=question.set, top_k=_HITS)
            stored = {one.chunk.id: one.chunk.content for one in hits}
            verdict = judge(question, answer, [one.document_id for one in hits], seconds, stored)
            verdicts.append(verdict)
            if verbose:
                print(_read_aloud(question, answer, verdict), flush=True)
    return verdicts


def table(groups: dict[str, list[Verdict]]) -> str:
    """Return a Markdown table with one row a set and one of all."""
    lines = ["| set | " + " | ".join(_COLUMNS.values()) + " |", "|---" * (len(_COLUMNS) + 1) + "|"]
    for name, verdicts in groups.items():
        figures = summary(verdicts)
        cells = [
            _cell(figures[key]) if key != "p50_s" else f"{figures[key]:.2f}" for key in _COLUMNS
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """Fetch, index, ask, print."""
    options = arguments()
    options.home.mkdir(parents=True, exist_ok=True)
    there, missing = prepared(options)
    for name, reason in missing.items():
        _tell(f"{name}: left out: {reason}")
    if not there:
        sys.exit("no set can be fetched")
    asked = [
        one
        for one in read_questions(one.name for one in there)
        if options.split in (None, one.split)
    ]
    verdicts = asyncio.run(measure(asked, options.home / "whence", options.verbose))
    foreign = (
        asyncio.run(foreign_scores(asked, [one.name for one in there], options.home / "whence"))
        if options.calibrate
        else []
    )
    names = {one.id: one.set for one in asked}
    groups = {one.name: [v for v in verdicts if names[v.id] == one.name] for one in there}
    groups["**all**"] = verdicts
    if options.json:
        document: dict[str, Any] = {
            "sets": {name: summary(found) for name, found in groups.items()},
            "left_out": missing,
            "split": options.split,
            "floors": floors(verdicts, foreign) if options.calibrate else [],
        }
        print(json.dumps(document, indent=2))
    else:
        print(table(groups))
        if options.calibrate:
            print(
                "\n| floor | unanswerable refused | questions of another set refused | wrongly refused |"
            )
            print("|---|---|---|---|")
            for row in floors(verdicts, foreign):
                floor, *shares = row.values()
                print(f"| {floor:.2f} | " + " | ".join(f"{one:.0%}" for one in shares) + " |")
    return 0


def _read_aloud(question: Question, answer: Answer, verdict: Verdict) -> str:
    if question.answerable:
        marks = [
            "REFUSED" if verdict.refused else ("fact" if verdict.fact else "NO FACT"),
            "document" if verdict.right_document else "OTHER DOCUMENT",
            f"rank {verdict.rank}",
        ]
    else:
        marks = ["refused" if verdict.refused else "ANSWERED"]
    marks += [*verdict.markup, *(["INVENTED STOP"] * bool(verdict.invented_stops))]
    cited = ", ".join(one.document_id for one in answer.citations)
    head = f"== {question.id} [{question.kind}] {question.question}\n   {'; '.join(marks)}; {verdict.seconds:.2f} s"
    return f"{head}\n   cites {cited or 'nothing'}\n{answer.text}\n"


def _cell(value: float) -> str:
    return f"{value:.0%}" if isinstance(value, float) and value <= 1 else f"{value:g}"


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
