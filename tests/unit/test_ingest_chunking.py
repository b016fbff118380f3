"""Chunks: what holds for every text, and what a reader would expect of a document."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.ingest.blocks import Block, ParsedDocument, prose_blocks
from whence.ingest.chunking import SPECIAL_TOKENS, Chunker
from whence.ingest.loaders.markdown import write_markdown
from whence.ingest.loaders.rst import write_rst
from whence.schema.errors import ConfigError
from whence.schema.ingest import ChunkDraft

Counter = Callable[[Sequence[str]], list[int]]


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def characters(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


def pairs(texts: Sequence[str]) -> list[int]:
    """Count as a tokenizer does whose sums are more than the sum of the parts."""
    return [len(text.encode()) // 2 for text in texts]


COUNTERS = st.sampled_from([words, characters, pairs])
LINES = st.sampled_from(
    [
        "# Top",
        "## Below *it*",
        "### Third `code`",
        "#",
        "",
        " ",
        "One sentence. Another one, e.g. this. And a third!",
        "* item one",
        "  * nested item of some length",
        "1. first",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "```python\nx = 1\n\ny = 2\n```",
        "> quoted words. More of them.",
        "[name]: /address",
        "---",
        "Heading\n=======",
        "<div>\nhtml\n</div>",
        "x" * 90,
        "中文句子。第二句\uff01",
        "\u2003odd spaces\x0b here\x85there",
    ]
)
MARKDOWN = st.lists(LINES, max_size=25).map("\n".join)


def parsed(text: str, blocks: tuple[Block, ...], title: str = "") -> ParsedDocument:
    return ParsedDocument(
        document_id="d",
        display_path="d",
        text=text,
        blocks=blocks,
        title=title,
        fallback_title="fallback",
    )


def of_markdown(text: str, title: str = "") -> ParsedDocument:
    builder = write_markdown(text)
    return parsed(builder.text, builder.blocks, title)


def of_prose(text: str, title: str = "") -> ParsedDocument:
    return parsed(text, prose_blocks(text, 0, len(text)), title)


def contents(chunks: Sequence[ChunkDraft]) -> list[str]:
    return [chunk.content for chunk in chunks]


def check_laws(document: ParsedDocument, count: Counter, window: int, overlap: int) -> None:
    text = document.text
    chunks = Chunker(count, max_tokens=window, overlap_tokens=overlap).split(document)

    covered: set[int] = set()
    for chunk in chunks:
        assert chunk.content == text[chunk.start : chunk.end]
        assert chunk.content == chunk.content.strip() != ""
        assert chunk.heading
        assert chunk.section_path
        assert chunk.embed_text == "" or chunk.embed_text.endswith("\n" + chunk.content)
        (size,) = count([chunk.embed_text or chunk.content])
        assert size <= window - SPECIAL_TOKENS
        covered.update(range(chunk.start, chunk.end))
    starts = [chunk.start for chunk in chunks]
    assert starts == sorted(set(starts))
    assert [c.end for c in chunks] == sorted({c.end for c in chunks})
    assert all(text[i].isspace() for i in range(len(text)) if i not in covered)
    assert chunks == Chunker(count, max_tokens=window, overlap_tokens=overlap).split(document)


@given(MARKDOWN | st.text(max_size=300), COUNTERS, st.integers(16, 80), st.data())
def test_laws_of_markdown(text: str, count: Counter, window: int, data: st.DataObject) -> None:
    """All text is in chunks, none is too large, offsets are exact and ascending, results deterministic."""
    overlap = data.draw(st.integers(0, window // 2))
    title = data.draw(st.sampled_from(["", "Top", "A title of several words"]))
    text = text.replace("\r", "\n").replace("\0", "")

    check_laws(of_markdown(text, title), count, window, overlap)


@given(st.text("ab .!\n\t\u20281é", max_size=400), COUNTERS, st.integers(16, 80))
def test_laws_of_prose(text: str, count: Counter, window: int) -> None:
    """The same laws hold for plain text."""
    check_laws(of_prose(text, "Title"), count, window, window // 2)


def test_sections_have_their_headings() -> None:
    """A chunk lies in one section, begins with its heading and knows the path from the top."""
    text = "# A\n\nIntro.\n\n## B *bold*\n\nBody b.\n\n#### C\n\nBody c.\n\n## D\n\nBody d.\n"
    chunks = Chunker(words).split(of_markdown(text))

    assert [(c.heading, c.section_path) for c in chunks] == [
        ("A", "A"),
        ("B bold", "A > B bold"),
        ("C", "A > B bold > C"),
        ("D", "A > D"),
    ]
    assert contents(chunks)[1] == "B bold\n\nBody b."
    assert chunks[1].embed_text == "A > B bold\nB bold\n\nBody b."


def test_a_heading_without_text_opens_the_next_section() -> None:
    """No chunk consists of a heading only, if text follows."""
    chunks = Chunker(words).split(of_markdown("# A\n\n## B\n\nBody.\n\n## C\n"))

    assert contents(chunks) == ["A\n\nB\n\nBody.", "C"]
    assert chunks[0].section_path == "A > B"


def test_without_headings_the_title_or_the_first_line_stands_for_one() -> None:
    """Heading and section path are never empty; only a real title is embedded."""
    named, unnamed = (Chunker(words).split(of_prose("Text.", title))[0] for title in ("Title", ""))

    assert (named.heading, named.section_path, named.embed_text) == (
        "Title",
        "Title",
        "Title\nText.",
    )
    assert (unnamed.heading, unnamed.section_path, unnamed.embed_text) == (
        "fallback",
        "fallback",
        "",
    )


def test_a_title_that_is_not_the_first_heading_is_embedded_too() -> None:
    """Title, section path and content, in this order."""
    (chunk,) = Chunker(words).split(of_markdown("## B\n\nBody.", "Title"))

    assert chunk.embed_text == "Title\nB\nB\n\nBody."


def test_a_long_header_is_shortened() -> None:
    """A header of more than a quarter of the window is shortened to the path, the heading, or nothing."""
    text = "# one two three\n\n## four\n\nBody."

    def embedded(title: str, heading: str = text) -> str:
        (chunk,) = Chunker(words, max_tokens=18, overlap_tokens=0).split(
            of_markdown(heading, title)
        )
        return chunk.embed_text.removesuffix(chunk.content)

    assert embedded("t " * 9) == "four\n"
    assert embedded("t", "# one two\n\n## x\n\nBody.") == "one two > x\n"
    assert embedded("t", "# 1 2 3 4 5\n\nBody.") == ""


def test_lists_tables_and_code_stay_whole_when_they_fit() -> None:
    """A block that fits into a chunk is not divided between two."""
    prose = "word " * 9 + "end."
    table = "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |"
    code = "```\none two three four\nfive six seven\n```"
    items = "- one two three\n- four five six\n- seven eight nine"
    text = f"{prose}\n\n{table}\n\n{code}\n\n{items}"
    chunks = Chunker(words, max_tokens=24, overlap_tokens=0).split(of_markdown(text))

    for block in (table, code, items):
        assert [c for c in chunks if block in c.content], (block, contents(chunks))


def test_large_blocks_are_cut_between_rows_items_and_lines() -> None:
    """What cannot stay whole is cut where its own parts end."""
    rows = [f"| row {n} | value {n} |" for n in range(20)]
    text = "\n".join(["| a | b |", "|---|---|", *rows])
    chunks = Chunker(words, max_tokens=40, overlap_tokens=0).split(of_markdown(text))

    assert len(chunks) > 1
    assert "\n".join(contents(chunks)) == text


def test_prose_overlaps_by_whole_sentences() -> None:
    """The next chunk begins with the last sentences of the one before."""
    sentences = [f"Sentence number {n} ends here." for n in range(12)]
    chunks = Chunker(words, max_tokens=22, overlap_tokens=6).split(of_prose(" ".join(sentences)))

    assert contents(chunks)[0] == " ".join(sentences[:4])
    assert contents(chunks)[1] == " ".join(sentences[3:7])


def test_no_overlap_without_overlap_tokens() -> None:
    """With 0 tokens of overlap the chunks lie side by side."""
    text = " ".join(f"Sentence number {n} ends here." for n in range(12))
    chunks = Chunker(words, max_tokens=22, overlap_tokens=0).split(of_prose(text))

    assert " ".join(contents(chunks)) == text


def test_a_long_sentence_is_cut_between_words() -> None:
    """Words are never torn as long as they fit."""
    text = " ".join(f"word{n}" for n in range(500))
    chunks = Chunker(characters, max_tokens=102, overlap_tokens=0).split(of_prose(text))

    assert " ".join(contents(chunks)) == text


def test_counting_takes_few_calls() -> None:
    """A document takes two calls of the tokenizer, three if a span must be sliced."""
    calls: list[int] = []

    def counting(texts: Sequence[str]) -> list[int]:
        calls.append(len(texts))
        return words(texts)

    chunker = Chunker(counting)
    chunker.split(of_markdown("# A\n\n" + "Some words. Others follow.\n\n" * 400))
    assert len(calls) == 2
    chunker.split(of_prose("word " * 5000))
    assert len(calls) == 5


def test_an_empty_text_has_no_chunks() -> None:
    """Blank text yields no chunks."""
    assert Chunker(words).split(of_markdown(" \n\n")) == ()


@pytest.mark.parametrize(
    "options", [{"max_tokens": 15}, {"overlap_tokens": -1}, {"overlap_tokens": 129}]
)
def test_numbers_out_of_range_are_refused(options: dict[str, int]) -> None:
    """A window too small or an overlap too large is named."""
    with pytest.raises(ConfigError, match=next(iter(options))):
        Chunker(words, **options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("He met Dr. Vos on 3 Jan. 2024. They spoke.", 2),
        ("See e.g. Figure 2. It helps.", 2),
        ("J. Smith wrote it. (Later he did not.) End.", 3),
        ("Version 2.0 is out. 12 fixes.", 2),
        ('"Stop." She left.', 2),
        ("第一句。第二句\uff01第三", 3),
        ("no capital. follows here", 1),
    ],
)
def test_sentences(text: str, expected: list[str] | int) -> None:
    """Full stops of abbreviations, initials and numbers end no sentence."""
    (block,) = prose_blocks(text, 0, len(text))
    found = [text[start:end] for start, end in block.parts]

    assert (found if isinstance(expected, list) else len(found)) == expected


def test_a_hash_in_code_is_not_a_heading() -> None:
    """Headings are those of the document, not of the code in it."""
    text = "# A\n\n```sh\n# no heading\nls\n```\n\n    # nor this"

    assert [c.section_path for c in Chunker(words).split(of_markdown(text))] == ["A"]


def of_rst(text: str) -> ParsedDocument:
    builder = write_rst(text)
    return parsed(builder.text, builder.blocks)


def test_items_are_not_split() -> None:
    """An item that fits into a chunk is in one, whatever stands before it."""
    items = [f"- item {n} has a first sentence. And a second one. And a third." for n in range(9)]
    chunks = Chunker(words, max_tokens=38, overlap_tokens=0).split(of_markdown("\n".join(items)))

    assert len(chunks) > 3
    assert all(
        content.count("And a third.") == content.count("- item") for content in contents(chunks)
    )


def test_a_long_table_is_embedded_with_its_header() -> None:
    """Rows after the first chunk are found by the words of the header; their content stays verbatim."""
    rows = "\n".join(f"| row {n} | value {n} |" for n in range(20))
    chunks = Chunker(words, max_tokens=40, overlap_tokens=0).split(
        of_markdown(f"# T\n\n| name | meaning |\n|---|---|\n{rows}")
    )

    assert len(chunks) > 2
    assert all(chunk.embed_text.startswith("T\n| name | meaning |\n| row") for chunk in chunks[1:])
    assert all(chunk.content.startswith("| row") for chunk in chunks[1:])


def test_a_definition_is_embedded_with_its_terms() -> None:
    """A term stays with the beginning of its definition, and is embedded with the rest of it."""
    text = "\n".join(f"   Sentence number {n} stands here." for n in range(12))
    first, *others = Chunker(words, max_tokens=24, overlap_tokens=0).split(
        of_rst(f".. setting:: WAIT\n\n{text}")
    )

    assert first.content.startswith("`WAIT`\n    Sentence number 0 stands here.")
    assert others
    assert all(chunk.embed_text == f"`WAIT`\n{chunk.content}" for chunk in others)


def test_words_that_announce_stay_with_what_they_announce() -> None:
    """A sentence that ends in a colon is in the chunk of the list or code below it."""
    before = "Some words of prose stand here. " * 2
    text = f"{before}\n\nThese are the steps:\n\n- one two three\n- four five six"
    chunks = Chunker(words, max_tokens=18, overlap_tokens=0).split(of_markdown(text))

    assert contents(chunks)[1] == "These are the steps:\n\n- one two three\n- four five six"


@given(MARKDOWN, COUNTERS, st.integers(16, 60), st.integers(0, 8))
def test_chunks_begin_and_end_between_parts(
    text: str, count: Counter, window: int, overlap: int
) -> None:
    """No chunk begins or ends inside a sentence, a row or a line of code that fits into a chunk."""
    document = of_markdown(text)
    spans = [part for block in document.blocks for part in block.parts]
    chunks = Chunker(count, max_tokens=window, overlap_tokens=overlap).split(document)

    for chunk in chunks:
        for start, end in spans:
            is_cut = start < chunk.start < end or start < chunk.end < end
            (size,) = count([document.text[start:end]])
            assert not is_cut or size > (window - SPECIAL_TOKENS) // 2
