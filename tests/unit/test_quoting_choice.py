"""Which units of passages are chosen, and how they are shown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from whence.models.protocols import Reading, WriteRequest
from whence.quoting.evidence_choice import Choice, choose_evidence, examine
from whence.quoting.evidence_spans import all_spans, asked_rows
from whence.quoting.extractive_writer import ExtractiveWriter
from whence.quoting.span_picking import pick_spans
from whence.text.claims import markers_of
from whence.text.overlap import words_of

OPTIONS = """Options:

- keepAliveTimeoutThreshold `number` (optional) - Default: `2e3` - Taken from hints of the server that change \
the keepAliveTimeout, whose default it has to be less than, or else a socket is closed while the server thinks \
that it is kept alive, which is an error for the request that comes next.
- keepAliveTimeout `number` (optional) - Default: `4e3` - Time after which a socket without requests is closed, \
unless the server says how long it keeps it and that is less, in milliseconds.
- maxHeaderSize `number` (optional) - Default: `16384` - The longest headers of a response in bytes, which is what \
the process was told when it was started, or else this number.
"""


async def test_a_tag_that_a_text_is_about_is_shown_as_code() -> None:
    """HTML in prose stands in backticks, so that Markdown shows it; code stays as it is, and the quote, too."""
    text = "The writer makes <h1> and `<b>` of titles in HTML."
    request = WriteRequest(template_id="document-prompt", query="titles HTML", documents=(text,))
    *_, last = [piece async for piece in ExtractiveWriter(None).write(request)]

    assert last.result
    assert last.result.text == "The writer makes `<h1>` and `<b>` of titles in HTML. [1]"
    assert [one.text for one in last.result.quotes] == [text]


COMMANDS = "add apply blame branch clone commit diff fetch log merge pull push rebase reset show"


class Near:
    """A reader for which every text is near to every question, the first one nearer by the lead."""

    def __init__(self, lead: float = 0.0, near: float = 0.6) -> None:
        self._lead, self._near = lead, near

    by_sentence = False

    def serving(self, language: str, text: str) -> Near:
        return self

    async def glance(self, questions: Sequence[str], texts: Sequence[str]) -> Reading:
        return await self.read(questions, texts)

    async def read(self, questions: Sequence[str], texts: Sequence[str]) -> Reading:
        alike = [[self._near + self._lead, *[self._near] * (len(texts) - 1)] for _ in questions]
        return Reading(np.eye(len(texts), dtype=np.float32), alike, alike, alike)


NEAR = Near()


async def choose(
    question: str, *documents: str, sections: tuple[str, ...] = (), reader: Near = NEAR
) -> Choice:
    request = WriteRequest(
        template_id="document-prompt", query=question, documents=documents, sections=sections
    )
    choice = await choose_evidence(request, None, reader)
    assert choice is not None
    return choice


async def test_an_item_is_about_the_name_that_it_begins_with() -> None:
    """A setting asked for by name is answered by its own item, not by one that mentions it more often."""
    choice = await choose("default of keepAliveTimeout", OPTIONS, "Sockets are closed at the end.")

    assert choice.spans[0].text.startswith("- keepAliveTimeout `number`")


async def test_a_default_is_answered_where_one_is_named() -> None:
    """A question for a default, or for what holds without a choice, prefers a text that names a default."""
    limits = "A harbour may have any number of boats, as many as its owner says in its file."
    default = "The number of boats that a harbour holds is 12; another default is set in its file."
    for question in ("default number of boats", "How many boats if I give no number?"):
        choice = await choose(question, limits, default)
        assert choice.spans[0].text == default, question
    assert (await choose("Who says how many boats?", limits, default)).spans[0].text == limits


async def test_a_message_repeated_is_less_than_what_to_do() -> None:
    """Words that the question has are no news: of two texts with all the one that says more is first."""
    repeated = "ropes lost boat drifts"
    remedy = (
        "If its ropes are lost and a boat drifts, drop the anchor, then call the pilot by radio."
    )
    choice = await choose("ropes lost boat drifts", f"{repeated}\n\n{remedy}")

    assert choice.spans[0].text == remedy


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x = boats()\nreturn x\n```\n\nMore is told.", "```\nx = boats()\nreturn x\n```"),
        ("Boats are made so:\n\n```\nx = boats()\nreturn x", "x = boats()\nreturn x\n```"),
        (
            "boats\n    ```\n    boats x\n    ```\n\n    It makes boats.",
            "boats\n    ```\n    boats x\n    ```\n\n    It makes boats. [1]",
        ),
        (
            "boats\n            The boats of x.\n\n        lamps\n            Lights.",
            "boats\n    The boats of x. [1]",
        ),
    ],
)
async def test_code_that_a_passage_cuts_is_shown_whole(text: str, shown: str) -> None:
    """Code at the border of a passage gets the fence that it lacks, so that its marker follows it as text.

    A term may stand right above its code, and what is below a term is as far to the left as the term allows.
    """
    request = WriteRequest(template_id="document-prompt", query="boats x", documents=(text,))
    pieces = [piece async for piece in ExtractiveWriter(None).write(request)]
    answer = "".join(piece.text for piece in pieces)

    assert shown in answer
    assert markers_of(answer) == (1,)


async def test_a_row_about_the_name_asked_for_answers() -> None:
    """What a name of code stands before is quoted sooner than other texts."""
    table = (
        "| Code | Remedy |\n|---|---|\n| ERR_BUSY_PIER | Take another name. |\n| ERR_SUNK | Dive. |"
    )
    about = await choose("ERR_BUSY_PIER solve", table, "The ERR_LOST flag.")

    assert "Take another name" in about.spans[0].text


INDEX = "| | `moor` | | 2.4 Ropes |\n| | `sink` | | 9.1 Losses |"
MOOR = "`moor`\n    Ties a boat to the pier, so that it stays there until its captain says that it leaves."


@pytest.mark.parametrize("heading", ["Command Index", "Index", "Index \u2013 M"])
async def test_an_entry_of_an_index_is_no_evidence(heading: str) -> None:
    """An index says where to read of a name; a page about an index has sentences, and stays."""
    choice = await choose("moor", INDEX, MOOR, sections=(heading, "Ropes"))
    assert [one.text for one in choice.spans] == [MOOR]

    page = "The index of boats moors each name at its place."
    assert (await choose("moor", page, sections=(heading,))).spans[0].text == page


async def test_a_definition_that_only_points_elsewhere_comes_later() -> None:
    """`See Ropes.` below the name asked for says less than the definition."""
    choice = await choose("moor", "`moor`\n    See the Ropes module.", MOOR)

    assert choice.spans[0].text == MOOR


@pytest.mark.parametrize(("thing", "answered"), [("teleport", False), ("rebase", True)])
async def test_a_thing_that_no_passage_has_is_no_subject(thing: str, answered: bool) -> None:
    """Words that are in every passage do not answer a question about a word that is in none."""
    passages = [f"The git {name} command is one of many." for name in COMMANDS.split()]

    choice = await choose(f"What does git {thing} do?", *passages, reader=Near(near=0.5))

    assert bool(choice.spans) == answered


@pytest.mark.parametrize(("repeats", "spans"), [(22, 2), (40, 1)])
async def test_an_answer_of_several_spans_is_short(repeats: int, spans: int) -> None:
    """Further spans are added while all together, with their headings, have at most 220 words."""
    passages = [
        f"The harbour rule {number} says that boats pay {number} coins. "
        + "More words follow. " * repeats
        for number in range(6)
    ]
    choice = await choose("What do boats pay?", *passages, sections=("Rules of the harbour",) * 6)

    assert len(choice.spans) == spans
    assert sum(len(one.text.split()) for one in choice.spans) <= 220


class First(Near):
    """A reader for which the first text is nearer than the others, by as much as it is told."""

    def __init__(self, lead: float) -> None:
        self._lead = lead

    by_sentence = False

    def serving(self, language: str, text: str) -> First:
        return self

    async def read(self, questions: Sequence[str], texts: Sequence[str]) -> Reading:
        near = [[0.6 + self._lead, *(0.6 for _ in texts[1:])] for _ in questions]
        return Reading(np.eye(len(texts), dtype=np.float32), near, near, near)


@pytest.mark.parametrize(("lead", "most"), [(0.0, 3), (0.35, 1)])
async def test_the_surer_the_best_span_is_the_shorter_is_the_answer(lead: float, most: int) -> None:
    """No further span is quoted where the best one is far before all others, and one where they are alike."""
    passages = tuple(
        f"Boats of colour {colour} sail." for colour in ("red", "green", "grey", "blue")
    )
    request = WriteRequest(template_id="document-prompt", query="boats", documents=passages)
    choice = await choose_evidence(request, None, First(lead))

    assert choice
    assert [one.document for one in choice.spans] == list(range(most))


class Glancing(Near):
    """A reader that finds texts with `slow` near at a glance, and all alike when it reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    async def glance(self, questions: Sequence[str], texts: Sequence[str]) -> Reading:
        near = [[0.9 if "slow" in one else 0.2 for one in texts] for _ in questions]
        return Reading(np.zeros((len(texts), 1), dtype=np.float32), near, near, near)

    async def read(self, questions: Sequence[str], texts: Sequence[str]) -> Reading:
        self.texts += texts
        return await super().read(questions, texts)


async def test_only_what_a_glance_finds_likely_is_read() -> None:
    """Of many units at most 16 are read, those that a glance finds nearest among them; of few all are."""
    fast = [f"Boats of harbour {n} sail fast." for n in range(20)]
    slow = [f"Boats of harbour {n} sail slow." for n in range(20, 24)]
    reader = Glancing()
    choice = await choose("How do boats sail?", *fast, *slow, reader=reader)

    assert len(reader.texts) <= 16
    assert set(slow) <= set(reader.texts)
    assert {one.text for one in choice.spans} <= set(reader.texts)

    few = Glancing()
    await choose("How do boats sail?", *fast[:10], *slow, reader=few)
    assert len(few.texts) == 14


async def test_what_was_not_read_may_answer_too() -> None:
    """The best unit is the less sure the nearer, at a glance, those are that were not read."""
    passages = [f"Boats: {one}lum {one}rek {one}tos." for one in "bcdfghjklmnpqrstvwxz"]
    request = WriteRequest(template_id="document-prompt", query="boats", documents=tuple(passages))
    words = words_of(request.query, request.documents)
    found = await examine(request, all_spans(request, words), words, None, Glancing(), {})
    guessed, others = found.guesses[0]
    assert len(guessed) == len(found.spans)
    assert len(others) == len(passages) - len(found.spans) > 0
    raised = [one - min(guessed) for one in found.unread(0, [2.0 + one for one in guessed])]
    level = [one - min(guessed) for one in found.unread(0, guessed)]
    assert [a - b for a, b in zip(raised, level, strict=True)] == pytest.approx([2.0] * len(others))

    order = [1.0, 0.9, *[0.0] * (len(guessed) - 2)]
    alone = pick_spans(found.spans, order, None)
    among = pick_spans(found.spans, order, None, [0.8] * 3)
    assert 0 < among[1].sure < alone[1].sure


TOWN = """# Town

The lighthouse was built in 1872.

The hall was built in 1905.

The mill burnt down in 1964.
"""


@pytest.mark.parametrize(
    ("question", "quoted"),
    [
        ("When was the lighthouse built?", "The lighthouse was built in 1872."),
        ("In which year was the mill burnt down?", "The mill burnt down in 1964."),
        ("When was it built?", "# Town"),
        ("How was the lighthouse built?", "# Town"),
    ],
)
async def test_one_paragraph_of_a_short_section_answers_alone(question: str, quoted: str) -> None:
    """A paragraph is quoted without its neighbours if it alone has all that the question names, and its kind.

    Where two paragraphs have the words asked for, or a way is asked for, the short section is quoted whole.
    """
    choice = await choose(question, TOWN)
    whole = TOWN.partition("\n\n")[2].strip()

    if quoted == "# Town":
        assert [one.text for one in choice.spans] == [whole]
    else:
        assert quoted in choice.spans[0].text
        assert "\n" not in choice.spans[0].text


async def test_code_keeps_its_lines_though_they_fill_a_width() -> None:
    """Lines are joined only where text was wrapped; a line that closes a bracket stands by itself."""
    code = (
        "def share(wanted: Iterable[str], found: Iterable[str], weights: Mapping[str, float],\n"
        ") -> float: the share of the wanted words that are found"
    )
    query = "share of the wanted words that are found"
    request = WriteRequest(template_id="document-prompt", query=query, documents=(code,))
    *_, last = [piece async for piece in ExtractiveWriter(None, NEAR).write(request)]

    assert last.result
    assert "\n) -> float:" in (last.result.text or "")


FAULTS = """| Code | Cause | Remedy |
|---|---|---|
| E01 | no flame | check the gas |
| E04 | pressure too low | add water |
"""


@pytest.mark.parametrize(
    ("question", "raised"),
    [
        ("Quelle est la signification du code E04 ?", True),
        ("Who found E04?", False),
        ("What does code 4 mean?", False),
    ],
)
async def test_the_row_of_a_code_tells_its_meaning(question: str, raised: bool) -> None:
    """A row that begins with the code asked for tells its meaning, and not who found it."""
    request = WriteRequest(
        template_id="document-prompt", query=question, documents=(FAULTS,), sections=("Pannes",)
    )
    words = words_of(question, request.documents)
    rows = asked_rows([question], all_spans(request, words), words)

    assert any(one.names_a_code for one in rows.values()) is raised


class NearBySentence(Near):
    """The same, as a reader of many languages reads."""

    by_sentence = True


@pytest.mark.parametrize(
    ("question", "whole"),
    [
        ("Where is the kiln?", False),
        ("Which tools are there?", True),
        ("Wo steht der Ofen?", False),
        ("\u7089\u5b50\u5728\u54ea\u91cc", False),
    ],
)
async def test_one_thing_is_told_by_one_item(question: str, whole: bool) -> None:
    """A whole list is read only where more than one thing may be asked for, by a reader of sentences."""
    text = {
        "W": "- The kiln is in the yard.\n- The saw is in the shed.",
        "Wo": "- Der Ofen steht hinter der Schmiede.\n- Das Holz liegt unter dem Dach.",
    }.get("Wo" if question.startswith("Wo ") else question[:1], "")
    text = (
        text
        or "- \u7089\u5b50\u5728\u9662\u5b50\u91cc\u9762\u653e\u3002\n- \u952f\u5b50\u5728\u4ed3\u5e93\u91cc\u9762\u653e\u3002"
    )
    request = WriteRequest(template_id="document-prompt", query=question, documents=(text,))
    words = words_of(question, [text])
    found = await examine(request, all_spans(request, words), words, None, NearBySentence())

    assert ("list" in {one.unit.kind for one in found.spans}) is whole
    assert "item" in {one.unit.kind for one in found.spans}


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        (
            "Wo steht der Ofen?",
            "Der Ofen steht hinter der Schmiede.",
            "Der Ofen steht im Juni still.",
        ),
        ("Where is the kiln?", "The kiln is in the yard.", "The kiln is closed in June."),
        (
            "\u7089\u5b50\u5728\u54ea\u91cc",
            "\u7089\u5b50\u653e\u5728\u9662\u5b50\u91cc\u9762\u3002",
            "\u7089\u5b50\u975e\u5e38\u8d35\u91cd\u3002",
        ),
    ],
)
async def test_what_cannot_answer_is_not_quoted(question: str, answer: str, other: str) -> None:
    """A sentence without a place is neither quoted nor an answer to where, however near it is."""
    choice = await choose(question, other, answer, reader=Near(lead=0.1, near=0.9))
    alone = await choose(question, other, reader=Near(lead=0.1, near=0.9))

    assert [one.text for one in choice.spans] == [answer]
    assert not alone.spans


def test_the_lines_of_a_head_are_not_offered_alone() -> None:
    """The date of a mail is not that of what the mail is about; other lines with labels are units."""
    head = "From: Ida Berg\nDate: Mon, 3 Feb 2025\nSubject: The new kiln"
    contacts = "Office: Ida Berg, room 4\nPlumber: Jo Lind, room 7"
    request = WriteRequest(
        template_id="document-prompt",
        query="When does the kiln come?",
        documents=(head, contacts),
        sections=("The new kiln", "The new kiln"),
    )
    found = [one.text for one in all_spans(request, words_of(request.query, request.documents))]

    assert found == [head, contacts, *contacts.split("\n")]
