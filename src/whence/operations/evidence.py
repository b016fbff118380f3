"""Evidence of an answer for an auditor: one JSON document that can be verified without Whence.

Parts of the trace that the reader may not see are replaced by their hashes, which do not tell what they say.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from whence.answering.evidence import text_digest
from whence.operations.trace_access import load_trace, texts_of
from whence.provenance.redaction import chunk_ids, shown_triples
from whence.provenance.terms import iri_from_id
from whence.schema.errors import BadInput
from whence.schema.integrity import ChainEntry
from whence.schema.terms import Triple, iri, literal
from whence.store.commitment import Leaf, leaf_hashes, leaf_salts, read_leaves
from whence.store.protocols import SupportsIntegrity

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.operations.trace_access import ReadableTrace
    from whence.schema.access import Access
    from whence.store.protocols import Store

FORMAT = "whence-evidence-1"
#: Parts of a record that name no passage but those of the answer; others are hidden when a passage is.
_OPEN = frozenset(
    ("answer_id", "question", "collection", "asked_at", "access", "settings", "recorded_at", "body")
)
_OPEN_OF_ANSWER = frozenset(
    f"answer/{name}"
    for name in ("answer_id", "question", "question_used", "corrections", "text", "found", "score")
) | {"answer", "answer/citations", "answer/unsupported", "answer/model"}
_row = msgspec.json.Decoder(tuple[str, str, str, str, str | None])


async def export_evidence(session: Session, answer_id: str, access: Access) -> dict[str, Any]:
    """Return question, answer, passages, trace, proofs and a verifier, as the reader may see them.

    Raises:
        NotFound: There is no such answer, or the reader may not see it.
        BadInput: The store keeps no chain, or the trace is in none yet.
    """
    loaded = await load_trace(session, answer_id, access)
    store = await session.store()
    proof = await store.trace_proof(answer_id) if isinstance(store, SupportsIntegrity) else None
    if proof is None:
        raise BadInput(
            f"there is no proof of answer {answer_id!r}", hint="its store signs no chain of traces"
        )
    leaves = read_leaves(proof.packed, proof.body, proof.recorded_at)
    hashes, salts = leaf_hashes(leaves, proof.salt), leaf_salts(leaves, proof.salt)
    shown = _shown(leaves, loaded)
    answer = loaded.record.answer
    return {
        "format": FORMAT,
        "answer_id": answer_id,
        "question": loaded.record.question,
        "answer": None if answer is None else answer.text,
        "recorded_at": proof.recorded_at,
        "passages": await _passages(store, loaded, access),
        "leaves": [
            {"salt": salts[place].hex(), "text": leaf.text.decode()}
            for place, leaf in enumerate(leaves)
            if place in shown
        ],
        "hidden": sorted(one.hex() for place, one in enumerate(hashes) if place not in shown),
        "entries": [_entry(entry) for entry in proof.entries],
        "head": _entry(proof.head),
        "public_keys": list(proof.public_keys),
        "verifier": resources.files("whence.operations")
        .joinpath("evidence_verifier.py")
        .read_text(),
    }


def _shown(leaves: list[Leaf], loaded: ReadableTrace) -> set[int]:
    """Return the places of the leaves that the reader may see."""
    if chunk_ids(loaded.trace) <= loaded.visible:
        return set(range(len(leaves)))
    is_shown = shown_triples(loaded.trace, loaded.visible)

    def is_open(leaf: Leaf) -> bool:
        if leaf.subject:
            lines = leaf.text.split(b"\n")[1:]
            return all(is_shown(_triple(line.partition(b" ")[2])) for line in lines)
        return leaf.name in _OPEN or leaf.name in _OPEN_OF_ANSWER or leaf.name.startswith("events/")

    return {place for place, leaf in enumerate(leaves) if is_open(leaf)}


def _triple(line: bytes) -> Triple:
    s, p, o, kind, g = _row.decode(line)
    return Triple(iri(s), iri(p), iri(o) if kind == "i" else literal(o, kind[1:]), g)


async def _passages(store: Store, loaded: ReadableTrace, access: Access) -> list[dict[str, str]]:
    """Return the visible passages that are still as they were read, best first."""
    digests = {one.chunk_id: one.digest for one in loaded.trace.candidates}
    texts = await texts_of(store, loaded.record.collection, list(digests), access)
    return [
        {"chunk": iri_from_id(one.chunk_id), "text": one.content}
        for one in texts
        if text_digest(one.content) == digests[one.chunk_id]
    ]


def _entry(entry: ChainEntry) -> dict[str, Any]:
    fields = msgspec.structs.asdict(entry)
    return {
        name: value.hex() if isinstance(value, bytes) else value for name, value in fields.items()
    }
