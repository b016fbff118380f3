"""Take each rule that chooses an answer out in turn, and print what it gains and costs.

    python -m benchmarks.rules --home FOLDER --sets NAME... [--json]

The questions of documentation sets (`python -m benchmarks.answers --home FOLDER` has indexed them) go through
the pipeline once; what the writer was given is kept, and so is what the reader read. Then the answer is chosen
again without one rule at a time: a constant of `whence.quoting.evidence_choice` that is set to what changes
nothing. A row has the questions that the rule wins and loses, those of the half for choosing apart from those
of the half for judging, and the probability of so uneven a result by chance (sign test, two-sided).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.answerability import Requests
from benchmarks.answers.questions import Question, read_questions
from whence.flow.settings import Settings
from whence.models.factory import ModelSettings, make_embedder
from whence.models.late_interaction import SpanReader
from whence.models.protocols import Reading, WriteRequest
from whence.quoting import evidence_choice
from whence.quoting.evidence_choice import choose_evidence
from whence.surfaces.python.engine import Engine

#: Rules by what they add; each is a constant and the value that takes it out.
RULES: dict[str, tuple[str, Any]] = {
    "cosine of unit and question": ("_COSINE", 0.0),
    "share of the question's words": ("_WORDS", 0.0),
    "nearness of the passage's best unit": ("_PASSAGE", 0.0),
    "unit defines a name of the question": ("_DEFINED", 0.0),
    "notes of a release": ("_NEWS", 0.0),
    "repeats the question": ("_ECHO", 0.0),
    "depth in the passage": ("_DEPTH", 0.0),
    "kind of unit": ("_KINDS", {}),
    "row that is asked for": ("_ROW", 0.0),
    "cell that is named": ("_CELL", 0.0),
    "older editions": ("_OUTDATED", 1.0),
    "section about another identifier": ("_OTHER_SECTION", 1.0),
    "words above a unit": ("_CONTEXT_WEIGHT", 0.0),
}


class KeptReader:
    """A reader that reads each question and text once."""

    def __init__(self, reader: SpanReader) -> None:
        self._reader = reader
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...]], Reading] = {}

    @property
    def by_sentence(self) -> bool:
        """See `SpanReading.by_sentence`."""
        return self._reader.by_sentence

    def serving(self, language: str, text: str) -> KeptReader | None:
        """See `SpanReading.serving`."""
        return self if self._reader.serving(language, text) else None

    async def read(self, questions: Sequence[str], texts: Sequence[str]) -> Reading:
        """See `SpanReading.read`."""
        key = (tuple(questions), tuple(texts))
        if key not in self._known:
            self._known[key] = await self._reader.read(questions, texts)
        return self._known[key]


class Asked(NamedTuple):
    """A question and what the writer was given."""

    question: Question
    request: WriteRequest


async def collected(names: Sequence[str], home: Path) -> list[Asked]:
    """Ask the questions of some sets; leave out those that are refused before the writer."""
    found, writer = [], Requests()
    async with Engine(home=home / "whence", writer=writer) as engine:
        for one in read_questions(names):
            writer.last = None
            await engine.ask(one.question, collection=one.set)
            if writer.last is not None:
                found.append(Asked(one, writer.last))
    return found


async def outcomes(asked: Sequence[Asked], reader: KeptReader) -> list[bool]:
    """Return for each question whether its answer has the fact, or, without one, whether it is refused."""
    right = []
    for one in asked:
        choice = await choose_evidence(one.request, None, reader)
        text = "\n".join(span.text for span in choice.spans) if choice else ""
        right.append(one.question.holds(text) if one.question.answerable else not text)
    return right


@contextmanager
def without(rule: str) -> Iterator[None]:
    """Take a rule out."""
    name, neutral = RULES[rule]
    kept = getattr(evidence_choice, name)
    setattr(evidence_choice, name, neutral)
    try:
        yield
    finally:
        setattr(evidence_choice, name, kept)


def chance(wins: int, losses: int) -> float:
    """Return the probability that as uneven a count comes from a fair coin: the two-sided sign test."""
    n, k = wins + losses, min(wins, losses)
    return min(1.0, 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2**n)


async def tried(options: argparse.Namespace) -> dict[str, Any]:
    """Return what each rule wins and loses."""
    asked = await collected(options.sets, options.home)
    settings = msgspec.convert(Settings.load(), ModelSettings, from_attributes=True)
    embedder = make_embedder("local", settings)
    reader = KeptReader(SpanReader(embedder))
    whole = await outcomes(asked, reader)
    rows: dict[str, Any] = {}
    for rule in RULES:
        with without(rule):
            less = await outcomes(asked, reader)
        row: dict[str, Any] = {}
        for split in ("choose", "judge"):
            pairs = [
                (a, b)
                for one, a, b in zip(asked, whole, less, strict=True)
                if one.question.split == split
            ]
            wins, losses = pairs.count((True, False)), pairs.count((False, True))
            row[split] = {"wins": wins, "losses": losses, "chance": chance(wins, losses)}
        rows[rule] = row
    await embedder.aclose()
    return {"questions": len(asked), "right": sum(whole), "rules": rows}


def main() -> None:
    """Try and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--home", type=Path, required=True, help="home of benchmarks.answers")
    parser.add_argument("--sets", nargs="+", required=True, help="documentation sets")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    found = asyncio.run(tried(options))
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{found['right']} of {found['questions']} right with all rules\n")
    print("| rule | choose: wins, losses | judge: wins, losses | chance |\n|---|---|---|---|")
    for rule, row in found["rules"].items():
        a, b = row["choose"], row["judge"]
        print(
            f"| {rule} | {a['wins']}, {a['losses']} | {b['wins']}, {b['losses']} | {b['chance']:.2f} |"
        )


if __name__ == "__main__":
    main()
