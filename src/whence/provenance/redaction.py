"""A trace as someone may see it who may not see every chunk in it.

What is hidden leaves no gap: candidates, kept chunks and citations that stay are numbered anew, counts are
corrected, and a message that names a hidden chunk or document is withheld. Whoever knows how many chunks
the writer is usually given can still guess that something was left out, but not what.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from whence.provenance import namespaces as ns
from whence.provenance.stage_records import CandidateRecord
from whence.provenance.terms import integer
from whence.provenance.trace import Trace, read_trace
from whence.provenance.uris import answer_uris, id_from_iri
from whence.schema.terms import Term, Triple, iri, literal

__all__ = ("WITHHELD", "chunk_ids", "redact_trace")

#: Stands in place of a message that names what the reader may not see.
WITHHELD = "withheld: it names what this access may not see"

_MESSAGES = frozenset({ns.WH_MESSAGE, ns.WH_HINT})


def chunk_ids(trace: Trace) -> frozenset[str]:
    """Give every chunk that a trace names; whoever may see all of them may see the whole trace."""
    return frozenset(
        (
            *trace.explored,
            *(candidate.chunk_id for candidate in trace.candidates),
            *(selection.chunk_id for selection in trace.selections),
            *(citation.chunk_id for citation in trace.citations),
        )
    )


def redact_trace(trace: Trace, visible: frozenset[str]) -> Trace:
    """Give the trace without the chunks that are not in `visible`.

    A candidate that was dropped because it repeats a hidden one goes too: its reason would tell of the
    hidden one. A complete trace stays complete. Cost: linear in the triples.

    Args:
        trace: The whole trace.
        visible: Ids of the chunks that the reader may see, of those that `chunk_ids` names.
    """
    if chunk_ids(trace) <= visible:
        return trace
    visible = visible - _twins_of_hidden(trace, visible)
    triples = _Trimmer(trace, visible).triples()
    return read_trace(triples, trace.answer_id)


def _twins_of_hidden(trace: Trace, visible: frozenset[str]) -> frozenset[str]:
    """Give the candidates dropped as duplicates of which no original stays visible."""
    originals = {
        candidate.digest
        for candidate in trace.candidates
        if candidate.chunk_id in visible and candidate.reason_code != "duplicate"
    } - {""}
    return frozenset(
        candidate.chunk_id
        for candidate in trace.candidates
        if candidate.reason_code == "duplicate" and candidate.digest not in originals
    )


class _Trimmer:
    """Decides which nodes stay and what they are called then."""

    def __init__(self, trace: Trace, visible: frozenset[str]) -> None:
        self.trace = trace
        self.visible = visible
        uris = answer_uris(trace.answer_id)
        self.stages = {stage.uri for stage in trace.stages}
        self.hidden = _hidden_words(trace, visible)
        #: Old IRI of every node that stays, and its new one.
        self.names = self._names(ns.WH_CANDIDATE, ns.WH_CHUNK, uris.candidate_prefix, 1)
        self.names |= self._names(ns.TG_SELECTED_CHUNK, ns.TG_DOCUMENT, uris.selection_prefix, 0)
        self.names |= self._names(ns.WH_CITATION, ns.WH_CHUNK, f"{uris.synthesis}/citation/", 0)
        self.names |= self._names(
            ns.WH_EDGE, (ns.WH_FROM, ns.WH_TO), f"{uris.exploration}/edge/", 0
        )
        #: Candidates that a walk reached from something hidden: how they were reached is not told.
        self.adrift = {
            t.s.iri
            for t in trace.triples
            if t.p.iri == ns.WH_PARENT and id_from_iri(t.o.iri) not in visible
        }
        self.names |= {
            t.o.iri: t.o.iri
            for t in trace.triples
            if t.p.iri == ns.WH_DEGRADATION and t.o.iri.startswith(f"{t.s.iri}/degradation/")
        }
        self.rerank_ranks = _renumbered(trace.candidates, visible)
        self.chunk_of = {
            t.s.iri: id_from_iri(t.o.iri) for t in trace.triples if t.p.iri == ns.WH_CHUNK
        }

    def _names(
        self, link: str, chunk: str | tuple[str, ...], prefix: str, first: int
    ) -> dict[str, str]:
        """Number the nodes of one kind anew; those without a chunk or with a hidden one are left out."""
        ends = (chunk,) if isinstance(chunk, str) else chunk
        linked = {
            t.o.iri for t in self.trace.triples if t.p.iri == link and t.o.iri.startswith(prefix)
        }
        chunks: dict[str, list[str]] = {uri: [] for uri in linked}
        for triple in self.trace.triples:
            if triple.p.iri in ends and triple.s.iri in linked:
                chunks[triple.s.iri].append(id_from_iri(triple.o.iri))
        stay = [uri for uri, ids in chunks.items() if ids and self.visible.issuperset(ids)]
        stay.sort(key=lambda uri: (len(uri), uri))  # by number: a longer number is greater
        return {uri: f"{prefix}{n}" for n, uri in enumerate(stay, first)}

    def triples(self) -> Iterable[Triple]:
        """Give what stays."""
        for triple in self.trace.triples:
            if triple.p.iri in {ns.WH_DEPTH, ns.WH_PARENT} and triple.s.iri in self.adrift:
                continue
            kept = self._of_node(triple) if triple.s.iri in self.names else self._of_stage(triple)
            if kept is not None:
                yield kept

    def _of_stage(self, triple: Triple) -> Triple | None:
        """Keep what a stage says unless it leads to something hidden."""
        if triple.s.iri not in self.stages:
            return None
        predicate, target = triple.p.iri, triple.o
        if predicate in {ns.WH_CANDIDATE, ns.WH_CITATION, ns.WH_EDGE}:
            return self._renamed(triple)
        if predicate == ns.TG_SELECTED_CHUNK:
            if target.iri in self.names:
                return self._renamed(triple)
            return triple if id_from_iri(target.iri) in self.visible else None
        if predicate == ns.TG_CHUNK_COUNT:
            count = sum(chunk_id in self.visible for chunk_id in self.trace.explored)
            return msgspec.structs.replace(triple, o=literal(str(count)))
        return self._told(triple)

    def _renamed(self, triple: Triple) -> Triple | None:
        name = self.names.get(triple.o.iri)
        return None if name is None else msgspec.structs.replace(triple, o=iri(name))

    def _of_node(self, triple: Triple) -> Triple | None:
        """Give a node its new name, and a candidate its new ranks."""
        name = self.names[triple.s.iri]
        triple = msgspec.structs.replace(self._told(triple), s=iri(name))
        if triple.p.iri == ns.WH_RANK:
            return msgspec.structs.replace(triple, o=_number_of(name))
        return triple

    def _told(self, triple: Triple) -> Triple:
        """Withhold a message that names something hidden; give a rerank rank its new number."""
        if triple.p.iri == ns.WH_RERANK_RANK:
            rank = self.rerank_ranks.get(self.chunk_of.get(triple.s.iri, ""), 0)
            return msgspec.structs.replace(triple, o=integer(rank))
        if triple.p.iri in _MESSAGES and any(word in triple.o.value for word in self.hidden):
            return msgspec.structs.replace(triple, o=literal(WITHHELD))
        return triple


def _number_of(name: str) -> Term:
    return integer(int(name.rsplit("/", 1)[-1]))


def _renumbered(candidates: Iterable[CandidateRecord], visible: frozenset[str]) -> dict[str, int]:
    """Give the rerank ranks without gaps, by chunk."""
    ranked = sorted(
        (c.rerank_rank, c.rank, c.chunk_id)
        for c in candidates
        if c.rerank_rank and c.chunk_id in visible
    )
    return {chunk_id: n for n, (_, _, chunk_id) in enumerate(ranked, 1)}


def _hidden_words(trace: Trace, visible: frozenset[str]) -> frozenset[str]:
    """Give the ids of hidden chunks and of documents of which no chunk is visible."""
    chunks = chunk_ids(trace) - visible
    shown = {c.document_id for c in trace.candidates if c.chunk_id in visible}
    documents = {c.document_id for c in trace.candidates if c.chunk_id in chunks}
    documents |= {c.document_id for c in trace.citations if c.chunk_id in chunks}
    return (chunks | documents) - shown - {""}
