"""Fit and judge the measure that tells whether a text answers a question.

    python -m benchmarks.answerability --data FOLDER [--questions N] [--fit READING...]

The folder has question sets in the form of SQuAD, `NAME.LANGUAGE.json`, such as those of XQuAD. Each question
is asked twice: with the passages that a search by words and vectors finds among all of its set, and without the
passage that answers, so that the rest of its page stays. To these come questions about things that tables and
sentences have or lack (`benchmarks.absent_things`), and the questions of everyday texts in 13
languages (`benchmarks/languages/choosing`), asked with and without the document that they are about. Constants
are fitted on every other page or document, where each set counts alike; only figures of those between are
printed, and none of these is read for a choice. `--fit` writes `src/whence/quoting/answerability.json`; other
readings are judged with the weights that are there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pickle
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks import absent_things
from benchmarks.answers.questions import read_questions
from benchmarks.languages.questions import CHOOSING, Language
from whence.flow.settings import Settings
from whence.models.encoders import MULTILINGUAL
from whence.models.factory import ModelSettings, make_embedder
from whence.models.late_interaction import SpanReader
from whence.models.protocols import Reading, WritePiece, WriteRequest
from whence.quoting import answerability
from whence.quoting.answerability import FIELDS, Basis, Features, features
from whence.quoting.evidence_choice import examine
from whence.quoting.evidence_spans import all_spans
from whence.quoting.extractive_writer import ExtractiveWriter
from whence.surfaces.python.engine import Engine
from whence.text.normalization import LANGUAGE_CODES
from whence.text.overlap import inverse_document_frequencies, overlap, words_of

_WEIGHTS = Path(answerability.__file__).with_suffix(".json")
#: Passages that a question is answered from.
_PASSAGES = 8
_LANGUAGE_OF = {code: name for name, code in LANGUAGE_CODES.items()}
#: Codes of languages that are read by the model of English; in other scripts it tells nothing.
_READ = frozenset(("en", "de", "es"))
#: Wrong answers that one needless refusal costs: most questions that people ask have an answer, and whoever
#: reads a wrong one sees its source beside it. Readings that do not know the language are less to be trusted,
#: and beside a refusal stands the nearest passage.
_NEEDLESS, _NEEDLESS_UNKNOWN = 3.0, 1.5
#: Those readings.
_UNKNOWN = frozenset(("letters", "foreign"))
#: Spans of a case that the weights are fitted on: those that share most with the question.
_NEAREST = 8
#: Of the generated texts.
_SEED, _SUBJECTS = 1, 3
#: Strength of the penalty on large weights.
_RIDGE = 1.0


class Case(NamedTuple):
    """One question with its passages, as features of its spans."""

    set: str
    language: str
    page: int
    answerable: bool
    """Whether one of the passages has the answer."""
    spans: dict[Basis, list[Features]]
    holds: dict[Basis, list[bool]]
    """Whether each of these has the answer; readers part a text into different spans."""


def questions(path: Path) -> Iterator[tuple[int, str, str, str, str]]:
    """Yield page, title, passage, question and answer of a set."""
    for page, article in enumerate(json.loads(path.read_text("utf-8"))["data"]):
        title = article.get("title", "").replace("_", " ")
        for paragraph in article["paragraphs"]:
            for one in paragraph["qas"]:
                if one["answers"]:
                    answer = one["answers"][0]["text"]
                    yield page, title, paragraph["context"], one["question"], answer


async def cases(path: Path, readers: Sequence[SpanReader], embedder: Any, most: int) -> list[Case]:
    """Return the cases of a set, spread over all of its pages."""
    rows = list(questions(path))
    passages = list(dict.fromkeys((title, context) for _, title, context, _, _ in rows))
    vectors = await embedder.embed([text for _, text in passages], "document")
    code = path.name.split(".")[-2]
    words = words_of(rows[0][3], [text for _, text in passages[:8]])
    terms = [frozenset(words.of_text(text)) for _, text in passages]
    weights = inverse_document_frequencies(terms)
    found = []
    for page, title, context, question, answer in rows[:: max(1, len(rows) // most)]:
        asked = words.of_question(question)
        near = vectors @ (await embedder.embed([question], "query"))[0]
        scores = [
            0.35 * max(0.0, float(near[i])) + 0.65 * overlap(asked, terms[i], weights, 1.0)
            for i in range(len(passages))
        ]
        ranked = sorted(range(len(passages)), key=lambda i: (-scores[i], i))
        for with_answer in (True, False):
            gold = passages.index((title, context))
            kept = [i for i in ranked if with_answer or i != gold][:_PASSAGES]
            request = WriteRequest(
                template_id="document-prompt",
                query=question,
                documents=tuple(passages[i][1] for i in kept),
                sections=tuple(passages[i][0] for i in kept),
            )
            is_there = gold in kept
            case = await _case(request, readers, _Holds(answer) if is_there else None)
            if case is not None:
                name = path.name.split(".")[0]
                found.append(Case(name, _LANGUAGE_OF[code], page, is_there, *case))
    return found


async def everyday_cases(readers: Sequence[SpanReader]) -> list[Case]:
    """Return the cases of the everyday questions, each with its document among the others and without it."""
    found = []
    for path in sorted(CHOOSING.glob("*.json")):
        language = msgspec.json.decode(path.read_bytes(), type=Language)
        documents = list(language.documents)
        for one in language.questions:
            for left_out in ("", one.document):
                kept = [name for name in documents if name != left_out]
                titles, texts = zip(*map(language.passage, kept), strict=True)
                request = WriteRequest(
                    template_id="document-prompt",
                    query=one.question,
                    documents=texts,
                    sections=titles,
                )
                is_there = one.answerable and not left_out
                case = await _case(request, readers, one.holds if is_there else None)
                if case is not None:
                    page = documents.index(one.document)
                    found.append(Case("everyday", path.stem, page, is_there, *case))
    return found


async def _case(
    request: WriteRequest, readers: Sequence[SpanReader], holds: Callable[[str], bool] | None
) -> tuple[dict[Basis, list[Features]], dict[Basis, list[bool]]] | None:
    words = words_of(request.query, request.documents)
    everything = all_spans(request, words)
    if not everything:
        return None
    bases: dict[Basis, list[Features]] = {}
    answers: dict[Basis, list[bool]] = {}
    for reader in readers:
        found = await examine(request, everything, words, None, reader)
        asked, reading = found.parts[0][1], found.reading
        alone = features(asked, found.spans, None, 0)
        own: dict[Basis, list[Features]] = {"words": alone, "letters": alone}
        if reading is not None:
            embedded = Reading(reading.vectors, reading.cosines)
            own["embedder"] = features(asked, found.spans, embedded, 0)
            own[found.basis] = features(asked, found.spans, reading, 0)
        right = [holds is not None and holds(one.text) for one in found.spans]
        # Words and embedder see what the first reader does.
        bases, answers = own | bases, dict.fromkeys(own, right) | answers
    return bases, answers


async def absent_cases(reader: SpanReader) -> list[Case]:
    """Return the cases of things that generated texts have or lack."""
    found = []
    for one in absent_things.questions(_SEED, _SUBJECTS):
        request = WriteRequest(
            template_id="document-prompt",
            query=one.question,
            documents=one.passages,
            sections=one.sections,
        )
        case = await _case(request, [reader], _Holds(one.answer) if one.answer else None)
        if case is not None:
            found.append(Case("absent", "english", one.domain, bool(one.answer), *case))
    return found


class _Holds(NamedTuple):
    """Whether a text has an answer."""

    answer: str

    def __call__(self, text: str) -> bool:
        return self.answer in text


class Requests(ExtractiveWriter):
    """Keeps what the writer is given."""

    def __init__(self) -> None:
        super().__init__(None)
        self.last: WriteRequest | None = None

    async def write(self, request: WriteRequest) -> AsyncIterator[WritePiece]:
        """See `Writer.write`."""
        if request.template_id == "document-prompt":
            self.last = request
        async for piece in super().write(request):
            yield piece


async def set_cases(names: Sequence[str], home: Path, readers: Sequence[SpanReader]) -> list[Case]:
    """Return the cases of our own questions about documentation, as the pipeline gives them to the writer.

    Each is asked once: documentation says most things in several places, so no passage can be left out of it.
    """
    found = []
    writer = Requests()
    async with Engine(home=home / "whence", writer=writer) as engine:
        for one in read_questions(names):
            writer.last = None
            await engine.ask(one.question, collection=one.set)
            if writer.last is None:
                continue
            case = await _case(writer.last, readers, one.holds if one.answerable else None)
            if case is not None:
                judged = int(one.split == "judge")
                found.append(Case(one.set, "docs", judged, one.answerable, *case))
    return found


def table(some: Sequence[Case], basis: Basis) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a row of features and whether it answers, for the nearest spans of each case."""
    rows, labels = [], []
    for one in some:
        if basis not in one.spans:
            continue
        found = one.spans[basis]
        order = sorted(
            range(len(found)),
            key=lambda i: -(found[i].both + found[i].coverage + found[i].near),
        )
        for place in order[:_NEAREST]:
            rows.append([1.0, *(getattr(found[place], name) for name in FIELDS[basis])])
            labels.append(float(one.holds[basis][place]))
    return np.array(rows), np.array(labels)


def fit(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """Return the weights of a logistic regression with a ridge, by Newton's method."""
    w = np.zeros(x.shape[1])
    ridge = np.full(x.shape[1], _RIDGE)
    ridge[0] = 0
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
        gradient = x.T @ (p - y) + ridge * w
        hessian = (x * (p * (1 - p))[:, None]).T @ x + np.diag(ridge + 1e-9)
        step = np.linalg.solve(hessian, gradient)
        w -= step
        if float(np.abs(step).max()) < 1e-8:
            break
    return w


def best_score(one: Case, basis: Basis, w: NDArray[Any]) -> float:
    """Return the probability of the best span of a case."""
    names = FIELDS[basis]
    rows = [[1.0, *(getattr(f, n) for n in names)] for f in one.spans[basis] if not f.lacks]
    return float((1 / (1 + np.exp(-np.array(rows) @ w))).max()) if rows else 0.0


def area(scores: NDArray[Any], labels: NDArray[Any]) -> float:
    """Return the area under the curve of answerable against unanswerable."""
    good, bad = scores[labels > 0], scores[labels == 0]
    if not len(good) or not len(bad):
        return float("nan")
    above = (good[:, None] > bad[None, :]).mean() + 0.5 * (good[:, None] == bad[None, :]).mean()
    return float(above)


def main() -> None:
    """Read, fit and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with question sets")
    parser.add_argument("--questions", type=int, default=150, help="of each set")
    parser.add_argument(
        "--only", nargs="+", metavar="CODE", help="languages of the sets, ISO 639-1"
    )
    parser.add_argument("--sets", nargs="*", default=[], help="documentation sets, indexed before")
    parser.add_argument("--home", type=Path, help="home of `python -m benchmarks.answers`")
    parser.add_argument("--keep", type=Path, help="file for the features that were read")
    parser.add_argument(
        "--fit", nargs="*", default=[], choices=FIELDS, help="write the weights of these readings"
    )
    options = parser.parse_args()
    some = asyncio.run(_read(options))
    if options.keep:
        options.keep.write_bytes(pickle.dumps(some))
    report(some, options.fit)


async def _read(options: argparse.Namespace) -> list[Case]:
    embedder = make_embedder(
        "local", msgspec.convert(Settings.load(), ModelSettings, from_attributes=True)
    )
    multilingual = make_embedder(MULTILINGUAL.name)
    reader, other = SpanReader(embedder), SpanReader(multilingual)
    found: list[Case] = []
    for path in sorted(options.data.glob("*.*.json")):
        code = path.name.split(".")[-2]
        if options.only and code not in options.only:
            continue
        readers = [one for one, read in ((reader, code in _READ), (other, code != "en")) if read]
        model = embedder if code == "en" else multilingual
        found += await cases(path, readers, model, options.questions)
        print(f"{path.name}: {len(found)} cases", file=sys.stderr)
    found += await absent_cases(reader)
    found += await everyday_cases((reader, other))
    if options.sets:
        found += await set_cases(options.sets, options.home, [reader])
    await embedder.aclose()
    await multilingual.aclose()
    return found


def report(some: Sequence[Case], written: Sequence[str] = ()) -> None:
    """Print the figures of the judged pages, and write the weights of some readings."""
    choose = [one for one in some if one.page % 2 == 0]
    judge = [one for one in some if one.page % 2]
    weights: dict[str, dict[str, float]] = json.loads(_WEIGHTS.read_text("utf-8"))
    for basis in FIELDS:
        names = ("bias", *FIELDS[basis])
        if basis in written:
            w = fitted([one for one in choose if _is_read_by(one, basis)], basis)
            weights[basis] = dict(zip(names, map(float, w.round(4)), strict=True))
        w = np.array([weights[basis][name] for name in names])
        read = [one for one in judge if _is_read_by(one, basis)]
        for language in sorted({one.language for one in read}):
            own = [one for one in read if one.language == language]
            scores, labels = outcomes(own, basis, w)
            if len({*labels.tolist()}) < 2:
                continue
            refused = float((scores[labels == 0] < answerability.FLOOR).mean())
            wrongly = float((scores[labels > 0] < answerability.FLOOR).mean())
            print(
                f"{basis:9} {language:12} area {area(scores, labels):.3f}"
                f"  refused {refused:.2f}  wrongly {wrongly:.2f}  ({len(scores)})"
            )
    if written:
        _WEIGHTS.write_text(json.dumps(weights, indent=1) + "\n", "utf-8")


def outcomes(
    some: Sequence[Case], basis: Basis, w: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the best probability of each case, and whether it has an answer."""
    own = [one for one in some if basis in one.spans]
    scores = [best_score(one, basis, w) for one in own]
    return np.array(scores), np.array([one.answerable for one in own], dtype=float)


def _is_read_by(one: Case, basis: Basis) -> bool:
    """Return whether a reading serves a case; letters do where the default encoder does not."""
    return basis in one.spans and (basis != "letters" or not {"reader", "foreign"} & {*one.spans})


def fitted(some: Sequence[Case], basis: Basis) -> NDArray[Any]:
    """Return the weights of a reading, with the bias that makes its cheapest floor `FLOOR`."""
    sets = [[one for one in some if one.set == name] for name in sorted({one.set for one in some})]
    tables = [table(one, basis) for one in sets]
    x, y = (np.concatenate(parts) for parts in zip(*tables, strict=True))
    w = fit(x, y)
    w[0] -= _logit(cheapest([outcomes(one, basis, w) for one in sets], basis))
    return w


def cheapest(sets: Sequence[tuple[NDArray[Any], NDArray[Any]]], basis: Basis) -> float:
    """Return the floor of the least cost, see `_NEEDLESS`; each set counts alike."""
    floors = np.unique(np.concatenate([scores for scores, _ in sets]))
    needless = _NEEDLESS_UNKNOWN if basis in _UNKNOWN else _NEEDLESS

    def cost(floor: float) -> float:
        wrong = [(scores[labels == 0] >= floor).mean() for scores, labels in sets]
        refused = [(scores[labels > 0] < floor).mean() for scores, labels in sets]
        return float(sum(wrong) + needless * sum(refused))

    return float(min(floors, key=lambda floor: (cost(floor), floor)))


def _logit(p: float) -> float:
    return float(np.log(p / (1 - p)))


if __name__ == "__main__":
    main()
