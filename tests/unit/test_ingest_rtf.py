"""RTF is read as a word processor shows it."""

from __future__ import annotations

import pytest

from whence.ingest.blocks import ParsedDocument
from whence.ingest.loader_registry import detect_loader, loader_for
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput

FONTS = r"{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset204 Arial;}{\f2\fcharset2 Symbol;}{\f3\fcharset128 Mincho;}}"


def parsed(body: str, name: str = "a.rtf") -> ParsedDocument:
    data = (r"{\rtf1\ansi\ansicpg1252\deff0" + FONTS + body + "}").encode("ascii")
    file = SourceFile(path=name, document_id=name, suffix=name[name.rindex(".") :])
    return detect_loader(loader_for(file), data).parse(file, data)


@pytest.mark.parametrize(
    ("body", "text", "left_out"),
    [
        (r"Rent {\strike 700 }{\deleted 710 }750", "Rent 750", {"struck passages": 1}),
        (r"\strike old\strike0  new", "new", {"struck passages": 1}),
        (r"seen {\v not seen}", "seen", {"hidden passages": 1}),
        (r"10{\super -3} m, CO{\sub 2}", "10^-3 m, CO2", {}),
        (r"\u8220?so\u8221? \'80 \uc2\u26085\'93\'fa \u-10179?\u-8704??", "\u201cso\u201d € 日 😀", {}),
        (r"{\f1\'cf\'f0}{\f2 a} {\f3\'93\'fa\'96\'7b}", "Прα 日本", {}),
        (r"a\~b\_c Do\-nau\emdash x", "a b-c Donau\u2014x", {}),
        (r"{\field{\*\fldinst HYPERLINK x}{\fldrslt here}}{\pict 89ab}{\*\other gone}", "here", {"pictures": 1}),
        (r"{\header title}text\par{\*\annotation why}", "text", {"comments": 1}),
        ("\\bin6 }}}}}}text", "text", {}),
        (r"so {\*\moMath{\mf{\mnum a}{\mden b}}}", "so", {"equations": 1}),
        (r"{\loch\f0\*\cs7\lang1033 The kiln}{\f0\*\unknown3  is hot}{\*\unknown gone}", "The kiln is hot", {}),
        (r"{\object{\*\objdata 01}{\result shown}}", "shown", {"objects": 1}),
    ],
)  # fmt: skip
def test_text_is_what_is_shown(body: str, text: str, left_out: dict[str, int]) -> None:
    """Deleted and hidden text is counted; characters of all encodings are read; fields show their result."""
    document = parsed(body)

    assert (document.text, document.left_out) == (text, left_out)


def test_headings_lists_and_notes_are_kept() -> None:
    """Headings are those of outlines and styles; numbers are those that the file writes."""
    document = parsed(
        r"{\stylesheet{\s5 heading 2;}}\pard\outlinelevel0 Rent{\footnote Of 2031.}\par\pard\s5 Rooms\par"
        r"\pard\plain At 90{\footnote\pard\plain\chftn  Net.} a month.\par"
        r"{\listtext (a)\tab}\ls1\ilvl0 First\par{\listtext i.\tab}\ls1\ilvl1 deep\par{\listtext\f2\'b7\tab}\ilvl0 last\par"
    )

    assert document.text == (
        "Rent\n\n[1]: Of 2031.\n\nRooms\n\nAt 90[2] a month.\n\n[2]: Net.\n\n(a) First\n    i. deep\n- last"
    )
    assert document.blocks[-1].path == ("Rent", "Rooms")


def test_rows_stay_rows() -> None:
    """Cells have paragraphs; merged cells repeat their text; what the file marks as header is the header."""
    row = r"\trowd{0}\cellx1000{1}\cellx2000\pard\intbl {2}\cell {3}\cell\row "
    document = parsed(
        row.format(r"\trhdr", "", "Part", "Price")
        + row.format(r"\clvmgf", "", r"Bolt\par Nut", "5")
        + row.format(r"\clvmrg", "", "", "6")
        + row.format(r"\clmgf", r"\clmrg", "Sum", "")
        + r"\pard after\par"
    )

    assert document.text == (
        "| Part | Price |\n|---|---|\n| Bolt; Nut | 5 |\n| Bolt; Nut | 6 |\n| Sum | |\n\nafter"
    )


def test_title_and_date_are_those_of_the_file() -> None:
    """RTF is recognized under the name of another format, too."""
    document = parsed(
        r"{\info{\title House rules}{\creatim\yr2020\mo3\dy1}{\revtim\yr2021\mo7\dy4\hr10}}x",
        "a.docx",
    )

    assert (document.title, document.date, document.text) == ("House rules", "2021-07-04", "x")


@pytest.mark.parametrize(
    "body", ["{" * 500, "}" * 99, r"\u", r"\cell\row\trowd\row x", "\\", r"{\bin99999999 x"]
)
def test_damaged_files_are_read_as_far_as_they_go(body: str) -> None:
    """Groups and numbers that make no sense end nothing."""
    assert parsed(r"before\par " + body).text.startswith("before")


def test_deeply_nested_groups_are_refused() -> None:
    """Each open group takes memory."""
    with pytest.raises(BadInput, match="nested deeper"):
        parsed("{" * 5000)
