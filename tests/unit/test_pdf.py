"""What a reader of a PDF sees is what is stored, at its place: one test a class of pages."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from tests.support.pdf_canvas import Canvas, canvas_pdf, width_of

from whence.ingest import ocr
from whence.ingest.blocks import ParsedDocument
from whence.ingest.loader_registry import loader_for
from whence.ingest.pdf_layout import Segment, rows_of
from whence.ingest.pdf_lines import Line
from whence.ingest.pdf_pieces import Piece, take_vertical
from whence.ingest.pdf_writer import PdfWriter
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import TextBuilder
from whence.schema.errors import BadInput
from whence.schema.places import place_of

LEFT = [
    "The first column is about the kiln in the yard,",
    "which was built of brick by two masons, and it",
    "burns for three days before the clay is dry and",
    "the door may be opened by the foreman. Nobody",
    "else has a key, and the key hangs in the office.",
]
RIGHT = [
    "The second column is about the river, which is",
    "low in August and high in March, so that boats",
    "come in spring only. They carry sand and coal to",
    "the yard and take bricks to the city, where they",
    "are sold by weight on the market in the harbour.",
]


def read(data: bytes) -> ParsedDocument:
    file = SourceFile(path="a.pdf", document_id="a.pdf", suffix=".pdf")
    return loader_for(file).parse(file, data)


def read_page(page: Canvas) -> str:
    return read(canvas_pdf([page])).text


def headings(document: ParsedDocument) -> list[str]:
    return [block.path[-1] for block in document.blocks if block.kind == "heading"]


def rows(text: str) -> list[list[str]]:
    """Return the cells of all rows of tables, without the lines below headers."""
    lines = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


def test_columns_are_read_one_after_another_whatever_was_drawn_first() -> None:
    """A page of two columns below a title over both, drawn line by line across them, or at random."""
    drawn = [
        (x, 700 - 13 * at, words)
        for at, pair in enumerate(zip(LEFT, RIGHT, strict=True))
        for x, words in zip((72, 320), pair, strict=True)
    ]
    drawn += [
        (72, 720, "A report on all that was seen in the yard, on the river and in the harbour.")
    ]
    expected = (
        "A report on all that was seen in the yard, on the river and in the harbour.\n\n"
        f"{' '.join(LEFT)}\n\n{' '.join(RIGHT)}"
    )
    for seed in range(3):
        random.Random(seed).shuffle(drawn)
        page = Canvas()
        for x, y, words in drawn:
            page.text(x, y, words)

        assert read_page(page) == expected


STATEMENT = [
    ("Revenue:", None),
    ("Products", (46298, 51761)),
    ("Services", (21871, 19020)),
    ("Total revenue", (68169, 70781)),
    ("Other income (expense), net", (-321, 410)),
    ("Net income", (12801, 14390)),
]


def figure(value: int) -> str:
    return f"{value:,}" if value >= 0 else f"({-value:,})"


def draw_statement(page: Canvas, y: float, *, signs: bool = True, leaders: bool = False) -> float:
    """Draw a statement of two years: name, unit, years, rows with bold totals."""
    page.text(306, y, "Statement of operations", font="F2", align="centre")
    page.text(306, y - 13, "(in thousands of crowns)", align="centre")
    page.text(450, y - 40, "Year ended 31 March", font="F2", align="centre")
    for x, year in ((420, "2024"), (520, "2023")):
        page.text(x, y - 53, year, font="F2", align="right")
    y -= 70
    for label, values in STATEMENT:
        is_total = label.startswith(("Total", "Net"))
        page.text(72, y, label, font="F2" if is_total else "F1")
        for x, value in zip((420, 520), values or (), strict=False):
            if signs and is_total:
                page.text(x - 60, y, "$")
            right = x + (width_of(")", 10) if value < 0 else 0)
            page.text(right, y, figure(value), align="right", font="F2" if is_total else "F1")
        if leaders and values:
            start = 72 + width_of(label, 10) + 4
            page.text(start, y, "." * int((340 - start) / 2.78))
        y -= 14
    return y


@pytest.mark.parametrize("signs", [True, False])
@pytest.mark.parametrize("leaders", [True, False])
def test_a_financial_statement_is_a_table(signs: bool, leaders: bool) -> None:
    """Numbers are below their years, with sign and brackets; name and unit are the caption; totals are rows."""
    page = Canvas()
    page.lines(72, 760, ["The board approved the statement below at its meeting in the city hall."])
    below = draw_statement(page, 700, signs=signs, leaders=leaders)
    page.lines(72, below - 30, ["* The figures of the former year were restated."], size=8)
    document = read(canvas_pdf([page]))

    table = rows(document.text)
    assert table[0] == ["", "Year ended 31 March 2024", "Year ended 31 March 2023"]
    assert table[1] == ["Revenue:", "", ""]
    for row, (label, values) in zip(table[2:], STATEMENT[1:], strict=True):
        assert row[0] == label
        assert [cell.lstrip("$") for cell in row[1:]] == [figure(each) for each in values or ()]
        assert all(cell.startswith("$") == (signs and "t" in label[2:5]) for cell in row[1:])
    assert "Statement of operations (in thousands of crowns)\n\n|" in document.text
    assert "\n\n* The figures of the former year were restated." in document.text
    assert headings(document) == []


def test_a_turned_page_reads_as_one_that_is_not() -> None:
    """Text that is drawn upwards on a page that a reader turns."""
    upright, turned = Canvas(), Canvas(rotate=90)
    draw_statement(upright, 500)
    draw = turned.text

    def sideways(x: float, y: float, words: str, *, align: str = "left", **rest: object) -> None:
        x -= {"left": 0.0, "right": 1.0, "centre": 0.5}[align] * width_of(words, 10)
        draw(600 - y, x, words, angle=90, **rest)  # type: ignore[arg-type]

    turned.text = sideways  # type: ignore[assignment, method-assign]
    draw_statement(turned, 500)

    assert len(rows(read_page(upright))) == len(STATEMENT) + 1
    assert read_page(turned) == read_page(upright)


def draw_grid(
    page: Canvas, top: float, cells: list[list[str]], *, frame: bool = True, across: bool = True
) -> None:
    """Draw a table with lines: columns of 120 points, rows of 18."""
    bottom = top - 18 * len(cells)
    for at in range(len(cells[0]) + 1):
        if frame or 0 < at < len(cells[0]):
            page.line(72 + 120 * at, bottom, 72 + 120 * at, top)
    for at in range(len(cells) + 1):
        if across or at in (0, 1, len(cells)):
            page.line(72, top - 18 * at, 72 + 120 * len(cells[0]), top - 18 * at)
    for row, line in enumerate(cells):
        for column, words in enumerate(line):
            page.text(76 + 120 * column, top - 18 * row - 13, words)


@pytest.mark.parametrize(("frame", "across"), [(True, True), (False, True), (True, False)])
def test_a_table_with_lines_goes_on_over_pages(frame: bool, across: bool) -> None:
    """One table, its header once, each row with its own page; also when some lines are not drawn."""
    header = ["Part", "Stock", "Price in crowns"]
    pages, cells = [], []
    for number in range(3):
        own = [[f"Bolt {10 * number + at}", str(500 + at), f"{number}.{at}0"] for at in range(8)]
        page = Canvas()
        draw_grid(page, 740, [header, *own], frame=frame, across=across)
        pages.append(page)
        cells += own
    document = read(canvas_pdf(pages))

    assert rows(document.text) == [header, *cells]
    for number in range(3):
        at = document.text.index(f"Bolt {10 * number + 5} ")
        place = place_of(document.places, at, at + 4)
        assert place is not None
        assert place.page == number + 1


def test_a_table_with_an_open_side_has_its_header_and_all_rows() -> None:
    """The header is boxed, the rows have lines beside them only, and nothing closes them."""
    page = Canvas()
    for y in (714, 696):
        page.line(72, y, 432, y)
    for x in (72, 192, 312, 432):
        page.line(x, 620, x, 714)
    cells = [
        ["Part", "2024", "2023"],
        ["Yard", "", ""],
        ["Bolts", "1,200", "900"],
        ["Nuts", "31", "28"],
    ]
    for at, row in enumerate(cells):
        for column, words in enumerate(row):
            page.text(76 + 120 * column, 700 - 20 * at, words)

    assert rows(read_page(page)) == cells


def test_two_tables_with_one_header_stay_two() -> None:
    """A table on the next page that has a name of its own is another one."""
    pages = [Canvas(), Canvas()]
    for page, name in zip(pages, ("Stock in the north", "Stock in the south"), strict=True):
        page.text(72, 750, name)
        draw_grid(page, 740, [["Part", "Stock"], ["Bolt", "500"], ["Nut", "700"]])
    text = read(canvas_pdf(pages)).text

    assert text.count("| Part | Stock |") == 2
    assert "Stock in the south\n\n| Part" in text


def test_a_box_around_text_is_no_table() -> None:
    """A frame, and a frame in a frame, are only lines around paragraphs."""
    page = Canvas()
    page.lines(72, 700, LEFT)
    page.box(60, 600, 400, 120)
    page.box(40, 560, 460, 200)

    assert read_page(page) == " ".join(LEFT)


def test_cells_of_several_lines_are_one_row() -> None:
    """Rows without lines between them that are further apart than the lines of their cells."""
    page = Canvas()
    y = 700.0
    for row in (
        (["Bolt"], ["made of steel,", "with a nut"], ["Hall 4"]),
        (["Rope"], ["of hemp, which", "must stay dry"], ["Hall 7"]),
        (["Sail"], ["of linen"], ["Loft"]),
    ):
        for x, lines in zip((72, 200, 400), row, strict=True):
            page.lines(x, y, lines)
        y -= 12.5 * max(map(len, row)) + 10

    assert rows(read_page(page)) == [
        ["Bolt", "made of steel, with a nut", "Hall 4"],
        ["Rope", "of hemp, which must stay dry", "Hall 7"],
        ["Sail", "of linen", "Loft"],
    ]


def test_words_that_are_set_apart_to_fill_a_line_are_one_line() -> None:
    """Narrow columns with wide spaces between words are text, not a table."""
    page = Canvas()
    for column, text in enumerate((LEFT, RIGHT)):
        words = iter(" ".join(text).split())
        y = 700.0 - 6 * column
        while line := [word for _, word in zip(range(4), words, strict=False)]:
            space = (160 - sum(width_of(word, 10) for word in line)) / max(1, len(line) - 1)
            x = 72.0 + 200 * column
            for word in line:
                page.text(x, y, word)
                x += width_of(word, 10) + (space if len(line) == 4 else 3)
            y -= 13

    assert read_page(page) == f"{' '.join(LEFT)}\n\n{' '.join(RIGHT)}"


def test_lines_with_wide_spaces_between_sentences_are_prose() -> None:
    """Lines of which some have a wide space behind a sentence, each elsewhere, are no rows of a table."""
    lines = [
        ("The clay is dug in autumn and lies in the open all winter long.",),
        ("Frost breaks it.", "In spring it is wetted, and two horses walk it"),
        ("round and round in the pit until no lump is left, which takes four",),
        ("or five days when the weather is dry.", "Then it is cut and carried"),
        ("to the benches, where the moulders throw it into frames of beech.",),
        ("A good moulder makes nine hundred a day.", "His boys carry them off"),
        ("to the drying sheds and set them on edge in rows, a hand apart.",),
    ]
    page = Canvas()
    for at, (first, *rest) in enumerate(lines):
        page.text(72, 700 - 13 * at, first)
        for part in rest:
            page.text(372, 700 - 13 * at, part, align="right")

    assert read_page(page) == " ".join(part for parts in lines for part in parts)


@pytest.mark.parametrize("is_ruled", [False, True])
def test_words_that_are_broken_in_a_cell_are_whole(is_ruled: bool) -> None:
    """A hyphen at the end of a line of a cell goes, that of a compound which stands so elsewhere stays."""
    page = Canvas()
    page.text(72, 740, "The well-known terms are on the back.")
    table = [("Insurance", ["paid by the well-", "known under-", "writers"]), ("Storage", ["paid by us"]), ("Return", ["paid by you"])]  # fmt: skip
    y = 690.0
    edges = [y + 16]
    for label, lines in table:
        page.text(80, y, label)
        for line in lines:
            page.text(220, y, line)
            y -= 12
        edges.append(y + 2)
        y -= 14
    if is_ruled:
        for edge in edges:
            page.line(72, edge, 400, edge)
        for x in (72, 210, 400):
            page.line(x, edges[0], x, edges[-1])

    assert rows(read_page(page))[0] == ["Insurance", "paid by the well-known underwriters"]


def test_labels_and_values_are_rows_and_lists_of_goods_have_their_header() -> None:
    """A table of labels has no header; a cell of two lines whose row is centred stays in its row."""
    page = Canvas()
    for at, row in enumerate(
        (("Order no.", "B-2291"), ("Date", "3 May 2024"), ("Due", "2 June 2024"))
    ):
        page.text(72, 740 - 16 * at, row[0])
        page.text(160, 740 - 16 * at, row[1])
    places = ((72, "left"), (120, "left"), (400, "right"), (500, "right"))
    for y, row in (
        (600, ("Pos", "Goods", "Number", "Amount")),
        (580, ("1", "Roof tiles, fired twice", "1,200", "960.00 EUR")),
        (560, ("", "Transport to the harbour", "", "")),
        (554, ("2", "", "1", "140.00 EUR")),
        (548, ("", "by boat, on the lower deck", "", "")),
        (528, ("3", "Rope", "7", "21.00 EUR")),
    ):
        for (x, align), words in zip(places, row, strict=True):
            if words:
                page.text(x, y, words, align=align)
    text = read_page(page)

    assert text.split("\n\n")[0] == (
        "| Order no. | B-2291 |\n| Date | 3 May 2024 |\n| Due | 2 June 2024 |"
    )
    assert rows(text)[3:] == [
        ["Pos", "Goods", "Number", "Amount"],
        ["1", "Roof tiles, fired twice", "1,200", "960.00 EUR"],
        ["2", "Transport to the harbour by boat, on the lower deck", "1", "140.00 EUR"],
        ["3", "Rope", "7", "21.00 EUR"],
    ]


def test_bold_text_is_no_heading_by_itself() -> None:
    """Bullets, dates, signs for nothing and notes in bold letters are text; numbers and size make headings."""
    page = Canvas()
    page.text(72, 740, "Yard rules", size=18, font="F2")
    y = 700.0
    for words in ("1.2 Keys", "31 May 2024", "N/A", "* Note", "\x95 Item", "12.4%", "Total 46"):
        page.text(72, y, words, font="F2")
        y = page.lines(72, y - 14, LEFT[:3]) - 14

    assert headings(read(canvas_pdf([page]))) == ["Yard rules", "1.2 Keys"]


def test_bold_lines_with_space_around_are_headings_where_several_are() -> None:
    """Weight counts with the place of a line: above plain text, with a space above, more than once."""

    def page(*names: str) -> Canvas:
        page, y = Canvas(), 700.0
        for name in names:
            y = page.lines(72, y, LEFT) - 8
            page.text(72, y, name, font="F2")
            y = page.lines(72, y - 14, RIGHT) - 8
        return page

    assert headings(read(canvas_pdf([page("Keys", "Boats")]))) == ["Keys", "Boats"]
    assert headings(read(canvas_pdf([page("Keys")]))) == []


def test_running_titles_numbers_and_watermarks_are_no_text() -> None:
    """On two pages and on many, with Arabic and Roman numbers, aslant and upright watermarks."""
    for count in (2, 5):
        pages = []
        for number in range(count):
            page = Canvas()
            page.text(72, 770, f"Brickworks annual report | {number + 1} of {count}", size=8)
            page.text(306, 30, "i" * (number + 1) if count == 2 else str(number + 7), size=8)
            page.text(150, 250, "CONFIDENTIAL", size=60, angle=45, grey=0.8)
            page.lines(72, 700, LEFT if number % 2 else RIGHT)
            pages.append(page)
        text = read(canvas_pdf(pages)).text

        assert text.split("\n\n") == [" ".join(LEFT if at % 2 else RIGHT) for at in range(count)]


def test_what_repeats_within_the_text_stays() -> None:
    """Equal lines in the middle of pages are text, and so are pages that have nothing else."""
    pages = []
    for number in range(4):
        page = Canvas()
        page.lines(72, 740, LEFT if number % 2 else RIGHT)
        page.text(72, 400, "A page has this line, too.")
        page.lines(72, 100, RIGHT if number % 2 else LEFT)
        pages.append(page)
    assert read(canvas_pdf(pages)).text.count("A page has this line, too.") == 4
    pages = [Canvas() for _ in range(4)]
    for page in pages:
        page.text(72, 770, "Equal words")
    assert read(canvas_pdf(pages)).text.count("Equal words") == 4


def test_hidden_text_is_left_out_and_counted() -> None:
    """White on white, invisible, outside of the page, below a box, in the colour of its box."""
    page = Canvas()
    page.text(72, 700, "Plain words are seen.")
    page.text(72, 680, "secret one", grey=1)
    page.text(72, 660, "secret two", mode=3)
    page.text(700, 640, "secret three")
    page.text(72, 620, "secret four")
    page.box(60, 610, 200, 30, grey=0)
    page.box(60, 560, 200, 30, grey=0)
    page.text(72, 570, "secret five", grey=0)
    page.box(60, 510, 200, 30, grey=0)
    page.text(72, 520, "White on black is seen.", grey=1)
    document = read(canvas_pdf([page]))

    assert document.text == "Plain words are seen.\n\nWhite on black is seen."
    assert document.left_out == {"hidden passages": 5}


def test_text_that_was_recognised_in_a_picture_is_text() -> None:
    """Invisible text on a picture is what it shows."""
    page = Canvas()
    page.picture(0, 0, 612, 792)
    page.text(72, 700, "Words of a scanned letter.", mode=3)

    assert read_page(page) == "Words of a scanned letter."


def test_struck_text_is_left_out_and_counted() -> None:
    """A line through words, drawn or as a note, deletes them; one below them does not."""
    page = Canvas()
    page.text(72, 700, "The fee is")
    page.text(120, 700, "40 crowns")
    page.line(119, 703.3, 121 + width_of("40 crowns", 10), 703.3)
    page.text(172, 700, "55 crowns a year.")
    page.line(172, 698, 172 + width_of("55 crowns a year.", 10), 698)
    page.text(72, 660, "Pay by")
    page.text(106, 660, "May")
    quad = "106 669 126 669 106 658 126 658"
    page.note("StrikeOut", (106, 658, 126, 669), f"/QuadPoints [{quad}]")
    page.text(130, 660, "June at the latest.")
    document = read(canvas_pdf([page]))

    assert document.text == "The fee is 55 crowns a year.\n\nPay by June at the latest."
    assert document.left_out == {"struck passages": 2}


def test_raised_numbers_stay_apart() -> None:
    """Powers are written with a sign, marks of notes that the page has in brackets."""
    page = Canvas()
    page.text(72, 700, "It weighs 10")
    x = 72 + width_of("It weighs 10", 10)
    page.text(x, 704, "6", size=6)
    page.text(x + 4, 700, " grams, in 18")
    x += 4 + width_of(" grams, in 18", 10)
    page.text(x, 704, "2", size=6)
    page.text(x + 5, 700, " boxes.")
    page.text(72, 104, "2", size=5)
    page.text(76, 100, "Each box is of oak.", size=8)

    assert read_page(page) == "It weighs 10^6 grams, in 18[2] boxes.\n\n[2] Each box is of oak."


def field(page: Canvas, y: float, kind: str, name: str, value: str, *, x: float = 200) -> None:
    page.note("Widget", (x, y - 3, x + 150, y + 12), f"/FT /{kind} /T ({name}) {value}")


def test_values_of_forms_stand_beside_their_labels() -> None:
    """Texts, choices and check boxes; a field without a printed label has its name; passwords stay secret."""
    page = Canvas()
    for y, label in ((700, "Full name:"), (670, "Country:"), (640, "Member:"), (610, "Empty:")):
        page.text(72, y, label)
    field(page, 700, "Tx", "name", "/V (Ida Novak)")
    field(page, 670, "Ch", "land", "/Opt [(Norway) (Peru)] /V (Peru) /Ff 131072")
    look = "/AP << /N << /Yes null /Off null >> >>"
    field(page, 640, "Btn", "member", f"/V /Yes /AS /Yes {look}")
    field(page, 610, "Tx", "nothing", "")
    field(page, 560, "Tx", "order.number", "/TU (Order number) /V (B-117)")
    field(page, 530, "Tx", "pin", "/V (1234) /Ff 8192")
    text = read_page(page)

    assert re.sub(r"[|\s]+", " ", text).strip() == (
        "Full name: Ida Novak Country: Peru Member: [x] Empty: Order number: B-117"
    )


def test_remarks_pictures_and_pages_without_text_are_counted() -> None:
    """What was seen and not taken has a number each."""
    page, scan = Canvas(), Canvas()
    page.lines(72, 700, LEFT)
    page.picture(72, 300, 200, 100)
    page.note("Text", (10, 10, 30, 30), "/Contents (Is this so?)")
    page.note("FreeText", (72, 200, 300, 215), "/Contents (Typed on the page.) /DA (/F1 10 Tf)")
    scan.picture(0, 0, 612, 792)
    document = read(canvas_pdf([page, scan, scan]))

    assert document.text == f"{' '.join(LEFT)}\n\nTyped on the page."
    assert document.left_out == {"pictures": 1, "comments": 1, "pages without text": 2}


def test_a_pdf_without_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that are pictures fail where nothing looks for text in them; else they have none, as blank ones."""
    blank, scan = Canvas(), Canvas()
    scan.picture(0, 0, 612, 792)
    monkeypatch.setattr(ocr, "is_available", lambda: False)
    for pages, said in (([scan], "1 page"), ([scan, blank], "2 pages")):
        with pytest.raises(BadInput, match=rf"has {said} without text \(scanned\?\)"):
            read(canvas_pdf(pages))
    assert (read(canvas_pdf([blank])).blocks, read(canvas_pdf([blank])).left_out) == ((), {})
    monkeypatch.setattr(ocr, "is_available", lambda: True)
    monkeypatch.setattr(ocr, "read_words", lambda picture: [])
    document = read(canvas_pdf([scan, scan]))
    assert (document.blocks, document.left_out) == ((), {"pictures": 2})


@pytest.mark.parametrize(
    "title",
    *[[
        *("", "000112-24-0131", "(anonymous)", "Untitled-3", "untitled", "Microsoft Word - plan.docx"),
        *("plan_v2_final", "plan.indd", "fpdf2", "Slide 1", "..."),
    ]],
)  # fmt: skip
def test_a_title_that_says_nothing_gives_way(title: str) -> None:
    """The first heading names the document then."""
    page = Canvas()
    page.text(72, 740, "Rules of the yard", size=18)
    page.lines(72, 700, LEFT)

    assert (
        read(canvas_pdf([page], {"Title": title, "Producer": "fpdf2"})).title == "Rules of the yard"
    )
    assert (
        read(canvas_pdf([page], {"Title": "The kiln, 3rd edition"})).title
        == "The kiln, 3rd edition"
    )


@pytest.mark.parametrize(
    ("properties", "date"),
    [
        ({"CreationDate": "D:20240503101500+02'00'"}, "2024-05-03T10:15:00+02:00"),
        ({"CreationDate": "D:20240503"}, "2024-05-03"),
        ({"CreationDate": "yesterday", "ModDate": "D:20240602101500Z"}, "2024-06-02T10:15:00Z"),
        ({"CreationDate": "D:20249901"}, ""),
        ({}, ""),
    ],
)
def test_the_date_of_the_properties_is_that_of_the_document(
    properties: dict[str, str], date: str
) -> None:
    """Day and time with the offset that is stated; what is no date is none."""
    page = Canvas()
    page.lines(72, 700, LEFT)

    assert read(canvas_pdf([page], properties)).date == date


def test_tables_of_contents_go_and_statements_with_dots_stay() -> None:
    """Dots that lead to rising numbers of pages are no text; those that lead to other numbers are."""

    def page(*numbers: str) -> Canvas:
        page = Canvas()
        for at, number in enumerate(numbers):
            page.text(72, 700 - 14 * at, f"Part {'ABCD'[at]}")
            page.text(110, 700 - 14 * at, "." * 100)
            page.text(480, 700 - 14 * at, number, align="right")
        page.lines(72, 400, LEFT)
        return page

    assert read_page(page("1", "4", "9", "12")) == " ".join(LEFT)
    assert rows(read_page(page("12", "4", "900", "7"))) == [
        ["Part A", "12"], ["Part B", "4"], ["Part C", "900"], ["Part D", "7"],
    ]  # fmt: skip


def test_code_keeps_its_spaces() -> None:
    """Letters of one width are lines of code, with the spaces inside them."""
    page = Canvas()
    page.lines(72, 700, [*LEFT, *RIGHT])
    for at, line in enumerate(("def f(x):", "    a = 1      # one", "    return a")):
        bare = line.lstrip()
        page.text(72 + 6 * (len(line) - len(bare)), 500 - 13 * at, bare, font="F3")

    assert "```\ndef f(x):\n    a = 1      # one\n    return a\n```" in read_page(page)


def test_east_asian_text_reads_downwards_and_without_spaces() -> None:
    """Columns of letters go from the right to the left; lines of such scripts are joined without a space."""
    columns = ("送料是五", "百元整。")
    groups = {
        0: [
            Piece(letter, 500 - 24 * column, 512 - 24 * column, 700 - 12 * at, 12, 10 * column + at)
            for column, word in enumerate(columns)
            for at, letter in enumerate(word)
        ]
    }
    take_vertical(groups)
    lines = [Segment(row) for row in rows_of(groups[270])]
    assert [line.text for line in lines] == list(columns)
    assert groups[0] == []

    text = TextBuilder()
    items = [
        Line(line.text, 72, 710 - 14 * at, 700 - 14 * at, 200) for at, line in enumerate(lines)
    ]
    PdfWriter(text, items, Counter({10.0: 8})).write()
    assert text.text == "送料是五百元整。"


def test_a_page_that_cannot_be_read_is_counted() -> None:
    """The other pages are read; a document without any is refused."""
    page = Canvas()
    page.lines(72, 700, LEFT)
    data = canvas_pdf([page, page])
    assert b"/Kids [6 0 R 8 0 R]" in data
    document = read(data.replace(b"[6 0 R 8 0 R]", b"[6 0 R      ]"))

    assert document.text == " ".join(LEFT)
    assert document.left_out == {"parts": 1}
    with pytest.raises(BadInput, match="all pages are damaged"):
        read(data.replace(b"[6 0 R 8 0 R]", b"[           ]"))


def test_a_sentence_between_two_tables_parts_them() -> None:
    """It stands apart from the rows above it; a label of rows does not part a table."""
    page = Canvas()
    drawn = [
        (700, ("Ton", "2019", "2020")),
        (686, ("Coal", "7", "9")),
        (656, ("The second pit was opened then.",)),
        (626, ("Ton", "2021", "2022")),
        (612, ("Sand", "5", "8")),
        (598, ("From the river:",)),
        (584, ("Clay", "6", "4")),
    ]
    for y, cells in drawn:
        for at, cell in enumerate(cells):
            page.text(72 + 100 * at, y, cell)

    text = read_page(page)

    assert "\n\nThe second pit was opened then.\n\n" in text
    assert rows(text) == [
        ["Ton", "2019", "2020"],
        ["Coal", "7", "9"],
        ["Ton", "2021", "2022"],
        ["Sand", "5", "8"],
        ["From the river:", "", ""],
        ["Clay", "6", "4"],
    ]


def test_words_beside_frames_that_touch_are_in_none_of_them() -> None:
    """The frames of two fields below one another, the lower one wider: what stands beside the upper one."""
    page = Canvas()
    for x, y, width in ((120, 702, 90), (120, 686, 150)):
        page.box(x, y, width, 16)
    page.text(72, 706, "Port")
    page.text(124, 706, "Riga")
    page.text(220, 706, "Home of the fleet")
    page.text(72, 690, "Master")
    page.text(124, 690, "Ida Holm")

    text = read_page(page)

    assert "Home of the fleet" in text
    assert "Port" in text.partition("Master")[0]


def test_items_above_a_table_are_no_name_of_it() -> None:
    """The last items of a list stay items where a table follows them."""
    page = Canvas()
    page.lines(
        72,
        700,
        ["All goods pass the gate in this order", "a. sacks and barrels", "b. loose timber"],
    )
    for at, row in enumerate((("Zone", "Fee"), ("North", "12"), ("South", "15"))):
        for x, words in zip((72, 200), row, strict=True):
            page.text(x, 652 - 13 * at, words)

    text = read_page(page)

    assert "- a. sacks and barrels\n- b. loose timber" in text
    assert rows(text) == [["Zone", "Fee"], ["North", "12"], ["South", "15"]]
