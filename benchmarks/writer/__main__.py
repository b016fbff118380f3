"""Ask questions about documentation with real language models, and count what their answers hold.

    python -m benchmarks.writer [--home FOLDER] [--models 0.5b 1.5b] [--windows 2048 4096 8192]
        [--questions N] [--only SET...] [--timeout S] [--verbose] [--json]

The same questions are asked without a model first. Weights (0.5 and 1.1 GB), server and documents are fetched
by package name and kept in the home. A model answers in 10 s to 2 min on two cores: CI does not run this.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path

from benchmarks.answers.questions import Question, read_questions
from benchmarks.answers.sets import OutOfReach, fetch, index, read_sets
from benchmarks.writer.scoring import Written, judge, summary
from benchmarks.writer.serving import serve
from benchmarks.writer.weights import MODELS
from benchmarks.writer.weights import fetch as fetch_weights
from whence.flow.settings import Settings
from whence.schema import Answer
from whence.schema.errors import WhenceError
from whence.surfaces.python.engine import Engine

#: Sets in Markdown and reStructuredText of different projects, each fetched in seconds.
_SETS = ("flask", "starlette", "gunicorn", "pino", "undici", "structlog")
#: Hits among which the texts of cited chunks are.
_HITS = 60


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("--home", type=Path, default=cache / "whence-writer")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--windows", nargs="+", type=int, default=[2048, 4096, 8192])
    parser.add_argument("--questions", type=int, default=100, help="how many, from all sets alike")
    parser.add_argument("--only", nargs="+", default=_SETS, metavar="SET", help="names of sets")
    parser.add_argument("--answerable", action="store_true", help="leave out what has no answer")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for a question")
    parser.add_argument("--verbose", action="store_true", help="print every answer and verdict")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser.parse_args()


def prepared(names: Sequence[str], home: Path) -> list[str]:
    """Fetch and index the sets; return the names of those that are there."""
    there = []
    for one in read_sets():
        if one.name in names:
            try:
                index(one, fetch(one, home), home)
            except OutOfReach as reason:
                print(f"{one.name}: left out: {reason}", file=sys.stderr)
                continue
            there.append(one.name)
    return there


def chosen(names: Sequence[str], count: int, *, answerable: bool) -> list[Question]:
    """Return questions of all sets in turn; with `answerable` those that have an answer."""
    turns = zip_longest(*(read_questions([name]) for name in names))
    found = [one for one in chain.from_iterable(turns) if one is not None]
    return [one for one in found if one.answerable or not answerable][:count]


async def measure(
    questions: Sequence[Question], options: argparse.Namespace, writer: dict[str, str]
) -> list[Written]:
    """Ask every question once; `writer` has the settings of a model, none to quote."""
    settings = Settings.load().replace(**writer)
    verdicts = []
    async with Engine(options.home / "whence", settings=settings, warm_up="questions") as engine:
        for question in questions:
            started = time.perf_counter()
            try:
                answer = await engine.ask(
                    question.question, collection=question.set, timeout_s=options.timeout
                )
            except WhenceError as error:
                verdict = Written(
                    id=question.id,
                    answerable=question.answerable,
                    error=error.message,
                    seconds=time.perf_counter() - started,
                )
                _read_aloud(options, question, verdict, None)
                verdicts.append(verdict)
                continue
            seconds = time.perf_counter() - started
            hits = await engine.search(question.question, collection=question.set, top_k=_HITS)
            texts = {one.chunk.id: one.chunk.content for one in hits}
            verdicts.append(judge(question, answer, texts, seconds))
            _read_aloud(options, question, verdicts[-1], answer)
    return verdicts


def _read_aloud(
    options: argparse.Namespace, question: Question, verdict: Written, answer: Answer | None
) -> None:
    if not options.verbose:
        return
    found = [name for name in ("refused", "fact", "right_document") if getattr(verdict, name)]
    print(
        f"== {question.id} {question.question}\n   {found} {verdict.seconds:.1f} s {verdict.error}"
    )
    if not question.answerable:
        print("   UNANSWERABLE")
    if answer is not None:
        for start, end in answer.unsupported:
            print(f"   MARKED {answer.text[start:end]!r}")
        for sentence in verdict.false_numbers:
            print(f"   FALSE NUMBER {sentence!r}")
        added = [one.marker for one in answer.citations if one.added]
        cited = [f"[{one.marker}] {one.document_id}" for one in answer.citations]
        print(f"   {answer.in_token} + {answer.out_token} tokens; {cited}; added {added}")
        print(f"{answer.text}\n", flush=True)


def main() -> int:
    """Fetch, serve, ask, print."""
    options = arguments()
    options.home.mkdir(parents=True, exist_ok=True)
    there = prepared(options.only, options.home)
    if not there:
        sys.exit("no set can be fetched")
    questions = chosen(there, options.questions, answerable=options.answerable)
    rows = {"no model": summary(asyncio.run(measure(questions, options, {})))}
    for name in options.models:
        weights = fetch_weights(name, options.home)
        for window in options.windows:
            with serve(weights, window, options.home) as url:
                writer = {"writer": f"openai:{name}", "writer_url": url, "writer_api_key": "none"}
                found = asyncio.run(measure(questions, options, writer))
            rows[f"{name}, {window} tokens"] = summary(found)
    if options.json:
        print(json.dumps(rows, indent=2))
        return 0
    columns = list(rows["no model"])
    print(f"| writer | {' | '.join(columns)} |\n{'|---' * (len(columns) + 1)}|")
    for name, figures in rows.items():
        print(f"| {name} | {' | '.join(str(figures[one]) for one in columns)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
