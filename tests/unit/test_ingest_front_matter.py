"""Front matter: values, and the refusal of invalid access tags."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.ingest.field_validation import merge_tags, parse_tags
from whence.ingest.front_matter import read_front_matter
from whence.ingest.loaders.markdown import write_markdown
from whence.schema.access import Access, DocumentTags
from whence.schema.errors import BadInput


def values(block: str) -> dict[str, Any]:
    return read_front_matter(f"---\n{block}\n---\nBody.").values


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("title: Travel policy", {"title": "Travel policy"}),
        ('title: "a: b" \n\n# comment\nx: 1', {"title": "a: b", "x": 1}),
        ("title: 'it''s'", {"title": "it's"}),
        ("acl: [finance, 'h r', \"board\"]", {"acl": ["finance", "h r", "board"]}),
        ("acl: [finance,]  # who", {"acl": ["finance"]}),
        ("acl: []", {"acl": []}),
        ("acl:\n- finance\n- h r # why", {"acl": ["finance", "h r"]}),
        ("acl:\n  - finance", {"acl": ["finance"]}),
        ("clearance: 2", {"clearance": 2}),
        ("a: true\nb: null\nc: 1.5\nd: 2024-03-01", {"a": True, "b": None, "c": 1.5, "d": "2024-03-01"}),
        ("tags: {a: b}", {"tags": "{a: b}"}),
        ("text: >\n  folded\n  lines", {"text": ">\nfolded\nlines"}),
        ("url: https://example.org/a", {"url": "https://example.org/a"}),
    ],
)  # fmt: skip
def test_values(block: str, expected: dict[str, Any]) -> None:
    """The documented subset of YAML is parsed; other forms are kept as text."""
    assert values(block) == expected


@pytest.mark.parametrize(
    "block",
    [
        "acl: finance",
        "acl:",
        "acl: [finance",
        "acl: [finance] [hr]",
        "acl: [a,,b]",
        "acl: [*anchor]",
        "acl: {finance: true}",
        "acl: !!set [finance]",
        "acl: [1, 2]",
        "acl: ['']",
        "acl: [finance]\nacl: []",
        "acl: [\n  finance\n]",
        "ACL: [finance]",
        "Clearance: 2",
        "clearance: high",
        "clearance: -1",
        "clearance: 1.0",
        "clearance:",
        "clearance: true",
        "labels: pii",
        "labels:\n  pii",
        "access:\n  acl: [finance]",
        "title: x\n acl: [finance]",
        " acl: [finance]",
        "acl:[finance]",
        "title: x\nacl:[finance]",
        "title: x\n{acl: [finance]}",
        "{acl: [finance]}",
        "title: x\nnot a value",
    ],
)
def test_rights_that_are_not_understood_fail(block: str) -> None:
    """A mistake in access tags must not make a document public."""
    with pytest.raises(BadInput):
        parse_tags(values(block))


@pytest.mark.parametrize(
    "text",
    ["---\nacl: [finance]\n\nBody.", "---\ntitle: x\nBody", "---\nacl:[finance]\nBody."],
)
def test_front_matter_that_is_not_closed_fails(text: str) -> None:
    """Without its end rights would be read as text."""
    with pytest.raises(BadInput):
        read_front_matter(text)


@pytest.mark.parametrize(
    "text", ["", "---", "---\n", "Body.\n\n---\nacl: x\n---\n", "---\nA line.\n---\nBody.", "--- x"]
)
def test_a_thematic_break_is_not_front_matter(text: str) -> None:
    """Front matter begins on the first line and holds values."""
    assert read_front_matter(text).end == 0


def test_the_body_begins_after_the_closing_line() -> None:
    """Empty lines before the opening and white space after a fence do no harm."""
    text = "\n\n--- \ntitle: x\n...\nBody."

    assert text[read_front_matter(text).end :] == "Body."


def test_toml_with_a_number_of_too_many_digits_is_refused() -> None:
    """A number that Python does not convert is a fault of the document."""
    with pytest.raises(BadInput):
        read_front_matter(f"+++\nclearance = {'1' * 5000}\n+++\nBody.")


def test_toml_is_read_whole() -> None:
    """Front matter between lines of plus signs is TOML, with dates as text."""
    text = '+++\ntitle = "T"\ndate = 2024-03-01\nacl = ["finance"]\n+++\nBody.'

    assert read_front_matter(text).values == {
        "title": "T",
        "date": "2024-03-01",
        "acl": ["finance"],
    }


@pytest.mark.parametrize("block", ["acl = [", '[extra]\nacl = ["finance"]', 'acl = "finance"'])
def test_toml_rights_that_are_not_understood_fail(block: str) -> None:
    """The same care as for YAML."""
    with pytest.raises(BadInput):
        parse_tags(read_front_matter(f"+++\n{block}\n+++\nBody.").values)


@given(st.text(alphabet="acl:[]finance\"' -#\n,", max_size=60))
def test_a_document_with_rights_is_open_only_when_it_says_so(block: str) -> None:
    """Any text after `acl` is an error, a list of tags, or an explicit empty list."""
    line = block.partition("\n")[0]
    try:
        tags = parse_tags(values(f"acl: {block}"))
    except BadInput:
        return
    spelled_out = line.partition("#")[0].replace(" ", "") == "[]"

    assert tags.acl or spelled_out


TAGS = st.sets(st.sampled_from(["a", "b", "c"])).map(tuple)
DOCUMENTS = st.builds(DocumentTags, TAGS, TAGS, st.integers(0, 3))


@given(
    DOCUMENTS,
    DOCUMENTS,
    st.builds(Access, TAGS.map(frozenset), TAGS.map(frozenset), st.integers(0, 3)),
)
def test_a_reader_of_joined_tags_may_read_by_either(
    own: DocumentTags, given_: DocumentTags, reader: Access
) -> None:
    """Who may not read a document by its own tags, or by the given ones, may not read it by the joined ones."""
    assert own == merge_tags(own, DocumentTags())
    assert given_ == merge_tags(DocumentTags(), given_)
    try:
        joined = merge_tags(own, given_)
    except BadInput:
        assert own.acl
        assert given_.acl
        assert not set(own.acl) & set(given_.acl)
        return
    assert (reader.allows(own) and reader.allows(given_)) or not reader.allows(joined)


def test_markdown_with_many_nested_marks_is_refused() -> None:
    """Emphasis in emphasis, deeper than can be read, is a fault of the document."""
    with pytest.raises(BadInput, match="nested too deeply"):
        write_markdown("*a _b " * 600 + "_ *" * 600)
