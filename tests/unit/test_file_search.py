"""Searching files for the words of an erased text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.store import file_search
from whence.store.file_search import FileSearch, rare_words, text_pieces, word_forms

_STRINGS = st.lists(st.text(alphabet="abé", min_size=4, max_size=7), min_size=1, max_size=4)


@given(_STRINGS, st.lists(st.sampled_from(["a", "b", "é", "\0", "abab", "éaéa"]), max_size=60))
def test_found_is_what_the_file_contains(
    tmp_path_factory: pytest.TempPathFactory, strings: list[str], parts: list[str]
) -> None:
    """A string is found exactly when its bytes are in the file, also across the border of two blocks."""
    path = tmp_path_factory.getbasetemp() / "searched"
    path.write_bytes(content := "".join(parts).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_search, "_BLOCK_BYTES", 11)
        found = FileSearch(strings).find(path)

    assert found == {one.encode() for one in strings if one.encode() in content}


def test_all_files_below_a_folder_are_searched(tmp_path: Path) -> None:
    """Folders are searched too, links and what is left out are not; a missing folder has no files."""
    (tmp_path / "in").mkdir()
    for name in ("a", "in/b", "in/c", "out"):
        (tmp_path / name).write_text("needle" if name != "in/c" else "hay")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    searched, found = FileSearch(["needle"]).find_below(
        tmp_path, without=frozenset({tmp_path / "out"}), moved=lambda: None
    )

    assert searched == 3
    assert found == {tmp_path / "a": {b"needle"}, tmp_path / "in" / "b": {b"needle"}}
    nothing = FileSearch(["needle"]).find_below(
        tmp_path / "gone", without=frozenset(), moved=lambda: None
    )
    assert nothing == (0, {})


def test_pieces_are_whole_parts_of_lines() -> None:
    """Each piece stands in the text; shorter lines count where there are no others, from 8 bytes on."""
    text = "short\n" + "A sentence that goes on and on without any end in sight. " * 3
    pieces = text_pieces([text, "a bed of oak", "a bed", "no", ""])

    assert len(pieces) == 4
    assert all(piece in text + "a bed of oak" and len(piece) <= 60 for piece in pieces)
    assert pieces[-1] == "a bed of oak"
    assert len(text_pieces("\n".join(f"line number {n} of a text" for n in range(500)))) <= 64


def test_rare_words_are_no_words_of_a_dictionary() -> None:
    """Names and numbers are searched for, in both ways they are written; ordinary and short words are not."""
    words = rare_words(["The Quokkatext of 12345678 is something ordinary, Quokka."])

    assert words == ["12345678", "quokkatext"]
    assert word_forms(words) == ["12345678", "quokkatext", "Quokkatext"]
