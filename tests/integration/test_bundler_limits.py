"""A checkout is made into a bundle within limits for each file: beyond them a file is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.document_bombs import BOMBS

from whence.code.bundler.builder import bundle_folder
from whence.code.bundler.limited import bundle_within_limits
from whence.ingest.limited_process import Limits
from whence.schema.access import DocumentTags
from whence.schema.errors import BadInput

FILES = {
    "a.cs": "class A { void F() { new B().G(); } }",
    "b.cs": "class B { public void G() {} }",
    "c.py": "def f():\n    return g()\n\ndef g():\n    return 1\n",
    "d.sql": "create table t (id int);",
}


def checkout(folder: Path) -> Path:
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def test_a_file_beyond_a_limit_is_left_out(tmp_path: Path) -> None:
    """The reason names the limit; the other files are in the bundle, with their edges."""
    root = checkout(tmp_path / "shop")
    (root / "huge.cs").write_bytes(BOMBS["csharp-less"].data())
    (root / "long.py").write_text(f"x = {'-' * 1_500_000}1")
    target = tmp_path / "out.zip"
    limits = Limits(seconds=20, memory=2**28)
    report = bundle_within_limits(root, target, limits=limits, repo="shop", tags=DocumentTags())

    failures = {one.path: one.reason for one in report.failures}
    assert failures.keys() == {"huge.cs", "long.py"}
    assert "256 MB of memory (WHENCE_DOCUMENT_MEMORY); it is left out" in failures["huge.cs"]
    assert (report.files, report.nodes) == (
        {"csharp": 2, "python": 1, "sql": 1},
        {"cs": 6, "sql": 1},
    )
    assert report.calls.resolved == 3
    assert {path.name for path in tmp_path.iterdir()} == {"shop", "out.zip"}


def test_a_file_that_takes_too_long_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file has the time of the limit; only the one that exceeds it is left out."""
    root = checkout(tmp_path / "shop")
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import ast, time\nold = ast.parse\n"
        "def parse(text, path, *more, **options):\n"
        "    if path == 'c.py':\n        time.sleep(60)\n"
        "    return old(text, path, *more, **options)\n"
        "ast.parse = parse\n"
    )
    monkeypatch.syspath_prepend(str(site))
    report = bundle_within_limits(
        root,
        tmp_path / "out.zip",
        limits=Limits(seconds=2),
        repo="shop",
        tags=DocumentTags(),
    )
    (failure,) = report.failures
    assert failure.path == "c.py"
    assert failure.reason == (
        "reading took longer than 2 s (WHENCE_DOCUMENT_TIMEOUT); it is left out"
    )
    assert report.nodes == {"cs": 4, "sql": 1}


def test_the_bundle_is_that_of_this_process(tmp_path: Path) -> None:
    """The limits change no byte of it; errors are the same, too."""
    root = checkout(tmp_path / "shop")
    tags = DocumentTags(("staff",))
    bundle_folder(root, tmp_path / "here.zip", tags=tags)
    bundle_within_limits(root, tmp_path / "there.zip", limits=Limits(), repo=None, tags=tags)
    assert (tmp_path / "here.zip").read_bytes() == (tmp_path / "there.zip").read_bytes()
    with pytest.raises(BadInput, match="is not a folder") as caught:
        bundle_within_limits(
            tmp_path / "none", tmp_path / "no.zip", limits=Limits(), repo=None, tags=tags
        )
    assert caught.value.hint == "name the folder of a checkout"
