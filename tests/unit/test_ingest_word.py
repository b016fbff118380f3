"""Word documents are read as Word shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.office_files import archive, office_file, root, word_file

from whence.ingest.blocks import ParsedDocument
from whence.ingest.chunking import Chunker
from whence.ingest.documents import load_documents
from whence.ingest.load_results import LoadFailure, Skipped
from whence.ingest.loader_registry import detect_loader, loader_for
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput


def parsed(data: bytes, name: str = "a.docx") -> ParsedDocument:
    file = SourceFile(path=name, document_id=name, suffix=name[name.rindex(".") :])
    return detect_loader(loader_for(file), data).parse(file, data)


def run(words: str, look: str = "") -> str:
    return f'<w:r><w:rPr>{look}</w:rPr><w:t xml:space="preserve">{words}</w:t></w:r>'


def paragraph(content: str, look: str = "") -> str:
    return f"<w:p><w:pPr>{look}</w:pPr>{content}</w:p>"


def styled(style: str, words: str, look: str = "") -> str:
    return paragraph(run(words), f'<w:pStyle w:val="{style}"/>{look}')


def text_of(content: str, **parts: str) -> str:
    return parsed(word_file(paragraph(content), **parts)).text


@pytest.mark.parametrize(
    ("content", "text", "left_out"),
    [
        (run("Rent 700 ", "<w:strike/>") + run("Rent 750"), "Rent 750", {"struck passages": 1}),
        (run("a", "<w:dstrike/>") + run("b", "<w:strike/>") + run("c"), "c", {"struck passages": 1}),
        (run("on", '<w:strike w:val="0"/>'), "on", {}),
        ("<w:del><w:r><w:delText>old</w:delText></w:r></w:del><w:ins>" + run("new") + "</w:ins>", "new",
         {"struck passages": 1}),
        ("<w:moveFrom>" + run("gone") + "</w:moveFrom><w:moveTo>" + run("here") + "</w:moveTo>", "here", {}),
        (run("seen ") + run("secret", "<w:vanish/>"), "seen", {"hidden passages": 1}),
        (run("seen ") + run("by style", '<w:rStyle w:val="Hid"/>'), "seen", {"hidden passages": 1}),
        (run("seen ") + run("white", '<w:color w:val="FFFFFF"/>'), "seen", {"hidden passages": 1}),
        (run("white", '<w:color w:val="FFFFFF"/><w:highlight w:val="black"/>'), "white", {}),
    ],
)  # fmt: skip
def test_what_was_deleted_or_is_hidden_is_counted_and_not_read(
    content: str, text: str, left_out: dict[str, int]
) -> None:
    """Struck, deleted, moved, hidden and white passages are no text; neighbours are one passage."""
    styles = '<w:style w:styleId="Hid"><w:rPr><w:vanish/></w:rPr></w:style>'
    document = parsed(word_file(paragraph(content), styles=styles))

    assert (document.text, document.left_out) == (text, left_out)


def field(code: str, result: str, data: str = "") -> str:
    marks = [f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("separate", "end")]
    begin = f'<w:fldChar w:fldCharType="begin"><w:ffData>{data}</w:ffData></w:fldChar>'
    return f"<w:r>{begin}<w:instrText>{code}</w:instrText></w:r>{marks[0]}{result}{marks[1]}"


CHOICE = '<w:result w:val="1"/><w:listEntry w:val="Bern"/><w:listEntry w:val="Chur"/>'


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (run("10") + run("-4", '<w:vertAlign w:val="superscript"/>'), "10^-4"),
        (run("the 3") + run("rd", '<w:vertAlign w:val="superscript"/>'), "the 3rd"),
        (run("m") + run("2", '<w:position w:val="8"/>'), "m^2"),
        (run("CO") + run("2", '<w:vertAlign w:val="subscript"/>'), "CO2"),
        (run("Do\u00adnau\u200b") + "<w:r><w:softHyphen/><w:t>fahrt</w:t></w:r>", "Donaufahrt"),
        ("<w:r><w:t>well</w:t><w:noBreakHyphen/><w:t>known</w:t></w:r>", "well-known"),
        ('<w:r><w:sym w:font="Symbol" w:char="F06D"/><w:t>m</w:t></w:r>', "μm"),
        ("".join(f"<w:r><w:ruby><w:rt>{run(above)}</w:rt><w:rubyBase>{run(base)}</w:rubyBase></w:ruby></w:r>"
                 for base, above in (("東", "とう"), ("京", "きょう"))), "東京(とうきょう)"),
        (field("REF x", run("clause 4")) + run(" holds"), "clause 4 holds"),
        ('<w:fldSimple w:instr="PAGE">' + run("7") + "</w:fldSimple>", "7"),
        (field("FORMCHECKBOX", "", '<w:checkBox><w:default w:val="0"/><w:checked/></w:checkBox>') + run(" yes"), "☒ yes"),
        (field("FORMDROPDOWN", "", f"<w:ddList>{CHOICE}</w:ddList>"), "Chur"),
        ("<w:sdt><w:sdtPr><w:dropDownList/></w:sdtPr><w:sdtContent>" + run("chosen") + "</w:sdtContent></w:sdt>", "chosen"),
        ("<w:sdt><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent>" + run("Click here") + "</w:sdtContent></w:sdt>" + run("x"), "x"),
        (run("so ") + "<m:oMath><m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
         "</m:oMath>", "so (a+b)/2"),
    ],
)  # fmt: skip
def test_text_is_what_word_shows(content: str, text: str) -> None:
    """Raised text keeps apart, fields show their result, forms their values, equations are one line."""
    assert text_of(content) == text


LEVELS = "".join(
    f'<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/>{style}<w:lvlText w:val="{shape}"/></w:lvl>'
    for at, kind, shape, style in (
        (0, "decimal", "%1", '<w:pStyle w:val="Heading1"/>'),
        (1, "decimal", "%1.%2", '<w:pStyle w:val="Heading2"/>'),
        (2, "decimal", "%1.%2.%3", ""),
        (3, "lowerLetter", "(%4)", ""),
        (4, "lowerRoman", "(%5)", ""),
    )
)
NUMBERING = (
    f'<w:abstractNum w:abstractNumId="7">{LEVELS}</w:abstractNum>'
    '<w:abstractNum w:abstractNumId="8"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/><w:lvlText w:val="\uf0b7"/></w:lvl>'
    "</w:abstractNum>"
    '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>'
    '<w:num w:numId="2"><w:abstractNumId w:val="7"/><w:lvlOverride w:ilvl="3"><w:startOverride w:val="3"/></w:lvlOverride></w:num>'
    '<w:num w:numId="3"><w:abstractNumId w:val="8"/></w:num>'
)
HEADINGS = "".join(
    f'<w:style w:type="paragraph" w:styleId="Heading{n}"><w:name w:val="heading {n}"/><w:pPr><w:numPr>'
    f'<w:numId w:val="1"/></w:numPr><w:outlineLvl w:val="{n - 1}"/></w:pPr></w:style>'
    for n in (1, 2)
)


def item(words: str, level: int, list_id: int = 1) -> str:
    return paragraph(
        run(words),
        f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{list_id}"/></w:numPr>',
    )


def test_numbers_are_those_that_word_shows() -> None:
    """Headings are numbered by styles, clauses by lists; lower levels begin again, overrides start."""
    body = (
        styled("Heading1", "Scope") + styled("Heading1", "Terms") + styled("Heading2", "Fees")
        + item("First clause.", 2) + item("a clause", 3) + item("b clause", 3) + item("deep", 4)
        + item("Second clause.", 2) + item("a again", 3) + item("starts at c", 3, 2)
        + styled("Heading2", "Dates") + item("Third clause.", 2)
        + item("apple", 0, 3) + item("pear", 0, 3)
    )  # fmt: skip
    document = parsed(word_file(body, styles=HEADINGS, numbering=NUMBERING))

    assert document.text == (
        "1 Scope\n\n2 Terms\n\n2.1 Fees\n\n2.1.1 First clause.\n      (a) a clause\n      (b) b clause\n"
        "          (i) deep\n2.1.2 Second clause.\n      (a) a again\n      (c) starts at c\n\n2.2 Dates\n\n"
        "2.2.1 Third clause.\n- apple\n- pear"
    )
    assert document.blocks[-1].path == ("2 Terms", "2.2 Dates")


def test_levels_above_are_in_digits_where_the_list_says_so() -> None:
    """Articles have Roman numbers, their sections Arabic ones with a zero; a level may never restart."""
    levels = (
        '<w:lvl w:ilvl="0"><w:start w:val="4"/><w:numFmt w:val="upperRoman"/><w:lvlText w:val="Article %1."/></w:lvl>'
        '<w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="decimalZero"/><w:isLgl/><w:lvlText w:val="Section %1.%2"/></w:lvl>'
        '<w:lvl w:ilvl="2"><w:start w:val="1"/><w:numFmt w:val="upperLetter"/><w:lvlRestart w:val="0"/><w:lvlText w:val="%3)"/></w:lvl>'
    )
    numbering = (
        f'<w:abstractNum w:abstractNumId="1">{levels}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num>'
    )
    body = (
        item("Pay", 0)
        + item("Wages", 1)
        + item("x", 2)
        + item("Leave", 0)
        + item("Days", 1)
        + item("y", 2)
    )

    assert parsed(word_file(body, numbering=numbering)).text == (
        "Article IV. Pay\n            Section 4.01 Wages\n                         A) x\n"
        "Article V. Leave\n           Section 5.01 Days\n                        B) y"
    )


def test_a_note_stands_in_the_section_that_refers_to_it() -> None:
    """Its mark is apart from the number before it and no part of a heading; later sections lack it."""
    reference = '<w:r><w:footnoteReference w:id="4"/></w:r>'
    notes = (
        '<w:footnote w:id="0" w:type="separator"><w:p><w:r><w:separator/></w:r></w:p></w:footnote>'
        f'<w:footnote w:id="4">{paragraph(run("Without breakfast."))}</w:footnote>'
        f'<w:footnote w:id="5">{paragraph(run("In towns."))}</w:footnote>'
    )
    heading = paragraph(
        run("Hotels") + reference.replace('"4"', '"5"'), '<w:pStyle w:val="Heading1"/>'
    )
    body = (
        heading + paragraph(run("At most 90") + reference) + styled("Heading1", "Trains")
        + paragraph(run("Second class."))
    )  # fmt: skip
    document = parsed(word_file(body, footnotes=notes))

    assert document.text == (
        "Hotels\n\n[1]: In towns.\n\nAt most 90[2]\n\n[2]: Without breakfast.\n\nTrains\n\nSecond class."
    )
    assert document.blocks[3].path == ("Hotels",)


def cell(content: str, look: str = "") -> str:
    return f"<w:tc><w:tcPr>{look}</w:tcPr>{content}</w:tc>"


def words(text: str) -> str:
    return paragraph(run(text))


def table(*rows: str, look: str = "") -> str:
    return f"<w:tbl>{look}{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>"


HEADER = "<w:trPr><w:tblHeader/></w:trPr>"


def test_rows_stay_rows() -> None:
    """Paragraphs, lists and tables in a cell are its text; a merged cell has its text in each that it spans."""
    inner = table(cell(words("x")) + cell(words("y")), cell(words("1")) + cell(words("2")))
    rows = table(
        HEADER + cell(words("Room"), '<w:vMerge w:val="restart"/>') + cell(words("Price"), '<w:gridSpan w:val="2"/>'),
        HEADER + cell(words(""), "<w:vMerge/>") + cell(words("low")) + cell(words("high")),
        cell(words("Single") + words("Shared")) + cell(item("breakfast", 0, 3) + item("towel", 0, 3)) + cell(inner),
    )  # fmt: skip
    document = parsed(word_file(styled("Caption", "Table 1: Rooms") + rows, numbering=NUMBERING))

    assert document.text == (
        "Table 1: Rooms\n| Room | Price low | Price high |\n|---|---|---|\n"
        "| Single; Shared | breakfast; towel | x, y; 1, 2 |"
    ).replace("Rooms\n|", "Rooms\n\n|")


@pytest.mark.parametrize(
    ("head", "body", "has_header"),
    [
        (("Part", "Weight"), (("Bolt", "20"), ("Nut", "4")), True),
        (("Name", "Ida"), (("Age", "42"), ("Town", "Bern")), False),
        (("2019", "2020"), (("1", "2"), ("3", "4")), False),
        (("Ton", "2019", "2020"), (("Coal", "7", "9"),), True),
        (("Tree", "Height", "Leaf"), (("Oak", "tall", "lobed"),), True),
        (("Coal", "7", "9"), (("Sand", "5", "8"),), False),
        (("Born", "1815"), (("Died", "1852"),), False),
        (
            ("Port", "Country", "Language"),
            (("Riga", "Latvia", "Latvian"), ("Oslo", "Norway", "Norwegian")),
            True,
        ),
        (
            ("Riga", "Latvia", "red"),
            (("Oslo", "Norway", "red"), ("Kiel", "Germany", "blue")),
            False,
        ),
    ],
)
def test_a_first_row_above_numbers_is_the_header(
    head: tuple[str, ...], body: tuple[tuple[str, ...], ...], has_header: bool
) -> None:
    """Without a statement of the file, a row without numbers over a column of numbers is the header."""
    rows = ("".join(cell(words(each)) for each in row) for row in (head, *body))

    assert ("|---|" in parsed(word_file(table(*rows))).text) is has_header


def test_deleted_and_hidden_rows_are_left_out() -> None:
    """Rows that tracked changes delete, or that are hidden, are counted."""
    rows = table(
        cell(words("a")) + cell(words("b")),
        "<w:trPr><w:del/></w:trPr>" + cell(words("c")) + cell(words("d")),
        "<w:trPr><w:hidden/></w:trPr>" + cell(words("e")) + cell(words("f")),
    )
    document = parsed(word_file(rows))

    assert document.text == "| a | b |"
    assert document.left_out == {"struck passages": 1, "hidden passages": 1}


def test_a_box_is_read_once() -> None:
    """Of the two forms of a text box one is read, below its paragraph."""
    box = f"<w:txbxContent>{words('In the box.')}</w:txbxContent>"
    drawing = (
        f"<w:r><mc:AlternateContent><mc:Choice><w:drawing><wps:txbx>{box}</wps:txbx></w:drawing></mc:Choice>"
        f"<mc:Fallback><w:pict><v:textbox>{box}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r>"
    )
    assert text_of(run("Beside.") + drawing) == "Beside.\n\nIn the box."


def picture(look: str, relation: str = "none") -> str:
    return (
        f'<w:r><w:drawing><wp:inline><wp:docPr id="1" {look}/><pic:pic><pic:blipFill><a:blip r:embed="{relation}"/>'
        "</pic:blipFill></pic:pic></wp:inline></w:drawing></w:r>"
    )


def test_pictures_are_described_or_counted() -> None:
    """A description is text, the name of a file is none; a picture that is absent is named as a lost part."""
    content = run("See:") + picture('descr="A plan of the harbour"') + picture('descr="plan.png"')
    document = parsed(word_file(paragraph(content)))

    assert document.text == "See:\n\nPicture: A plan of the harbour"
    assert document.left_out == {"pictures": 1, "parts": 1}


def test_charts_and_diagrams_are_read() -> None:
    """A chart is the table behind it, a diagram a list of its texts."""

    def values(kind: str, *each: str) -> str:
        points = "".join(f'<c:pt idx="{at}"><c:v>{one}</c:v></c:pt>' for at, one in enumerate(each))
        return f"<c:{kind}><c:strRef><c:strCache>{points}</c:strCache></c:strRef></c:{kind}>"

    chart = f"<c:chart><c:ser>{values('tx', 'Sales')}{values('cat', 'May', 'June')}{values('val', '4.5', '6')}</c:ser></c:chart>"
    points = "".join(
        f'<dgm:pt modelId="{at}"><dgm:t><a:t>{one}</a:t></dgm:t></dgm:pt>' for at, one in enumerate(("Plan", "Ask", "Do"))
    )  # fmt: skip
    links = '<dgm:cxn srcId="0" destId="2" srcOrd="1"/><dgm:cxn srcId="0" destId="1" srcOrd="0"/>'
    body = paragraph(
        '<w:r><w:drawing><c:chart r:id="c1"/></w:drawing></w:r><w:r><w:drawing><dgm:relIds r:dm="d1"/></w:drawing></w:r>'
    )
    data = office_file(
        "word/document.xml",
        root("w:document", f"<w:body>{body}</w:body>"),
        {"c1": "chart charts/chart1.xml", "d1": "diagramData diagrams/data1.xml"},
        {
            "word/charts/chart1.xml": root("c:chartSpace", chart),
            "word/diagrams/data1.xml": root("dgm:dataModel", points + links),
        },
    )

    assert parsed(data).text == (
        "| | Sales |\n|---|---|\n| May | 4.5 |\n| June | 6 |\n\n- Plan\n  - Ask\n  - Do"
    )


def test_contents_and_running_titles_are_no_text() -> None:
    """A table of contents repeats headings; a header is read when there is nothing else."""
    contents = (
        '<w:sdt><w:sdtPr><w:docPartObj><w:docPartGallery w:val="Table of Contents"/></w:docPartObj></w:sdtPr>'
        f"<w:sdtContent>{words('Scope 3')}</w:sdtContent></w:sdt>"
    )
    document = parsed(
        word_file(contents + styled("TOC1", "Scope 3") + words("Text."), header=words("Secret"))
    )

    assert (document.text, document.left_out) == ("Text.", {"tables of contents": 1})
    assert parsed(word_file("<w:p/>", header=words("Only this"))).text == "Only this"


def test_a_deleted_end_of_a_paragraph_joins_two() -> None:
    """As Word shows them when the change is accepted; so do large first letters. The last one is not lost."""
    first = paragraph(run("The fee is "), "<w:rPr><w:del/></w:rPr>")
    initial = paragraph(run("O"), '<w:framePr w:dropCap="drop"/>')

    assert parsed(word_file(first + words("ten euro."))).text == "The fee is ten euro."
    assert parsed(word_file(initial + words("nce upon."))).text == "Once upon."
    assert parsed(word_file(words("Last.") + first)).text == "Last.\n\nThe fee is"
    assert parsed(word_file(table(cell(first) + cell(words("x"))))).text == "| The fee is | x |"


def test_alternatives_within_a_line_are_read_once() -> None:
    """The first of several forms of the same content is read, whatever it stands in."""
    either = f"<mc:AlternateContent><mc:Choice>{run('new')}</mc:Choice><mc:Fallback>{run('old')}</mc:Fallback></mc:AlternateContent>"

    assert text_of(either) == "new"
    assert (
        parsed(
            word_file(either.replace("<w:r>", "<w:p><w:r>").replace("</w:r>", "</w:r></w:p>"))
        ).text
        == "new"
    )


def test_lines_of_code_stay_lines() -> None:
    """Paragraphs of a style of code, or one that is based on it, are one block; their indent is kept."""
    styles = (
        '<w:style w:type="paragraph" w:styleId="C"><w:name w:val="HTML Preformatted"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="D"><w:name w:val="Mine"/><w:basedOn w:val="C"/></w:style>'
    )
    body = (
        styled("C", "if x:")
        + styled("D", "    y = 1")
        + styled("C", "")
        + styled("C", "z()")
        + words("So.")
    )

    assert parsed(word_file(body, styles=styles)).text == (
        "```\nif x:\n    y = 1\n\nz()\n```\n\nSo."
    )


def test_a_numbered_bold_line_is_a_heading() -> None:
    """A short bold paragraph of a list heads what follows, unless another item of the list stands beside it."""

    def bold(text: str) -> str:
        return item(text, 0).replace("<w:rPr>", "<w:rPr><w:b/>")

    body = bold("The Parties") + words("They are two.") + bold("One thing") + bold("Another thing")
    document = parsed(word_file(body, numbering=NUMBERING))

    assert document.text == ("1 The Parties\n\nThey are two.\n\n2 One thing\n3 Another thing")
    assert [block.kind for block in document.blocks] == ["heading", "prose", "atomic"]


def test_embedded_pages_are_read() -> None:
    """A document may hold HTML that Word would show as part of it."""
    data = office_file(
        "word/document.xml",
        root("w:document", f'<w:body>{words("Before.")}<w:altChunk r:id="h"/></w:body>'),
        {"h": "aFChunk page.html"},
        {"word/page.html": "<p>In the <b>page</b>.</p>"},
    )

    assert parsed(data).text == "Before.\n\nIn the page."


def test_title_and_date_are_those_of_the_file() -> None:
    """A title that a program chose says nothing; then the first heading is the title."""

    def with_core(core: str) -> ParsedDocument:
        body = root("w:document", f"<w:body>{styled('Heading1', 'Scope')}</w:body>")
        return parsed(office_file("word/document2.xml", body, {}, {}, core))

    stated = with_core(
        "<dc:title>Rules of the house</dc:title><dcterms:modified>2021-07-04T10:00:00Z</dcterms:modified>"
    )
    assert (stated.title, stated.date) == ("Rules of the house", "2021-07-04T10:00:00Z")
    assert (
        with_core(
            "<dc:title>Document1</dc:title><dcterms:created>2020-02-30</dcterms:created>"
        ).title
        == "Scope"
    )


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.txt"])
def test_the_main_part_may_have_any_name(name: str) -> None:
    """What a file is and which part is read is what the file states, not its name or a usual path."""
    assert parsed(word_file(words("Text."), main="parts/text.xml"), name).text == "Text."


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "is protected by a password"),
        (word_file(f"{'<w:sdt><w:sdtContent>' * 3000}{'</w:sdtContent></w:sdt>' * 3000}"), "nested too deeply"),
        (word_file(paragraph("<w:ins>" * 3000 + "</w:ins>" * 3000)), "nested too deeply"),
        (office_file("word/document.xml", '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', {}, {}), "declares entities"),
        (office_file("word/document.xml", "<w:document>", {}, {}), "is not a readable Word document"),
        (archive({"readme.txt": "words"}), "no main part is named"),
    ],
)  # fmt: skip
def test_bad_files_fail_with_a_reason(data: bytes, reason: str) -> None:
    """Encrypted, hostile and damaged files are bad input."""
    with pytest.raises(BadInput, match=reason):
        parsed(data)


def test_files_of_the_old_format_are_skipped_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their reason says what to do; those with a password fail for that reason."""
    # Without the program that reads them.
    monkeypatch.setenv("PATH", "")
    container = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
    (tmp_path / "a.doc").write_bytes(container + "WordDocument".encode("utf-16-le"))
    (tmp_path / "b.ppt").write_bytes(container + "PowerPoint Document".encode("utf-16-le"))
    outcomes = list(load_documents([tmp_path], chunker=Chunker(lambda texts: [1] * len(texts))))

    reasons = [each.reason for each in outcomes if isinstance(each, Skipped | LoadFailure)]
    assert [reason[reason.index("save") :] for reason in reasons] == [
        "save it as .docx",
        "save it as .pptx",
    ]
