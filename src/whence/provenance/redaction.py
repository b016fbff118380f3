"""Redact a trace for a reader without full access.

Hidden parts leave no gap: the remaining candidates, kept chunks and citations are renumbered, counts are
corrected, and a message that names a hidden chunk or document is withheld. A reader who knows how many chunks
the writer usually receives can guess that something was left out, but not what.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from whence.provenance import namespaces as ns
from whence.provenance.stages import list_rows
from whence.provenance.terms import STEP, answer_uris, id_from_iri, integer, iri_from_id
from whence.provenance.trace import Trace, read_trace
from whence.schema.terms import Term, Triple, iri, literal

#: Replaces a message that names what the reader may not see.
WITHHELD = "withheld: it names what this access may not see"


def chunk_ids(trace: Trace) -> frozenset[str]:
    """Return every chunk that a trace names; a reader of all of them may read the whole trace."""
    return frozenset(
        (
            *trace.explored,
            *(candidate.chunk_id for candidate in trace.candidates),
            *(selection.chunk_id for selection in trace.selections),
            *(citation.chunk_id for citation in trace.citations),
        )
    )


def redact_trace(trace: Trace, visible: frozenset[str]) -> Trace:
    """Return the trace without the chunks of `chunk_ids` that are not in `visible`.

    A candidate that was dropped as a duplicate of a hidden one, or that follows one as its older edition, is
    removed too, for that would reveal the hidden one; so are those that were dropped for a lack of diversity
    when a kept chunk is hidden, and the overlaps of all. A complete trace stays complete. Cost: linear in the
    triples.
    """
    if chunk_ids(trace) <= visible:
        return trace
    visible -= _duplicates_of_hidden(trace, visible)
    return read_trace(_Redaction(trace, visible).triples(), trace.answer_id)


def shown_triples(trace: Trace, visible: frozenset[str]) -> Callable[[Triple], bool]:
    """Return what tells whether a triple is in the redacted trace, with other numbers of nodes at most."""
    return _Redaction(trace, visible - _duplicates_of_hidden(trace, visible)).shows


def _duplicates_of_hidden(trace: Trace, visible: frozenset[str]) -> frozenset[str]:
    """Return the candidates dropped for what they have in common with a chunk that is not visible."""
    hides_kept = _hides_kept(trace, visible)
    return frozenset(
        candidate.chunk_id
        for candidate in trace.candidates
        if (candidate.duplicate_of and candidate.duplicate_of not in visible)
        or (candidate.newer_edition and candidate.newer_edition not in visible)
        or (candidate.reason_code == "less_diverse" and hides_kept)
    )


def _hides_kept(trace: Trace, visible: frozenset[str]) -> bool:
    return any(selection.chunk_id not in visible for selection in trace.selections)


class _Redaction:
    def __init__(self, trace: Trace, visible: frozenset[str]) -> None:
        self.trace = trace
        self.visible = visible
        self.hidden_ids = _hidden_ids(trace, visible)
        self.hidden_iris = {iri_from_id(one) for one in chunk_ids(trace) - visible if one}
        self.hides_kept = _hides_kept(trace, visible)
        self.hides_used = not visible.issuperset(trace.used)
        #: Words that a language model may have taken from a hidden passage, and searched for.
        self.hidden_words = self._hidden_words()
        uris = answer_uris(trace.answer_id)
        #: Stage of every node whose statements are those of a stage: of itself, or of a part of it.
        self.stages = {stage.uri: stage.uri for stage in trace.stages}
        for triple in trace.triples:
            if triple.p.iri == ns.WH_PART_OF and triple.o.iri in self.stages:
                self.stages[triple.s.iri] = triple.o.iri
        #: Nodes that name no chunk.
        self.plain = (
            *(uris.activity_prefix, uris.agent_prefix, uris.answer),
            *(f"{stage.uri}/degradation/" for stage in trace.stages),
            *([f"{uris.synthesis}/refusal"] if _visible_refusal(trace, visible) else []),
        )
        passages = self._passages()
        #: New IRI of every node that remains, by its old one.
        self.names = {
            **{uri: uri for uri in passages},
            **self._renumber({ns.WH_CHUNK}, uris.candidate_prefix, first=1),
            **self._renumber({ns.TG_DOCUMENT}, uris.selection_prefix),
            **self._renumber({ns.WH_CHUNK}, f"{uris.synthesis}/citation/"),
            **self._renumber({ns.WH_FROM, ns.WH_TO}, f"{uris.exploration}/edge/"),
            **_numbered(set(passages.values()) - {""}, uris.document_prefix),
        }
        #: Candidates that a graph walk reached from a hidden chunk; their depth and parent are removed.
        self.without_parent: set[str] = set()
        self.chunk_of: dict[str, str] = {}
        for triple in trace.triples:
            subject, predicate, target = triple.s.iri, triple.p.iri, triple.o.iri
            if predicate == ns.WH_PARENT and id_from_iri(target) not in visible:
                self.without_parent.add(subject)
            elif predicate == ns.WH_CHUNK:
                self.chunk_of[subject] = id_from_iri(target)
            if subject.startswith(self.plain):
                self.names[subject] = subject
        reranked = sorted(
            (candidate.rerank_rank, candidate.rank, candidate.chunk_id)
            for candidate in trace.candidates
            if candidate.rerank_rank and candidate.chunk_id in visible
        )
        self.rerank_ranks = {chunk_id: rank for rank, (_, _, chunk_id) in enumerate(reranked, 1)}
        #: What remains of each list, by stage and predicate.
        self.lists: dict[tuple[str, str], list[Term]] = defaultdict(list)

    def _hidden_words(self) -> frozenset[str]:
        """Return the queries of steps when a passage that the model may have read before is hidden."""
        trace = self.trace
        read = {*trace.explored, *(chunk_id for step in trace.steps for chunk_id in step.added)}
        if self.visible.issuperset(read):
            return frozenset()
        return frozenset(one.query for step in trace.steps for one in step.queries)

    def _passages(self) -> dict[str, str]:
        """Return the visible passages that the answer derives from, each with its document."""
        found = {
            t.s.iri: ""
            for t in self.trace.triples
            if t.o.iri == ns.TG_CHUNK_TYPE and id_from_iri(t.s.iri) in self.visible
        }
        for triple in self.trace.triples:
            if triple.s.iri in found and triple.p.iri == ns.PROV_WAS_DERIVED_FROM:
                found[triple.s.iri] = triple.o.iri
        return found

    def _renumber(self, names_chunk: set[str], prefix: str, *, first: int = 0) -> dict[str, str]:
        """Number the nodes of one kind without gaps; nodes with a hidden chunk or without one are left out."""
        chunks: dict[str, list[str]] = defaultdict(list)
        for triple in self.trace.triples:
            if triple.p.iri in names_chunk and triple.s.iri.startswith(prefix):
                chunks[triple.s.iri].append(id_from_iri(triple.o.iri))
        remaining = {uri for uri, ids in chunks.items() if self.visible.issuperset(ids)}
        return _numbered(remaining, prefix, first=first)

    def triples(self) -> Iterable[Triple]:
        shown = [*self._remaining(), *self._listed()]
        generated = Counter(t.o.iri for t in shown if t.p.iri == ns.PROV_WAS_GENERATED_BY)
        for triple in shown:
            is_count = triple.p.iri == ns.WH_GENERATED_COUNT
            yield replace(triple, o=integer(generated[triple.s.iri])) if is_count else triple

    def _remaining(self) -> Iterator[Triple]:
        for triple in self.trace.triples:
            yield from self._redacted(triple)

    def shows(self, triple: Triple) -> bool:
        """Return whether a triple remains, with other numbers at most."""
        if triple.p.iri == ns.WH_GENERATED_COUNT:
            return False
        self.lists.clear()
        remain = [one.o for one in self._redacted(triple)]
        remain += (one for targets in self.lists.values() for one in targets)
        numbers = triple.p.iri in {ns.WH_RANK, ns.WH_RERANK_RANK}
        return any(
            numbers or one in {triple.o, iri(self.names.get(triple.o.iri, ""))} for one in remain
        )

    def _redacted(self, triple: Triple) -> Iterator[Triple]:
        """Yield what the reader sees of a triple that is in no list, and put the others into their lists."""
        subject, predicate = triple.s.iri, triple.p.iri
        if predicate in {ns.WH_DEPTH, ns.WH_PARENT} and subject in self.without_parent:
            return
        if predicate in {ns.WH_OVERLAP, ns.WH_DIVERSITY_SCORE} and self.hides_kept:
            return
        if subject in self.names:
            yield self._rename(triple)
        elif subject in self.stages and not self._is_hidden_query(triple):
            yield from self._of_stage(triple)

    def _listed(self) -> Iterator[Triple]:
        for (stage, predicate), targets in self.lists.items():
            for subject, term, target in list_rows(iri(stage), predicate, targets):
                yield Triple(subject, iri(term), target, ns.GRAPH_RETRIEVAL)

    def _rename(self, triple: Triple) -> Triple:
        name = self.names[triple.s.iri]
        if triple.p.iri == ns.WH_RANK:
            triple = replace(triple, o=integer(int(name.rsplit("/", 1)[-1])))
        elif triple.p.iri == ns.PROV_WAS_DERIVED_FROM:
            triple = replace(triple, o=iri(self.names.get(triple.o.iri, triple.o.iri)))
        return replace(self._correct(triple), s=iri(name))

    def _of_stage(self, triple: Triple) -> Iterator[Triple]:
        stage, target = self.stages[triple.s.iri], triple.o.iri
        match triple.p.iri:
            case ns.TG_CONCEPT as predicate:
                self.lists[stage, predicate].append(triple.o)
            case ns.TG_SELECTED_CHUNK | ns.PROV_WAS_DERIVED_FROM as predicate:
                if target in self.names:
                    self.lists[stage, predicate].append(iri(self.names[target]))
                elif predicate == ns.PROV_WAS_DERIVED_FROM and self._is_parent(target):
                    yield triple
                elif id_from_iri(target) in self.visible:
                    self.lists[stage, predicate].append(triple.o)
            case ns.TG_CHUNK_COUNT:
                count = sum(chunk_id in self.visible for chunk_id in self.trace.explored)
                yield replace(triple, o=literal(str(count)))
            case ns.WH_CANDIDATE | ns.WH_CITATION | ns.WH_DEGRADATION | ns.WH_EDGE | ns.WH_REFUSAL:
                if target in self.names:
                    yield replace(triple, o=iri(self.names[target]))
            case _ if triple.s.iri == stage:
                yield self._correct(triple)

    def _is_hidden_query(self, triple: Triple) -> bool:
        """Return whether a triple of a step states what it searched for, which the reader may not see."""
        concept = triple.p.iri == ns.TG_CONCEPT and STEP in self.stages[triple.s.iri]
        return (concept or triple.p.iri == ns.WH_STEP_QUERIES) and bool(self.hidden_words)

    def _is_parent(self, uri: str) -> bool:
        """Return whether a stage derives from a node that is neither a hidden passage nor a part of itself."""
        return self.stages.get(uri, uri) == uri and uri not in self.hidden_iris

    def _correct(self, triple: Triple) -> Triple:
        """Withhold a message that names a hidden id, and text of hidden passages; renumber a rerank rank."""
        predicate, text = triple.p.iri, triple.o.value
        if predicate == ns.WH_RERANK_RANK:
            rank = self.rerank_ranks.get(self.chunk_of.get(triple.s.iri, ""), 0)
            return replace(triple, o=integer(rank))
        is_message = predicate in {ns.WH_MESSAGE, ns.WH_HINT}
        if predicate == ns.WH_FOUND_BY and text in self.hidden_words:
            return replace(triple, o=literal(WITHHELD))
        names_hidden = is_message and any(hidden in text for hidden in self.hidden_ids)
        if names_hidden or (predicate == ns.PROV_VALUE and self.hides_used):
            return replace(triple, o=literal(WITHHELD))
        return triple


def _numbered(uris: set[str], prefix: str, *, first: int = 0) -> dict[str, str]:
    """Return new IRIs without gaps in the order of the numbers that end the old ones."""
    ordered = sorted(uris, key=lambda uri: (len(uri), uri))  # a longer number is greater
    return {uri: f"{prefix}{number}" for number, uri in enumerate(ordered, first)}


def _visible_refusal(trace: Trace, visible: frozenset[str]) -> bool:
    """Return whether the numbers of a refusal are those of a visible passage, or of none."""
    best = trace.refusal.best if trace.refusal else None
    return best is None or best.chunk_id in visible


def _hidden_ids(trace: Trace, visible: frozenset[str]) -> frozenset[str]:
    """Return the ids of hidden chunks, and of documents without a visible chunk."""
    hidden = chunk_ids(trace) - visible
    shown = {c.document_id for c in trace.candidates if c.chunk_id in visible}
    documents = {c.document_id for c in trace.candidates if c.chunk_id in hidden}
    documents |= {c.document_id for c in trace.citations if c.chunk_id in hidden}
    return (hidden | documents) - shown - {""}
