"""Ask one question about each of 200 collections whose records differ by a number, a date, a name or a place.

    python -m benchmarks.series [--count N] [--seed N] [--verbose] [--json]

A collection has eight to sixteen records of one kind, written with one sentence pattern, in English or German.
The question names one record; the answer is right when it holds that record's fact and cites it first. Records
and questions are generated from the seed, and nothing is tuned to them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import msgspec

from whence.surfaces.python.engine import Engine

_NAMES = (
    "Ida Brandt", "Tomas Novak", "Leila Haddad", "Oskar Lind", "Mira Kovac", "Jonas Weber", "Aylin Demir",
    "Piotr Zielinski", "Hanna Virtanen", "Diego Ramos", "Noor Aziz", "Greta Olsen", "Sami Laine",
    "Eva Kral", "Bruno Costa", "Yuki Mori",
)  # fmt: skip
_PLACES = (
    "Lindau", "Porto", "Tartu", "Girona", "Umea", "Trento", "Gdynia", "Namur", "Lugano", "Cork", "Split",
    "Bergen", "Leiden", "Graz", "Turku", "Nantes",
)  # fmt: skip
_THINGS = (
    "login page", "parking permits", "coffee machine", "newsletter", "roof repair", "budget draft",
    "fire drill", "office plants", "supplier contract", "password rules", "travel forms", "server room",
    "meeting calendar", "visitor badges", "archive shelves", "phone system",
)  # fmt: skip
_DINGE = (
    "Anmeldeseite", "Parkausweise", "Kaffeemaschine", "Rundbrief", "Dachreparatur", "Haushaltsentwurf",
    "Brandschutz", "Zimmerpflanzen", "Liefervertrag", "Passwortregeln", "Reiseformulare", "Serverraum",
    "Sitzungskalender", "Besucherausweise", "Archivregale", "Telefonanlage",
)  # fmt: skip


class Series(msgspec.Struct, frozen=True):
    """Records of one kind, and the question about one of them."""

    kind: str
    documents: dict[str, str]
    question: str
    document: str
    fact: str


_Kind = Callable[[random.Random, int], Series]


def _series(
    kind: str, names: Sequence[str], texts: Sequence[str], question: str, at: int, fact: str
) -> Series:
    return Series(kind, dict(zip(names, texts, strict=True)), question, names[at], fact)


def tasks(chance: random.Random, size: int) -> Series:
    """Return tasks that differ by a number."""
    first, at = chance.randint(2, 900), chance.randrange(size)
    things, owners = chance.sample(_THINGS, size), chance.sample(_NAMES, size)
    texts = [
        f"# Task {first + n}\n\nThis task is about the {things[n]}; it is owned by {owners[n]}.\n"
        for n in range(size)
    ]
    names = [f"task-{first + n}.md" for n in range(size)]
    asked, fact = chance.choice(
        [("What is task {} about?", things[at]), ("Who owns task {}?", owners[at])]
    )
    return _series("tasks", names, texts, asked.format(first + at), at, fact)


def invoices(chance: random.Random, size: int) -> Series:
    """Return German invoices that differ by a number."""
    first, at = chance.randint(1000, 9000), chance.randrange(size)
    sums, places = chance.sample(range(100, 9900), size), chance.sample(_PLACES, size)
    texts = [
        f"# Rechnung {first + n}\n\nDie Rechnung {first + n} geht an die Filiale {places[n]} und beträgt"
        f" {sums[n]},50 Euro. Sie ist binnen 14 Tagen zu zahlen.\n"
        for n in range(size)
    ]
    names = [f"rechnungen/{first + n}.md" for n in range(size)]
    asked, fact = chance.choice(
        [
            ("Wie hoch ist die Rechnung {}?", f"{sums[at]},50"),
            ("An welche Filiale geht die Rechnung {}?", places[at]),
        ]
    )
    return _series("invoices", names, texts, asked.format(first + at), at, fact)


def devices(chance: random.Random, size: int) -> Series:
    """Return devices that differ by a letter and a number in their name."""
    letters = chance.choice(["PX", "Kern", "AB-", "Nova "])
    numbers, at = sorted(chance.sample(range(10, 900), size)), chance.randrange(size)
    watts = chance.sample(range(20, 990), size)
    texts = [
        f"# {letters}{number}\n\nThe pump {letters}{number} draws {watt} watts and weighs {number % 7 + 2} kg.\n"
        for number, watt in zip(numbers, watts, strict=True)
    ]
    names = [f"pumps/{letters.strip().lower()}{number}.md" for number in numbers]
    question = f"How many watts does the {letters}{numbers[at]} draw?"
    return _series("devices", names, texts, question, at, f"{watts[at]} watts")


def minutes(chance: random.Random, size: int) -> Series:
    """Return minutes of meetings that differ by a date, which is asked for in another writing."""
    at, year = chance.randrange(size), chance.randint(2019, 2026)
    days, things = chance.sample(range(1, 29), size), chance.sample(_THINGS, size)
    month, number = chance.choice([("March", 3), ("June", 6), ("October", 10)])
    texts = [
        f"# Minutes of {year}-{number:02}-{day:02}\n\nThe board met and decided about the {thing}.\n"
        for day, thing in zip(days, things, strict=True)
    ]
    names = [f"minutes/{year}-{number:02}-{day:02}.md" for day in days]
    question = f"What did the board decide about on {days[at]} {month} {year}?"
    return _series("minutes", names, texts, question, at, things[at])


def employees(chance: random.Random, size: int) -> Series:
    """Return employees that differ by a name."""
    at, people = chance.randrange(size), chance.sample(_NAMES, size)
    rooms, phones = chance.sample(range(100, 480), size), chance.sample(range(2000, 9000), size)
    texts = [
        f"# {person}\n\n{person} works in room {room} and answers the phone {phone}.\n"
        for person, room, phone in zip(people, rooms, phones, strict=True)
    ]
    names = [f"people/{person.lower().replace(' ', '-')}.md" for person in people]
    asked, fact = chance.choice(
        [
            ("In which room does {} work?", rooms[at]),
            ("What is the phone number of {}?", phones[at]),
        ]
    )
    return _series("employees", names, texts, asked.format(people[at]), at, str(fact))


def branches(chance: random.Random, size: int) -> Series:
    """Return German branches of a firm that differ by a place."""
    at, places = chance.randrange(size), chance.sample(_PLACES, size)
    heads, hours = chance.sample(_NAMES, size), [chance.randint(15, 21) for _ in range(size)]
    texts = [
        f"# Filiale {place}\n\nDie Filiale in {place} leitet {head}. Sie schließt um {hour} Uhr.\n"
        for place, head, hour in zip(places, heads, hours, strict=True)
    ]
    names = [f"filialen/{place.lower()}.md" for place in places]
    asked, fact = chance.choice(
        [
            ("Wer leitet die Filiale in {}?", heads[at]),
            ("Wann schließt die Filiale in {}?", f"{hours[at]} Uhr"),
        ]
    )
    return _series("branches", names, texts, asked.format(places[at]), at, fact)


def lessons(chance: random.Random, size: int) -> Series:
    """Return German lessons that differ by a number."""
    at, things = chance.randrange(size), chance.sample(_DINGE, size)
    texts = [
        f"# Lektion {n + 1}\n\nIn dieser Lektion geht es um das Thema {things[n]}.\n"
        for n in range(size)
    ]
    names = [f"kurs/lektion-{n + 1}.md" for n in range(size)]
    question = f"Worum geht es in Lektion {at + 1}?"
    return _series("lessons", names, texts, question, at, things[at])


def releases(chance: random.Random, size: int) -> Series:
    """Return releases of a product that differ by a version."""
    at, major = chance.randrange(size), chance.randint(1, 9)
    things, first = chance.sample(_THINGS, size), chance.randint(0, 12)
    texts = [
        f"# Release {major}.{first + n}\n\nThis release changes the {things[n]}.\n"
        for n in range(size)
    ]
    names = [f"releases/{major}.{first + n}.md" for n in range(size)]
    question = f"What does release {major}.{first + at} change?"
    return _series("releases", names, texts, question, at, things[at])


KINDS: tuple[_Kind, ...] = (
    tasks, invoices, devices, minutes, employees, branches, lessons, releases
)  # fmt: skip


async def indexed(
    engine: Engine, count: int, seed: int, place: Path
) -> AsyncIterator[tuple[str, Series]]:
    """Write records into a folder, index them, and yield each collection with its series."""
    chance = random.Random(seed)
    for number in range(count):
        one = KINDS[number % len(KINDS)](chance, chance.randint(8, 16))
        folder = place / f"{one.kind}-{number}"
        for name, text in one.documents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        await engine.index([folder], collection=f"series-{number}")
        yield f"series-{number}", one


async def measure(count: int, seed: int, home: Path) -> list[tuple[Series, str, str]]:
    """Index each collection, ask its question, and return outcome and answer."""
    results: list[tuple[Series, str, str]] = []
    async with Engine(home=home / "whence") as engine:
        async for collection, one in indexed(engine, count, seed, home):
            answer = await engine.ask(one.question, collection=collection)
            cited = [each.document_id for each in answer.citations]
            outcome = "refused"
            if answer.found:
                is_right = one.fact in answer.text and cited[:1] == [one.document]
                outcome = "right" if is_right else "wrong"
            results.append((one, outcome, answer.text))
    return results


def main() -> None:
    """Print how many answers were right, wrong and refused, by kind."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="collections")
    parser.add_argument("--seed", type=int, default=7, help="seed of the generator")
    parser.add_argument("--verbose", action="store_true", help="print what was not right")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        results = asyncio.run(measure(options.count, options.seed, Path(place)))
    counts = {kind.__name__: Counter[str]() for kind in KINDS}
    for one, outcome, text in results:
        counts[one.kind][outcome] += 1
        if options.verbose and outcome != "right":
            print(
                f"{outcome}: {one.question}\n   wanted {one.fact!r} of {one.document}\n   {text[:300]}\n"
            )
    total = sum(counts.values(), Counter[str]())
    if options.json:
        print(json.dumps({"kinds": counts, "all": total}))
        return
    print("| records | right | wrong | refused |\n|---|---|---|---|")
    for name, found in {**counts, "**all**": total}.items():
        print(f"| {name} | {found['right']} | {found['wrong']} | {found['refused']} |")


if __name__ == "__main__":
    main()
