"""The tool that tries mutants: the same sample every time, and exceptions that still have their code."""

from __future__ import annotations

import re

from tools import mutants


def test_a_sample_is_the_same_every_time() -> None:
    """Places restrict the mutants, a seed selects among them."""
    names = sorted(
        f"whence.{room}.x_f__mutmut_{n}"
        for room in ("retrieval.fusion", "store")
        for n in range(50)
    )
    sample = mutants.select(names, [], 20, 19)

    assert len(set(sample)) == 20
    assert sample == mutants.select(names, [], 20, 19)
    assert sample != mutants.select(names, [], 20, 20)
    assert mutants.select(names, ["retrieval/"], 0, 19) == names[:50]
    assert mutants.select(names, ["retrieval/fusion"], 500, 19) == names[:50]
    assert mutants.select(names, ["retrieval/fus"], 0, 19) == []


def test_a_diff_is_read_as_its_changed_lines() -> None:
    """Removed and added lines, without the names of files and without indentation."""
    diff = "# m: survived\n--- a.py\n+++ a.py\n@@ -1,3 +1,3 @@\n def f():\n-    return 1 < x\n+    return 1 <= x\n"
    assert mutants.changed_lines(diff) == mutants.Change("return 1 < x", "return 1 <= x")


def test_every_exception_is_about_code_that_exists() -> None:
    """The lines before the change occur in the code, so that no exception outlives what it was made for."""
    rooms = ("evaluation", "surfaces", "provenance", "retrieval", "store")
    files = [
        file for room in rooms for file in (mutants.ROOT / "src" / "whence" / room).rglob("*.py")
    ]
    code = {
        line.strip() for file in files for line in file.read_text(encoding="utf-8").splitlines()
    }
    for before, after in mutants.equivalents().changes:
        assert set(before.splitlines()) <= code, before
        assert re.sub(r"\s", "", before) != re.sub(r"\s", "", after)


def test_a_rule_excepts_a_part_of_a_line() -> None:
    """A change within the part is excepted, one beside it is not."""
    known = mutants.Exceptions(frozenset(), (re.compile(r"strict=\w*"),))
    line = "zip(a, b, strict=True)"

    assert mutants.Change(line, "zip(a, b, strict=None)") in known
    assert mutants.Change(line, "zip(a, b, )") in known
    assert mutants.Change(line, "zip(a, None, strict=True)") not in known
    assert mutants.Change("zip(a, b)", "zip(a, b)") not in known


def test_every_rule_is_about_code_that_exists() -> None:
    """Some line of the changed code has the part."""
    code = "\n".join(
        file.read_text(encoding="utf-8") for file in (mutants.ROOT / "src" / "whence").rglob("*.py")
    )
    assert all(rule.search(code) for rule in mutants.equivalents().rules)
