"""The boxes of a quote hold its words on the page, and no others: one test a class of pages."""

from __future__ import annotations

import pytest
from tests.support.pdf_canvas import Canvas, canvas_pdf, width_of

from whence.ingest.loader_registry import loader_for
from whence.ingest.pdf_boxes import pdf_boxes
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput

Drawn = list[tuple[float, float, str]]


def page_of(drawn: Drawn, *, rotate: int = 0) -> bytes:
    page = Canvas(rotate=rotate)
    for x, y, words in drawn:
        page.text(x, y, words)
    return canvas_pdf([page])


def words_in(drawn: Drawn, boxes: list[tuple[float, float, float, float]]) -> list[str]:
    """Return the words of a page whose middle lies in a box, by box."""
    found = []
    for left, bottom, right, top in boxes:
        own = []
        for x, y, line in drawn:
            words = line.split()
            for at, word in enumerate(words):
                start = x + width_of(" ".join([*words[:at], ""]), 10)
                middle = start + width_of(word, 10) / 2
                if left <= middle <= right and bottom <= y + 3 <= top:
                    own.append(word)
        found.append(" ".join(own))
    return found


COLUMNS: Drawn = [
    (72, 700 - 13 * at, words) if at < 5 else (320, 765 - 13 * at, words)
    for at, words in enumerate(
        [
            "The first column is about the kiln in the yard,",
            "which was built of brick by two masons, and it",
            "burns for three days before the clay is dry. No-",
            "body may open the door but the foreman, and the",
            "key hangs in the office behind his chair, where",
            "it is seen by everybody. The river is low in the",
            "month of August and high in March, so that boats",
            "come in spring only. They carry sand and coal to",
            "the yard and take bricks to the city, where they",
            "are sold by weight on the market in the harbour.",
        ]
    )
]


@pytest.mark.parametrize(
    ("quote", "expected"),
    [
        ("built of brick by two masons", ["built of brick by two masons,"]),
        # A word that is hyphenated at the end of a line.
        ("Nobody may open the door", ["No-", "body may open the door"]),
        # From the end of one column to the beginning of the next.
        ("the key hangs in the office behind his chair, where it is seen",
         ["the", "key hangs in the office behind his chair, where", "it is seen"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_across", [False, True])
def test_boxes_follow_lines_hyphens_and_columns(
    quote: str, expected: list[str], *, is_across: bool
) -> None:
    """Whether the file has its columns one after another or draws its lines across the page."""
    drawn = sorted(COLUMNS, key=lambda each: -each[1]) if is_across else COLUMNS

    assert words_in(drawn, pdf_boxes(page_of(drawn), 1, quote)) == expected


def test_every_sentence_of_a_page_is_found_in_the_text_of_the_document() -> None:
    """What the loader wrote is a quote that all words of the page answer to."""
    data = page_of(COLUMNS)
    file = SourceFile(path="a.pdf", document_id="a.pdf", suffix=".pdf")
    text = loader_for(file).parse(file, data).text

    found = words_in(COLUMNS, pdf_boxes(data, 1, text))

    assert sorted(found) == sorted(words for _, _, words in COLUMNS)


def test_a_row_of_a_table_is_marked_cell_by_cell() -> None:
    """Marks of the table and a header that the passage repeats are not on the page."""
    drawn = [
        (x, 700 - 14 * at, cell)
        for at, row in enumerate(
            [("Item", "2023", "2024"), ("Bricks", "1,204", "1,377"), ("Slates", "310", "288")]
        )
        for x, cell in zip((72, 200, 300), row, strict=True)
    ]

    boxes = pdf_boxes(page_of(drawn), 1, "| Slates | 310 | 288 |")

    assert words_in(drawn, boxes) == ["Slates", "310", "288"]


def test_words_before_a_quote_tell_equal_places_apart() -> None:
    drawn = [(72, 700, "The gate opens at noon."), (72, 680, "The office opens at noon.")]
    data = page_of(drawn)

    assert pdf_boxes(data, 1, "opens at noon", "The gate ")[0][1] > 690
    assert pdf_boxes(data, 1, "opens at noon", "The office ")[0][1] < 690


def test_a_short_quote_is_a_word_and_not_a_part_of_one() -> None:
    drawn = [(72, 700, "The party met for the art of the partner.")]

    assert words_in(drawn, pdf_boxes(page_of(drawn), 1, "art")) == ["art"]


@pytest.mark.parametrize("rotate", [90, 180, 270])
def test_boxes_are_in_the_coordinates_of_the_page_before_it_is_rotated(rotate: int) -> None:
    """A page that is turned has the boxes of the same page upright."""
    plain = pdf_boxes(page_of(COLUMNS), 1, "two masons")

    assert pdf_boxes(page_of(COLUMNS, rotate=rotate), 1, "two masons") == plain


@pytest.mark.parametrize("angle", [90, 270])
def test_text_that_runs_up_or_down_has_upright_boxes_around_it(angle: int) -> None:
    page = Canvas()
    page.text(300, 400, "kilns burn for three days", angle=angle)

    ((left, bottom, right, top),) = pdf_boxes(canvas_pdf([page]), 1, "burn for three")

    assert right - left < 12
    assert 50 < top - bottom < width_of("kilns burn for three days", 10)
    assert left < 300 < right
    assert (bottom > 400) is (angle == 90)


def test_a_value_of_a_field_is_found() -> None:
    page = Canvas()
    page.text(72, 700, "Name")
    page.note("Widget", (120, 696, 220, 712), "/FT /Tx /T (name) /V (Ada Lovelace) /DA (/F1 10 Tf)")

    ((left, bottom, right, top),) = pdf_boxes(canvas_pdf([page]), 1, "Ada Lovelace")

    assert 119 <= left < right <= 221
    assert 690 < bottom < top < 715


def test_words_that_a_page_does_not_have_have_no_box() -> None:
    """Nor has a page that is not there; what a page has of a longer quote is marked."""
    data = page_of(COLUMNS)

    assert pdf_boxes(data, 1, "Penguins swim in the ocean below the ice.") == []
    assert pdf_boxes(data, 2, "two masons") == []
    assert pdf_boxes(data, 1, "") == []
    both = "a sentence of the page before. The first column is about the kiln"
    assert words_in(COLUMNS, pdf_boxes(data, 1, both)) == ["The first column is about the kiln"]


def test_what_is_no_pdf_is_refused() -> None:
    with pytest.raises(BadInput, match="not a readable PDF"):
        pdf_boxes(b"no pdf", 1, "a")
