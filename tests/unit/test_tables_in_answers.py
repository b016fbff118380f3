"""A table from the chunk to the answer: its header, the rows and columns that are asked for, and its place."""

from __future__ import annotations

import io
import re

import pytest
from msgspec.structs import replace
from rich.console import Console

from whence.answering.prompts import DOCUMENT_PROMPT, TEMPLATES, answer_variables, write_request
from whence.answering.writing import map_citations
from whence.ingest.blocks import ParsedDocument
from whence.ingest.chunking import Chunker
from whence.ingest.loaders.markdown import write_markdown
from whence.ingest.text_builder import TextBuilder
from whence.models.protocols import WriteRequest
from whence.operations.json_documents import answer_highlights
from whence.provenance.stages import (
    exploration_triples,
    focus_triples,
    grounding_triples,
    question_triples,
    synthesis_triples,
)
from whence.provenance.trace import read_trace
from whence.quoting.extractive_writer import ExtractiveWriter
from whence.quoting.tables import asked_cells, header_above, read_rows, row_in_words, rows_for
from whence.schema.document_rag import Answer, Citation
from whence.schema.ingest import ChunkDraft
from whence.schema.passages import Passage
from whence.schema.places import Location, Place, locate
from whence.schema.prompt import PromptResult, Quote
from whence.surfaces.cli.ask import print_answer
from whence.testing.samples import sample
from whence.text.overlap import Words

ENGLISH, GERMAN = Words(), Words("german", "german")


def chunks_of(text: str) -> tuple[ChunkDraft, ...]:
    return chunks_from(write_markdown(text, 0))


def chunks_from(builder: TextBuilder) -> tuple[ChunkDraft, ...]:
    parsed = ParsedDocument(
        document_id="d",
        display_path="d",
        text=builder.text,
        blocks=builder.blocks,
        title="T",
        fallback_title="T",
    )
    counter = Chunker(
        lambda texts: [len(one.split()) for one in texts], max_tokens=60, overlap_tokens=0
    )
    return counter.split(parsed)


def stock(rows: int) -> str:
    lines = "\n".join(f"| Valve V{n} | shelf {n % 7} | {n + 3} kg |" for n in range(rows))
    return f"# Stock\n\n| Part | Place | Weight |\n|---|---|---|\n{lines}\n"


def test_each_passage_of_a_table_has_its_header() -> None:
    """The first passage begins with the header, the others carry it; a row is in one passage."""
    first, *others = chunks_of(stock(80))

    assert others
    assert first.lead == ""
    assert "| Part | Place | Weight |\n|---|---|---|\n| Valve V0 |" in first.content
    assert {one.lead for one in others} == {"| Part | Place | Weight |\n|---|---|---|"}
    assert all("Part | Place | Weight" in one.embed_text for one in others)
    lines = [line for one in (first, *others) for line in one.content.split("\n")]
    assert sum(line.startswith("| Valve") and line.endswith("kg |") for line in lines) == 80


def test_a_long_table_costs_no_more_than_its_rows() -> None:
    """Ten times the rows have ten times the text, leads included."""
    sizes = [
        sum(len(one.content) + len(one.lead) for one in chunks_of(stock(rows)))
        for rows in (300, 3000)
    ]

    assert sizes[1] < 12 * sizes[0]


def test_a_very_long_header_is_not_repeated() -> None:
    """A header of thousands of characters would be most of each passage."""
    header = " | ".join(f"column {n}" for n in range(600))
    rows = "\n".join("| " + " | ".join(["x"] * 600) + " |" for _ in range(4))
    text = f"| {header} |\n|{'---|' * 600}\n{rows}\n"

    assert {one.lead for one in chunks_of(text)} == {""}


def test_a_chunk_inside_of_a_definition_has_its_terms() -> None:
    """What continues a definition names what it defines."""
    builder = TextBuilder()
    with builder.block(), builder.definition(["retries"]):
        for n in range(20):
            builder.add_paragraph(f"Sentence {n} says how often a request is sent again.")

    first, *others = chunks_from(builder)
    assert first.lead == ""
    assert {one.lead for one in others} == {"retries"}


PRICES = (
    ("Article", "Austria", "Switzerland"),
    ("Lamp L4", "19.00", "24.50"),
    ("Lamp shade", "9.00", "11.00"),
    ("Desk", "210.00", "260.00"),
)


@pytest.mark.parametrize(
    ("question", "words", "table", "rows", "columns"),
    [
        ("What does the desk cost in Switzerland?", ENGLISH, PRICES, (2,), (2,)),
        # The name of one row is part of that of another one.
        ("What is the price of the lamp L4?", ENGLISH, PRICES, (0,), ()),
        # Nobody asks for one of two lamps.
        ("What do the lamp shade and the desk cost?", ENGLISH, PRICES, (), ()),
        (
            "Was kostet der Tisch in Österreich?",
            GERMAN,
            (("Artikel", "Österreich", "Schweiz"), ("Lampe", "19", "24"), ("Tisch", "210", "260")),
            (1,),
            (1,),
        ),
        (
            "What was the operating profit in FY2023?",
            ENGLISH,
            (
                ("", "31 December 2023", "31 December 2022"),
                ("Profit", "9", "8"),
                ("Operating profit", "12", "10"),
            ),
            (1,),
            (1,),
        ),
        # The beginning of a word asks for its column, and a date is asked for by `when`.
        (
            "How heavy does the crate weigh?",
            ENGLISH,
            (
                ("Item", "Weight", "Height"),
                ("Crate", "12 kg", "40 cm"),
                ("Pallet", "9 kg", "14 cm"),
            ),
            (0,),
            (1,),
        ),
        (
            "When was pump 2 serviced?",
            ENGLISH,
            (("Pump", "Hall", "Last check"), ("1", "A", "2025-03-01"), ("2", "B", "2025-04-09")),
            (1,),
            (2,),
        ),
        # Several rows have all of what is asked for.
        (
            "Which machines does Ada Novak use?",
            ENGLISH,
            (
                ("Machine", "Used by", "Hall"),
                ("Lathe", "Ada Novak", "1"),
                ("Mill", "Ben Roth", "2"),
                ("Saw", "Ada Novak", "2"),
            ),
            (0, 2),
            (),
        ),
    ],
)
def test_the_row_and_the_column_that_a_question_names(
    question: str,
    words: Words,
    table: tuple[tuple[str, ...], ...],
    rows: tuple[int, ...],
    columns: tuple[int, ...],
) -> None:
    """A row is asked for when it has of the question what no other row has."""
    asked = asked_cells(question, words, table[0], table[1:])

    assert (asked.rows, asked.columns) == (rows, columns)


def test_a_bar_inside_of_a_cell_is_no_border() -> None:
    """Stored cells keep their bars, which have no space on both sides."""
    (row,) = read_rows("| a|b | | c |")
    compact = read_rows("|x|y|")

    assert ["| a|b | | c |"[slice(*cell)] for cell in row.cells] == ["a|b", "", "c"]
    assert ["|x|y|"[slice(*cell)] for cell in compact[0].cells] == ["x", "y"]


def test_a_row_longer_than_its_header_keeps_its_values() -> None:
    """A model reads columns with their values; a value without a column stands alone."""
    assert row_in_words("| A |\n|---|", "| 1 | 2 |") == "A: 1, 2"


async def written(request: WriteRequest) -> PromptResult:
    *_, last = [piece async for piece in ExtractiveWriter(None).write(request)]
    assert last.result
    return last.result


def passage(lead: str, text: str) -> Passage:
    return Passage(chunk_id="urn:c", document_id="stock.md", text=text, lead=lead)


LEAD = "| Part | Place | Weight |\n|---|---|---|"
ROWS = "\n".join(f"| Valve V{n} | shelf {n % 7} | {n + 3} kg |" for n in range(40, 70))


def request_of(question: str, *passages: Passage) -> WriteRequest:
    return write_request(TEMPLATES[DOCUMENT_PROMPT], answer_variables(question, passages))


async def test_an_answer_from_a_later_passage_names_row_and_columns() -> None:
    """The answer is a table of the header and the row; the quote is the row, verbatim, its cell highlighted."""
    given = passage(LEAD, ROWS)
    result = await written(request_of("What is the weight of valve V51?", given))
    (citation,), faults = map_citations(result.text or "", result.quotes, [given])

    assert result.text == f"{LEAD}\n| Valve V51 | shelf 2 | 54 kg |\n[1]"
    assert not faults
    assert (citation.lead, citation.quote) == (LEAD, "| Valve V51 | shelf 2 | 54 kg |")
    assert [citation.quote[slice(*one)] for one in citation.highlights] == ["54 kg"]


async def test_rows_of_one_table_are_shown_in_one_table() -> None:
    """Two rows that answer stand below one header, each with a quote of its own."""
    rows = "| Lathe | Ada Novak |\n| Mill | Ben Roth |\n" * 1 + "\n".join(
        f"| Tool {n} | Kim Berg |" for n in range(30)
    )
    text = f"| Machine | Used by |\n|---|---|\n{rows}\n| Saw | Ada Novak |"
    result = await written(request_of("Which machine is used by Ada Novak?", passage("", text)))

    assert result.text == (
        "| Machine | Used by |\n|---|---|\n| Lathe | Ada Novak |\n| Saw | Ada Novak |\n[1]"
    )
    assert len(result.quotes) == 2


def test_a_model_reads_the_header_above_the_rows() -> None:
    """The prompt has lead and text; both writers receive the lead apart from the text as well."""
    request = request_of("What is the weight?", passage(LEAD, ROWS))

    assert f">\n{LEAD}\n{ROWS}\n<" in request.prompt
    assert (request.documents, request.leads) == ((ROWS,), (LEAD,))


def test_a_quote_of_a_language_model_has_its_header_too() -> None:
    """The header comes from the passage or what stands above it, whoever chose the quote."""
    row = "| Valve V51 | shelf 2 | 54 kg |"
    later, first = passage(LEAD, ROWS), passage("", f"Parts:\n\n{LEAD}\n{ROWS}")
    for given in (later, first):
        (citation,), _ = map_citations("It weighs 54 kg [1].", [Quote(1, row)], [given])
        assert citation.lead == LEAD

    assert header_above(LEAD, f"{ROWS}\n\nMore.\n\n| a |", "| a |") == ""
    assert header_above("", f"{LEAD}\n{row}", f"{LEAD}\n{row}") == ""


@pytest.mark.parametrize(
    "text",
    [
        "Harbour office\nQuay 4\n9000 Port\nNorway",
        "The tide comes in,\nthe tide goes out,\nthe boats lie still\nand turn about.",
        "cp plan.txt old.txt\nrm plan.txt\nln -s old.txt plan.txt\nls -l",
    ],
)
async def test_lines_stay_lines(text: str) -> None:
    """An address, verse and commands without a fence are shown in the lines of their author."""
    result = await written(WriteRequest(template_id=DOCUMENT_PROMPT, query=text, documents=(text,)))

    assert result.text == f"{text} [1]"


async def test_wrapped_lines_are_joined() -> None:
    """Lines that end where the next word did not fit are one paragraph."""
    text = (
        "The harbour office takes bookings of berths until the evening before the\n"
        "arrival; a boat that comes without one lies at the quay for visitors and\n"
        "pays there."
    )
    result = await written(WriteRequest(template_id=DOCUMENT_PROMPT, query=text, documents=(text,)))

    assert result.text == f"{' '.join(text.split())} [1]"


def test_highlights_are_found_in_their_own_row() -> None:
    """A cell whose text stands elsewhere in the answer, too, is highlighted where it was quoted."""
    row = "| Cables | 12 |"
    quote = Citation(marker=1, chunk_id="c", document_id="d", quote=row, highlights=((11, 13),))
    text = f"Room 12\n\n| Part | 2012 |\n|---|---|\n{row}\n[1]"
    answer = replace(sample(Answer), text=text, citations=(quote,))

    assert answer_highlights(answer) == [(text.index(row) + 11, text.index(row) + 13)]


def test_the_command_line_prints_aligned_columns() -> None:
    """Columns are as wide as their widest cell; the row with words that answer is bold."""
    row = "| Longest part of all | 7 |"
    quote = Citation(marker=1, chunk_id="c", document_id="d", quote=row, highlights=((24, 25),))
    text = f"Stock\n\n| Part | Amount |\n|---|---|\n| Nut | 12 |\n{row}\n[1]"
    answer = replace(
        sample(Answer), text=text, citations=(quote,), unsupported=(), refusal=None, nearest=()
    )
    out = io.StringIO()
    print_answer(answer, Console(file=out, width=80, force_terminal=True))

    lines = out.getvalue().split("\n")
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    start = plain.index("| Part                | Amount |")
    assert plain[start - 2 : start] == ["Stock", ""]
    assert plain[start + 1 : start + 5] == [
        "|---------------------|--------|",
        "| Nut                 | 12     |",
        "| Longest part of all | 7      |",
        "[1]",
    ]
    assert re.search(r"\x1b\[1m *Longest", lines[start + 3])
    assert "\x1b[1m" not in lines[start + 2]


def test_a_search_shows_the_rows_that_fit_below_their_header() -> None:
    """A preview begins with the row that is searched for, not with the first one of the passage."""
    shown = rows_for("valve V51", LEAD, ROWS, most=60)

    assert shown == f"{LEAD}\n| Valve V51 | shelf 2 | 54 kg |"
    assert rows_for("pumps", "", f"About pumps.\n\n{LEAD}\n{ROWS}", most=60) == ""


def test_a_quote_has_the_page_of_the_words_that_answer() -> None:
    """A quote over pages has all its lines and rows, and the page or slide of the words that answer."""
    places = (
        Place(char_start=0, page=2, line_start=3, line_end=4),
        Place(char_start=40, page=5, line_start=9, line_end=9, anchor="end"),
    )

    whole, answer = locate(places, 0, 60), locate(places, 0, 60, words=45)
    assert (whole.page, whole.line_start, whole.line_end) == (2, 3, 9)
    assert (answer.page, answer.anchor, answer.line_start, answer.line_end) == (5, "end", 3, 9)
    assert (answer.char_start, answer.char_end) == (0, 60)


def test_rows_are_those_of_the_cited_sheet() -> None:
    """Rows of the next sheet do not count."""
    places = (
        Place(char_start=0, page=1, sheet="Plan", row_start=7, row_end=7),
        Place(char_start=10, page=1, sheet="Plan", row_start=8, row_end=9),
        Place(char_start=20, page=2, sheet="Done", row_start=2, row_end=2),
    )

    assert locate(places, 0, 30).label() == ' sheet "Plan" rows 7-9'
    assert locate(places, 0, 30, words=22).label() == ' sheet "Done" row 2'


def test_places_in_words() -> None:
    """A place follows the name of a file."""
    labels = [
        Location(slide=4, page=4).label(),
        Location(message="2026-03-03T08:00:00+00:00").label(),
        Location(message="last spring").label(),
        Location(page=5, line_start=2).label(),
    ]

    assert labels == [" slide 4", " message of 3 March 2026", " message of last spring", " p. 5"]


def test_the_first_row_below_a_header_has_its_own_line() -> None:
    """Header and first row are one part, and a citation of the row names the line of the row."""
    builder = write_markdown(
        "# Stock\n\n| Part | Place |\n|---|---|\n| Nut | 1 |\n| Cog | 2 |\n", 0
    )
    lines = {}
    for row in ("| Nut | 1 |", "| Cog | 2 |"):
        start = builder.text.index(row)
        place = locate(builder.places, start, start + len(row))
        lines[row] = (place.line_start, place.line_end)

    assert lines == {"| Nut | 1 |": (5, 5), "| Cog | 2 |": (6, 6)}


def test_a_trace_has_every_place() -> None:
    """Sheet and rows, slide, message, page, lines and anchor are read as they were recorded."""
    full = Location(
        page=2,
        line_start=3,
        line_end=4,
        char_start=5,
        char_end=9,
        anchor="a",
        slide=2,
        sheet="Plan",
        row_start=12,
        row_end=13,
        message="2026-03-03",
    )
    for location in (full, Location(sheet="Plan"), Location(message="2026-03-03"), None):
        cited = Citation(marker=1, chunk_id="urn:c", document_id="d", quote="Q", location=location)
        triples = [
            *question_triples("id", "Where?", "2026-03-03T08:00:00Z"),
            *grounding_triples("id", []),
            *exploration_triples("id", ["urn:c"]),
            *focus_triples("id", [Passage(chunk_id="urn:c", rank=1)]),
            *synthesis_triples("id", reranked=True, citations=[cited], found=True),
        ]
        (found,) = read_trace(triples).citations

        assert found.location == location


async def test_the_first_row_is_a_header_when_the_question_names_a_column_by_it() -> None:
    """Many files mark no header; a first row that the question does not speak of is no header."""
    rows = (
        "| Tool | Day rate | Deposit |\n| Saw | 35 euro | 200 euro |\n| Ladder | 8 euro | 40 euro |"
    )
    text = f"{rows}\n" + "\n".join(f"| Item {n} | {n} euro | {n} euro |" for n in range(10, 40))
    named = await written(request_of("What is the deposit for the ladder?", passage("", text)))
    other = await written(request_of("What is said of the ladder?", passage("", text)))

    row = "| Ladder | 8 euro | 40 euro |"
    assert named.text == f"| Tool | Day rate | Deposit |\n|---|---|---|\n{row}\n[1]"
    assert [named.quotes[0].text[slice(*one)] for one in named.quotes[0].highlights] == ["40 euro"]
    assert other.text == f"{row}\n[1]"
