"""Take each rule that chooses an answer out in turn, and print what it gains and costs.

    python -m benchmarks.rules --home FOLDER [--sets NAME...] [--languages NAME...] [--reports SEED...]
        [--records N] [--json]

Questions about documentation (`python -m benchmarks.answers --home FOLDER` has indexed the sets), in other
languages (`benchmarks.languages`), about annual reports (`benchmarks.filings`) and about records that differ by
a number or a name (`benchmarks.series`) go through the pipeline once, without a language model. What the writer
was given is kept, and so is what the reader read. Then the answer is chosen again without one rule at a time.
A row has the questions that are lost and won without the rule, for each kind of questions, and the probability
of so uneven a sum by chance (sign test, two-sided). Questions that are refused before the writer are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import filings, series
from benchmarks.answerability import Requests
from benchmarks.answers.questions import read_questions
from benchmarks.languages.__main__ import index as index_language
from benchmarks.languages.questions import names, read_languages
from whence.models.encoders import MINILM, MULTILINGUAL
from whence.models.factory import ModelSettings
from whence.models.late_interaction import SpanReader
from whence.models.library import ModelLibrary
from whence.models.protocols import Reading, WriteRequest
from whence.quoting.evidence_choice import choose_evidence
from whence.surfaces.python.engine import Engine

#: Of the records.
_SEED = 7
_NEVER = re.compile(r"(?!)")


def _gives(value: Any) -> Callable[..., Any]:
    """Return a function of any arguments that returns a value."""
    return lambda *_, **__: value


#: Rules by what they add; each is a module of `whence`, a name in it, and the value that takes the rule out.
RULES: dict[str, tuple[str, str, Any]] = {
    "cosine of unit and question": ("quoting.evidence_choice", "_COSINE", 0.0),
    "share of the question's words": ("quoting.evidence_choice", "_WORDS", 0.0),
    "nearness of the passage's best unit": ("quoting.evidence_choice", "_PASSAGE", 0.0),
    "unit defines a name of the question": ("quoting.evidence_choice", "_DEFINED", 0.0),
    "notes of a release": ("quoting.evidence_choice", "_NEWS", 0.0),
    "repeats the question": ("quoting.evidence_choice", "_ECHO", 0.0),
    "depth in the passage": ("quoting.evidence_choice", "_DEPTH", 0.0),
    "kind of unit": ("quoting.evidence_choice", "_KINDS", {}),
    "row that is asked for": ("quoting.evidence_choice", "_ROW", 0.0),
    "cell that is named": ("quoting.evidence_choice", "_CELL", 0.0),
    "older editions": ("quoting.evidence_choice", "_OUTDATED", 1.0),
    "section about another identifier": ("quoting.evidence_choice", "_OTHER_SECTION", 1.0),
    "words above a unit": ("quoting.evidence_choice", "_CONTEXT_WEIGHT", 0.0),
    "has the kind of thing asked for": ("quoting.evidence_choice", "_HELD", 0.0),
    "lacks the kind of thing asked for": (
        "quoting.evidence_choice",
        "cannot_answer",
        _gives(False),
    ),
    "about another release or code": (
        "quoting.evidence_choice",
        "_names_what_is_asked",
        _gives(True),
    ),
    "names of code that no passage has": ("quoting.evidence_choice", "_absent_symbols", _gives([])),
    "tables of other periods": (
        "quoting.evidence_choice",
        "_possible",
        lambda _query, _words, spans: list(spans),
    ),
    "periods in plain form": (
        "quoting.evidence_choice",
        "_with_plain_periods",
        lambda question: question,
    ),
    "no whole list for one thing": (
        "quoting.evidence_choice",
        "_without_lists",
        lambda spans, *_: spans,
    ),
    "contradicting passages": ("quoting.evidence_choice", "contradicting_spans", _gives(())),
    "one paragraph of a short section": ("quoting.span_picking", "_answering_part", _gives(None)),
    "words beyond the headings, but for ways": ("quoting.answerability", "_TOLD", frozenset()),
    "row of a code": ("quoting.tables", "_CODE", _NEVER),
    "lines with labels": ("quoting.units", "_labelled", lambda *_: iter(())),
    "head of a mail": ("quoting.evidence_spans", "_labels_title", _gives(False)),
    "entries of an index": ("quoting.evidence_spans", "_INDEX", _NEVER),
    "relations of values": ("quoting.identifiers", "_RELATES", _NEVER),
    "relations to a value": ("quoting.identifiers", "_RELATES_TO", _NEVER),
}


class KeptReader:
    """A reader that reads each question and text once."""

    def __init__(self, reader: SpanReader, known: dict[Any, Reading | None] | None = None) -> None:
        self._reader = reader
        self._known: dict[Any, Reading | None] = {} if known is None else known

    @property
    def by_sentence(self) -> bool:
        """See `SpanReading.by_sentence`."""
        return self._reader.by_sentence

    def serving(self, language: str, text: str) -> KeptReader | None:
        """See `SpanReading.serving`."""
        found = self._reader.serving(language, text)
        return KeptReader(found, self._known) if found else None

    async def glance(self, questions: Sequence[str], texts: Sequence[str]) -> Reading | None:
        """See `SpanReading.glance`."""
        return await self._kept("glance", questions, texts)

    async def read(self, questions: Sequence[str], texts: Sequence[str]) -> Reading:
        """See `SpanReading.read`."""
        found = await self._kept("read", questions, texts)
        assert found is not None
        return found

    async def _kept(
        self, method: str, questions: Sequence[str], texts: Sequence[str]
    ) -> Reading | None:
        key = (method, self.by_sentence, tuple(questions), tuple(texts))
        if key not in self._known:
            self._known[key] = await getattr(self._reader, method)(questions, texts)
        return self._known[key]


class Asked(NamedTuple):
    """A question and what the writer was given."""

    kind: str
    request: WriteRequest
    holds: Callable[[str], bool] | None
    """Whether a text has the fact; None where no document has it."""


class Collector:
    """Asks questions, and keeps what the writer is given."""

    def __init__(self) -> None:
        self.found: list[Asked] = []
        self._writer = Requests()

    def engine(self, home: Path) -> Engine:
        """Return an engine over a home with the writer that keeps."""
        return Engine(home=home, writer=self._writer)

    async def ask(
        self,
        engine: Engine,
        kind: str,
        question: str,
        holds: Callable[[str], bool] | None,
        collection: str = "default",
    ) -> None:
        """Ask a question; nothing is kept of one that is refused before the writer."""
        self._writer.last = None
        await engine.ask(question, collection=collection)
        if self._writer.last is not None:
            self.found.append(Asked(kind, self._writer.last, holds))

    async def documentation(self, sets: Sequence[str], home: Path) -> None:
        """Ask about documentation sets that are indexed; each half of their questions is a kind."""
        async with self.engine(home / "whence") as engine:
            for one in read_questions(sets):
                holds = one.holds if one.answerable else None
                kind = f"documentation, {one.split}"
                await self.ask(engine, kind, one.question, holds, one.set)

    async def languages(self, wanted: Sequence[str], place: Path) -> None:
        """Ask in some languages, each in a home of its own below a folder."""
        for name, language in read_languages(wanted).items():
            home = await asyncio.to_thread(index_language, language, place / name)
            async with self.engine(home) as engine:
                for one in language.questions:
                    holds = one.holds if one.answerable else None
                    await self.ask(engine, "languages", one.question, holds)

    async def reports(self, seed: int, place: Path) -> None:
        """Ask about the annual reports of a seed."""
        folder = place / "reports"
        folder.mkdir(parents=True)
        made = [filings.make(number, seed, folder) for number in range(len(filings.LAYOUTS))]
        async with self.engine(place / "whence") as engine:
            await engine.index([folder])
            for one in (each for report in made for each in report.questions):
                await self.ask(engine, "reports", one.text, _has(one.number))

    async def records(self, count: int, place: Path) -> None:
        """Ask about collections of records that differ by a number, a date, a name or a place."""
        async with self.engine(place / "whence") as engine:
            async for collection, one in series.indexed(engine, count, _SEED, place):
                await self.ask(engine, "records", one.question, _has(one.fact), collection)


def _has(fact: str) -> Callable[[str], bool] | None:
    """Return whether a text has a fact; None without a fact."""
    return (lambda text: fact in text) if fact else None


async def outcomes(asked: Sequence[Asked], reader: KeptReader) -> list[bool]:
    """Return for each question whether its answer has the fact, or, without one, whether it is refused."""
    right = []
    for one in asked:
        choice = await choose_evidence(one.request, None, reader)
        text = "\n".join(span.text for span in choice.spans) if choice else ""
        right.append(one.holds(text) if one.holds else not text)
    return right


@contextmanager
def without(rule: str) -> Iterator[None]:
    """Take a rule out."""
    place, name, neutral = RULES[rule]
    module = import_module(f"whence.{place}")
    kept = getattr(module, name)
    setattr(module, name, neutral)
    try:
        yield
    finally:
        setattr(module, name, kept)


def chance(wins: int, losses: int) -> float:
    """Return the probability that as uneven a count comes from a fair coin: the two-sided sign test."""
    n, k = wins + losses, min(wins, losses)
    return min(1.0, 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2**n)


async def collected(options: argparse.Namespace) -> list[Asked]:
    """Ask all questions once."""
    collector = Collector()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        if options.sets:
            await collector.documentation(options.sets, options.home)
        await collector.languages(options.languages, place / "languages")
        for seed in options.reports:
            await collector.reports(seed, place / f"reports-{seed}")
        await collector.records(options.records, place / "records")
    return collector.found


async def tried(asked: Sequence[Asked], reader: KeptReader) -> dict[str, Any]:
    """Return for each rule, and each kind of questions, how many are lost and won without it."""
    whole = await outcomes(asked, reader)
    rows: dict[str, Any] = {}
    for rule in RULES:
        with without(rule):
            less = await outcomes(asked, reader)
        changed = Counter(
            (one.kind, "lost" if a else "won")
            for one, a, b in zip(asked, whole, less, strict=True)
            if a != b
        )
        lost, won = (sum(changed[kind, key] for kind in kinds_of(asked)) for key in ("lost", "won"))
        counts = {kind: (changed[kind, "lost"], changed[kind, "won"]) for kind in kinds_of(asked)}
        rows[rule] = {"lost and won": counts, "chance": chance(lost, won)}
    right = Counter(one.kind for one, is_right in zip(asked, whole, strict=True) if is_right)
    return {
        "questions": Counter(one.kind for one in asked),
        "right": right,
        "rules": rows,
    }


def kinds_of(asked: Sequence[Asked]) -> list[str]:
    """Return the kinds of questions in their order."""
    return list(dict.fromkeys(one.kind for one in asked))


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """Ask, take the rules out in turn, and return what that changed."""
    asked = await collected(options)
    library = ModelLibrary(ModelSettings())
    english, other = library.installed(MINILM.name), library.installed(MULTILINGUAL.name)
    if english is None:
        raise SystemExit(f"{MINILM.name} is not installed; run `whence models install`")
    try:
        return await tried(asked, KeptReader(SpanReader(english, other)))
    finally:
        await library.aclose()


def main() -> None:
    """Try and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--home", type=Path, default=Path(), help="home of benchmarks.answers")
    parser.add_argument("--sets", nargs="*", default=[], help="documentation sets")
    parser.add_argument("--languages", nargs="*", default=[], choices=names(), metavar="LANGUAGE")
    parser.add_argument(
        "--reports", nargs="*", default=[], type=int, metavar="SEED", help="of annual reports"
    )
    parser.add_argument("--records", default=0, type=int, metavar="N", help="collections")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    found = asyncio.run(run(options))
    if options.json:
        print(json.dumps(found, indent=2))
        return
    kinds = list(found["questions"])
    for kind in kinds:
        print(f"{kind}: {found['right'][kind]} of {found['questions'][kind]} right with all rules")
    print(f"\n| rule | {' | '.join(kinds)} | chance |\n{'|---' * (len(kinds) + 2)}|")
    for rule, row in found["rules"].items():
        cells = [", ".join(map(str, row["lost and won"][kind])) for kind in kinds]
        print(f"| {rule} | {' | '.join(cells)} | {row['chance']:.2f} |")


if __name__ == "__main__":
    main()
