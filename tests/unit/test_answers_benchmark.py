"""The question set of `benchmarks.answers` and the rules that judge an answer."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.answers import sets
from benchmarks.answers.questions import Question, read_questions
from benchmarks.answers.scoring import invented_stops, judge, markup, summary
from benchmarks.answers.sets import read_sets

from whence.schema import Answer, Citation

QUESTIONS = read_questions(one.name for one in read_sets())
#: Kept for acceptance: nothing may be tuned to them.
HELD_OUT = ("django", "postgresql", "python3-doc")


def test_set_is_large_and_split_in_half() -> None:
    """At least 200 questions over five packages, none held out; a set has one split or two equal ones."""
    assert len(QUESTIONS) >= 200
    assert len({one.id for one in QUESTIONS}) == len(QUESTIONS)
    assert len({one.package for one in read_sets()}) >= 5
    assert not [one for one in read_sets() if one.package.casefold().startswith(HELD_OUT)]
    for one in read_sets():
        halves = Counter(each.split for each in QUESTIONS if each.set == one.name)
        assert len(halves) == 1 or abs(halves["choose"] - halves["judge"]) <= 4, one.name


def test_unanswerable_questions_have_no_facts_and_others_have_some() -> None:
    """A question has facts and documents exactly when the documents hold an answer; shares are as described."""
    for one in QUESTIONS:
        assert bool(one.facts) == bool(one.documents) == one.answerable, one.id
    kinds = Counter(one.kind for one in QUESTIONS)
    assert 0.1 <= kinds["unanswerable"] / len(QUESTIONS) <= 0.2
    assert kinds["misspelt"] / len(QUESTIONS) >= 0.08


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("See :setting:`x`", ("role",)),
        ("``CONN``", ("double backticks",)),
        (".. setting:: x", ("directive",)),
        (".. _target:", ("directive",)),
        ("see `Routing`_", ("reference",)),
        ("<p>x</p>", ("tag",)),
        ("a &amp; b", ("entity",)),
        ("Title\n=====\n", ("underline",)),
        ("limit¶", ("pilcrow",)),
        ("in `:memory:`", ()),
        ("Set `x` to `<p>` :\n\n```\n.. note::\n```\n", ()),
        ("| a | b |\n|---|---|\n| 1 | 2 |", ()),
    ],
)
def test_markup_is_named(text: str, kinds: tuple[str, ...]) -> None:
    """Source markup is named by its kind; code spans, fences and tables of Markdown are none."""
    assert markup(text) == kinds


def test_stop_that_the_source_does_not_have_is_counted() -> None:
    """A full stop is invented when the source has the words before it without one."""
    source = "By default it waits for\nfour seconds before it stops. Then it ends."
    assert invented_stops("By default it waits for. Then it ends.", [source]) == 1
    assert invented_stops("it waits for four seconds before it stops.", [source]) == 0


def test_fact_must_stand_in_the_answer() -> None:
    """An answer that cites the right document without the fact, and one that only names the topic, fail."""
    question = Question(
        id="x-1",
        set="x",
        question="default timeout?",
        kind="fact",
        documents=("a/*.md",),
        facts=(("timeout",), ("4", "four")),
        split="choose",
    )
    cited = (Citation(marker=1, chunk_id="c", document_id="a/b.md", quote="The timeout is 40."),)
    wrong = Answer(answer_id="1", question="q", text="The timeout is 40. [1]", citations=cited)
    right = Answer(answer_id="2", question="q", text="The *timeout* is `4`. [1]", citations=cited)
    none = Answer(answer_id="3", question="q", text="timeout 4: nothing was found.")
    verdicts = [judge(question, one, ["z.md", "a/b.md"], 0.1, {}) for one in (wrong, right, none)]
    assert [(one.fact, one.right_document, one.refused) for one in verdicts] == [
        (False, True, False),
        (True, True, False),
        (False, False, True),
    ]
    figures = summary(verdicts)
    assert figures["fact"] == pytest.approx(1 / 3, abs=0.001)
    assert (figures["first"], figures["among_five"]) == (0.0, 1.0)


def test_a_kept_set_follows_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Other files of the same package make another folder; the same ones are not fetched again."""
    package = tmp_path / "manual.tar.gz"
    with tarfile.open(package, "w:gz") as members:
        for name in ("a.md", "b.md"):
            members.addfile(tarfile.TarInfo(f"manual/{name}"))
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    fetched = []

    def download(wanted: sets.DocumentSet, place: Path) -> Path:
        fetched.append(wanted.leave_out)
        return Path(shutil.copy(package, place))

    monkeypatch.setattr(sets, "_download", download)
    whole = sets.DocumentSet("m", "md", "pypi", "manual", "1", digest, "manual", ("*.md",))
    part = dataclasses.replace(whole, leave_out=("b.md",))
    found = [
        sorted(path.name for path in sets.fetch(one, tmp_path).iterdir())
        for one in (whole, part, whole)
    ]

    assert found == [["a.md", "b.md"], ["a.md"], ["a.md", "b.md"]]
    assert fetched == [(), ("b.md",)]
