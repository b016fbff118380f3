"""Units of texts: verbatim, complete, and the pieces that an author wrote as one."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.models.protocols import WriteRequest
from whence.quoting.extractive_writer import ExtractiveWriter
from whence.quoting.units import MAX_WORDS, Unit, split_blocks, split_units

LINES = st.sampled_from(
    (
        "", "", "Settings", "## Loans", "A line of prose.", "It ends so:", "Is it open?", "term",
        "    indented text", "- item", "  - nested", "1. first", "   continued", "| a | b |", "|---|---|",
        "```", "    ```", "code = 1", "===", "\u00e9\u4f11\u6687", "word " * 120,
    )
)  # fmt: skip
texts = st.one_of(
    st.lists(LINES, max_size=14).map("\n".join),
    st.text(alphabet="ab:?-|`#=1. \n\t\u3000\x0b\r", max_size=60),
)


@given(texts)
def test_blocks_contain_all_of_a_text(text: str) -> None:
    """Blocks are in order, do not overlap, and miss no character that is not space."""
    blocks = split_blocks(text, ("Settings",))

    assert all(one.end <= other.start for one, other in pairwise(blocks))
    assert all(text[one.start : one.end].strip() == text[one.start : one.end] for one in blocks)
    shown = "".join(text[one.start : one.end] for one in blocks)
    assert "".join(shown.split()) == "".join(text.split())


@given(texts)
def test_units_are_whole_blocks(text: str) -> None:
    """A unit begins where a block begins, ends where one ends, and what it says stands in the text."""
    blocks = split_blocks(text, ("Settings",))
    starts, ends = {one.start for one in blocks}, {one.end for one in blocks}
    units = split_units(text, ("Settings",))

    assert all(one.start in starts and one.end in ends for one in units)
    assert all(above in text for one in units for above in one.context)
    assert len({(one.start, one.end) for one in units}) == len(units)


@given(texts)
def test_no_text_is_lost(text: str) -> None:
    """Everything but headings, rules, lead-ins and headers of tables is in a unit."""
    units = split_units(text, ("Settings",))
    for block in split_blocks(text, ("Settings",)):
        content = text[block.start : block.end]
        if block.kind in ("prose", "item", "row", "term") and not content.endswith(":"):
            assert any(u.start <= block.start and block.end <= u.end for u in units), content


def said(text: str, *headings: str) -> dict[str, Unit]:
    return {text[one.start : one.end]: one for one in split_units(text, headings)}


def test_a_definition_keeps_its_term() -> None:
    """The first paragraph of a definition is never offered without its term; a further one has it above."""
    text = "timeout\n    Seconds to wait.\n\n    It may be 0."
    units = said(text)

    assert set(units) == {text, "timeout\n    Seconds to wait.", "It may be 0."}
    assert units["It may be 0."].context == ("timeout",)


def test_a_list_keeps_its_lead_in() -> None:
    """A short list is offered with the paragraph that announces it; an item alone has that above."""
    text = "You need:\n\n- a card\n- a proof\n\nIt is free."
    units = said(text)

    assert "You need:\n\n- a card\n- a proof" in units
    assert "You need:" not in units
    assert units["- a card"].context == ("You need:",)


def test_a_long_list_is_offered_in_items() -> None:
    """A list with more words than a reader wants is not offered whole."""
    items = [f"- {'word ' * 20}{n}" for n in range(8)]
    units = said("\n".join(items))

    assert set(units) == set(items)
    assert all(len(one.split()) <= MAX_WORDS for one in units)


@pytest.mark.parametrize(
    "text",
    ["# Ports\nhttp = 80", "name: a\n---\nname: b", "| a |\n| b |", "a()\n```\nb()"],
)
def test_code_has_no_marks_of_markdown(text: str) -> None:
    """A comment is no heading, a line of dashes underlines nothing, and a pipe begins no table."""
    assert {one.kind for one in split_blocks(text)} != {"prose"}
    blocks = split_blocks(text, is_preformatted=True)

    assert [(text[one.start : one.end], one.kind) for one in blocks] == [(text, "prose")]


@pytest.mark.parametrize(
    "lines",
    [
        ("Office: Ida Berg, room 4", "Plumber: Jo Lind"),
        ("Lundi : 8 h - 12 h", "Mardi : ferm\u00e9"),
        ("\u9375\uff1a\u4e00\u968e", "\u6599\u91d1\uff1a\u516b\u767e\u5186"),
    ],
)
def test_a_line_with_a_label_of_its_own_is_offered_alone(lines: tuple[str, ...]) -> None:
    """Contacts and opening hours are lines that say one thing each, and a paragraph."""
    assert set(said("\n".join(lines))) == {"\n".join(lines), *lines}


@pytest.mark.parametrize(
    "text",
    [
        "Q: Is it free?\nA: Yes, it is.",
        "Note: it is free\nfor all who come.",
        "Note: it is free.\nNote: it is open.",
        "At 8: 30 of us came and\nleft at 9.",
    ],
)
def test_lines_that_belong_together_stay_together(text: str) -> None:
    """A question keeps its answer, a sentence its second line; equal labels name nothing."""
    assert set(said(text)) == {text}


def test_a_row_has_its_header_above() -> None:
    """A row names its columns by the header; a small table is offered whole, too."""
    text = "| Room | Seats |\n|---|---|\n| Ada | 4 |\n| Curie | 12 |"
    units = said(text)

    assert units["| Curie | 12 |"].context == ("| Room | Seats |\n|---|---|",)
    assert text in units


def test_code_keeps_its_lead_in() -> None:
    """Code is offered with the paragraph before it, blank lines inside included."""
    text = "Run it like this:\n\n```\nserve\n\n- now\n```\n\nThen wait."
    units = said(text)

    assert set(units) == {"Run it like this:\n\n```\nserve\n\n- now\n```", "Then wait."}


def test_a_question_keeps_its_answer() -> None:
    """A paragraph that asks is offered with the one that answers, and a short section as a whole."""
    text = "FAQ\n\nIs it free?\n\nYes, for residents."

    assert "Is it free?\n\nYes, for residents." in said(text, "FAQ")
    assert said(text, "FAQ")["Is it free?\n\nYes, for residents."].kind in ("prose", "section")


async def test_a_short_text_that_is_its_own_title_answers() -> None:
    """A record without a title is quoted, once and without itself as a heading; a repeated heading is not."""
    texts = ("Annual leave is 27 days.", "Annual leave")
    request = WriteRequest(
        template_id="document-prompt",
        query="How many days is annual leave?",
        documents=texts,
        sections=(texts[0], "Handbook > Annual leave > Annual leave of all employees"),
    )
    pieces = [piece async for piece in ExtractiveWriter(None).write(request)]

    assert pieces[-1].result is not None
    assert pieces[-1].result.text == "Annual leave is 27 days. [1]"


def test_the_first_term_of_a_passage_has_the_indent_of_the_next() -> None:
    """A passage begins without its spaces: terms that stood beside its first one are not below it."""
    text = "`posix`\n            Strict.\n\n        `physical`\n            Same as `-P`.\n\n    `-x`\n        Trace."
    found = [
        (text[one.start : one.end].partition("\n")[0], one.context) for one in split_units(text)
    ]
    nested = "set\n    Options.\n\n    -a\n        All.\n\n    -b\n        Both."

    assert found == [("`posix`", ()), ("`physical`", ()), ("`-x`", ())]
    assert [one.context for one in split_units(nested)] == [(), (), ("set",), ("set",)]
