"""A trace as a tree for the terminal, readable at 80 columns."""

from __future__ import annotations

from io import StringIO

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from whence.provenance.checking import check_trace
from whence.provenance.graph_walks import read_graph_walk
from whence.provenance.reasons import DROP_REASONS
from whence.provenance.render.text import (
    format_duration,
    one_line,
    rights_text,
    shorten,
    stage_counts,
)
from whence.provenance.stage_records import StageRun
from whence.provenance.trace import PassageName, Stage, Trace, stage_title

_EDGES_SHOWN = 12
_FAULTS_SHOWN = 10
#: Dropped candidates listed for each reason; the others are counted.
_DROPPED_SHOWN = 5
#: Joins texts with their styles; untrusted text is never read as markup.
_styled = Text.assemble


def to_tree(trace: Trace) -> Tree:
    """Return the chain as a tree: what each stage received, kept and dropped, and why."""
    root = Tree(_styled(("Question ", "bold"), (one_line(trace.question), "")))
    root.add(_styled(("answer ", "dim"), (trace.answer_id, "")))
    if trace.access is not None:
        root.add(_styled(("rights ", "dim"), (rights_text(trace.access), "")))
    for stage in trace.stages:
        branch = root if stage.stage == "question" else root.add(_title(stage, trace))
        _add_contents(branch, stage.stage, trace)
        _add_step(branch, stage.stage, trace)
        _add_dropped(branch, stage.stage, trace)
        if stage.stage == "synthesis":
            _add_citations(branch, trace)
        _add_run(branch, stage.run)
    _add_faults(root, trace)
    return root


def tree_text(trace: Trace, *, width: int = 80) -> str:
    """Return the tree as plain text without colours, in lines of at most `width` characters."""
    buffer = StringIO()
    console = Console(file=buffer, width=width, color_system=None, force_terminal=False)
    console.print(to_tree(trace))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _title(stage: Stage, trace: Trace) -> Text:
    style = "bold red" if stage.stage == "error" else "bold"
    parts = stage_counts(stage.stage, trace)
    if stage.stage == "focus":
        read, whole = trace.reranked_count, len(trace.explored)
        verb = "weighed" if read_graph_walk(trace).nodes else "reranked"
        parts[0] = f"{whole} {verb}" if read == whole else f"{read} of {whole} {verb}"
    if duration := format_duration(stage.run.duration_ms):
        parts.append(duration)
    numbers = ", ".join(parts)
    title = stage_title(stage.stage)
    if title.lower() != stage.stage:
        title += f" ({stage.stage})"
    return _styled((title, style), (f"  {numbers}" if numbers else "", "dim"))


def _changes_of_question(trace: Trace) -> list[str]:
    if trace.question_used and not trace.corrections:
        return [f"completed: {trace.question_used}"]
    return [f"{one.source} corrected to {one.target}" for one in trace.corrections]


def _add_contents(branch: Tree, stage: str, trace: Trace) -> None:
    match stage:
        case "grounding":
            for shown in (*_changes_of_question(trace), *trace.concepts):
                branch.add(Text(shorten(shown, 72)))
        case "exploration":
            _add_graph_walk(branch, trace)
            if trace.stage("focus") is None:  # a focus stage lists them in its own order
                _add_read(branch, trace)
        case "focus":
            ranks = {candidate.chunk_id: candidate.rank for candidate in trace.candidates}
            for place, kept in enumerate(trace.selections, 1):
                before = ranks.get(kept.chunk_id, 0)
                line = _candidate_line(kept.chunk_id, place, kept.order_score, before)
                if kept.raw_score != kept.order_score:
                    line.append(f"  model {kept.raw_score:.4f}", "dim")
                branch.add(line)
        case "error" if trace.failure is not None:
            failure = trace.failure
            what = f"{failure.stage} failed, {failure.code}: {failure.message}"
            branch.add(Text(one_line(what), style="red"))
            if failure.hint:
                branch.add(Text(f"hint: {one_line(failure.hint)}", style="dim"))


def _add_step(branch: Tree, stage: str, trace: Trace) -> None:
    """List what a step searched for and why, and the passages that it added."""
    known = {candidate.chunk_id: candidate for candidate in trace.candidates}
    for step in trace.steps:
        if step.stage != stage:
            continue
        for one in step.queries:
            why = f"  {one.reason}" if one.reason else ""
            branch.add(_styled((shorten(one.query, 72), ""), (shorten(why, 72), "dim")))
        for chunk_id in step.added:
            found = known.get(chunk_id)
            rank, score = (found.rank, found.score) if found else (0, None)
            branch.add(_candidate_line(chunk_id, rank, score))


def _add_read(branch: Tree, trace: Trace) -> None:
    read = set(trace.explored)
    for one in trace.candidates:
        if one.chunk_id in read and not one.reason_code:
            branch.add(_candidate_line(one.chunk_id, one.rank, one.score))


def _add_graph_walk(branch: Tree, trace: Trace) -> None:
    walk = read_graph_walk(trace)
    if not walk.nodes:
        return
    deepest = max(node.depth for node in walk.nodes)
    what = f"walked {len(walk.edges)} edges from {len(walk.seeds)} seeds, {deepest} deep"
    node = branch.add(Text(what, style="cyan"))
    for edge in walk.edges[:_EDGES_SHOWN]:
        line = f"{edge.from_id} {edge.relation} {edge.to_id}"
        node.add(Text(one_line(line), style="dim"))
    _add_more(node, len(walk.edges) - _EDGES_SHOWN)


def _candidate_line(chunk_id: str, rank: int, score: float | None, before: int = 0) -> Text:
    """Return rank, score and id of a candidate, and the rank before reranking when it differs."""
    moved = f"  was {before}" if before and before != rank else ""
    shown = "" if score is None else f"{score:.4f}"
    # The id comes last and whole, so that it can be copied for `why-not`.
    return _styled(
        (f"{rank or '-':>3}  ", "green"),
        (f"{shown:>6}  ", "cyan"),
        (one_line(chunk_id), ""),
        (moved, "dim"),
    )


def _add_dropped(branch: Tree, stage: str, trace: Trace) -> None:
    for code, meaning in DROP_REASONS.items():
        dropped = [c for c in trace.candidates if c.reason_code == code]
        if meaning.stage != stage or not dropped:
            continue
        node = branch.add(
            _styled(
                (f"dropped {len(dropped)}: ", "yellow"),
                (code, "bold yellow"),
                (f", {meaning.explanation}", "dim"),
            )
        )
        dropped.sort(key=lambda c: (c.rerank_rank or c.rank, c.chunk_id))
        for one in dropped[:_DROPPED_SHOWN]:
            score = one.score if one.final_score is None else one.final_score
            line = _candidate_line(one.chunk_id, one.rerank_rank or one.rank, score)
            node.add(Text(line.plain, style="dim"))
        _add_more(node, len(dropped) - _DROPPED_SHOWN)


def _add_more(node: Tree, count: int) -> None:
    if count > 0:
        node.add(Text(f"and {count} more", style="dim"))


def _add_citations(branch: Tree, trace: Trace) -> None:
    if trace.found is False:
        refusal = trace.refusal
        why = f"no answer, {refusal.code}: {refusal.reason}" if refusal else "no answer"
        branch.add(Text(one_line(why), style="yellow"))
    if trace.nearest is not None:
        name = trace.names.get(trace.nearest.chunk_id, PassageName()).text
        node = branch.add(Text(one_line(f"nearest: {name or trace.nearest.chunk_id}")))
        node.add(Text(one_line(trace.nearest.reason), style="dim"))
        sentence = trace.nearest.numbers.get("best_sentence")
        if isinstance(sentence, str):
            node.add(Text(f"“{shorten(sentence, 200)}”", style="italic"))
    for citation in trace.citations:
        marker = (f"[{citation.marker}] ", "bold green")
        node = branch.add(_styled(marker, (one_line(citation.chunk_id), "")))
        if citation.quote:
            node.add(Text(f"“{shorten(citation.quote, 200)}”", style="italic"))
        place = citation.location.label() if citation.location else ""
        date = f" of {citation.document_date[:10]}" if citation.document_date else ""
        changed = " (changed since)" if citation.changed else ""
        if place or date or changed:
            source = f"{citation.document_id}{place}{date}{changed}"
            node.add(Text(one_line(source), style="dim"))


def _add_run(branch: Tree, run: StageRun) -> None:
    for model in run.models:
        version = " ".join(part for part in (model.revision[:16], model.precision) if part)
        text = f"{model.role} by {model.name}" + (f" ({version})" if version else "")
        branch.add(Text(one_line(text), style="dim"))
    if run.settings:
        words = {True: "yes", False: "no"}
        pairs = ", ".join(
            f"{key} {words[value] if isinstance(value, bool) else value}"
            for key, value in sorted(run.settings.items())
        )
        branch.add(Text(one_line(pairs), style="dim"))
    for degradation in run.degraded:
        text = f"note: {degradation.reason}"
        branch.add(Text(one_line(text), style="yellow"))


def _add_faults(root: Tree, trace: Trace) -> None:
    faults = check_trace(trace)
    _add_integrity(root, trace)
    if not faults:
        root.add(Text("complete: every reference resolves", style="green"))
        return
    node = root.add(Text(f"not complete: {len(faults)} faults", style="bold red"))
    for fault in faults[:_FAULTS_SHOWN]:
        node.add(Text(one_line(f"{fault.code} at {fault.where}: {fault.what}"), style="red"))
    _add_more(node, len(faults) - _FAULTS_SHOWN)


def _add_integrity(root: Tree, trace: Trace) -> None:
    if trace.integrity is None or trace.integrity.ok:
        return
    node = root.add(Text("not as it was recorded", style="bold red"))
    for fault in trace.integrity.faults:
        node.add(Text(one_line(fault.what), style="red"))
