"""Commands and links in the documentation work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import running_server

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


#: Placeholders for arguments of the reader in the README.
PLACEHOLDER = re.compile(r" (?:F|FOLDER|BUNDLE\.zip)(?: |$)")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("page", "until", "reranker"),
    [("docs/tutorial.md", "", "auto"), ("README.md", "## Python", "none")],
)
def test_commands_work_as_printed(fresh: Any, page: str, until: str, reranker: str) -> None:
    """Every `whence` line of the tutorial and of the first part of the README exits with 0.

    A question that is refused ends with 1 and prints the nearest passages.
    The README's lines run without the reranker, which the tutorial uses. Another test runs `demo`.
    """
    options = {"cwd": ROOT, "env": {"WHENCE_RERANKER": reranker}}
    text = (ROOT / page).read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text[: text.index(until) or None], re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("whence ")]
    every = [shlex.split(line, comments=True)[1:] for line in lines]
    first, *others = [
        words for words in every if words != ["demo"] and not PLACEHOLDER.search(" ".join(words))
    ]
    answer_id = ""
    assert len(lines) > 10
    assert fresh(*first, **options).code == 0
    with running_server(fresh.home):
        for words in others:
            if words[0] == "ask" and not answer_id:
                result = fresh(*words, "--json", **options)
                answer_id = result.json["answer_id"]
            else:
                result = fresh(*(answer_id if w == "ANSWER_ID" else w for w in words), **options)
            refused = words[0] == "ask" and "Nearest passages" in result.out
            assert result.code == refused, (words, result.err)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_are_valid(page: Path) -> None:
    """A link to a file of the repository names an existing file."""
    for target in LINK.findall(page.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), target


def test_every_page_is_linked() -> None:
    """Each page of `docs/` is linked from its index or from the README."""
    linked = {
        (page.parent / target).resolve()
        for page in (ROOT / "docs" / "index.md", ROOT / "README.md")
        for target in LINK.findall(page.read_text())
        if "://" not in target
    }
    pages = {path.resolve() for path in (ROOT / "docs").rglob("*.md")} - {
        (ROOT / "docs" / "index.md").resolve()
    }

    assert pages <= linked, pages - linked
