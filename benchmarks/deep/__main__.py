"""Count for how many questions all passages of an answer reach the writer, in one pass and with `deep`.

    python -m benchmarks.deep [--limits 3 5 10] [--wikihop FOLDER] [--json]

`ours` are 50 questions of two documents each, the second of which shares hardly a word with its question. The
documents have no titles: what has its name as title is found in one pass, by the links between passages. The
model is scripted: it names what the first document names, once it has read it, and asks for nothing else.
`--wikihop` takes the collection in BEIR's layout, its first 1,500 documents and the first 30 questions whose
passages are among them; the model names the title of a passage that is missing, which is the most that one can
gain. Calls and characters are those of a question, beyond those of one pass.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from whence.models.protocols import WritePiece, WriteRequest
from whence.schema.prompt import PromptResult
from whence.surfaces.python.engine import Engine

_QUESTIONS = Path(__file__).with_name("questions.json")
_DOCUMENTS, _ASKED = 1500, 30
#: Characters of a passage by which it is found in a prompt.
_BEGINNING = 60


class Needed(NamedTuple):
    """A passage that an answer needs."""

    title: str
    text: str

    def is_in(self, documents: Iterable[str]) -> bool:
        """Return whether one of the documents has it."""
        return any(self.text[:_BEGINNING] in one for one in documents)


class Case(NamedTuple):
    """A question and the passages that its answer needs."""

    question: str
    needed: tuple[Needed, ...]
    in_order: bool
    """Whether each passage is named by the one before it, and not by the question."""


class Row(NamedTuple):
    """What was counted for a number of passages."""

    name: str
    doc_limit: int
    questions: int
    one_pass: float
    """Share of the questions whose passages all reach the writer."""
    deep: float
    calls: float
    """Further calls of the model for a question."""
    characters: float
    """Further characters of prompts for a question."""


class ScriptedModel:
    """Names passages of the case that are missing, and records what it was given to answer from."""

    model = "scripted"
    is_language_model = True
    is_remote = False

    def __init__(self) -> None:
        self.case = Case("", (), False)
        self.given: tuple[str, ...] = ()
        self.calls = self.characters = 0

    async def write(self, request: WriteRequest) -> AsyncIterator[WritePiece]:
        """Yield the reply to a prompt."""
        self.calls += 1
        self.characters += len(request.prompt) + len(request.system)
        if request.template_id == "search-again":
            said = self._missing(request.documents)
        else:
            self.given, said = request.documents, "It is so [1]."
        yield WritePiece(text=said)
        yield WritePiece(result=PromptResult(text=said, model=self.model, language_model=True))

    def _missing(self, documents: Sequence[str]) -> str:
        missing = [one for one in self.case.needed if not one.is_in(documents)]
        if self.case.in_order and missing and missing[0] is not self.case.needed[0]:
            missing = missing[:1]
        elif self.case.in_order:
            # The question names the first alone.
            missing = [one for one in missing if one is self.case.needed[0]]
        return "\n".join(f"SEARCH: {one.title} | what it says" for one in missing) or "ANSWER"

    async def aclose(self) -> None:
        """Free nothing."""


def our_cases() -> tuple[list[Needed], list[Case]]:
    """Return our documents and questions."""
    rows = json.loads(_QUESTIONS.read_text("utf-8"))
    cases = [Case(row[0], (Needed(*row[1:3]), Needed(*row[3:5])), True) for row in rows]
    return [one for case in cases for one in case.needed], cases


def wikihop_cases(folder: Path) -> tuple[list[Needed], list[Case]]:
    """Return the first documents of the collection, and questions whose passages are among them."""
    lines = (folder / "corpus.jsonl").read_text("utf-8").splitlines()[:_DOCUMENTS]
    records = {one["_id"]: Needed(one["title"], one["text"]) for one in map(json.loads, lines)}
    lines = (folder / "queries.jsonl").read_text("utf-8").splitlines()
    asked = {one["_id"]: one["text"] for one in map(json.loads, lines)}
    relevant: dict[str, list[str]] = {}
    with (folder / "qrels" / "test.tsv").open(encoding="utf-8") as table:
        for row in csv.DictReader(table, delimiter="\t"):
            relevant.setdefault(row["query-id"], []).append(row["corpus-id"])
    cases = [
        Case(asked[query], tuple(records[one] for one in ids), False)
        for query, ids in relevant.items()
        if all(one in records for one in ids)
    ]
    return [*records.values()], cases[:_ASKED]


async def measure(
    name: str,
    documents: Sequence[Needed],
    cases: Sequence[Case],
    limits: Sequence[int],
    *,
    titled: bool,
) -> list[Row]:
    """Index the documents, with titles or not; ask every question for each limit, in one pass and deep."""
    model = ScriptedModel()
    with tempfile.TemporaryDirectory() as folder:
        home, place = Path(folder), Path(folder) / "documents.jsonl"
        records = [
            {"_id": f"d{number}", "title": one.title if titled else "", "text": one.text}
            for number, one in enumerate(documents)
        ]
        place.write_text("".join(f"{json.dumps(one)}\n" for one in records), encoding="utf-8")
        async with Engine(home / "home", writer=model) as engine:
            await engine.index([place])
            return [await _row(engine, model, name, cases, limit) for limit in limits]


async def _row(
    engine: Engine, model: ScriptedModel, name: str, cases: Sequence[Case], limit: int
) -> Row:
    whole = {False: 0, True: 0}
    calls, characters = {False: 0, True: 0}, {False: 0, True: 0}
    for case in cases:
        for deep in (False, True):
            model.case, model.given = case, ()
            model.calls = model.characters = 0
            await engine.ask(case.question, doc_limit=limit, deep=deep)
            whole[deep] += all(one.is_in(model.given) for one in case.needed)
            calls[deep] += model.calls
            characters[deep] += model.characters
    count = len(cases)
    return Row(
        name,
        limit,
        count,
        whole[False] / count,
        whole[True] / count,
        (calls[True] - calls[False]) / count,
        (characters[True] - characters[False]) / count,
    )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limits", nargs="+", type=int, default=[3, 5, 10], metavar="N")
    parser.add_argument("--wikihop", type=Path, metavar="FOLDER", help="the collection, unpacked")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    rows = asyncio.run(measure("ours", *our_cases(), options.limits, titled=False))
    if options.wikihop:
        found = wikihop_cases(options.wikihop)
        rows += asyncio.run(measure("wikihop", *found, options.limits, titled=True))
    if options.json:
        print(json.dumps([one._asdict() for one in rows]))
        return 0
    print("questions       passages  one pass  deep   calls  characters")
    for one in rows:
        print(
            f"{one.name:8} {one.questions:4}   {one.doc_limit:6}    {one.one_pass:6.0%}  {one.deep:4.0%}"
            f"   {one.calls:+5.1f}  {one.characters:+10,.0f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
