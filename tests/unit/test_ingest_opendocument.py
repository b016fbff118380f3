"""Texts and presentations of OpenDocument are read as LibreOffice shows them."""

from __future__ import annotations

import pytest
from tests.support.office_files import odf_file

from whence.ingest.blocks import ParsedDocument
from whence.ingest.loader_registry import detect_loader, loader_for
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput


def parsed(data: bytes, name: str = "a.odt") -> ParsedDocument:
    file = SourceFile(path=name, document_id=name, suffix=name[name.rindex(".") :])
    return detect_loader(loader_for(file), data).parse(file, data)


def style(name: str, look: str, family: str = "text") -> str:
    return f'<style:style style:name="{name}" style:family="{family}"><style:text-properties {look}/></style:style>'


STYLES = (
    style("Gone", 'style:text-line-through-style="solid"')
    + style("Hid", 'text:display="none"')
    + style("Up", 'style:text-position="super 58%"')
    + style("Low", 'style:text-position="sub 58%"')
    + style("White", 'fo:color="#FFFFFF"')
)


def p(content: str, look: str = "") -> str:
    return f"<text:p {look}>{content}</text:p>"


def span(name: str, words: str) -> str:
    return f'<text:span text:style-name="{name}">{words}</text:span>'


@pytest.mark.parametrize(
    ("content", "text", "left_out"),
    [
        (p("Rent " + span("Gone", "700") + "750"), "Rent 750", {"struck passages": 1}),
        (p("seen" + span("Hid", " not") + span("White", " nor")), "seen", {"hidden passages": 1}),
        ('<text:section text:display="none">' + p("x") + "</text:section>" + p("y"), "y", {"hidden passages": 1}),
        (p('a<text:hidden-text text:is-hidden="true">b</text:hidden-text>'), "a", {"hidden passages": 1}),
        ("<text:tracked-changes><text:changed-region><text:deletion>" + p("old") + "</text:deletion></text:changed-region>"
         "</text:tracked-changes>" + p("new"), "new", {"struck passages": 1}),
        (p("10" + span("Up", "-3") + " m, CO" + span("Low", "2")), "10^-3 m, CO2", {}),
        (p("a<text:s text:c='3'/>b<text:tab/>c"), "a b c", {}),
        (p("<text:ruby><text:ruby-base>漢</text:ruby-base><text:ruby-text>かん</text:ruby-text></text:ruby>"
           "<text:ruby><text:ruby-base>字</text:ruby-base><text:ruby-text>じ</text:ruby-text></text:ruby>"), "漢字(かんじ)", {}),
        (p("x<office:annotation>" + p("why?") + "</office:annotation>"), "x", {"comments": 1}),
        ("<text:table-of-content>" + p("Rent 3") + "</text:table-of-content>" + p("x"), "x", {"tables of contents": 1}),
        (p("<draw:frame><draw:image/><svg:desc>A plan</svg:desc></draw:frame><draw:frame><draw:image/></draw:frame>"),
         "Picture: A plan", {"pictures": 1}),
        (p("so <draw:frame><draw:object><math:math><math:msup><math:mi>x</math:mi><math:mn>2</math:mn></math:msup></math:math>"
           "</draw:object><draw:image/></draw:frame> holds"), "so x^2 holds", {}),
    ],
)  # fmt: skip
def test_text_is_what_is_shown(content: str, text: str, left_out: dict[str, int]) -> None:
    """Deleted and hidden text is counted, raised text is apart, formulas are lines, pictures are described."""
    document = parsed(odf_file("text", content, styles=STYLES))

    assert (document.text, document.left_out) == (text, left_out)


LIST = (
    '<text:list-style style:name="L"><text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix="."/>'
    '<text:list-level-style-number text:level="2" style:num-format="a" style:num-prefix="(" style:num-suffix=")"/>'
    "</text:list-style>"
)
OUTLINE = (
    '<text:outline-style style:name="Outline"><text:outline-level-style text:level="1" style:num-format="1"/>'
    '<text:outline-level-style text:level="2" style:num-format="1" text:display-levels="2"/></text:outline-style>'
)


def h(level: int, words: str) -> str:
    return f'<text:h text:outline-level="{level}">{words}</text:h>'


def item(*content: str) -> str:
    return f"<text:list-item>{''.join(content)}</text:list-item>"


def numbered(*items: str, look: str = "") -> str:
    return f'<text:list text:style-name="L" {look}>{"".join(items)}</text:list>'


def test_headings_and_lists_have_their_numbers() -> None:
    """Lists begin again unless they go on; what else stands in an item belongs to it."""
    body = (
        h(1, "Scope") + h(2, "Rooms")
        + numbered(item(p("One"), f"<text:list>{item(p('deep'))}</text:list>"), item(p("Two"), p("More of two.")))
        + h(2, "Meals") + numbered(item(p("New"))) + numbered(item(p("Next")), look='text:continue-numbering="true"')
    )  # fmt: skip
    document = parsed(odf_file("text", body, styles=LIST, named_styles=OUTLINE))

    assert document.text == (
        "1 Scope\n\n1.1 Rooms\n\n1. One\n   (a) deep\n2. Two\n\n   More of two.\n\n1.2 Meals\n\n1. New\n2. Next"
    )
    assert document.blocks[-1].path == ("1 Scope", "1.2 Meals")


def test_notes_stand_in_their_section_and_tables_are_rows() -> None:
    """A note follows its paragraph; header rows, merged cells and lists in cells are as in Word files."""
    note = (
        "<text:note><text:note-citation>7</text:note-citation><text:note-body>"
        + p("Net.")
        + "</text:note-body></text:note>"
    )

    def cell(content: str, look: str = "") -> str:
        return f"<table:table-cell {look}>{content}</table:table-cell>"

    head = (
        cell(p("Room"))
        + cell(p("Price"), 'table:number-columns-spanned="2"')
        + "<table:covered-table-cell/>"
    )
    row = (
        cell(p("Single") + p("Shared"))
        + cell(numbered(item(p("May")), item(p("June"))))
        + cell(p("4"))
    )
    table = (
        f"<table:table><table:table-header-rows><table:table-row>{head}</table:table-row></table:table-header-rows>"
        f"<table:table-row>{row}</table:table-row></table:table>"
    )
    body = (
        h(1, "Rent" + note.replace("7", "6"))
        + p("At 90" + note)
        + p("Table 1", 'text:style-name="Table"')
        + table
    )
    document = parsed(odf_file("text", body, styles=LIST))

    assert document.text == (
        "Rent\n\n[6]: Net.\n\nAt 90[7]\n\n[7]: Net.\n\nTable 1\n\n| Room | Price | Price |\n|---|---|---|\n"
        "| Single; Shared | 1. May; 2. June | 4 |"
    )


def test_slides_have_places_notes_and_titles() -> None:
    """As in presentations of PowerPoint."""

    def frame(content: str, kind: str = "", y: int = 0) -> str:
        look = f'presentation:class="{kind}"' if kind else f'svg:x="1cm" svg:y="{y}cm"'
        return f"<draw:frame {look}><draw:text-box>{content}</draw:text-box></draw:frame>"

    hidden = (
        '<style:style style:name="H" style:family="drawing-page"><style:drawing-page-properties '
        'presentation:visibility="hidden"/></style:style>'
    )
    notes = f"<presentation:notes>{frame(p('Slowly.'), 'notes')}</presentation:notes>"
    body = (
        f"<draw:page>{frame(p('low'), y=9)}{frame(p('high'), y=2)}{frame(p('Plan'), 'title')}{notes}</draw:page>"
        f'<draw:page draw:style-name="H">{frame(p("secret"))}</draw:page>'
        f"<draw:page>{frame(p('Last.'))}</draw:page>"
    )
    document = parsed(odf_file("presentation", body, styles=hidden), "a.odp")

    assert document.text == "Plan\n\nhigh\n\nlow\n\nNotes: Slowly.\n\nSlide 3\n\nLast."
    assert [(place.slide, place.page) for place in document.places] == [(1, 1), (3, 3)]
    assert (document.title, document.left_out) == ("Plan", {"hidden slides": 1})


def test_title_and_date_are_those_of_the_file() -> None:
    """The date of the last change comes before that of the first."""
    meta = "<dc:title>House rules</dc:title><meta:creation-date>2019-01-01T08:00:00</meta:creation-date><dc:date>2021-07-04T10:00:00</dc:date>"
    document = parsed(odf_file("text", p("x"), meta=meta))

    assert (document.title, document.date) == ("House rules", "2021-07-04T10:00:00")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (odf_file("text", p("x"), **{"META-INF__manifest.xml": "<manifest:encryption-data/>"}), "protected by a password"),
        (odf_file("text", "<text:section>" * 3000 + "</text:section>" * 3000), "nested too deeply"),
        (odf_file("text", p("<text:a>" * 3000 + "</text:a>" * 3000)), "nested too deeply"),
        (odf_file("text", "<text:p>"), "is not a readable OpenDocument file"),
    ],
)  # fmt: skip
def test_bad_files_fail_with_a_reason(data: bytes, reason: str) -> None:
    """Encrypted, hostile and damaged files are bad input."""
    with pytest.raises(BadInput, match=reason):
        parsed(data)
