"""Questions about things that a text has or lacks, beside other things of the same subject; made from a seed.

Each subject has a table and sentences with some of the things of its domain, and is asked for these and for
others, by their label or by other words. The same thing is there for one subject and absent for another, so
that no word tells an answer.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_THINGS = Path(__file__).with_suffix(".json")
_YEARS = (2021, 2022, 2023)
_FIRST = (
    "Ash",
    "Birch",
    "Cedar",
    "Dover",
    "Elm",
    "Fenn",
    "Gold",
    "Harrow",
    "Isling",
    "Juniper",
    "Kings",
    "Lake",
)
_LAST = (
    "brook",
    "field",
    "ford",
    "gate",
    "ham",
    "hurst",
    "ley",
    "mouth",
    "port",
    "stead",
    "ton",
    "wick",
)
_HEADS = ("{}", "FY{}", "{} total")
_TITLES = ("{}", "{} report", "{}: facts and figures")
_SENTENCES = (
    "In {year} {name} counted {value} {label}.", "{label} of {name} came to {value} in {year}.",
    "The number for {label} stood at {value} at the end of {year}.", "We report {value} {label} for {year}.",
)  # fmt: skip
_QUESTIONS = (
    "How many {thing} did {name} count in {year}?", "{thing} at {name}, {year}",
    "Tell me the {thing} of {name} in {year}.", "In {year}, how large were the {thing} at {name}?",
    "What did {name} say about its {thing} for {year}?", "Which number of {thing} had {name} in {year}?",
)  # fmt: skip
_FILLER = (
    "The year was marked by steady work and few surprises.",
    "Figures of earlier years were adjusted where methods changed.",
    "The board thanks everybody who took part.",
    "All data were collected by the staff on the last day of the year.",
    "A detailed plan is being prepared for the coming years.",
    "Weather and prices influenced the results in several months.",
)


class AbsentThing(NamedTuple):
    """A question and the passages that have its answer or not."""

    domain: int
    passages: tuple[str, ...]
    sections: tuple[str, ...]
    question: str
    answer: str
    """Empty where no passage has it."""


def questions(seed: int, subjects: int) -> Iterator[AbsentThing]:
    """Yield eight questions, half of them with an answer, about each subject in each of nine domains."""
    chance = random.Random(seed)
    for domain, things in enumerate(json.loads(_THINGS.read_text("utf-8")).values()):
        for _ in range(subjects):
            yield from _subject(chance, domain, things)


def _subject(
    chance: random.Random, domain: int, things: list[tuple[str, str]]
) -> Iterator[AbsentThing]:
    name = chance.choice(_FIRST) + chance.choice(_LAST) + chance.choice((" Group", " Centre", ""))
    drawn = chance.sample(things, 12)
    rows, told, absent = drawn[:4], drawn[4:6], drawn[8:]
    values = {
        (label, year): f"{chance.randint(100, 9999):,}" for label, _ in drawn for year in _YEARS
    }
    head = chance.choice(_HEADS)
    lines = [["", *map(head.format, _YEARS)], ["---"] * 4]
    lines += [[label, *(values[label, year] for year in _YEARS)] for label, _ in rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    title = chance.choice(_TITLES).format(name)
    passages = {table: "Key figures", " ".join(chance.sample(_FILLER, 4)): "Preface"}
    asked = [(thing, chance.choice(_YEARS)) for thing in chance.sample(rows, 2)]
    for thing in told:
        year, label = chance.choice(_YEARS), chance.choice((thing[0], thing[0].lower()))
        sentence = chance.choice(_SENTENCES).format(
            year=year, name=name, value=values[thing[0], year], label=label
        )
        passages[f"{chance.choice(_FILLER)} {sentence} {chance.choice(_FILLER)}"] = "The year"
        asked.append((thing, year))
    there = len(asked)
    asked += [(thing, chance.choice(_YEARS)) for thing in absent]
    for place, (thing, year) in enumerate(asked):
        words = chance.choice((thing[0].lower(), thing[1]))
        question = chance.choice(_QUESTIONS).format(thing=words, name=name, year=year)
        answer = values[thing[0], year] if place < there else ""
        sections = tuple(f"{title} > {heading}" for heading in passages.values())
        yield AbsentThing(domain, tuple(passages), sections, question, answer)
