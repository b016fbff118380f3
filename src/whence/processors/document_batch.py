"""The documents of one ingest request: checked, compared with what is stored, embedded, and their outcomes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from whence.retrieval.services import Caller, embed_texts
from whence.schema.access import DocumentTags
from whence.schema.codec import encode
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import (
    BadInput,
    CodecError,
    ConfigError,
    InternalError,
    ModelMismatch,
)
from whence.schema.idempotency import EffectKind, Effects
from whence.schema.ingest import DocumentDraft, DocumentOutcome

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.store.protocols import DocumentState

#: Errors that one text can cause; all others are faults of the service.
TEXT_ERRORS = (BadInput, CodecError, InternalError)
#: Kinds of `BadInput` that no text can cause.
SERVICE_ERRORS = (ConfigError, ModelMismatch)
#: NUL in JSON: an odd number of backslashes before these letters, else the last backslash is text.
_ESCAPED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def document_fault(draft: DocumentDraft) -> str:
    """Return why a document cannot be stored; empty when it can. Cost: one pass over the document.

    PostgreSQL stores no NUL and UTF-8 no lone surrogates, so both are refused anywhere in it.
    """
    if not draft.document_id.strip():
        return "its id is blank"
    if not draft.chunks:
        return "it has no text"
    for index, chunk in enumerate(draft.chunks):
        if not chunk.content.strip():
            return f"chunk {index} is blank"
    try:
        data = encode(draft)
    except BadInput:
        return "it holds half of a character (a lone surrogate)"
    # The plain search is fast and nearly always enough.
    has_nul = b"\\u0000" in data and _ESCAPED_NUL.search(data)
    return "it holds a NUL character" if has_nul else ""


def draft_digest(draft: DocumentDraft) -> str:
    """Return the SHA-256 over what is stored of a document except its tags and source, hexadecimal."""
    source: dict[str, Any] = {
        "root": "", "places": (), "date": "", "encoding": "", "left_out": {}, "source_digest": "",
    }  # fmt: skip
    bare = msgspec.structs.replace(draft, tags=DocumentTags(), digest="", **source)
    return hashlib.sha256(encode(bare)).hexdigest()


class DocumentBatch:
    """The documents of one request, sorted by what must be done with them."""

    def __init__(self, documents: Sequence[DocumentDraft], *, vectors_later: bool = False) -> None:
        self._documents = documents
        self._vectors_later = vectors_later
        self._faults: dict[int, str] = {}
        self._states: Mapping[str, DocumentState] = {}
        self._failed: dict[str, str] = {}
        #: What the same message did when it was delivered before; it is reported again.
        self.earlier: Mapping[str, EffectKind] = {}
        self.valid: list[DocumentDraft] = []
        self.retagged: dict[str, DocumentTags] = {}
        self.sources: list[DocumentDraft] = []
        self.vectors: dict[str, NDArray[np.float32]] = {}
        self.token_codes: dict[str, tuple[bytes, ...]] = {}
        self.saved: set[str] = set()
        #: Documents that are stored before their vectors.
        self.stored: set[str] = set()
        ids: set[str] = set()
        for place, draft in enumerate(documents):
            fault = document_fault(draft)
            if not fault and draft.document_id in ids:
                fault = "its id occurs twice in one request"
            if fault:
                self._faults[place] = fault
                continue
            ids.add(draft.document_id)
            digest = draft.digest or draft_digest(draft)
            self.valid.append(msgspec.structs.replace(draft, digest=digest))
        self.changed = list(self.valid)

    def compare(self, states: Mapping[str, DocumentState]) -> None:
        """Find out what changed against what is stored."""
        self._states = states
        self.changed = []
        for draft in self.valid:
            state = states.get(draft.document_id)
            if state is None or state.digest != draft.digest:
                self.changed.append(draft)
                continue
            if state.tags != draft.tags:
                self.retagged[draft.document_id] = draft.tags
            # Without the digest of its source nobody knows whether its lines have moved.
            unknown = bool(draft.places) and not draft.source_digest
            if unknown or draft.source_digest not in ("", state.source_digest):
                digest = draft.source_digest or state.source_digest
                self.sources.append(msgspec.structs.replace(draft, source_digest=digest))

    def effects(self, message_id: str, document_ids: Iterable[str]) -> Effects:
        """Return what is about to be done to these documents, for the store to keep."""
        outcomes = {one: self._effect(one) for one in document_ids}
        return Effects(message_id=message_id, outcomes=outcomes)

    def _effect(self, document_id: str) -> EffectKind:
        if document_id in self.retagged:
            return "tagged"
        return "updated" if document_id in self._states else "added"

    def fail(self, document_id: str, reason: str) -> None:
        """Record that one document is not stored."""
        self._failed[document_id] = reason
        self.vectors.pop(document_id, None)
        self.stored.discard(document_id)

    def outcomes(self) -> tuple[DocumentOutcome, ...]:
        """Return one outcome per document, in the order of the request."""
        return tuple(self._outcome(place, draft) for place, draft in enumerate(self._documents))

    def _outcome(self, place: int, draft: DocumentDraft) -> DocumentOutcome:
        document_id = draft.document_id
        reason = self._faults.get(place) or self._failed.get(document_id, "")
        if reason:
            return DocumentOutcome(document_id=document_id, outcome="failed", reason=reason)
        chunks = len(draft.chunks)
        acted = any(document_id in one for one in (self.stored, self.vectors, self.retagged))
        effect = self._effect(document_id) if acted else self.earlier.get(document_id)
        embedded = 0 if self._vectors_later or effect in (None, "tagged") else chunks
        outcome: Any = {None: "unchanged", "tagged": "updated"}.get(effect, effect)
        return DocumentOutcome(
            document_id=document_id, outcome=outcome, chunks=chunks, embedded=embedded
        )


_Text = tuple[str, str]
"""Document id and a text to embed."""


async def embed_documents(
    caller: Caller,
    batch: DocumentBatch,
    *,
    max_texts: int,
    max_bytes: int,
    token_codes: bool = False,
    model: EmbeddingModel | None = None,
) -> AsyncIterator[EmbeddingModel]:
    """Embed the changed documents of a batch, several in one request; yield the model after each request.

    The batch has the vectors of a document once all its chunks are embedded. When a request is refused because
    of a text, its documents are embedded one by one, so that the one at fault fails alone.
    """
    embedding = _Embedding(caller, token_codes=token_codes, model=model)
    refused: set[str] = set()
    for texts in _requests(batch.changed, max_texts, max_bytes):
        wanted = [one for one in texts if one[0] not in refused]
        try:
            if wanted:
                model = await embedding.request(wanted)
                embedding.hand_over(batch)
                yield model
        except SERVICE_ERRORS:
            raise
        except TEXT_ERRORS:
            refused.update(document_id for document_id, _ in wanted)
    for draft in batch.changed:
        if draft.document_id in refused:
            requests = _requests([draft], max_texts, max_bytes)
            alone = await embedding.embed_alone(draft.document_id, requests, batch)
            if alone is not None:
                embedding.hand_over(batch)
                yield alone


class _Embedding:
    """Collects the vectors and token codes of documents."""

    def __init__(self, caller: Caller, *, token_codes: bool, model: EmbeddingModel | None) -> None:
        self._caller = caller
        self._model = model
        self._token_codes = token_codes
        self._codes: dict[str, list[bytes]] = {}
        self._rows: dict[str, list[NDArray[np.float32]]] = {}

    async def request(self, texts: Sequence[_Text]) -> EmbeddingModel:
        import numpy as np

        contents = [text for _, text in texts]
        reply = await embed_texts(
            self._caller, contents, "document", token_codes=self._token_codes, model=self._model
        )
        flat = np.frombuffer(reply.vectors, dtype="<f4").astype(np.float32, copy=False)
        vectors = flat.reshape(-1, reply.model.dimension)
        for (document_id, _), row in zip(texts, vectors, strict=True):
            self._rows.setdefault(document_id, []).append(row)
        for (document_id, _), code in zip(texts, reply.token_codes, strict=False):
            self._codes.setdefault(document_id, []).append(code)
        return reply.model

    async def embed_alone(
        self, document_id: str, requests: Iterable[list[_Text]], batch: DocumentBatch
    ) -> EmbeddingModel | None:
        """Embed one document; None when a text of it is refused, and then it fails alone."""
        self._rows.pop(document_id, None)
        self._codes.pop(document_id, None)
        model = None
        try:
            for texts in requests:
                model = await self.request(texts)
        except SERVICE_ERRORS:
            raise
        except TEXT_ERRORS as error:
            self._rows.pop(document_id, None)
            batch.fail(document_id, f"embedding failed: {error.message}")
            return None
        return model

    def hand_over(self, batch: DocumentBatch) -> None:
        """Move the vectors and codes of the documents that are complete to their batch."""
        import numpy as np

        chunks = {draft.document_id: len(draft.chunks) for draft in batch.changed}
        for document_id in [one for one, rows in self._rows.items() if len(rows) == chunks[one]]:
            batch.vectors[document_id] = np.stack(self._rows.pop(document_id))
            codes = self._codes.pop(document_id, [])
            # All chunks have a code, or none: of several embedding services one may make none.
            if len(codes) == chunks[document_id]:
                batch.token_codes[document_id] = tuple(codes)


def _requests(
    drafts: Sequence[DocumentDraft], max_texts: int, max_bytes: int
) -> Iterator[list[_Text]]:
    """Cut the texts of documents into requests bounded by number and bytes."""
    texts: list[_Text] = []
    size = 0
    for draft in drafts:
        for chunk in draft.chunks:
            text = chunk.embed_text or chunk.content
            length = len(text.encode())
            if texts and (len(texts) >= max_texts or size + length > max_bytes):
                yield texts
                texts, size = [], 0
            texts.append((draft.document_id, text))
            size += length
    if texts:
        yield texts
