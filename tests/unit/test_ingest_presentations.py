"""Presentations are read slide by slide, in the order in which a person reads a slide."""

from __future__ import annotations

from tests.support.office_files import office_file, relations, root

from whence.ingest.blocks import ParsedDocument
from whence.ingest.loader_registry import detect_loader, loader_for
from whence.ingest.sources import SourceFile


def parsed(data: bytes, name: str = "a.pptx") -> ParsedDocument:
    file = SourceFile(path=name, document_id=name, suffix=name[name.rindex(".") :])
    return detect_loader(loader_for(file), data).parse(file, data)


def deck(*slides: str, shown: str = "", links: dict[str, str] | None = None, **parts: str) -> bytes:
    """Return a presentation; `links` are relations of its first slide, `shown` attributes of its last."""
    ids = "".join(f'<p:sldId r:id="s{at}"/>' for at in range(len(slides)))
    files: dict[str, str | bytes] = {}
    for at, shapes in enumerate(slides):
        content = f"<p:cSld><p:spTree>{shapes}</p:spTree></p:cSld>"
        slide = root("p:sld", content)
        last = at == len(slides) - 1
        files[f"ppt/slides/s{at}.xml"] = (
            slide.replace("<p:sld ", f"<p:sld {shown} ") if last else slide
        )
    files["ppt/slides/_rels/s0.xml.rels"] = relations(**links or {})
    files |= {f"ppt/{name}.xml": content for name, content in parts.items()}
    targets = {f"s{at}": f"slide slides/s{at}.xml" for at in range(len(slides))}
    main = root("p:presentation", f"<p:sldIdLst>{ids}</p:sldIdLst>")
    return office_file("ppt/presentation.xml", main, targets, files)


def shape(
    *paragraphs: str, kind: str | None = None, at: tuple[int, int] = (0, 0), look: str = ""
) -> str:
    placeholder = f'<p:ph type="{kind}"/>' if kind else "<p:ph/>" if kind == "" else ""
    body = "".join(each if each.startswith("<") else line(each) for each in paragraphs)
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="2" {look}/><p:nvPr>{placeholder}</p:nvPr></p:nvSpPr><p:spPr><a:xfrm>'
        f'<a:off x="{at[0]}" y="{at[1]}"/></a:xfrm></p:spPr><p:txBody>{body}</p:txBody></p:sp>'
    )


def line(words: str, look: str = "", run: str = "") -> str:
    return f"<a:p><a:pPr {look}</a:pPr><a:r><a:rPr {run}/><a:t>{words}</a:t></a:r></a:p>".replace(
        "<a:pPr </a:pPr>", ""
    )


INCH = 914_400


def test_a_slide_is_read_in_the_order_of_a_reader() -> None:
    """Title, placeholders with nested bullets, then shapes from top to bottom and left to right."""
    group = f"<p:grpSp><p:grpSpPr><a:xfrm><a:off x='0' y='{3 * INCH}'/></a:xfrm></p:grpSpPr>{shape('In a group')}</p:grpSp>"
    shapes = (
        shape("Right", at=(5 * INCH, 2 * INCH)) + shape("Left", at=(INCH, 2 * INCH + 900)) + shape("Below", at=(0, 5 * INCH))
        + group + shape("Ports", line("North", 'lvl="1">'), line("Roads", ">"), kind="") + shape("Plan 2031", kind="title")
        + shape("7", kind="sldNum")
    )  # fmt: skip
    document = parsed(deck(shapes))

    assert document.text == (
        "Plan 2031\n\n- Ports\n  - North\n- Roads\n\nLeft\n\nRight\n\nIn a group\n\nBelow"
    )


def test_places_name_the_slide() -> None:
    """A slide without a title does not stand under that of the slide before; a hidden one is counted."""
    document = parsed(
        deck(shape("One", kind="ctrTitle"), shape("Text."), shape("Gone"), shown='show="0"')
    )

    assert document.text == "One\n\nSlide 2\n\nText."
    assert [(place.slide, place.page) for place in document.places] == [(1, 1), (2, 2)]
    assert document.blocks[-1].path == ("Slide 2",)
    assert (document.title, document.left_out) == ("One", {"hidden slides": 1})


def test_notes_tables_numbers_and_struck_text_are_read() -> None:
    """Notes follow their slide, merged cells repeat their text, automatic numbers are written."""

    def cell(words: str, look: str = "") -> str:
        return f"<a:tc {look}><a:txBody>{line(words)}</a:txBody></a:tc>"

    rows = (
        cell("Year", 'rowSpan="2"') + cell("Sales", 'gridSpan="2"') + cell("", 'hMerge="1"'),
        cell("", 'vMerge="1"') + cell("in") + cell("out"),
        cell("2031") + cell("5") + cell("4"),
    )
    frame = (
        '<p:graphicFrame><a:graphic><a:graphicData><a:tbl><a:tblPr firstRow="1"/>'
        f"{''.join(f'<a:tr>{row}</a:tr>' for row in rows)}</a:tbl></a:graphicData></a:graphic></p:graphicFrame>"
    )
    numbered = [line(each, '><a:buAutoNum type="alphaLcParenBoth"/>') for each in ("Ask", "Pay")]
    price = line("Rent ", "").replace(
        "</a:p>",
        '<a:r><a:rPr strike="sngStrike"/><a:t>70</a:t></a:r><a:r><a:t>80</a:t></a:r></a:p>',
    )
    notes = root(
        "p:notes",
        f"<p:cSld><p:spTree>{shape('9', kind='sldNum')}{shape('Say it slowly.', kind='body')}</p:spTree></p:cSld>",
    )
    data = deck(
        shape("Rent", kind="title") + shape(price) + shape(*numbered) + frame,
        links={"n": "notesSlide ../notes.xml"},
        notes=notes,
    )
    document = parsed(data)

    assert document.text == (
        "Rent\n\nRent 80\n\n(a) Ask\n(b) Pay\n\n| Year | Sales in | Sales out |\n|---|---|---|\n"
        "| 2031 | 5 | 4 |\n\nNotes: Say it slowly."
    )
    assert document.left_out == {"struck passages": 1}


def test_a_missing_slide_is_named_and_the_rest_is_read() -> None:
    """A relation that leads nowhere costs its slide alone."""
    data = deck(shape("One."), shape("Two.")).replace(b"ppt/slides/s0.xml", b"ppt/slides/sX.xml")
    document = parsed(data)

    assert document.text == "Slide 2\n\nTwo."
    assert document.left_out == {"parts": 1}


def test_content_decides_what_a_file_is() -> None:
    """A presentation under the name of a Word document is read as what it is."""
    assert parsed(deck(shape("One.")), "a.docx").text == "Slide 1\n\nOne."
