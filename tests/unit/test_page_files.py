"""Files of the page: size, languages, and nothing that the content policy refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import whence.surfaces.http

PAGE = Path(whence.surfaces.http.__file__).parent / "page"
SCRIPTS = sorted(PAGE.glob("*.js"))
TEXTS = {one.name.split(".")[1]: json.loads(one.read_text()) for one in PAGE.glob("texts.*.json")}


def test_the_page_has_less_than_150_kb() -> None:
    """One language is loaded; all files together are below the limit even so."""
    assert sum(one.stat().st_size for one in PAGE.iterdir()) < 150_000


def test_languages_have_the_same_texts() -> None:
    """Every language has all texts, with the same values in them."""
    english = TEXTS["en"]
    assert len(TEXTS) > 1
    for texts in TEXTS.values():
        assert texts.keys() == english.keys()
        assert all(texts.values())
        for key, text in texts.items():
            names = [set(re.findall(r"\{(\w+)[|}]", one)) - {"n"} for one in (text, english[key])]
            assert names[0] == names[1], key


def test_named_texts_exist_and_others_do_not() -> None:
    """Each text that the page names exists, and each text is named by its key or by the first part of it."""
    code = "\n".join(one.read_text() for one in [*SCRIPTS, PAGE / "index.html"])
    named = set(re.findall(r'\bt\([^()`]*?"([a-z]\w*(?:\.\w+)*)"', code))
    named |= set(re.findall(r'data-(?:t|label|hint)="([^"]+)"', code))
    built = set(re.findall(r"\bt\((?:has\()?`([\w.]+)\$\{", code)) | set(
        re.findall(r"= `([\w.]+)\$\{", code)
    )
    english = TEXTS["en"]
    # Values of other words stand in calls too, such as the name of a stage.
    assert {one for one in named if "." in one} <= english.keys()
    quoted = set(re.findall(r'"([a-z]\w*(?:\.\w+)*)"', code))
    unused = [key for key in english if key not in quoted and not any(map(key.startswith, built))]
    assert unused == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.name)
def test_no_script_writes_markup(script: Path) -> None:
    """Text becomes elements by their text alone, and everything is loaded from the page's own folder."""
    text = script.read_text()
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
    ):
        assert word not in text
    assert all(one.startswith("./") for one in re.findall(r'from "([^"]+)"', text))
