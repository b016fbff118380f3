"""Workbooks and tables of text: what a reader sees of them, as tables with headers, and where it stands."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook, load_workbook
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment
from openpyxl.styles import Font
from openpyxl.worksheet.table import Table

from whence.ingest.blocks import ParsedDocument
from whence.ingest.chunking import Chunker
from whence.ingest.content_detection import format_of
from whence.ingest.loader_registry import detect_loader, loader_for
from whence.ingest.sources import SourceFile, suffix_of
from whence.ingest.spreadsheets.number_formats import shown_number
from whence.schema.errors import BadInput
from whence.schema.places import Location, locate


def parsed(name: str, data: str | bytes) -> ParsedDocument:
    file = SourceFile(path=name, document_id=name, suffix=suffix_of(name))
    raw = data.encode() if isinstance(data, str) else data
    return detect_loader(loader_for(file), raw).parse(file, raw)


def saved(book: Workbook) -> bytes:
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def sheet_of(*rows: list[Any], name: str = "Plan") -> tuple[Workbook, Any]:
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = name
    for row in rows:
        sheet.append(row)
    return book, sheet


def tables(document: ParsedDocument) -> list[list[str]]:
    """Return the lines of each block that is a table."""
    blocks = document.text.split("\n\n")
    return [block.split("\n") for block in blocks if block.startswith("|")]


def where(document: ParsedDocument, words: str) -> Location:
    start = document.text.index(words)
    return locate(document.places, start, start + len(words))


def changed(data: bytes, change: Callable[[str, bytes], bytes]) -> bytes:
    """Return a zip file with other parts."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for part in old.namelist():
            new.writestr(part, change(part, old.read(part)))
    return out.getvalue()


def test_numbers_and_dates_are_those_that_are_shown() -> None:
    """A cell has the text that its format shows; dates are ISO 8601, and whole numbers have no point."""
    book, sheet = sheet_of(["What", "Value"])
    for what, value, code in [
        ("whole", 1.0, "General"),
        ("sum", 0.1 + 0.2, "General"),
        ("money", 1250000, '#,##0.00 "€"'),
        ("share", 0.125, "0.0%"),
        ("day", date(2026, 3, 1), "dd/mm/yyyy"),
        ("moment", datetime(2026, 3, 1, 12, 30), "d. mmm yy h:mm"),  # noqa: DTZ001
        ("month", date(2026, 3, 1), "mmm yyyy"),
        ("hours", 1.25, "[h]:mm"),
        ("loss", -5, "#,##0;[Red](#,##0)"),
        ("number", 42, '"INV-"0000'),
        ("true", True, "General"),
    ]:
        sheet.append([what, value])
        sheet.cell(sheet.max_row, 2).number_format = code
    (rows,) = tables(parsed("a.xlsx", saved(book)))

    assert rows[-11:] == [
        "| whole | 1 |",
        "| sum | 0.3 |",
        "| money | 1,250,000.00 € |",
        "| share | 12.5% |",
        "| day | 2026-03-01 |",
        "| moment | 2026-03-01 12:30 |",
        "| month | 2026-03 |",
        "| hours | 30:00 |",
        "| loss | (5) |",
        "| number | INV-0042 |",
        "| true | TRUE |",
    ]


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (0, '_-* #,##0.00_-;-* #,##0.00_-;_-* "-"??_-;_-@_-', "-"),
        (1234.5, "[$€-407] #,##0.00;-[$€-407] #,##0.00", "€ 1,234.50"),
        (5551234, r"000\-0000", "555-1234"),
        (12345.678, "0.00E+00", "1.23E+04"),
        (1250000, '#,##0,"k"', "1,250k"),
        (2.5, "0.##", "2.5"),
        (2, "0.##", "2"),
        (-0.001, "0.00", "0.00"),
        (2.675, "0.00", "2.68"),
        (1.5, "# ?/?", "1.5"),
        (46082, "[$-407]d. mmmm yyyy;@", "2026-03-01"),
        (59, "yyyy-mm-dd", "1900-02-28"),
        (12, ";;;", "12"),
        (10**400, "0.00", None),
    ],
)
def test_formats_of_numbers(value: float, code: str, shown: str | None) -> None:
    """Sections by sign, literals, scales and placeholders; what no format can show is shown without one."""
    if shown is None:
        with pytest.raises(OverflowError):
            shown_number(float(value), code)
    else:
        assert shown_number(value, code).text == shown


def test_a_title_above_a_table_is_its_caption() -> None:
    """The header is the first row of names, not the first row; titles above name the table in each passage."""
    book, sheet = sheet_of()
    sheet["B2"], sheet["B3"] = "Budget of the harbour office", "in thousand euro"
    sheet.merge_cells("B2:D2")
    rows: list[list[Any]] = [["Region", "Plan", "Actual"], ["North", 1, 2], ["South", 5, 6.5]]
    for row, cells in enumerate(rows, 5):
        for column, value in enumerate(cells, 2):
            sheet.cell(row, column, value)
    document = parsed("a.xlsx", saved(book))

    assert document.text == (
        "Plan\n\nBudget of the harbour office \u2013 in thousand euro\n\n"
        "| Region | Plan | Actual |\n|---|---|---|\n| North | 1 | 2 |\n| South | 5 | 6.5 |"
    )
    location = where(document, "| South")
    assert (location.sheet, location.row_start, location.row_end) == ("Plan", 7, 7)
    leads = document.blocks[-1].leads[-1]
    assert [document.text[slice(*lead)] for lead in leads] == [
        "Budget of the harbour office \u2013 in thousand euro",
        "| Region | Plan | Actual |",
    ]


def test_merged_cells_repeat_and_header_rows_become_one() -> None:
    """A cell that spans columns of the header or rows of the body stands in each of them."""
    book, sheet = sheet_of(
        ["Region", "2025", None, "2026", None],
        [None, "Plan", "Actual", "Plan", "Actual"],
        ["North", 1, 2, 3, 4],
        [None, 5, 6, 7, 8],
    )
    for area in ("A1:A2", "B1:C1", "D1:E1", "A3:A4"):
        sheet.merge_cells(area)
    (rows,) = tables(parsed("a.xlsx", saved(book)))

    assert rows == [
        "| Region | 2025 Plan | 2025 Actual | 2026 Plan | 2026 Actual |",
        "|---|---|---|---|---|",
        "| North | 1 | 2 | 3 | 4 |",
        "| North | 5 | 6 | 7 | 8 |",
    ]


def test_tables_side_by_side_and_below_each_other_are_apart() -> None:
    """Empty rows and columns part tables; a total below an empty row goes on with the table above it."""
    book, sheet = sheet_of(["Item", "Price"], ["Bolt", 1], ["Nut", 2], [], ["Total", 3])
    for row, cells in enumerate([["Person", "Role"], ["Ida", "Head"], ["Ben", "Clerk"]], 1):
        for column, value in enumerate(cells, 5):
            sheet.cell(row, column, value)
    for row, cells in enumerate([["City", "Mayor"], ["Brno", "Ruza"], ["Olomouc", "Jan"]], 9):
        for column, value in enumerate(cells, 1):
            sheet.cell(row, column, value)
    found = tables(parsed("a.xlsx", saved(book)))

    assert [rows[0] for rows in found] == [
        "| Item | Price |",
        "| Person | Role |",
        "| City | Mayor |",
    ]
    assert found[0][2:] == ["| Bolt | 1 |", "| Nut | 2 |", "| Total | 3 |"]


def test_columns_between_which_a_layout_leaves_space_are_one_table() -> None:
    """A statement has an empty column between its years: values stay with their labels."""
    book, _ = sheet_of(
        ["", "", 2025, "", 2024], ["Revenue", "", 46298, "", 51761], ["Cost", "", -20, "", -30]
    )
    (rows,) = tables(parsed("a.xlsx", saved(book)))

    assert rows == [
        "| | 2025 | 2024 |",
        "|---|---|---|",
        "| Revenue | 46298 | 51761 |",
        "| Cost | -20 | -30 |",
    ]


def test_a_form_has_no_header() -> None:
    """Names with values of several kinds are rows; the first one is no header of the others."""
    book, _ = sheet_of(
        ["Applicant", "Ruza Kovac"], ["Age", 34], ["Start", date(2026, 4, 1)], ["Town", "Brno"]
    )
    (rows,) = tables(parsed("a.xlsx", saved(book)))

    assert rows[0] == "| Applicant | Ruza Kovac |"
    assert "|---|---|" not in rows


def test_a_column_of_numbers_may_miss_some() -> None:
    """Two columns with a header are no form because a number is missing."""
    book, _ = sheet_of(["Item", "Price"], ["Bolt", 1], ["Nut", "n/a"], ["Screw", 3])
    (rows,) = tables(parsed("a.xlsx", saved(book)))

    assert rows[:2] == ["| Item | Price |", "|---|---|"]


@pytest.mark.parametrize("first", [["Ida", "Berlin"], ["Ida", 34]])
def test_rows_without_a_header_have_none(first: list[Any]) -> None:
    """A first row with a number, or with a text that its column has again, names nothing."""
    book, _ = sheet_of(first, ["Ben", first[1]], ["Ada", first[1]], ["Jan", first[1]])
    (rows,) = tables(parsed("a.xlsx", saved(book)))

    assert "|---|---|" not in rows


def test_what_is_not_shown_is_counted() -> None:
    """Hidden sheets are named; hidden rows and columns, comments, charts and struck text are counted."""
    book, sheet = sheet_of(
        ["Item", "Price", "Margin"], ["Bolt", 1, 91], ["Nut", 2, 92], ["Old", 3, 93]
    )
    sheet.column_dimensions["C"].hidden = True
    sheet.row_dimensions[4].hidden = True
    sheet["A2"].comment = Comment("a remark", "me")
    sheet["A3"] = CellRichText(TextBlock(InlineFont(strike=True), "Screw"), "Nut")
    sheet["B3"].font = Font(strike=True)
    chart = BarChart()
    chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=3))
    sheet.add_chart(chart, "F1")
    secret = book.create_sheet("Salaries")
    secret["A1"], secret.sheet_state = "Ida earns 5000", "veryHidden"
    document = parsed("a.xlsx", saved(book))

    assert document.text == (
        "Plan\n\n| Item | Price |\n|---|---|\n| Bolt | 1 |\n| Nut | |\n\n"
        "Hidden sheets, not read: Salaries"
    )
    assert document.left_out == {
        "hidden columns": 1,
        "hidden rows": 1,
        "hidden sheets": 1,
        "comments": 1,
        "charts": 1,
        "struck passages": 2,
    }


def test_rows_that_a_filter_hides_are_read() -> None:
    """A filter is a view of the rows, not a part of what they say."""
    book, sheet = sheet_of(["Item", "Price"], ["Bolt", 1], ["Nut", 2])
    sheet.auto_filter.ref = "A1:B3"
    sheet.row_dimensions[3].hidden = True
    document = parsed("a.xlsx", saved(book))

    assert "| Nut | 2 |" in document.text
    assert document.left_out == {}


def test_formulas_have_the_value_that_was_stored() -> None:
    """No formula is run: one without a stored value is counted."""
    book, _ = sheet_of(["Item", "Price"], ["Bolt", "=1+1"], ["Nut", 2])
    stored = changed(
        saved(book), lambda _, part: part.replace(b"<f>1+1</f><v />", b"<f>1+1</f><v>2.50</v>")
    )

    assert parsed("a.xlsx", saved(book)).left_out == {"formulas without a value": 1}
    assert "| Bolt | 2.5 |" in parsed("a.xlsx", stored).text
    assert load_workbook(io.BytesIO(stored), data_only=True)["Plan"]["B2"].value == 2.5


def test_a_table_that_the_author_declared_is_one() -> None:
    """A declared table has the header that it states, whatever stands beside it."""
    book, sheet = sheet_of(["x", "y", "beside"], ["p", "q", "beside"], ["r", "s", "beside"])
    sheet.add_table(Table(displayName="T", ref="A1:B3"))
    document = parsed("a.xlsx", saved(book))

    assert tables(document)[0] == ["| x | y |", "|---|---|", "| p | q |", "| r | s |"]


def test_every_passage_of_a_long_sheet_has_its_header_and_rows() -> None:
    """A table of 10,000 rows costs no more than its rows, and a passage knows where it stands."""
    rows: list[list[Any]] = [[f"B{at}", at, "six months"] for at in range(10_000)]
    book, _ = sheet_of(["Bolt", "Length", "Term"], *rows)
    data = saved(book)
    begin = time.process_time()
    document = parsed("a.xlsx", data)
    seconds = time.process_time() - begin
    chunks = Chunker(lambda texts: [len(text.split()) for text in texts]).split(document)

    assert seconds < 10
    assert all("| Bolt | Length | Term |" in chunk.embed_text for chunk in chunks)
    found = where(document, "| B9876 | 9876 |")
    assert (found.sheet, found.row_start, found.row_end) == ("Plan", 9878, 9878)


ODS = """<?xml version="1.0"?><office:document-content xmlns:office="o" xmlns:table="t" xmlns:text="x"
 xmlns:style="s" xmlns:draw="d"><office:automatic-styles><style:style style:name="ta1"><style:table-properties
 table:display="false"/></style:style><style:style style:name="T1"><style:text-properties
 style:text-line-through-style="solid"/></style:style></office:automatic-styles><office:body>
<office:spreadsheet><table:table table:name="Budget"><table:table-column table:number-columns-repeated="2"/>
<table:table-column table:visibility="collapse"/>
<table:table-row table:number-rows-repeated="3"><table:table-cell table:number-columns-repeated="16384"/>
</table:table-row>
<table:table-row><table:table-cell><text:p>Region</text:p></table:table-cell><table:table-cell><text:p>Sum</text:p>
</table:table-cell><table:table-cell><text:p>Margin</text:p></table:table-cell></table:table-row>
<table:table-row><table:table-cell table:number-rows-spanned="2"><text:p>North</text:p></table:table-cell>
<table:table-cell office:value-type="currency" office:value="1250.5"><text:p>1.250,50 €</text:p>
<office:annotation><text:p>a remark</text:p></office:annotation></table:table-cell>
<table:table-cell><text:p>91</text:p></table:table-cell></table:table-row>
<table:table-row><table:covered-table-cell/><table:table-cell office:value-type="date"
 office:date-value="2026-03-01"><text:p>01.03.26</text:p></table:table-cell></table:table-row>
<table:table-row><table:table-cell><text:p>So<text:span text:style-name="T1">old</text:span>uth<text:s/>x</text:p>
</table:table-cell><table:table-cell office:value-type="percentage" office:value="0.5"><text:p>50%</text:p>
</table:table-cell></table:table-row>
<table:table-row table:number-rows-repeated="1048000"><table:table-cell/></table:table-row></table:table>
<table:table table:name="Secret" table:style-name="ta1"><table:table-row><table:table-cell><text:p>x</text:p>
</table:table-cell></table:table-row></table:table></office:spreadsheet></office:body>
</office:document-content>"""


def ods(content: str = ODS, manifest: str = "") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", content)
        archive.writestr("META-INF/manifest.xml", manifest)
    return out.getvalue()


def test_a_workbook_of_open_document_has_what_its_cells_show() -> None:
    """Texts of cells as they are shown, dates as ISO 8601; repeated, spanned and hidden cells as in Excel."""
    document = parsed("a.ods", ods())

    assert document.text == (
        "Budget\n\n| Region | Sum |\n|---|---|\n| North | 1.250,50 € |\n| North | 2026-03-01 |\n"
        "| South x | 50% |\n\nHidden sheets, not read: Secret"
    )
    assert where(document, "| South").row_start == 7
    assert document.left_out == {
        "comments": 1,
        "hidden columns": 1,
        "hidden sheets": 1,
        "struck passages": 1,
    }


def test_a_workbook_of_the_older_excel_is_read() -> None:
    """Its cells, merged cells and hidden sheets are those of the newer format."""
    path = Path(__file__).resolve().parents[1] / "fuzz" / "corpus" / "xls" / "a.xls"
    document = parsed("a.xls", path.read_bytes())

    assert document.text == (
        "Plan\n\n| Item | Price |\n|---|---|\n| Bolt | 1.5 |\n| Nut | |\n| Nut | |\n\n"
        "Hidden sheets, not read: H"
    )
    assert where(document, "| Bolt").row_end == 2


def test_a_compound_file_has_the_format_of_the_stream_at_its_top() -> None:
    """The case of the name, and names in texts and embedded files, do not matter."""
    path = Path(__file__).resolve().parents[1] / "fuzz" / "corpus" / "xls" / "a.xls"
    data = path.read_bytes()
    stream, embedded = "Workbook".encode("utf-16-le"), "WordDocument".encode("utf-16-le")

    assert format_of(data + embedded) == ".xls"
    assert format_of(data.replace(stream, "WORKBOOK".encode("utf-16-le"))) == ".xls"
    assert format_of(data.replace(stream, "Notebook".encode("utf-16-le")) + stream) == ""
    # A damaged one, here by the size of its sectors, has that of the names in its bytes.
    assert format_of(data[:30] + b"\1\0" + data[32:]) == ".xls"


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.ods", ods(manifest="<m:encryption-data/>"), "protected by a password"),
        ("a.ods", ods('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'), "defines the entity 'b'"),
        ("a.ods", ods("<a>" * 1000), "nested more than"),
        ("a.ods", ods("<a><b></a>"), "not a readable workbook"),
        ("a.xlsx", b"PK\3\4 damaged", "not a readable workbook"),
        ("a.xlsx", b"plain text", "not in the format of its suffix, workbook, but plain text"),
        ("a.xls", b"One; two.\nThree.\n", "but plain text"),
        ("a.xls", bytes([0, 1, 2, 3, 255, 254, 128]) * 20, "but damaged"),
        (
            "a.xls",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"Workbook".decode().encode("utf-16-le"),
            "not a readable workbook",
        ),
        (
            "a.xlsx",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
            "password",
        ),
    ],
    ids=range(10),
)
def test_a_workbook_that_cannot_be_read_says_why(name: str, data: bytes, reason: str) -> None:
    """Protected, damaged and hostile files have their own reasons."""
    with pytest.raises(BadInput, match=reason):
        parsed(name, data)


@pytest.mark.parametrize("sign", ["\t", ";"])
@pytest.mark.parametrize("name", ["a.xls", "a.xlsx", "a.ods"])
def test_rows_of_text_that_are_named_as_a_workbook_are_a_table(name: str, sign: str) -> None:
    """Many programs export text with tabs or semicolons under the suffix of a spreadsheet."""
    rows = [["Part", "Price"], ["Hose", "3,90"], ["Clamp", "4,10"]]
    data = "\r\n".join(sign.join(row) for row in rows).encode() + b"\r\n"

    assert "| Hose | 3,90 |" in parsed(name, data).text


@pytest.mark.parametrize("name", ["a.docx", "a.ods", "a.pptx"])
def test_a_page_that_is_named_as_an_office_file_is_read(name: str) -> None:
    """In place of a PDF a page says why there is none: that is no document."""
    page = b"<html><body><p>The pump has 3 valves.</p></body></html>"

    assert "3 valves" in parsed(name, page).text
    with pytest.raises(BadInput, match="but a page in HTML"):
        parsed("a.pdf", page)


def test_an_archive_that_is_named_as_a_pdf_is_an_archive() -> None:
    """The reason is not that the PDF is damaged."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a.txt", "one")

    with pytest.raises(BadInput, match="unpack it first"):
        parsed("a.pdf", data.getvalue())


def test_a_huge_workbook_is_refused_before_it_is_read() -> None:
    """Rows that one element repeats stay within the text of a document."""
    cell = f"<table:table-cell><text:p>{'word ' * 100}</text:p></table:table-cell>"
    row = f'<table:table-row table:number-rows-repeated="1000000">{cell}</table:table-row>'
    begin = ODS.index("<table:table-row ")

    with pytest.raises(BadInput, match="split it"):
        parsed("a.ods", ods(ODS[:begin] + row + ODS[begin:]))


def test_a_damaged_part_costs_no_more_than_itself() -> None:
    """A workbook with a sheet that cannot be read is read without it, and the part is counted."""
    book, _ = sheet_of(["Item", "Price"], ["Bolt", 1])
    other = book.create_sheet("Other")
    other["A1"] = "x"
    data = changed(
        saved(book), lambda name, part: b"<broken" if name == "xl/worksheets/sheet2.xml" else part
    )
    document = parsed("a.xlsx", data)

    assert "| Bolt | 1 |" in document.text
    assert document.left_out == {"parts": 1}


@pytest.mark.parametrize(
    ("name", "source", "rows"),
    [
        ("a.csv", "Name;Preis\nBolt;1,50\nNut;2,25\n", ["| Name | Preis |", "|---|---|", "| Bolt | 1,50 |", "| Nut | 2,25 |"]),
        ("a.csv", "sep=|\na|b,c\n1|2,0\n", ["| a | b,c |", "|---|---|", "| 1 | 2,0 |"]),
        ("a.tsv", "a\tb\n1, x\t2\n", ["| a | b |", "|---|---|", "| 1, x | 2 |"]),
        ("a.csv", 'a,b\n"x, ""y""\nz",1\n', ["| a | b |", "|---|---|", '| x, "y" z | 1 |']),
        ("a.csv", "1,2\n3,4\n", ["| 1 | 2 |", "| 3 | 4 |"]),
        ("a.csv", "a,b\n1\n2,3,4\n", ["| a | b | |", "|---|---|---|", "| 1 | | |", "| 2 | 3 | 4 |"]),
        ("a.csv", 'a,b\n1,5" pipe\n2,6" pipe\n', ["| a | b |", "|---|---|", '| 1 | 5" pipe |', '| 2 | 6" pipe |']),
    ],
    ids=range(7),
)  # fmt: skip
def test_tables_of_text_have_their_own_dialect(name: str, source: str, rows: list[str]) -> None:
    """The sign between cells, quotes, decimal commas, ragged rows and the header are found."""
    assert parsed(name, source).text.replace("| |  |", "| | |").split("\n") == rows


def test_rows_of_a_text_know_their_lines() -> None:
    """A row with a line end in a cell has two lines; numbers of rows count rows."""
    document = parsed("a.csv", 'Report\n\nname,price\n"Bolt\nlong",1\nNut,2\n')
    bolt, nut = where(document, "| Bolt long"), where(document, "| Nut")

    assert document.text.startswith("Report\n\n| name | price |")
    assert (bolt.line_end, nut.line_start, nut.line_end, nut.row_start) == (5, 6, 6, 5)
