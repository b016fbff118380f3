"""What the picture, the tree and the document of a trace say about passages, in small tables."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.traces import plain_triples

from whence.provenance.outcome import WhyNot
from whence.provenance.render.json import trace_summary
from whence.provenance.render.picture import NEAR, PassageRow, make_picture, passage_name
from whence.provenance.render.tree import to_tree, tree_text
from whence.provenance.stage_records import (
    GraphWalk,
    Scalar,
    StageRun,
    WalkNode,
)
from whence.provenance.stages import (
    exploration_triples,
    focus_triples,
    grounding_triples,
    question_triples,
    synthesis_triples,
)
from whence.provenance.trace import PassageName, Trace, read_trace
from whence.schema.document_rag import Citation, Refusal
from whence.schema.integrity import Fault, Integrity
from whence.schema.passages import Passage

NAMES = "abcdefgh"


def _trace(
    codes: str = "",
    scores: str = "",
    *,
    concepts: dict[str, tuple[str, ...]] | None = None,
    asked: tuple[str, ...] = ("one", "two"),
    cited: str = "",
    refused: Any = None,
    walk: dict[str, int] | None = None,
    settings: dict[str, Scalar] | None = None,
) -> Trace:
    """Return a trace of candidates `a`, `b` and so on; scores are tenths, `-` is none; `x` is dropped."""
    rows = [
        Passage(
            chunk_id=name,
            rank=rank,
            document_id=f"doc-{name}",
            score=None if score == "-" else int(score) / 10,
            concepts=(concepts or {}).get(name, ()),
            reason_code="over_limit" if code == "x" else "",
        )
        for rank, (name, code, score) in enumerate(
            zip(NAMES, codes.ljust(len(scores)), scores, strict=False), 1
        )
    ]
    nodes = [
        WalkNode(chunk_id=c, rank=n, depth=d) for n, (c, d) in enumerate((walk or {}).items(), 1)
    ]
    citations = [
        Citation(marker=marker, chunk_id=c, document_id=f"doc-{c}", quote="q")
        for marker, c in enumerate(cited, 1)
    ]
    refusal = Refusal(code=refused, reason="why") if refused else None
    return read_trace(
        [
            *question_triples("id", "?", "2026-01-01T10:00:00Z"),
            *grounding_triples("id", asked),
            *exploration_triples(
                "id",
                [row.chunk_id for row in rows if not row.reason_code],
                candidates=rows,
                walk=GraphWalk(nodes=tuple(nodes), edges=()),
            ),
            *synthesis_triples(
                "id",
                reranked=False,
                citations=citations,
                refusal=refusal,
                found=not refused,
                run=StageRun(settings=settings or {}),
            ),
        ]
    )


def _rows(trace: Trace) -> dict[str, PassageRow]:
    return {row.chunk_id: row for group in make_picture(trace, 99).groups for row in group.rows}


def test_a_passage_has_the_queries_that_found_it() -> None:
    """Their places in the order in which they were asked, unless there was one only."""
    found = {"a": ("one",), "b": ("one", "two"), "c": ("two",), "d": ()}
    rows = _rows(_trace(scores="9876", concepts=found))
    alone = _rows(_trace(scores="9876", concepts={"a": ("one",), "b": ("one",)}, asked=("one",)))

    assert {name: row.queries for name, row in rows.items()} == {
        "a": (0,),
        "b": (0, 1),
        "c": (1,),
        "d": (),
    }
    assert {row.queries for row in alone.values()} == {()}


def test_a_passage_has_state_markers_and_score() -> None:
    """Cited ones with their markers, read ones, and dropped ones; cited and read in the order of reading."""
    rows = _rows(_trace("   x x", "9876-5", cited="cac"))

    assert [(one.chunk_id, one.state, one.markers, one.score) for one in rows.values()] == [
        ("a", "cited", (2,), 0.9),
        ("c", "cited", (1, 3), 0.7),
        ("b", "read", (), 0.8),
        ("e", "read", (), None),
        ("d", "dropped", (), 0.6),
        ("f", "dropped", (), 0.5),
    ]
    assert [one.rank for one in rows.values()] == [1, 3, 2, 5, 4, 6]
    assert {one.placed for one in rows.values()} == {0}
    assert {one.name for one in rows.values()} == {f"doc-{name}" for name in "abcdef"}
    assert rows["d"].what == "ranked too low by the search"


@pytest.mark.parametrize(
    ("refused", "state", "what"),
    [
        (None, "read", ""),
        ("below_evidence_floor", "read", ""),
        ("term_not_in_documents", "dropped", "question refused first"),
    ],
)
def test_a_question_can_be_refused_before_passages_are_read(
    refused: str | None, state: str, what: str
) -> None:
    """Then none was read, though nothing dropped them."""
    rows = _rows(_trace(scores="98", refused=refused))

    assert {(row.state, row.what) for row in rows.values()} == {(state, what)}


def test_a_passage_of_a_question_that_failed_is_undecided() -> None:
    """It was neither read nor dropped for a reason."""
    triples = [
        *question_triples("id", "?", "2026-01-01T10:00:00Z"),
        *grounding_triples("id", []),
        *exploration_triples("id", ["a"], candidates=[Passage(chunk_id="a", rank=1)]),
        *focus_triples("id", []),
    ]
    (row,) = _rows(read_trace(triples)).values()

    assert (row.state, row.what) == ("dropped", "the question failed")


def test_a_node_of_a_walk_has_its_distance() -> None:
    """In steps from a seed."""
    rows = _rows(_trace(scores="9876", walk={"a": 0, "b": 1, "c": 2}))

    assert {name: row.what for name, row in rows.items()} == {
        "a": "seed of the walk",
        "b": "1 step from a seed",
        "c": "2 steps from a seed",
        "d": "",
    }


def test_a_reranked_passage_has_the_score_that_ordered_it() -> None:
    """The final score, else that of its selection, else that of the search; dropped ones by their new rank."""
    rows = [
        Passage(
            chunk_id=name,
            rank=rank,
            score=0.5,
            rerank_rank=placed,
            raw_score=final,
            final_score=final,
            reason_code=code,
        )
        for rank, (name, placed, final, code) in enumerate(
            [
                ("a", 3, 0.25, "reranked_out"),
                ("b", 1, 0.75, ""),
                ("c", 2, 0.625, "reranked_out"),
                ("d", 0, None, "over_rerank_limit"),
                ("e", 0, None, ""),
            ],
            1,
        )
    ]
    found = [Passage(chunk_id=one.chunk_id, rank=one.rank, score=one.score) for one in rows]
    triples = [
        *question_triples("id", "?", "2026-01-01T10:00:00Z"),
        *grounding_triples("id", []),
        *exploration_triples("id", [*"abcde"], candidates=found),
        *focus_triples(
            "id",
            [
                Passage(chunk_id="b", raw_score=0.1, final_score=0.75),
                Passage(chunk_id="e", raw_score=0.125),
            ],
            candidates=rows,
        ),
        *synthesis_triples("id", reranked=True),
    ]
    shown = _rows(read_trace(triples)).values()

    assert [(one.chunk_id, one.placed, one.score) for one in shown] == [
        ("b", 1, 0.75),
        ("e", 0, 0.125),
        ("c", 2, 0.625),
        ("a", 3, 0.25),
        ("d", 0, 0.5),
    ]


@pytest.mark.parametrize(
    ("codes", "scores", "cut"),
    [
        ("  xx", "9876", 0.8),
        ("  xx", "9886", 0.8),
        ("  xx", "9896", None),
        ("    ", "9876", None),
        ("xxxx", "9876", None),
        (" x  ", "9--7", None),
        ("  x ", "987-", 0.8),
    ],
)
def test_the_cut_of_a_scale(codes: str, scores: str, cut: float | None) -> None:
    """It is the least score that was read, when only lower or equal ones were dropped."""
    scale = make_picture(_trace(codes, scores), 99).scale

    assert scale is not None
    assert scale.cut == cut


def test_a_scale_reaches_from_zero_to_one_at_least() -> None:
    """Scores outside widen it; each passage is in the bin of its score, the greatest in the last."""
    trace = _trace("  x", "950", cited="a")
    low, high, bins, _ = make_picture(trace, 99).scale or (0, 0, [], None)
    wide = [
        replace(one, score=one.score * 4 - 1) for one in trace.candidates if one.score is not None
    ]
    widened = make_picture(replace(trace, candidates=tuple(wide)), 99).scale

    assert (low, high) == (0.0, 1.0)
    assert [(place, tuple(one)) for place, one in enumerate(bins) if any(one)] == [
        *[(0, (0, 0, 1)), (20, (0, 1, 0)), (36, (1, 0, 0))]
    ]
    assert widened is not None
    assert (widened.low, widened.high) == (-1.0, 2.6)
    assert [place for place, one in enumerate(widened.bins) if any(one)] == [0, 22, 39]
    assert make_picture(_trace(scores="--"), 99).scale is None
    short = make_picture(_trace(scores="98"), 99).scale
    assert short is not None
    assert (short.low, short.high) == (0.0, 1.0)


def test_groups_show_the_nearest_and_count_the_others() -> None:
    """All cited, as many read as there is room for, and five dropped; a line never counts one passage alone."""

    def shown(codes: str, rows: int) -> list[tuple[str, int, int]]:
        picture = make_picture(_trace(codes, "98765432"[: len(codes)], cited="a"), rows)
        assert (picture.found, picture.read) == (len(codes), codes.count(" "))
        return [(group.title, len(group.rows), group.more) for group in picture.groups]

    cited, read = "Decided the answer", "Read by the writer, not cited"
    dropped = "Not read, the nearest first"
    assert NEAR == 5
    assert shown("        ", 3) == [(cited, 1, 0), (read, 3, 4)]
    assert shown("        ", 6) == [(cited, 1, 0), (read, 7, 0)]
    assert shown("     xxx", 5) == [(cited, 1, 0), (read, 2, 2), (dropped, 3, 0)]
    assert shown(" xxxxxx", 0) == [(cited, 1, 0), (dropped, 6, 0)]
    assert shown(" xxxxxxx", 0) == [(cited, 1, 0), (dropped, 5, 2)]
    assert shown("   xxxxx", 4) == [(cited, 1, 0), (read, 0, 2), (dropped, 5, 0)]


def test_reasons_are_counted_in_words() -> None:
    """Each with the number of passages that it dropped."""
    assert make_picture(_trace("  xx", "9876"), 99).reasons == ["2 ranked too low by the search"]


def test_passages_are_called_by_their_titles() -> None:
    """Several of one name by their parts, too; without a title a passage is called by its document or id."""
    names = {
        "a": PassageName("T", "H", 1),
        "b": PassageName("T", "H", 2),
        "c": PassageName("U"),
        "d": PassageName(),
        "e": PassageName("V", part=3),
        "f": PassageName("T", "H"),
    }
    trace = replace(_trace(scores="98765"), names=names)

    assert [passage_name(trace, one) for one in "abcdefz"] == [
        *["T > H (part 1)", "T > H (part 2)", "U", "doc-d", "V", "T > H", "z"]
    ]
    assert passage_name(trace, "z", "given") == "given"


NEAREST = WhyNot(
    chunk_id="a",
    stage="synthesis",
    code="used",
    reason="it is\nnot enough",
    numbers={"best_sentence": "y" * 250},
)


def test_the_tree_of_a_refused_question_has_the_nearest_passage() -> None:
    """By its title, else its id; with the reason and the best sentence, cut, below it."""
    trace = replace(_trace(scores="9", refused="below_evidence_floor"), nearest=NEAREST)
    titled = replace(trace, names={"a": PassageName("Title", "Part")})
    bare = replace(trace, nearest=replace(NEAREST, numbers={}))
    [node] = [one for one in to_tree(titled).children[-2].children if "nearest" in str(one.label)]
    (reason, sentence) = (one.label for one in node.children)

    assert str(node.label) == "nearest: Title > Part"
    assert "nearest: a" in tree_text(trace)
    assert "nearest" not in tree_text(replace(trace, nearest=None))
    assert str(reason) == "it is not enough"
    assert str(sentence) == f"“{'y' * 199}…”"
    assert [getattr(one, "style", "") for one in (reason, sentence)] == ["dim", "italic"]
    assert "“" not in tree_text(bare)


def test_the_tree_has_what_was_altered() -> None:
    """In red; nothing of it for a trace that is as it was recorded."""
    trace = read_trace(plain_triples())
    fault = Fault(answer_id="plain", what="its head\nis gone")
    altered = replace(trace, integrity=Integrity(traces=1, ok=False, faults=(fault,)))
    [node] = [one for one in to_tree(altered).children if "not as it" in str(one.label)]
    (told,) = (one.label for one in node.children)

    assert (str(node.label), str(told)) == ("not as it was recorded", "its head is gone")
    assert [getattr(one, "style", "") for one in (node.label, told)] == ["bold red", "red"]
    for one in (None, Integrity(traces=1, ok=True, faults=())):
        assert "recorded" not in tree_text(replace(trace, integrity=one))


def test_the_document_has_what_the_trace_was_read_with() -> None:
    """Names, the nearest passage and what was altered, under the names of their fields."""
    fault = Fault(answer_id="plain", what="gone")
    trace = replace(
        read_trace(plain_triples()),
        names={"a": PassageName("T", "H", 2)},
        nearest=NEAREST,
        integrity=Integrity(traces=1, ok=False, faults=(fault,)),
        answer_text="So.",
    )
    found = trace_summary(trace)

    assert found["names"] == {"a": {"title": "T", "heading": "H", "part": 2}}
    assert found["nearest"]["reason"] == NEAREST.reason
    assert found["integrity"]["ok"] is False
    assert found["integrity"]["faults"][0]["what"] == "gone"
    assert (found["answer"], found["access"], found["faults"]) == ("So.", None, [])
