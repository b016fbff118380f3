"""A trace as a tree for the terminal, readable at 80 columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text
from rich.tree import Tree

from whence.provenance.checking import check_trace
from whence.provenance.graph_walks import read_graph_walk
from whence.provenance.reasons import DROP_REASONS
from whence.provenance.render.text import format_duration, one_line, shorten
from whence.provenance.stage_records import CandidateRecord, StageRun
from whence.provenance.trace import Stage, Trace

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ("to_tree", "tree_text")

#: Edges of a walk that are listed.
_EDGES_SHOWN = 12


def to_tree(trace: Trace, *, dropped_shown: int = 5) -> Tree:
    """Give the chain as a tree: what came in, what went on, what was dropped and why.

    Args:
        trace: What to show.
        dropped_shown: Most candidates to list of each reason; the others are counted.
    """
    root = Tree(_joined(("Question ", "bold"), (one_line(trace.question), "")))
    root.add(_joined(("answer ", "dim"), (trace.answer_id, "")))
    for stage in trace.stages:
        branch = root if stage.stage == "question" else root.add(_title(stage, trace))
        if stage.stage == "grounding":
            _add_concepts(branch, trace)
        elif stage.stage == "exploration":
            _add_exploration(branch, trace, dropped_shown)
        elif stage.stage == "focus":
            _add_focus(branch, trace, dropped_shown)
        elif stage.stage == "synthesis":
            _add_synthesis(branch, trace, dropped_shown)
        elif stage.stage == "error":
            _add_failure(branch, trace)
        _add_run(branch, stage.run)
    _add_faults(root, trace)
    return root


def tree_text(trace: Trace, *, width: int = 80, dropped_shown: int = 5) -> str:
    """Give the tree as plain text without colours, in lines of at most `width` characters."""
    from io import StringIO

    from rich.console import Console

    buffer = StringIO()
    console = Console(file=buffer, width=width, color_system=None, force_terminal=False)
    renderable: RenderableType = to_tree(trace, dropped_shown=dropped_shown)
    console.print(renderable)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _joined(*parts: tuple[str, str]) -> Text:
    """Give styled text; what strangers wrote is never read as markup."""
    return Text.assemble(*parts)


def _title(stage: Stage, trace: Trace) -> Text:
    style = "bold red" if stage.stage == "error" else "bold"
    facts = [
        part
        for part in (_counts(stage.stage, trace), format_duration(stage.run.duration_ms))
        if part
    ]
    return _joined(
        (stage.stage.capitalize(), style), ("  " + ", ".join(facts) if facts else "", "dim")
    )


def _counts(stage: str, trace: Trace) -> str:
    match stage:
        case "grounding":
            return f"{len(trace.concepts)} searched for"
        case "exploration":
            return f"{len(trace.candidates)} found, {len(trace.explored)} read"
        case "focus":
            done = "weighed" if read_graph_walk(trace).nodes else "reranked"
            return f"{_share(trace.reranked_count, len(trace.explored))} {done}, {len(trace.selections)} kept"
        case "synthesis":
            return f"{len(trace.used)} used, {len({c.chunk_id for c in trace.citations})} cited"
        case _:
            return ""


def _share(part: int, whole: int) -> str:
    return str(whole) if part == whole else f"{part} of {whole}"


def _add_concepts(branch: Tree, trace: Trace) -> None:
    for concept in trace.concepts:
        branch.add(Text(shorten(concept, 72)))


def _add_exploration(branch: Tree, trace: Trace, dropped_shown: int) -> None:
    """List what was read in order, unless a focus stage does so after it, and what was dropped."""
    read = set(trace.explored)
    _add_walk(branch, trace)
    if trace.stage("focus") is None:
        for candidate in trace.candidates:
            if candidate.chunk_id in read and not candidate.reason_code:
                branch.add(_kept(candidate.chunk_id, candidate.rank, candidate.score))
    _add_dropped(branch, trace, "exploration", dropped_shown)


def _add_walk(branch: Tree, trace: Trace) -> None:
    """List the edges that a walk went along, each seed with those that lead from it."""
    walk = read_graph_walk(trace)
    if not walk.nodes:
        return
    deepest = max(node.depth for node in walk.nodes)
    what = f"walked {len(walk.edges)} edges from {len(walk.seeds)} seeds, {deepest} deep"
    node = branch.add(Text(what, style="cyan"))
    for edge in walk.edges[:_EDGES_SHOWN]:
        line = f"{edge.from_id} {edge.relation} {edge.to_id}"
        node.add(Text(one_line(line), style="dim"))
    if len(walk.edges) > _EDGES_SHOWN:
        node.add(Text(f"and {len(walk.edges) - _EDGES_SHOWN} more", style="dim"))


def _add_focus(branch: Tree, trace: Trace, dropped_shown: int) -> None:
    ranks = {candidate.chunk_id: candidate.rank for candidate in trace.candidates}
    for place, selection in enumerate(trace.selections, 1):
        before = ranks.get(selection.chunk_id, 0)
        branch.add(_kept(selection.chunk_id, place, selection.score, before))
    _add_dropped(branch, trace, "focus", dropped_shown)


def _kept(chunk_id: str, rank: int, score: float | None, before: int = 0) -> Text:
    moved = f"  was {before}" if before and before != rank else ""
    # The id comes last and whole: it is what `why-not` is asked about.
    return _joined(
        (f"{rank or '-':>3}  ", "green"),
        (f"{_score(score):>6}  ", "cyan"),
        (one_line(chunk_id), ""),
        (moved, "dim"),
    )


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:.4f}"


def _add_dropped(branch: Tree, trace: Trace, stage: str, dropped_shown: int) -> None:
    """List the dropped by reason, in the order of the reasons."""
    groups: dict[str, list[CandidateRecord]] = defaultdict(list)
    for candidate in trace.candidates:
        if candidate.reason_code:
            groups[candidate.reason_code].append(candidate)
    for code, meaning in DROP_REASONS.items():
        if meaning.stage == stage and code in groups:
            node = branch.add(
                _joined(
                    (f"dropped {len(groups[code])}: ", "yellow"),
                    (code, "bold yellow"),
                    (f", {meaning.explanation}", "dim"),
                )
            )
            _list_dropped(node, groups[code], dropped_shown)


def _list_dropped(node: Tree, dropped: Sequence[CandidateRecord], shown: int) -> None:
    dropped = sorted(dropped, key=lambda c: (c.rerank_rank or c.rank, c.chunk_id))
    for candidate in dropped[:shown]:
        reranked = candidate.rerank_score is not None
        score = candidate.rerank_score if reranked else candidate.score
        rank = candidate.rerank_rank or candidate.rank
        node.add(_joined((_kept(candidate.chunk_id, rank, score).plain, "dim")))
    if len(dropped) > shown:
        node.add(Text(f"and {len(dropped) - shown} more", style="dim"))


def _add_synthesis(branch: Tree, trace: Trace, dropped_shown: int) -> None:
    _add_dropped(branch, trace, "synthesis", dropped_shown)
    if trace.found is False:
        branch.add(Text("nothing was found to answer from", style="yellow"))
    for citation in trace.citations:
        node = branch.add(
            _joined(
                (f"[{citation.marker}] ", "bold green"),
                (one_line(citation.chunk_id), ""),
            )
        )
        if citation.quote:
            node.add(Text(f"“{shorten(citation.quote, 200)}”", style="italic"))


def _add_failure(branch: Tree, trace: Trace) -> None:
    failure = trace.failure
    if failure is None:
        return
    what = f"{failure.stage} failed, {failure.code}: {failure.message}"
    branch.add(Text(one_line(what), style="red"))
    if failure.hint:
        branch.add(Text(f"hint: {one_line(failure.hint)}", style="dim"))


def _add_run(branch: Tree, run: StageRun) -> None:
    for model in run.models:
        version = " ".join(part for part in (model.revision[:16], model.precision) if part)
        text = f"{model.role} by {model.name}" + (f" ({version})" if version else "")
        branch.add(Text(one_line(text), style="dim"))
    if run.settings:
        pairs = ", ".join(f"{key} {value}" for key, value in sorted(run.settings.items()))
        branch.add(Text(one_line(pairs), style="dim"))
    for degradation in run.degraded:
        text = f"degraded, {degradation.code}: {degradation.reason}"
        branch.add(Text(one_line(text), style="yellow"))


def _add_faults(root: Tree, trace: Trace) -> None:
    faults = check_trace(trace)
    if not faults:
        root.add(Text("complete: every reference resolves", style="green"))
        return
    node = root.add(Text(f"not complete: {len(faults)} faults", style="bold red"))
    for fault in faults[:10]:
        node.add(Text(one_line(f"{fault.code} at {fault.where}: {fault.what}"), style="red"))
    if len(faults) > 10:
        node.add(Text(f"and {len(faults) - 10} more", style="dim"))
