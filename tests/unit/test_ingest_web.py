"""Pages, Markdown and reStructuredText as readers see them: struck, hidden and raised text, notes, tables."""

from __future__ import annotations

import pytest
from tests.support.markup import markup_in

from whence.ingest.blocks import ParsedDocument
from whence.ingest.loader_registry import detect_loader, loader_for
from whence.ingest.sources import SourceFile, suffix_of
from whence.quoting.tables import read_rows
from whence.schema.places import place_of

STRUCK, HIDDEN = "struck passages", "hidden passages"


def parsed(name: str, data: str) -> ParsedDocument:
    file = SourceFile(path=name, document_id=name, suffix=suffix_of(name))
    raw = data.encode()
    return detect_loader(loader_for(file), raw).parse(file, raw)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.html", "<p>The fee is <del>40</del> <ins>55</ins> euro."),
        ("a.html", "<p>The fee is <s>40</s> 55 <strike>60</strike> euro."),
        ("a.html", "<style>.old { text-decoration: line-through }</style><p>The fee is <i class=old>40</i> 55 euro."),
        ("a.html", "<p>The fee is <b style='text-decoration:line-through'>40</b> 55 euro."),
        ("a.md", "The fee is ~~40~~ 55 euro."),
        ("a.md", "The fee is ~40~ 55 <del>*60*</del> euro."),
        ("a.md", "<del>\n\nForty *euro*.\n\n</del>\n\nThe fee is 55 euro."),
        ("a.rst", "The fee is :del:`40` 55 euro."),
    ],
)  # fmt: skip
def test_struck_text_is_left_out(name: str, source: str) -> None:
    """Deleted text is no text of the document, inserted text is; what is left out is counted."""
    document = parsed(name, source)

    assert document.text == "The fee is 55 euro."
    assert document.left_out[STRUCK] >= 1
    assert HIDDEN not in document.left_out


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.html", "<p>Seen.<p hidden>Not."),
        ("a.html", "<p>Seen.<p style='display: none'>Not."),
        ("a.html", "<p>Seen.<span style='visibility:hidden'> Not.</span>"),
        ("a.html", "<p>Seen.<span style='font-size:0px'> Not.</span>"),
        ("a.html", "<p>Seen.<div style='position:absolute;left:-9999px'>Not.</div>"),
        ("a.html", "<p>Seen.<div style='background:#fff'><p style='color: white'>Not.</div>"),
        ("a.html", "<style>p.x, #y { display: none }</style><p>Seen.<p class=x>Not."),
        ("a.html", "<p>Seen.<template><p>Not.</template>"),
        ("a.html", "<p>Seen.<noscript>Not.</noscript>"),
        ("a.md", "Seen.<span hidden> Not.</span>"),
        ("a.md", "Seen.\n\n<div style='display:none'>\n\nNot *this*.\n\n</div>"),
        ("a.md", "Seen. %% Not. %%"),
        ("a.md", "Seen.\n\n%%\nNot\n\nthis.\n%%\n"),
    ],
)  # fmt: skip
def test_hidden_text_is_left_out(name: str, source: str) -> None:
    """What no reader sees is left out and counted, whatever hides it."""
    document = parsed(name, source)

    assert document.text == "Seen."
    assert document.left_out == {HIDDEN: 1}


@pytest.mark.parametrize(
    "source",
    [
        "<button aria-controls=t>Tab</button><div id=t hidden><p>Seen.</div>",
        "<div role=tabpanel style='display:none'>Seen.</div>",
        "<style>@media print { .x { display: none } }</style><p class=x>Seen.",
        "<p aria-hidden=true>Seen. <span aria-hidden=false></span>",
        "<body style='display:none'><p>Seen.",
        "<style>.tab { display: none } .tab.on { display: block }</style><p class='tab on'>Seen.",
        "<p style='font-size:em'>Seen.",
        "<style>..x, #1, .x > { display: none }</style><p class=x>Seen.",
        "<div style='color:white'><p style='background:navy'>Seen.</div>",
    ],
)
def test_what_a_reader_may_see_stays(source: str) -> None:
    """Text stays that a control shows, that only print hides, or that waits for a script as all of its page."""
    text = source.replace("Seen.", "Seen on the page.")

    assert parsed("a.html", text).text == "Seen on the page."


def test_a_page_that_hides_most_of_its_text_keeps_it() -> None:
    """A script shows the parts of such a page one after another."""
    sections = "".join(
        f"<div style='display:none'><p>Part {at} {'of words ' * 20}</div>" for at in range(9)
    )
    document = parsed("a.html", f"<p>Seen.</p>{sections}")

    assert "Part 8" in document.text
    assert not document.left_out


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (
            "a.html",
            "<p>10<sup>6</sup> of H<sub>2</sub>O, 1<sup>st</sup>, x<sub>i</sub>, 101<sub>2</sub>",
        ),
        (
            "a.md",
            "10<sup>6</sup> of H<sub>2</sub>O, 1<sup>st</sup>, x<sub>i</sub>, 101<sub>2</sub>",
        ),
        ("a.md", "10^6^ of H~2~O, 1^st^, x~i~, 101~2~"),
        ("a.rst", "10\\ :sup:`6` of H\\ :sub:`2`\\ O, 1\\ :sup:`st`, x\\ :sub:`i`, 101\\ :sub:`2`"),
        (
            "a.html",
            "<p>10<span style='vertical-align: super; font-size: 8pt'>6</span> of H<font style='vertical-align:sub'>2</font>O, 1<span style='vertical-align:super'>st</span>, x<span style='vertical-align:sub'>i</span>, 101<span style='vertical-align:sub'>2</span>",
        ),
        (
            "a.html",
            "<style>.c2{vertical-align:super;font-size:8pt}.c3{color:#000;vertical-align:sub}.c4{vertical-align:baseline}</style><p><span class=c4>10</span><span class=c2>6</span> of H<span class=c3>2</span>O, 1<span class=c2>st</span>, x<span class=c3>i</span>, 101<span class=c3>2</span>",
        ),
    ],
)
def test_raised_and_lowered_text_is_apart_from_numbers(name: str, source: str) -> None:
    """A power or a base is no digit of its number; ordinals and formulas of substances stay words."""
    assert parsed(name, source).text == "10^6 of H2O, 1st, x_i, 101_2"


NOTED = "Hotels\n\nAt most 18[2] nights.\n\nNote 2: Since May.\n\nMeals\n\nNone."


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.html", "<h1>Hotels</h1><p>At most 18<sup><a href=#n id=r>2</a></sup> nights.</p><h1>Meals</h1><p>None.</p><ol><li id=n><p>Since May. <a href=#r>\u21a9</a></p></ol>"),
        ("a.html", "<h1>Hotels</h1><p>At most 18<a role=doc-noteref href=#n>2</a> nights.</p><h1>Meals</h1><p>None.</p><aside role=doc-footnote id=n><a role=doc-backlink href=#r>2</a>. Since May.</aside>"),
        ("a.html", "<h1>Hotels</h1><p>At most 18<a href=#n><sup>2</sup></a> nights.</p><h1>Meals</h1><p>None.</p><footer><p><a name=n>2</a> Since May.</p></footer>"),
        ("a.md", "# Hotels\n\nAt most 18[^2] nights.\n\n# Meals\n\nNone.\n\n[^2]: Since May.\n"),
        ("a.rst", "Hotels\n======\n\nAt most 18\\ [2]_ nights.\n\nMeals\n=====\n\nNone.\n\n.. [2] Since May.\n"),
    ],
)  # fmt: skip
def test_a_note_stands_in_the_section_that_refers_to_it(name: str, source: str) -> None:
    """The mark of a note is apart from the number before it; its text belongs to the section with the mark."""
    document = parsed(name, source)
    note = next(
        block
        for block in document.blocks
        if document.text[slice(*block.parts[0])].startswith("Note 2")
    )

    assert document.text == NOTED
    assert note.path == ("Hotels",)


def test_notes_of_markdown_have_several_forms() -> None:
    """A note may have several blocks, stand inside the text, or be referred to by nothing; none is lost."""
    document = parsed(
        "a.md", "One[^long], two^[Of *oak*.].\n\n[^long]: First.\n\n    Second.\n\n[^lone]: Alone."
    )

    assert document.text == (
        "One[long], two[2].\n\nNote lone: Alone.\n\nNote long: First.\n\nSecond.\n\nNote 2: Of oak."
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<table><tr><th>Item<th>Rule<tr><td>Laptop<td><p>Ask.</p><p>Wait</p><tr><td>Phone<td><ul>\n<li>a\n</li>\n<li>b</li></ul></table>",
         "| Item | Rule |\n|---|---|\n| Laptop | Ask. Wait |\n| Phone | a; b |"),
        ("<table><tr><td>a<td><p>b</p><p>c</p><tr><td>d<td>e</table>", "| a | b c |\n| d | e |"),
        ("<table><caption>Sales in 1,000</caption><thead><tr><th rowspan=2>Region<th colspan=2>2023<tr><th>Q1<th>Q2</thead><tbody><tr><th scope=row>North<td>1<td>2<tr><th scope=row>South<td colspan=2>none</table>",
         "Sales in 1,000\n\n| Region | 2023 Q1 | 2023 Q2 |\n|---|---|---|\n| North | 1 | 2 |\n| South | none | none |"),
        ("<table><tr><th colspan=2>Prices<tr><th>A<th>B<tr><td>1<td>2</table>", "Prices\n\n| A | B |\n|---|---|\n| 1 | 2 |"),
        ("<table><tr><th>A<td>1<tr><th>B<td>2</table>", "| A | 1 |\n| B | 2 |"),
        ("<table><tfoot><tr><td>Sum<td>3</tfoot><tbody><tr><td>A<td>3</tbody></table>", "| A | 3 |\n| Sum | 3 |"),
        ("<table><tr><th>A<th>B<tr><td>1<td><table><tr><td>x<td>y<tr><td>z<td>w</table></table>",
         "| A | B |\n|---|---|\n| 1 | x, y; z, w |"),
        ("<table role=presentation><tr><td><p>One.</p><td><p>Two.</p></table>", "One.\n\nTwo."),
        ("<table><tr><td><h2>Menu</h2><p>a</p><td><p>b</p><tr><td>c<td>d</table>", "Menu\n\na\n\nb\n\nc\n\nd"),
    ],
)  # fmt: skip
def test_tables_stay_rows(source: str, expected: str) -> None:
    """A cell of several blocks keeps its row; header rows become one; a caption names the table."""
    assert parsed("a.html", source).text == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<p><ruby>\u6f22<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>\u3002", "\u6f22(kan)\u3002"),
        ("<p>Donau&shy;dampf<wbr>schiff, zero&#8203;width", "Donaudampfschiff, zerowidth"),
        ("<p>By <math><mfrac><mrow><mi>a</mi><mo>+</mo><mn>1</mn></mrow><mi>b</mi></mfrac></math>.", "By (a+1)/b."),
        ("<p>By <math><msup><mi>x</mi><mn>2</mn></msup></math>.", "By x^2."),
        ("<p>By <math><semantics><mi>x</mi><annotation encoding='application/x-tex'>x_1</annotation></semantics></math>.", "By x_1."),
        ("<p>By <span><span style='display:none'><math><semantics><mi>x</mi><annotation encoding='application/x-tex'>{\\displaystyle x_1}</annotation></semantics></math></span><img class=mwe-math-fallback-image-inline src=x alt='x_1'></span>.", "By x_1."),
        ("<p>By <math><mroot><mi>x</mi><mn>3</mn></mroot><mo>=</mo><mfenced><mi>a</mi><mi>b</mi></mfenced><mphantom>z</mphantom></math>.", "By 3\u221ax=(a, b)."),
        ("<p>By <math alttext='not available'><mi>x</mi></math>.", "By x."),
        ("<p>By <span class=MathJax_Preview>x</span><script type='math/tex'>x_1</script>.", "By x_1."),
        ("<pre>a = 1<br>b = 2</pre>", "```\na = 1\nb = 2\n```"),
        ("<pre><code><div>a</div><div>b</div></code></pre>", "```\na\nb\n```"),
        ("<address>Mill Lane 3<br>Aston</address>", "Mill Lane 3\nAston"),
        ("<p>Tyger Tyger, burning bright,<br>In the forests of the night;<br>what hand", "Tyger Tyger, burning bright,\nIn the forests of the night;\nwhat hand"),
        ("<p><q>Yes</q>, said the <abbr title='Water Works'>WW</abbr>, and the <abbr title='Water Works'>WW</abbr> went.", "\u201cYes\u201d, said the WW (Water Works), and the WW went."),
        ("<form><p><label>Name <input value='Ida Kern'></label><p><label>Hue <select><option>red<option selected>blue</select></label><p><label><input type=checkbox checked> Paid</label><p><textarea>By hand</textarea><input type=hidden value=no></form>",
         "Name Ida Kern\n\nHue blue\n\n[x] Paid\n\nBy hand"),
        ("<a id='x'/><p>One <i/>two.</p><script src='a'/><p>Three.", "One two.\n\nThree."),
        ("<ul><li>a<ul><li>b<ol start=4><li>c<li value=9>d</ol></ul></ul>", "- a\n  - b\n    4. c\n    9. d"),
    ],
)  # fmt: skip
def test_elements_become_what_they_show(source: str, expected: str) -> None:
    """Readings stand behind their words, words stay whole, formulas are in a line, lines and values stay."""
    assert parsed("a.html", source).text == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("See [[Page|the page]], [[Page#Head]], [[#Head]] and [[P#^b1]].", "See the page, Page > Head, Head and P."),
        ("[[1]](http://x) and a[[0]] stays.", "[1] and a0 stays."),
        ("==Marked *words*==, but a == b and b == c. ^block-1", "Marked words, but a == b and b == c."),
        ("- a ^item1\n- grows as n ^2", "- a\n- grows as n ^2"),
        ("> [!warning]\n> Hot.", "Warning: Hot."),
        ("> [!tip]- Fold it\n> Like *this*.\n> And so.", "Tip: Fold it\n\nLike this. And so."),
        ("> [!note] Alone", "Note: Alone"),
        ("#tag of 100%% and 5%%", "#tag of 100%% and 5%%"),
        ("```\n%% code %%\n```", "```\n%% code %%\n```"),
        ("| a | b |\n|--|--|\n| x \\| y | `p \\| q` |\n| [[P\\|al]] | c |", "| a | b |\n|---|---|\n| x|y | `p|q` |\n| al | c |"),
        ("- [x] done\n- [ ] open", "- [x] done\n- [ ] open"),
        ("Rose  \nis red\\\nand blue", "Rose\nis red\nand blue"),
        ("By $a_1 * b_2 * c$ and $$x^2$$.\n\n$$\na = b\n$$\n\n$$\na\nb\n$$", "By a_1 * b_2 * c and x^2.\n\na = b\n\n```\na\nb\n```"),
        ("From $5 to $10, or US$5 or US$ x.", "From $5 to $10, or US$5 or US$ x."),
        ("In ~/a and ~/b, ~5 to ~10.", "In ~/a and ~/b, ~5 to ~10."),
        ("<ruby>\u6f22<rt>kan</rt></ruby> <q>Yes</q> <!-- no\n\nno --> :smile:", "\u6f22(kan) \u201cYes\u201d\n\n:smile:"),
    ],
)  # fmt: skip
def test_markdown_reads_as_its_editors_show_it(source: str, expected: str) -> None:
    """Links, marks, callouts and comments of Obsidian, formulas and hard line breaks; prices stay prices."""
    document = parsed("a.md", source)

    assert document.text == expected


def test_pictures_are_their_words_or_counted() -> None:
    """An alternative text is text; a picture without one, a badge's name or a file's name says nothing."""
    page = parsed(
        "a.html",
        "<p><img src=a alt='Sales by month'><img src=b><img src=c alt='img_1.png'><iframe src=d></iframe><video></video>",
    )
    text = parsed(
        "a.md", "![Sales by month](a) ![](b) [![Build](c/badge)](d)\n\n![[e.png]] ![[Page]]"
    )
    rst = parsed("a.rst", ".. image:: a.png\n   :alt: Sales by month\n\n.. image:: b.png\n")

    assert {page.text, text.text, rst.text} == {"Sales by month"}
    assert page.left_out == {"pictures": 2, "embedded pages": 1, "videos": 1}
    assert text.left_out == {"pictures": 2, "embedded files": 1}
    assert rst.left_out == {"pictures": 1}


@pytest.mark.parametrize("name", ["a.html", "a.md"])
def test_a_linked_picture_is_its_words_unless_it_is_a_sign(name: str) -> None:
    """A small picture that leads to a large one has the words that describe it; a badge or a logo has none."""
    source = {
        "a.html": "<p><a href=l.jpg><img src=s.jpg alt='Red squirrel'></a> <a href=x><img src=l.svg alt=Acme></a></p>",
        "a.md": "[![Red squirrel](s.jpg)](l.jpg) [![Acme](l.svg)](x)",
    }[name]

    document = parsed(name, source)

    assert document.text == "Red squirrel"
    assert document.left_out == {}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.html", "<head><meta name=date content=2024-03-05></head><p>x"),
        ("a.html", "<meta property=article:published_time content=2020-01-01><meta property=article:modified_time content=2024-03-05><p>x"),
        ("a.html", "<script type='application/ld+json'>{\"dateModified\": \"2024-03-05\"}</script><p>x"),
        ("a.html", "<article><header><time datetime=2024-03-05>5 March</time></header><p>x</article>"),
        ("a.md", "---\ndate: 2020-01-01\nupdated: 2024-03-05\n---\nx"),
        ("a.md", "---\nlast_modified: March 5, 2024\n---\nx"),
        ("a.rst", ":Date: 2024-03-05\n\nx"),
    ],
)  # fmt: skip
def test_a_document_states_its_date(name: str, source: str) -> None:
    """Of several dates the one of the last change counts; it is ISO 8601 whatever its writing."""
    assert parsed(name, source).date == "2024-03-05"


def test_header_rows_and_spans_of_rst_are_repeated() -> None:
    """A cell that spans columns or rows stands in each; several header rows become one."""
    grid = """\
+------+-----------+
| Reg  | 2023      |
|      +-----+-----+
|      | Q1  | Q2  |
+======+=====+=====+
| N    | 1   | 2   |
+------+-----+-----+
| S    | none      |
+------+-----------+
"""

    assert parsed("a.rst", grid).text == (
        "| Reg | 2023 Q1 | 2023 Q2 |\n|---|---|---|\n| N | 1 | 2 |\n| S | none | none |"
    )


def test_a_note_has_the_place_of_its_text() -> None:
    """A note that was moved to its section keeps the lines of the file, or the anchor, where it stands."""
    text = parsed("a.md", "# A\n\nOne[^1].\n\n# B\n\nTwo.\n\n[^1]: Since May.\n")
    page = parsed(
        "a.html",
        "<h1 id=h>A</h1><p>One<sup><a href=#n>1</a></sup>.<h1>B</h1><p>Two.<p id=n>1 Since May.",
    )
    at, there = text.text.index("Since"), page.text.index("Since")
    line, anchor = place_of(text.places, at, at + 5), place_of(page.places, there, there + 5)

    assert line is not None
    assert (line.line_start, line.line_end) == (9, 9)
    assert anchor is not None
    assert anchor.anchor == "n"


def test_marks_of_notes_cannot_be_forged() -> None:
    """Characters that the loader marks notes with are no text of a page, and leave nothing behind."""
    document = parsed("a.html", "<p>One\x0e1\x0f7\x0f two<sup><a href=#none>3</a></sup>.")

    assert document.text == "One17 two[3]."
    assert not markup_in(document.text)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<ol type=a start=3><li>x<li>y</ol>", "c. x\nd. y"),
        ("<ol type=I><li>x<li value=9>y<li>z</ol>", "I. x\nIX. y\nX. z"),
        ("<ol style='list-style-type: upper-alpha'><li>x</ol>", "A. x"),
        ("<ol reversed><li>x<li>y</ol>", "2. x\n1. y"),
        ("<ol><li>x<li type=i>y</ol>", "1. x\nii. y"),
        ("<ul type=disc><li>x</ul>", "- x"),
    ],
)
def test_items_have_the_numbers_that_a_reader_sees(source: str, expected: str) -> None:
    """Letters, Roman numbers and lists that count down, by attribute or by style."""
    assert parsed("a.html", source).text == expected


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.html", "<table><tr><th>Rule<th>Sign</tr><tr><td>either | or<td>| x</tr></table>"),
        ("a.md", "| Rule | Sign |\n|---|---|\n| either \\| or | \\| x |"),
    ],
)
def test_a_bar_in_a_cell_does_not_end_it(name: str, source: str) -> None:
    """A row has as many cells as its header, whatever their texts."""
    text = parsed(name, source).text

    header, row = read_rows(text)
    assert [text[slice(*cell)] for cell in row.cells] == ["either|or", "|x"]
    assert len(header.cells) == 2


def test_a_box_that_is_cut_to_nothing_is_hidden() -> None:
    """What `clip` cuts off whole is text for no reader of the page; what it cuts in part is."""
    page = parsed(
        "a.html",
        "<p>a<p style='position:absolute;clip:rect(0 0 0 0)'>b<p style='position:absolute;clip:rect(0,50px,9px,0)'>c",
    )

    assert page.text == "a\n\nc"
    assert page.left_out == {"hidden passages": 1}


def test_a_list_of_links_is_text_where_the_text_introduces_it() -> None:
    """The sources below a text are text; the menu before it and the box beside it are not."""
    links = "".join(f"<li><a href=l{at}>{word}</a>" for at, word in enumerate(("Oak", "Ash", "Elm", "Fir", "Yew")))  # fmt: skip
    page = parsed(
        "a.html",
        f"<body><ul>{links.replace('Oak', 'Home')}</ul><h1>Trees</h1><p>All trees of the park are described on pages of"
        f" their own, with a picture of the leaf.</p><h2>Pages</h2><ul>{links}</ul><div><h3>Latest</h3><ul>"
        f"{links.replace('Oak', 'News')}</ul></div>" + "<p>The park is open all day and all night, also in winter.</p>" * 3,
    )  # fmt: skip

    assert "- Oak\n- Ash\n- Elm\n- Fir\n- Yew" in page.text
    assert "Home" not in page.text
    assert "News" not in page.text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<h2><button aria-expanded=false>The <b>fee</b></button></h2><p>It is 55 euro.", "The fee\n\nIt is 55 euro."),
        ("<dl><dt><button>The fee</button><dd>It is 55 euro.</dl>", "The fee\n    It is 55 euro."),
        ("<h2>The fee <button>Copy link</button></h2><p>It is 55 euro.<button>Buy</button>", "The fee\n\nIt is 55 euro."),
        ("<h2><button><svg></svg></button></h2><p>It is 55 euro.", "It is 55 euro."),
    ],
)  # fmt: skip
def test_a_button_is_text_where_it_is_a_title(source: str, expected: str) -> None:
    """The titles of parts that open and close are buttons; those beside a title, and all others, are tools."""
    assert parsed("a.html", source).text == expected


@pytest.mark.parametrize(
    ("header", "is_text"),
    [
        ("<header><h1>Fees</h1><p>By Ida</header>", True),
        ("<header role=banner><h1>Fees</h1><p>By Ida</header>", True),
        ("<header><p>By Ida</header>", False),
        ("<header><h1><a href=/>Ferry company</a></h1><p>By Ida</header>", False),
        ("<header><h1>Fees</h1><p>By Ida<nav><a href=/>Home</a></nav></header>", False),
        ("<header><h1>Ferry company</h1><p>By Ida</header><h1>Fees</h1>", False),
    ],
)
def test_the_header_of_a_page_is_text_where_it_has_the_title(header: str, is_text: bool) -> None:
    """Title, author and date stand in it; the name of a site with links does, too, and is no text."""
    text = parsed("a.html", f"<body>{header}<p>The fee is 55 euro.</p></body>").text

    assert ("By Ida" in text) == is_text
    assert text.endswith("The fee is 55 euro.")


def test_a_remark_belongs_to_its_section() -> None:
    """An element `aside` in a section is a part of it, one of the page is none."""
    section = "<section><h2>Fees</h2><p>The fee is 55 euro.</p><aside>From May.</aside></section>"
    document = parsed("a.html", f"<body>{section}<aside>Other pages</aside></body>")

    assert document.text == "Fees\n\nThe fee is 55 euro.\n\nFrom May."
