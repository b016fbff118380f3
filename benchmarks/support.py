"""Count false claims that the check of support marks, and true sentences that it marks wrongly.

    python -m benchmarks.support [--home FOLDER] [--only SET...] [--claims N] [--seed N] [--verbose]
    python -m benchmarks.support --unmarked [--home FOLDER] [--only SET...] [--claims N] [--seed N]
    python -m benchmarks.support --across [--verbose]

Claims are made by rule from sentences of documentation that no rule or constant of the check was chosen on: one
number, unit, name, negation or quantifier is changed. True ones are sentences as they are, with an opening,
numbers in words, or a clause less.

With `--unmarked` the same claims cite nothing: how many are attributed to their own passage, or to one of the
five others that share most words with them; true ones also where their own passage is left out.

With `--across` the claims of `claims_across.json` are judged, in other languages than their passages: the rules
of `whence.text.names` were chosen on those under `chosen`. Those under `judged` were written before the rules,
those under `later` after them; a few rules were changed after each was read once. Those about letters and codes
were written before their rules; the counts under `letters judged` were seen several times, its sentences never.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.answers.sets import OutOfReach, fetch, read_sets
from whence.text.claims import read_claims
from whence.text.sentences import split_sentences
from whence.text.support import Check, Source

_SETS = ("celery", "pyramid", "twisted", "sqlalchemy", "buildbot", "falcon")
_WORDS = {"2": "two", "3": "three", "4": "four", "5": "five", "10": "ten", "12": "twelve"}
_UNITS = ("seconds", "minutes", "hours", "days", "weeks", "months", "bytes", "percent")
_NUMBER = re.compile(r"(?<![\w.,:/-])\d+(?![\w.,:/-]*\w)")
_VERB = re.compile(
    r"\b(is|are|was|were|can|must|will|may|should|does|do|has been|have been)\b(?! not)"
)
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{3,}\b")
_PASSAGE_CHARS = 1200
#: Passages among which the nearest ones are looked for, and how many of these are given.
_TEXTS, _OTHERS = 600, 5
_ACROSS = Path(__file__).with_name("claims_across.json")


def numbers(sentence: str, _: random.Random) -> str:
    """Change the number."""
    return _NUMBER.sub(lambda found: str(int(found[0]) * 2 + 1), sentence, count=1)


def number_words(sentence: str, _: random.Random) -> str:
    """Change the number and write it in words."""
    return _NUMBER.sub("thirty-seven", sentence, count=1)


def units(sentence: str, chance: random.Random) -> str:
    """Change the unit of the number."""
    found = re.search(rf"(\d+) ({'|'.join(_UNITS)})\b", sentence)
    if not found:
        return sentence
    other = chance.choice([one for one in _UNITS if one != found[2]])
    return sentence.replace(found[0], f"{found[1]} {other}", 1)


def denied(sentence: str, _: random.Random) -> str:
    """Deny what is said, or say what is denied."""
    if re.search(r"\b(?:not|never|cannot|no|n't|without|neither|nor)\b|n't\b", sentence):
        return re.sub(
            r"\b(is|are|can|must|will|may|should|does|do) not\b", r"\1", sentence, count=1
        )
    return _VERB.sub(r"\1 not", sentence, count=1)


def never(sentence: str, _: random.Random) -> str:
    """Say that it never is so."""
    if re.search(r"\b(?:not|never|cannot|no|without|only)\b|n't\b", sentence):
        return sentence
    return _VERB.sub(r"\1 never", sentence, count=1)


def limited(sentence: str, _: random.Random) -> str:
    """Limit it to one kind."""
    if re.search(r"\bonly|\bjust|\balone", sentence, re.IGNORECASE):
        return sentence
    return re.sub(r"\AThe (?=[a-z])", "Only the ", sentence)


def bounded(sentence: str, _: random.Random) -> str:
    """Turn a bound round."""
    for one, other in (("at least", "at most"), ("at most", "at least"), ("up to", "at least"), ("no more than", "at least"),
                       ("more than", "at most"), ("less than", "at least")):  # fmt: skip
        if re.search(rf"\b{one}\b(?= \d)", sentence):
            return sentence.replace(one, other, 1)
    return sentence


def renamed(sentence: str, chance: random.Random) -> str:
    """Name another one."""
    return _NAME.sub(chance.choice(("Norwick", "Marek", "Helsinki")), sentence, count=1)


FALSE = (numbers, number_words, units, denied, never, limited, bounded, renamed)


def opened(sentence: str, chance: random.Random) -> str:
    """Begin as models do."""
    first = (
        sentence[0].lower() if re.match(r"(?:The|A|An|If|This|By|When) ", sentence) else sentence[0]
    )
    return (
        chance.choice(("According to the documentation, ", "In short, ", "Yes: "))
        + first
        + sentence[1:]
    )


def same(sentence: str, _: random.Random) -> str:
    """Leave it as it is."""
    return sentence


def in_words(sentence: str, _: random.Random) -> str:
    """Write its number in words."""
    return _NUMBER.sub(lambda found: _WORDS.get(found[0], found[0]), sentence, count=1)


def shorter(sentence: str, _: random.Random) -> str:
    """Leave out the last clause, when it only adds."""
    return re.sub(r", (?:which|so that|such as|for example) [^,]+\.\Z", ".", sentence)


TRUE = (same, opened, in_words, shorter)


def passages(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield passages of prose with their plain sentences."""
    for file in sorted(folder.rglob("*")):
        if not file.is_file():
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        for start in range(0, len(text), _PASSAGE_CHARS):
            passage = text[start : start + _PASSAGE_CHARS]
            parts = (passage[one.start : one.end] for one in split_sentences(passage))
            plain = [" ".join(one.split()) for one in parts]
            yield (
                passage,
                [
                    one
                    for one in plain
                    if re.fullmatch(r"[A-Z][^`*_|<>{}=\[\]\\^]{30,200}\.", one) and "::" not in one
                ],
            )


def claims(
    kinds: tuple[Callable[[str, random.Random], str], ...],
    found: list[tuple[str, str]],
    count: int,
    chance: random.Random,
) -> list[tuple[str, str, str, str]]:
    """Return kind, claim, sentence and passage; the kinds in turn, as far as sentences allow."""
    made: list[tuple[str, str, str, str]] = []
    for place in range(count):
        kind = kinds[place % len(kinds)]
        for passage, sentence in chance.sample(found, len(found)):
            said = kind(sentence, chance)
            if (said != sentence or kind is same) and said not in {one[1] for one in made}:
                made.append((kind.__name__, said, sentence, passage))
                break
    return made


def is_marked(claim: str, passage: str) -> bool:
    """Return whether the check marks a sentence that cites a passage."""
    (first, *_) = read_claims(f"{claim.rstrip('.')} [1].")
    return not Check(claim).supports(first, [Source(passage)])


def count_attributed(made: list[tuple[str, str, str, str]], texts: list[str], *, own: bool) -> int:
    """Return how many claims are attributed to a passage; `own` is whether theirs is among these."""
    sources = {one: Source(one) for one in texts}
    found = 0
    for _, said, _, passage in made:
        terms = Source(said).terms
        others = sorted(
            (one for one in texts if one != passage),
            key=lambda one: (-len(terms & sources[one].terms), one),
        )
        given = [*([passage] if own else []), *others[:_OTHERS]]
        claim = read_claims(said)[0]
        found += Check(said).attributed(claim, [Source(one) for one in given]) is not None
    return found


def judge_across(half: str) -> tuple[int, int, int, int, list[str]]:
    """Return how many false and true claims are marked, each with their number, and those judged wrongly."""
    groups = json.loads(_ACROSS.read_text("utf-8"))[half]
    marked, totals, wrong = {True: 0, False: 0}, {True: 0, False: 0}, []
    for group in groups:
        source = Source(group["passage"], language=group["language"])
        for claims_of in group["claims"].values():
            for truth, said in (
                (one == "true", text) for one in claims_of for text in claims_of[one]
            ):
                claim = read_claims(said[:-1] + " [1].")[0]
                mark = not Check(said).supports(claim, [source])
                marked[truth] += mark
                totals[truth] += 1
                if mark is truth:
                    wrong.append(said)
    return marked[False], totals[False], marked[True], totals[True], wrong


def print_across(*, verbose: bool) -> None:
    """Print what was chosen on, what was judged and what was written later."""
    for half in ("chosen", "judged", "later", "letters chosen", "letters judged"):
        false, of_false, true, of_true, wrong = judge_across(half)
        print(f"{half}: {false} of {of_false} false and {true} of {of_true} true ones are marked")
        for one in wrong if verbose else ():
            print(f"- {one}")


def sentences_of(names: Sequence[str], home: Path) -> list[tuple[str, str]]:
    """Return the passages of some documentation sets with their sentences."""
    found = []
    for one in read_sets():
        if one.name in names:
            try:
                folder = fetch(one, home)
            except OutOfReach as reason:
                print(f"{one.name}: left out: {reason}", file=sys.stderr)
                continue
            found += [(text, said) for text, all_of in passages(folder) for said in all_of]
    return found


def print_attributed(
    name: str, made: list[tuple[str, str, str, str]], found: list[tuple[str, str]], seed: int
) -> None:
    """Print how many claims without a marker are attributed."""
    every = sorted({text for text, _ in found})
    texts = random.Random(seed).sample(every, min(_TEXTS, len(every)))
    for own in (True, False) if name == "true" else (True,):
        given = "their own passage given" if own else "it is left out"
        attributed = count_attributed(made, texts, own=own)
        print(f"{name}, {given}: {attributed} of {len(made)} are attributed")


def main() -> int:
    """Make claims, check them, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("--home", type=Path, default=cache / "whence-writer")
    parser.add_argument("--only", nargs="+", default=_SETS, metavar="SET")
    parser.add_argument(
        "--claims", type=int, default=60, help="false ones; true ones are 200 for 60"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="print what is judged wrongly")
    parser.add_argument("--unmarked", action="store_true", help="claims that cite nothing")
    parser.add_argument("--across", action="store_true", help="claims in other languages")
    options = parser.parse_args()
    if options.across:
        print_across(verbose=options.verbose)
        return 0
    found = sentences_of(options.only, options.home)
    chance = random.Random(options.seed)
    for name, kinds, count in (
        ("false", FALSE, options.claims),
        ("true", TRUE, options.claims * 10 // 3),
    ):
        made = claims(kinds, found, count, chance)
        if options.unmarked:
            print_attributed(name, made, found, options.seed)
            continue
        marked = [is_marked(one[1], one[3]) for one in made]
        print(f"{name}: {sum(marked)} of {len(made)} are marked")
        for kind in kinds:
            of_kind = [
                mark for mark, one in zip(marked, made, strict=True) if one[0] == kind.__name__
            ]
            print(f"  {kind.__name__}: {sum(of_kind)} of {len(of_kind)}")
        if options.verbose:
            for mark, (kind_name, said, sentence, _) in zip(marked, made, strict=True):
                if mark is (name == "true"):
                    print(f"- {kind_name}: {said}\n    from: {sentence}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
