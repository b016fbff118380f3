"""Loaders: what each kind of file becomes, and laws that hold for every text."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.documents import make_docx, make_pdf

from whence.ingest.blocks import Block, ParsedDocument
from whence.ingest.chunking import SPECIAL_TOKENS, Chunker
from whence.ingest.documents import KnownSources, count_documents, load_documents
from whence.ingest.load_results import LoadedDocument, LoadFailure, Skipped, Unchanged
from whence.ingest.loader_registry import detect_loader, loader_for, loaders_by_suffix
from whence.ingest.loaders import base
from whence.ingest.sources import SourceFile, suffix_of
from whence.schema.access import DocumentTags
from whence.schema.errors import BadInput, ModelMissing


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def parsed(name: str, data: str | bytes) -> ParsedDocument:
    file = SourceFile(path=name, document_id=name, suffix=suffix_of(name))
    raw = data.encode() if isinstance(data, str) else data
    return detect_loader(loader_for(file), raw).parse(file, raw)


def told(document: ParsedDocument) -> list[tuple[str, tuple[str, ...], list[str]]]:
    return [
        (block.kind, block.path, [document.text[slice(*part)] for part in block.parts])
        for block in document.blocks
    ]


def covered(blocks: Sequence[Block]) -> set[int]:
    return {at for block in blocks for part in block.parts for at in range(*part)}


def test_html_keeps_the_main_content() -> None:
    """Headings, prose, nested lists, tables and code are blocks; all that surrounds them is left out."""
    document = parsed(
        "a.html",
        "<title>T - Site</title><link rel=canonical href='https://example.org/a'><header>Site</header>"
        "<nav>Home</nav><main><h1>One <em>two</em></h1><p>First line.</p>bare <b>text</b>"
        "<ul><li>a<ul><li>b</li></ul></li></ul><table><tr><th>x<th>y<tr><td>1<td>2</table>"
        "<pre>def f():\n    pass</pre><script>no()</script></main><aside>no</aside><footer>no</footer>",
    )

    assert document.text == (
        "One two\n\nFirst line.\n\nbare text\n\n- a\n  - b\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n"
        "```\ndef f():\n    pass\n```"
    )
    assert (document.title, document.source_url) == ("T - Site", "https://example.org/a")
    assert document.blocks[0] == Block("heading", ("One two",), ((0, 7),))


def test_html_is_recognized_in_a_text_file() -> None:
    """A `.txt` file that begins like a page is read as HTML; Markdown may contain HTML and is not."""
    page = "<!DOCTYPE html><html><body><h1>One</h1><p>Two</body></html>"

    assert parsed("a.txt", page).text == "One\n\nTwo"
    assert parsed("a.md", f"# Top\n\n{page}").text == "Top\n\nOne\n\nTwo"


def test_html_without_a_main_element_loses_its_menus() -> None:
    """Navigation is detected by its name or its links, unless it is the whole page."""
    links = "".join(f"<li><a href={n}>Link {n}</a></li>" for n in range(9))
    body = (
        "<p>What the page is about stands here, at some length, for a reader to read and enjoy.</p>"
        * 3
    )

    assert "Link" not in parsed("a.html", f"<body><ul>{links}</ul>{body}</body>").text
    assert "Link 3" in parsed("a.html", f"<body><ul>{links}</ul></body>").text
    assert "Tools" not in parsed("a.html", f"<body><div class=sidebar>Tools</div>{body}").text


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("<meta charset=iso-8859-2><p>Łódź</p>".encode("iso-8859-2"), "iso8859-2"),
        ("<meta charset=latin1><p>Łódź</p>".encode(), ""),
        ("<p>Łódź</p>".encode("utf-16"), "utf-16"),
    ],
)
def test_a_page_is_read_in_its_encoding(data: bytes, encoding: str) -> None:
    """Valid UTF-8 takes precedence over the declared encoding."""
    document = parsed("a.html", data)

    assert document.text == "Łódź"
    assert document.metadata.get("encoding", "") == encoding


@pytest.mark.parametrize("page", ["<div>" * 5000, "<div>" * 300 + "x" + "</div>" * 300])
def test_a_page_nested_too_deeply_fails_soon(page: str) -> None:
    """The parser takes the square of the depth; such a page is refused before or after it."""
    with pytest.raises(BadInput, match=r"elements"):
        parsed("a.html", page)


def test_pdf_keeps_pages_headings_and_words() -> None:
    """Hyphens at line ends are undone except in compounds, running titles go, pages are known."""
    pages = [
        [
            (9.0, 770.0, f"Handbook {n}"),
            (20.0, 700.0, f"Chapter {n}"),
            (11.0, 670.0, "This well-known rule is about em-"),
            (11.0, 657.0, "ployment, and is a well-"),
            (11.0, 644.0, "known one."),
            (11.0, 610.0, "Next."),
            (9.0, 30.0, f"- {n} -"),
        ]
        for n in (1, 2, 3)
    ]
    document = parsed("a.pdf", make_pdf(pages, title="Rules"))

    assert document.title == "Rules"
    assert told(document)[:3] == [
        ("heading", ("Chapter 1",), ["Chapter 1"]),
        (
            "prose",
            ("Chapter 1",),
            ["This well-known rule is about employment, and is a well-known one."],
        ),
        ("prose", ("Chapter 1",), ["Next."]),
    ]
    assert [place.page for place in document.places] == [1, 2, 3]
    assert "Handbook" not in document.text


def test_chunks_of_a_pdf_know_their_page(tmp_path: Path) -> None:
    """The page is that of the first character."""
    pages = [[(20.0, 700.0, f"Part {n}"), (11.0, 660.0, f"Words of page {n}.")] for n in (1, 2)]
    (tmp_path / "a.pdf").write_bytes(make_pdf(pages))
    (document,) = load_documents([tmp_path], chunker=Chunker(words))

    assert isinstance(document, LoadedDocument)
    assert [(chunk.heading, chunk.page) for chunk in document.draft.chunks] == [
        ("Part 1", 1),
        ("Part 2", 2),
    ]


@pytest.mark.parametrize("name", ["a.pdf", "a.docx"])
@pytest.mark.parametrize(
    "data", [b"%PDF-1.4 x", b"PK\x03\x04word/document.xml", b"words", b"\0" * 9]
)
def test_damaged_files_fail_with_a_reason(name: str, data: bytes) -> None:
    """A damaged file is bad input with a reason."""
    with pytest.raises(BadInput, match=r"is not a readable|not in the format of its suffix"):
        parsed(name, data)


def test_word_has_headings_and_tables() -> None:
    """Styles are headings; a table is its rows."""
    document = parsed(
        "a.docx",
        make_docx(
            ("Title", "Book"), ("Heading1", "Pay & more"), ("", "Text."), [["a", "b"], ["1", "2"]]
        ),
    )

    assert told(document)[1:] == [
        ("heading", ("Pay & more",), ["Pay & more"]),
        ("prose", ("Pay & more",), ["Text."]),
        ("atomic", ("Pay & more",), ["| a | b |", "| 1 | 2 |"]),
    ]
    assert document.title == "Book"


def test_rst_has_sections_of_the_source() -> None:
    """Titles with and without overline begin sections; lists and literal blocks are blocks of their own."""
    text = (
        "====\nBook\n====\n\nIntro::\n\n   code\n\n   more\n\nPart *A*\n========\n\n.. toctree::\n\n   x\n\n"
        "- one\n- two\n\nSub\n---\n\nWords.\n"
    )
    document = parsed("a.rst", text)

    assert [(kind, path) for kind, path, _ in told(document)] == [
        ("heading", ("Book",)),
        ("prose", ("Book",)),
        ("atomic", ("Book",)),
        ("heading", ("Book", "Part A")),
        ("atomic", ("Book", "Part A")),
        ("heading", ("Book", "Part A", "Sub")),
        ("prose", ("Book", "Part A", "Sub")),
    ]


CODE = {
    "a.py": (
        "class A:\n    x = 1\n\n    # why\n    @dec\n    def f(self):\n        return 1\n\n    y = 2\n",
        "A.f",
    ),
    "a.cs": (
        "namespace N\n{\n  class A<T>\n  {\n    int F(int x)\n    {\n    }\n  }\n}\n",
        "N.A.F",
    ),
    "a.ts": ("export const area = (x: number) => {\n  return x;\n};\n", "area"),
    "a.js": ("class A {\n  f() {\n  }\n}\n", "A.f"),
    "a.go": ("package p\n\nfunc (a *A[T]) F() {\n}\n", "A.F"),
    "a.java": ("package p.q;\nclass A {\n  void f() {\n  }\n}\n", "p.q.A.f"),
    "a.rs": ("impl A {\n    fn f() {\n    }\n}\n", "A::f"),
    "a.c": ("static char *f(int a)\n{\n    return 0;\n}\n", "f"),
    "a.hpp": ("namespace n {\nclass A {\n  int f() {\n  }\n};\n}\n", "n::A::f"),
    "a.sql": ("CREATE OR REPLACE FUNCTION [s].f() AS $$ a; b; $$;\n", "s.f"),
}


@pytest.mark.parametrize(("name", "case"), CODE.items(), ids=CODE)
def test_code_is_cut_at_definitions(name: str, case: tuple[str, str]) -> None:
    """A function has its qualified name as heading, and includes the comments above it."""
    text, qualified = case
    document = parsed(name, text)
    inside = [parts for _, path, parts in told(document) if path and path[-1] == qualified]

    assert inside, told(document)
    assert document.title == name
    if name == "a.py":
        assert inside[0] == ["# why", "@dec", "def f(self):"]
        assert told(document)[-1] == ("atomic", ("A",), ["y = 2"])


def test_what_follows_a_method_belongs_to_its_class() -> None:
    """No chunk of a class runs on below the name of its last method."""
    chunks = Chunker(words).split(parsed("a.py", CODE["a.py"][0]))

    assert [chunk.heading for chunk in chunks] == ["A", "A.f", "A"]
    assert [chunk.section_path for chunk in chunks][1] == "A > A.f"


def test_statements_end_where_their_bodies_end() -> None:
    """Semicolons in strings, comments, bodies and quoted names do not end a statement; a batch ends at GO."""
    text = (
        "-- a; b\nINSERT INTO t VALUES (';');\nCREATE PROCEDURE p AS\nBEGIN\n  SELECT 1;\n  SELECT 2;\nEND;\n"
        'CREATE TABLE "o;d".t (x int);\nCREATE VIEW v AS SELECT CASE WHEN 1=1 THEN 2 END\nGO\nALTER TABLE v ADD y int\n'
    )
    found = [(path, parts[0]) for _, path, parts in told(parsed("a.sql", text))]

    assert [path for path, _ in found] == [(), ("p",), ("o;d.t",), ("v",), ("v",)]


NAMES = sorted(
    f"a{suffix}"
    for suffix, loader in loaders_by_suffix().items()
    if loader.parse_file is not None and not loader.is_binary and loader.name != "HTML"
)
SNIPPETS = st.lists(
    st.sampled_from(
        [
            *(
                "Title\n=====",
                "* item",
                "  deeper",
                "",
                "::",
                ".. note::",
                "def f(x):",
                "    return {",
                "}",
            ),
            *(
                "class A {",
                "  void f() {",
                "  }",
                "// note; more",
                "/* open",
                "*/",
                "'text;",
                "BEGIN",
                "END;",
            ),
            *(
                "CREATE TABLE a.b (x int);",
                "GO",
                "func (s *S) F() {",
                "impl A {",
                "ünï ☃ 中文",
                "# a",
                "---",
            ),
            *(
                "namespace a { class B {",
                "} }",
                "export default function() {",
                "| a | b |",
                "\t\x0b x \x85 y",
            ),
        ]
    ),
    max_size=20,
).map("\n".join)


# The first text of each kind loads its library.
@settings(deadline=None)
@given(st.sampled_from(NAMES), SNIPPETS | st.text(max_size=120), st.integers(16, 60))
@example("a.rst", "Title\n=====\nTitle\n=====", 16)
@example("a.rst", "term\n  inner term\n    words", 16)
def test_all_text_is_in_a_chunk(name: str, text: str, window: int) -> None:
    """Blocks lie in order and hold every character that is not blank; chunks quote the text and fit."""
    text = text.replace("\r", "\n").replace("\0", "").encode("utf-8", "ignore").decode()
    try:
        document = parsed(name, text)
    except BadInput:
        return
    spans = [part for block in document.blocks for part in block.parts]
    whole = "---" in text or "+++" in text
    blank = {at for at, sign in enumerate(document.text) if sign.isspace()}

    assert spans == sorted(spans)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    assert whole or covered(document.blocks) | blank == set(range(len(document.text)))
    for chunk in Chunker(words, max_tokens=window, overlap_tokens=0).split(document):
        assert chunk.content == document.text[chunk.start : chunk.end]
        assert words([chunk.embed_text or chunk.content])[0] <= window - SPECIAL_TOKENS


@settings(deadline=None)
@given(st.text(alphabet="<>/abdivphul1 tr\"'=&;!-\n", max_size=200))
def test_any_html_is_read_or_refused(page: str) -> None:
    """Invalid HTML yields text that is all in blocks."""
    document = parsed("a.html", f"<body>{page}")
    blank = {at for at, sign in enumerate(document.text) if sign.isspace()}
    marks = {at for at, sign in enumerate(document.text) if sign in "- "}

    assert covered(document.blocks) | blank | marks == set(range(len(document.text)))


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-32", "cp1252", "cp1251", "shift_jis"]
)
def test_encodings_are_detected(encoding: str) -> None:
    """Text of some length is read as it was written."""
    text = {
        "cp1251": "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 4,
        "shift_jis": "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。" * 4,
    }.get(encoding, "Müde Wanderer mögen Käse, Brot und süße Äpfel. " * 4)

    assert parsed("a.txt", text.encode(encoding)).text == text.strip()


@pytest.mark.parametrize(
    "text",
    [
        "café",
        "Le garçon a mangé à Noël où l'été.",
        "¿Dónde está el niño?",
        "Käse \u201cfür\u201d müde \u2013 5 €",
    ],
)
def test_short_western_text_is_not_guessed(text: str) -> None:
    """A few accents are enough; a guess by likelihood would make Chinese of them."""
    assert parsed("a.txt", text.encode("cp1252")).text == text


def test_a_known_source_is_not_parsed(tmp_path: Path) -> None:
    """The digest covers bytes, tags, chunker and tokenizer; the order of results does not change."""
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(f"Words of {name}.")
    (tmp_path / "c.jsonl").write_text('{"_id": "r", "text": "A record."}\n\n')
    stored: dict[str, str] = {}

    def kinds(reading: str = "m", tags: tuple[str, ...] = (), limit: int = 64) -> list[str]:
        known = KnownSources(lookup=lambda ids: lambda: stored, tokenizer=reading)
        chunker = Chunker(words, max_tokens=limit)
        outcomes = list(
            load_documents([tmp_path], chunker=chunker, tags=DocumentTags(tags), known=known)
        )
        for one in outcomes:
            if isinstance(one, LoadedDocument):
                stored.setdefault(one.draft.document_id, one.draft.source_digest)
        return [type(one).__name__ for one in outcomes]

    assert kinds() == ["LoadedDocument"] * 3
    assert kinds() == ["Unchanged"] * 3
    assert kinds(reading="other") == kinds(tags=("x",)) == kinds(limit=65) == ["LoadedDocument"] * 3
    (tmp_path / "b.md").write_text("Other words.")
    assert kinds() == ["Unchanged", "LoadedDocument", "Unchanged"]
    assert count_documents([tmp_path]) == 4


def test_what_is_read_again_is_known(tmp_path: Path) -> None:
    """A file with equal bytes is read again by another version; one that changed, or is new, is just read."""
    for name in ("a.md", "b.md", "c.md"):
        (tmp_path / name).write_text(f"Words of {name}.")

    def read(stored: dict[str, str], reading: str = "") -> dict[str, LoadedDocument]:
        known = KnownSources(lookup=lambda _: lambda: stored, tokenizer=reading)
        found = load_documents([tmp_path], chunker=Chunker(words), known=known)
        return {one.draft.document_id: one for one in found if isinstance(one, LoadedDocument)}

    stored = {name: one.draft.source_digest for name, one in read({}).items()}
    # Versions before stored no digest of the bytes alone.
    stored["b.md"] = stored["b.md"].partition("-")[0]
    (tmp_path / "c.md").write_text("Other words.")
    (tmp_path / "d.md").write_text("New words.")
    again = {name: one.is_again for name, one in read(stored, "other").items()}

    assert again == {"a.md": True, "b.md": True, "c.md": False, "d.md": False}


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that needs an absent extra is skipped, and the reason names the extra; others are read."""
    base._is_installed.cache_clear()
    monkeypatch.setitem(sys.modules, "tree_sitter_rust", None)
    (tmp_path / "a.rs").write_text("fn f() {}")
    (tmp_path / "b.md").write_text("Words.")
    skipped, read = load_documents([tmp_path], chunker=Chunker(words))
    base._is_installed.cache_clear()

    assert isinstance(skipped, Skipped)
    assert skipped.reason == "Rust, which pip install 'whence[code]' reads"
    assert skipped.document_id == "a.rs", "what is stored of it must not be pruned"
    assert isinstance(read, LoadedDocument), read


def test_a_missing_model_stops_the_run(tmp_path: Path) -> None:
    """A missing model is one error, not a failure of each document."""

    def count_tokens(text: str) -> int:
        raise ModelMissing("the model is not installed")

    (tmp_path / "a.md").write_text("Words of a text. " * 99)

    with pytest.raises(ModelMissing):
        list(load_documents([tmp_path], chunker=Chunker(count_tokens)))


def test_folders_of_programs_are_ignored(tmp_path: Path) -> None:
    """Downloaded and generated files are not documents."""
    for folder in ("node_modules", "__pycache__", ".git", "src"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.md").write_text("Words.")
    outcomes = list(load_documents([tmp_path], chunker=Chunker(words)))

    assert [one.draft.document_id for one in outcomes if isinstance(one, LoadedDocument)] == [
        "src/a.md"
    ]
    assert not [one for one in outcomes if isinstance(one, Skipped | LoadFailure | Unchanged)]
