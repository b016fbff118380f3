"""Markdown, HTML and plain text as text: one form for each construct, no markup, and the lines of the file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.documents import make_docx, make_pdf
from tests.support.markup import markup_in

from whence.ingest.blocks import ParsedDocument
from whence.ingest.chunking import Chunker
from whence.ingest.loader_registry import detect_loader, loader_for
from whence.ingest.loaders.plain_text import looks_like_rst
from whence.ingest.sources import SourceFile, suffix_of
from whence.schema.places import place_of


def parsed(name: str, data: str) -> ParsedDocument:
    file = SourceFile(path=name, document_id=name, suffix=suffix_of(name))
    raw = data.encode()
    return detect_loader(loader_for(file), raw).parse(file, raw)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("# Head *em* `code` {#id}\n\nText", "Head em code\n\nText"),
        ("Under\n-----\n\na\nb", "Under\n\na b"),
        ("[link](http://a 't') ![alt](x.png) <https://b.example> **bold** `c`", "link alt https://b.example bold `c`"),
        ("&amp; a<br>b <kbd>Ctrl</kbd> <!-- no -->x", "& a\nb `Ctrl` x"),
        ("A[^1].\n\n[^1]: The foot note.", "A[1].\n\nNote 1: The foot note."),
        ("[a]: /address\n\nSee [a].", "See a."),
        ("* a\n* b\n  * c\n\n1. d\n2. e", "- a\n- b\n  - c\n\n1. d\n2. e"),
        ("3. a\n\n   ```py\n   x\n   ```\n4. b", "3. a\n\n   ```py\n   x\n   ```\n\n4. b"),
        ("| a | b |\n|---|--:|\n| 1 | `x` |", "| a | b |\n|---|---|\n| 1 | `x` |"),
        ("Term\n:   Said *so*.\n:   Twice.", "Term\n    Said so.\n\n    Twice."),
        ("> quoted\n> words", "quoted words"),
        ("> [!NOTE]\n> Careful.", "Note: Careful."),
        ("> [!NOTE]  \n> Careful.", "Note: Careful."),
        ('[Book >]({% page "/a b/" %}) by [rules][r], [fees]({{ site.url }}/f.html#a "Fees"), [team]({{< ref "t.md" >}}).\n\n[r]: {% link r.md %}', "Book > by rules, fees, team."),
        ("Seen.\n\n{% comment %}\nNot seen.\n{% endcomment %}\n\nAgain{%- comment -%} not{%- endcomment -%}.", "Seen.\n\nAgain."),
        ("`[a]({% link b %})`\n\n```\n{% comment %}\n[x]({% link y %})\n```", "`[a]({% link b %})`\n\n```\n{% comment %}\n[x]({% link y %})\n```"),
        ('{{< aside >}}\nKept.\n{{< /aside >}}\n\n{% box kind="x" %}\nToo.\n{% endbox %}\n\nOf {{< var n >}} parts.', "Kept.\n\nToo.\n\nOf parts."),
        ("{{%\n  panel\n  title=\"Of use\"\n%}}\nWords.\n{{% /panel %}}\n\n{{< img src=\"a b.png\" caption='Seen from above' >}}", "Of use\n\nWords.\n\nSeen from above"),
        ("{% highlight sh %}\n$ a\n  {{< b >}}\n{% endhighlight %}\n\n{{< highlight go >}}\nc\n{{< /highlight >}}", "```sh\n$ a\n  {{< b >}}\n```\n\n```go\nc\n```"),
        ("Write `{{< a >}}` or {{</* b */>}}, at {< c >} and {{ d }}.\n\n```\n{% e %}\n```", "Write `{{< a >}}` or `{{< b >}}`, at {< c >} and {{ d }}.\n\n```\n{% e %}\n```"),
        ('10<span style="vertical-align: super">6</span> of x<i style="color:red; vertical-align:sub">i</i>, 5<b style="vertical-align:middle">7</b>', "10^6 of x_i, 57"),
        ("!!! warning\n    Inside.\n\n    More.\n\nAfter.", "Warning: Inside.\n\nMore.\n\nAfter."),
        ('??? note "Own words"\n    Inside.', "Own words: Inside."),
        ('=== "Linux"\n\n    ```sh\n    apt\n    ```\n', "Linux:\n\n```sh\napt\n```"),
        (":::tip\nWords.\n:::\n\nAfter", "Tip: Words.\n\nAfter"),
        ("```{note}\nWords *here*.\n```", "Note: Words here."),
        ('a\n\n!!! info "Added in 2"\n\nb\n\n```{versionadded} 3\n```\n\nc', "a\n\nAdded in 2.\n\nb\n\nNew in version 3.\n\nc"),
        ("```{pip-cli}\n$ pip\n  a\n```", "```\n$ pip\n  a\n```"),
        ("`a word\n<http://x>`_, `Page`_, :mod:`~a.b` and `c`_d, then :mod:` alone", "a word, Page, `b` and `c`_d, then alone"),
        ("```{code-block} python\n:linenos:\n\nx = 1\n```", "```python\nx = 1\n```"),
        ("```{doctest} group\n>>> # Said.\n>>> x\n1\n```", "```\n>>> # Said.\n>>> x\n1\n```"),
        ("```{example} Of use\nWords.\n```", "Example: Of use Words."),
        ("```{eval-rst}\n.. note:: See :ref:`x`.\n```", "Note: See x."),
        ("(a-target)=\n(labels/b)=\n# Head\n\n```{versionadded} 1.2\nWords.\n```", "Head\n\nNew in version 1.2: Words."),
        ("```{toctree}\n:maxdepth: 1\n\na\n```\n\nText", "Text"),
        ("See {py:func}`~a.b.c` and {ref}`words <x>`.", "See `c()` and words."),
        ("<p align=center><b>Big</b> <img src=x></p>\n\nText", "Big\n\nText"),
        ("<details><summary>More</summary>\n\nHidden **text**\n\n</details>", "More\n\nHidden text"),
        ("    code\n\n      more", "```\ncode\n\n  more\n```"),
        ("- [ ] todo\n\n---\n\nEnd", "- [ ] todo\n\nEnd"),
        ("|a|\n|-|\n|<ul><li>x</li><li><code>y</code> z</li></ul>|", "| a |\n|---|\n| x; `y` z |"),
        ("Type: `Bar`  \nUnit: `psi`<br>Flag: `-u`\n\nOn.", "Type: `Bar`\nUnit: `psi`\nFlag: `-u`\n\nOn."),
        ("`$ cd a`\\\n`$ b`<br><br>It goes  \non.<br>Then more.", "```\n$ cd a\n$ b\n```\n\nIt goes\non.\nThen more."),
        ("```{currentmodule} pumps\n```\n\n```{py:module} pumps\n```\n\nText.", "Text."),
    ],
)  # fmt: skip
def test_markdown_becomes_text(source: str, expected: str) -> None:
    """Marks of Markdown and of its dialects are gone; what they mean has its form."""
    assert parsed("a.md", source).text == expected


def test_a_document_that_begins_with_a_table_or_code_has_the_name_of_its_file() -> None:
    """Where no heading stands, the first line does if it is prose; a row or a line of code is no title."""
    texts = ("| Name | Use |\n|---|---|\n| a | b |", "```\nx = 1\n```", "Some words.\n\nMore.")

    titles = [parsed("a/names.md", text).fallback_title for text in texts]

    assert titles == ["names", "names", "Some words."]


def test_lines_between_breaks_have_their_lines_in_the_file() -> None:
    """A break may stand inside a line of the file, and a line between breaks may go on in the next."""
    document = parsed(
        "a.md",
        f"Text.\n\nUnit: `psi`<br>Flag: `-u`,\n`-v`  \nType: `Bar`  \n\nIt  \ngoes<br>\nwith {'words ' * 12}.",
    )
    found = {
        words: place_of(document.places, at, at + len(words))
        for words in ("Unit: `psi`", "Flag: `-u`, `-v`", "Type: `Bar`", "It goes with")
        for at in [document.text.index(words)]
    }

    assert [place and (place.line_start, place.line_end) for place in found.values()] == [
        (3, 3),
        (3, 4),
        (5, 5),
        (7, 9),
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<table><tr></table><p>Text.", "Text."),
        ("<table><tr><td>port<td>Type: int<td>Default: 80</table><p>Its port.", "port (Type: int, Default: 80)\n\nIts port."),
        ("<h1>T<a class=headerlink href=#t>\u00b6</a><a href=t.js#L5>[src]</a></h1><p>a <code>b</code>&amp;</p>", "T\n\na `b`&"),
        ("<h2>T <a href=#t>#</a></h2><p>x</p>", "T\n\nx"),
        ("<dl><dt class='sig sig-object' id=f><span>f</span>(<em>a</em>)<dd><p>Do.</p><p>More.</p></dl>",
         "`f(a)`\n    Do.\n\n    More."),
        ("<dl><dt>a<dd>1<dt>b<dt>c<dd>2</dl>", "a\n    1\n\nb\nc\n    2"),
        ("<div class=admonition><p class=admonition-title>Note</p><p>Care.</p></div>", "Note: Care."),
        ("<ol start=3><li>a<li><p>b</p><pre>x\ny</pre></ol>", "3. a\n4. b\n\n   ```\n   x\n   y\n   ```"),
        ("<table><tr><th>a<th>b<tr><td rowspan=2>1<td>2<tr><td>3</table>", "| a | b |\n|---|---|\n| 1 | 2 |\n| 1 | 3 |"),
        ("<div class='highlight-python'><div class=highlight><pre>x = 1</pre></div></div>", "```python\nx = 1\n```"),
        ("<div role=navigation>Home</div><div class=cookie-banner>Accept</div><p>Text</p><a>Edit this page</a>", "Text"),
        ("<table><tr><td><b>k</b><td><p><strong>v</strong></p><tr><td>1<td>2</table>", "| k | v |\n|---|---|\n| 1 | 2 |"),
        ("<p>Use :mod:` or :ref:`that &lt;x&gt;`, <code>:mod:` x</code>.<h style='display:none'> y</h>", "Use or that, :mod:` x."),
        ("<table><tr><td class=icon>Tip<td class=content>Do.</table>", "Tip: Do."),
        ("<p>Of ``.'' and <b>``a</b> b''.</p><pre>``x''</pre>", "Of \u201c.\u201d and \u201ca b\u201d.\n\n```\n``x''\n```"),
        ("<p>a<sup>2</sup> &lt;b&gt; &copy;</p>", "a^2 <b> \u00a9"),
        ("<p><code>$ cd /srv<br>\n  $ ./pump <b>on</b><br/></code></p>", "```\n$ cd /srv\n$ ./pump on\n```"),
        ("<ul><li>Open it:<br><code>$ pump</code><br><br>Close <code>it</code>.</ul>",
         "- Open it:\n\n  ```\n  $ pump\n  ```\n\n  Close `it`."),
        ("<p><code>$ cd a<br><br>$ b</code><br><br>On.</p>", "```\n$ cd a\n\n$ b\n```\n\nOn."),
        ("<div id=page-header><p>Pumps 2.4</p></div><div class=page-header><h1>P</h1></div><p>All of it.</p>", "P\n\nAll of it."),
        ("<p>Pump Works<br>Mill Lane 3<br>\nAston</p>", "Pump Works\nMill Lane 3\nAston"),
        (f"<p>It goes on {'and on ' * 9}<br>in the next line.<br>Then more.</p>", f"It goes on {'and on ' * 9}in the next line. Then more."),
        ("<p>One.<br>Two.</p>", "One.\nTwo."),
        ("<dl><dt>on<br>off<dd>Both.</dl>", "on\noff\n    Both."),
        ("<table><tr><td>cap n<td>5<td>s<tr><td colspan=3>Most pumps.<tr><td>bar n<td>9<td>v<tr><td colspan=3>Pressure.</table>",
         "| cap n | 5 | s | Most pumps. |\n| bar n | 9 | v | Pressure. |"),
        ("<table><tr><th>a<th>b<tr><td colspan=2>Group<tr><td>1<td>2<tr><td colspan=2>Next<tr><td>3<td>4</table>",
         "| a | b |\n|---|---|\n| Group | |\n| 1 | 2 |\n| Next | |\n| 3 | 4 |"),
        ("<table><tr><td>x<td><table><tr><th>k<td>v</table></table>", "x\n\n| k | v |"),
        ("<h2>P</h2><div class=warning><h3>Heat</h3><p>Hot.</p></div><p>On.</p>", "P\n\nHeat: Hot.\n\nOn."),
        ("<p>Languages: <a rel=alternate hreflang=de>de</a> | <a>en</a></p><p class=menu><a>M</a><a>N</a></p><p>On.</p>", "On."),
        ("<p>Set <code>a=</code><i><code>b</code></i><code>c</code> or <code>d</code> <code>e</code>.", "Set `a=bc` or `d` `e`."),
        ("<p>Next: <a rel=next>B</a>, Up: <a rel=up>T</a> [<a>Index</a>]</p><p>See <a rel=next>B</a>.</p>", "See B."),
        (f"<p>{' | '.join(f'<a>{each}</a>' for each in 'ABCDEFGHIJK')}</p><p>Or <a>A</a>.</p>", "Or A."),
    ],
)  # fmt: skip
def test_html_becomes_text(source: str, expected: str) -> None:
    """Links to headings, navigation and banners are gone; definitions, tables and code have their form."""
    assert parsed("a.html", f"<body>{source}</body>").text == expected


def test_what_follows_a_box_belongs_to_the_section() -> None:
    """The heading of a note or an example heads nothing below it; that of another element does."""
    page = "<h2>Pump</h2><div class={}><h3>Heat</h3><p>Hot.</p></div><p>On.</p>"
    paths = [parsed("a.html", page.format(kind)).blocks[-1].path for kind in ("note", "part")]

    assert paths == [("Pump",), ("Pump", "Heat")]


def test_places_of_html_are_anchors() -> None:
    """A part has the id of its element, or of the nearest heading or section above."""
    document = parsed(
        "a.html",
        "<body><section id=s><h1>A</h1><p>One.</p><p id=p>Two.</p><h2 id=h>B</h2><p>Three.</p></section>"
        "<dl><dt id=f>f<dd>Four.</dl></body>",
    )
    found = {
        word: place_of(document.places, at, at + 1)
        for word in ("One", "Two", "Three", "Four")
        for at in [document.text.index(word)]
    }

    assert {word: place.anchor if place else None for word, place in found.items()} == {
        "One": "s",
        "Two": "p",
        "Three": "h",
        "Four": "f",
    }


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Some words of some length that\nare wrapped here at forty or so\nand end.\n\nNext.",
         "Some words of some length that are wrapped here at forty or so and end.\n\nNext."),
        ("Title\n=====\n\nText\n\nPart\n----\nMore", "Title\n\nText\n\nPart\n\nMore"),
        ("* one is long\n  and wrapped\n* two\n\n1) three", "- one is long and wrapped\n- two\n1. three"),
        ("Run this:\n\n    $ make\n\n    $ make test\n\nDone.", "Run this:\n\n```\n$ make\n\n$ make test\n```\n\nDone."),
        ("Text.\n\n   Indented words of plain prose, which are no code.", "Text.\n\nIndented words of plain prose, which are no code."),
        ("a    1\nbb   2\nccc  3", "```\na    1\nbb   2\nccc  3\n```"),
        ("Jane Doe\nSome Street 1\nTown", "Jane Doe\nSome Street 1\nTown"),
    ],
)  # fmt: skip
def test_plain_text_is_joined(source: str, expected: str) -> None:
    """Wrapped lines are paragraphs, underlined lines titles; code and addresses keep their lines."""
    assert parsed("a.txt", source).text == expected


def test_rst_is_recognized_by_its_content() -> None:
    """Several signs make a text reStructuredText; one alone, fences or plain words do not."""
    rst = "Title\n=====\n\n.. note:: Care.\n\nSee :ref:`x`."

    assert looks_like_rst(rst)
    assert parsed("a.txt", rst).text == "Title\n\nNote: Care.\n\nSee x."
    assert looks_like_rst("Use ``x``::\n\n    code")
    assert looks_like_rst("Title\n=====\n\nUse ``x``.")
    assert not looks_like_rst("Title\n=====\n\nWords, and a time of 10:30.")
    assert not looks_like_rst(".. note:: alone")
    assert not looks_like_rst("T\n==\n\n.. note:: x\n\n```\nfence\n```")
    assert looks_like_rst("Title\n`````\n\n.. note:: x\n\nMore\n```\n")


PIECES = st.sampled_from(
    [
        *("Title\n=====", "Sub\n---", "Plain words stand here. More of them.", "*emph* and **strong** words"),
        *("``literal`` text", ":func:`~a.b` called", "see `link <http://x.y>`_ there", ".. note:: Watch out."),
        *(".. code-block:: python\n\n   x = [1]", ".. setting:: NAME\n\n   Said of it.", "- item\n- two"),
        *("Example::\n\n    code: here", "term\n   said", "1. one\n2. two", "== ==\na  b\n== ==\n1  2\n== =="),
    ]
)  # fmt: skip


@given(st.lists(PIECES, min_size=1, max_size=9))
def test_no_markup_of_rst_is_left(pieces: list[str]) -> None:
    """Whatever stands beside what, the detector finds no markup, and lines hold the words of each part."""
    source = "\n\n".join(pieces)
    document = parsed("a.rst", source)
    lines = source.split("\n")

    assert markup_in(document.text) == []
    for block in document.blocks:
        for start, end in block.parts:
            place = place_of(document.places, start, end)
            assert place is not None
            held = " ".join(lines[place.line_start - 1 : place.line_end])
            first = document.text[start:end].strip("`|- \n0123456789.").split()[0].strip("`")
            assert first.startswith(("python", "Note", "Example", "b()")) or first in held


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a :ref:`b` c", "role"),
        (".. note:: x", "directive"),
        ("see `a b`_.", "reference"),
        ("such as this::", "literal block"),
        ("Title\n=====", "underline"),
        ("a <b>c</b>", "tag"),
        ("a &nbsp; b", "entity"),
        ("[a](http://b)", "link"),
        ("a **b** c", "bold"),
        ("## A", "hashes"),
        ("A\u00b6", "pilcrow"),
        ("the |version| of", "substitution"),
    ],
)
def test_the_detector_finds_markup(text: str, kind: str) -> None:
    """Each kind of markup is found in prose, and none in code or in the form of texts."""
    assert kind in [found for found, _ in markup_in(text)]
    assert markup_in(f"```\n{text}\n```") == []
    assert (
        markup_in(
            "Head\n\n`C`\n    Said.\n\n- a\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\nx\n```"
        )
        == []
    )


def test_a_pdf_has_lists_and_sentences_across_pages() -> None:
    """Marks begin items; a sentence goes on over a page; page numbers and entries of contents are no text."""
    pages = [
        [
            (11.0, 750.0, "Scope ........................ 1"),
            (11.0, 714.0, "In /usr/"),
            (11.0, 700.0, "share the rule holds for everyone"),
            (11.0, 30.0, "i"),
        ],
        [
            (11.0, 700.0, "who works here. It has two parts:"),
            (11.0, 670.0, "* one part is"),
            (11.0, 657.0, "imple-"),
            (11.0, 644.0, "mented"),
            (11.0, 620.0, "* two"),
            (11.0, 30.0, "ii"),
        ],
        [(11.0, 700.0, "The end."), (11.0, 30.0, "iii")],
    ]
    file = SourceFile(path="a.pdf", document_id="a.pdf", suffix=".pdf")
    document = loader_for(file).parse(file, make_pdf(pages))

    assert document.text == (
        "In /usr/share the rule holds for everyone who works here. It has two parts:\n\n"
        "- one part is implemented\n- two\n\nThe end."
    )
    page = {
        word: place.page
        for word in ("rule", "two parts", "- one", "end")
        for at in [document.text.index(word)]
        if (place := place_of(document.places, at, at + 1))
    }
    assert page == {"rule": 1, "two parts": 2, "- one": 2, "end": 3}


BLOCKS = st.lists(
    st.sampled_from(
        [
            *("Head", "Plain words stand here. More of them follow.", "One | two", "a  b\u00a0c", "x" * 70, "- mark"),
            *("Words, e.g. these: they end here.", "`code` and ``more``", "1. first", "\u4e2d\u6587\u53e5\u5b50\u3002"),
        ]
    ),
    min_size=1,
    max_size=8,
)  # fmt: skip
FORMS = ("p", "h2", "li", "dt", "dd", "td", "pre", "blockquote", "div", "th")


def count_words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


@given(BLOCKS, st.lists(st.sampled_from(FORMS), min_size=8, max_size=8), st.integers(16, 60))
def test_laws_of_formats_that_are_not_text(
    blocks: list[str], forms: list[str], window: int
) -> None:
    """Chunks of HTML, Word and PDF are spans of the stored text, and hold all of it but white space."""
    page = "".join(
        f"<{form}>{escape(text)}</{form}>" for text, form in zip(blocks, forms, strict=False)
    )
    paragraphs = [
        ("Heading1" if form == "h2" else "", text)
        for text, form in zip(blocks, forms, strict=False)
    ]
    rows = [[text, form] for text, form in zip(blocks, forms, strict=False)]
    letters = [text for text in blocks if text.isascii()] or ["Words."]
    lines = [(11.0, 750.0 - 14 * at, text) for at, text in enumerate(letters)]
    data = {
        "a.html": f"<body><ul>{page}</ul></body>".encode(),
        "a.docx": make_docx(*paragraphs, rows),
        "a.pdf": make_pdf([lines, lines]),
    }
    for name, raw in data.items():
        file = SourceFile(path=name, document_id=name, suffix=suffix_of(name))
        document = loader_for(file).parse(file, raw)
        chunks = Chunker(count_words, max_tokens=window, overlap_tokens=4).split(document)
        covered = {at for chunk in chunks for at in range(chunk.start, chunk.end)}

        assert all(chunk.content == document.text[chunk.start : chunk.end] for chunk in chunks)
        assert all(document.text[at].isspace() for at in set(range(len(document.text))) - covered)
        assert all(
            text.split()[0] in document.text.split() for text in blocks[:1] if name == "a.docx"
        )
