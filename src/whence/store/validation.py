"""Checks of input that all stores share, and their errors."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.schema.access import DocumentTags
from whence.schema.document_rag import TraceRecord
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput, ModelMismatch, NotFound
from whence.schema.ingest import DocumentDraft
from whence.store.protocols import CollectionInfo, EmbeddedDocument, PassageVector

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\Z")
#: A row of a B-tree holds 2704 bytes; an id shares it with the collection.
_MAX_ID_BYTES = 2000
#: Vectors come from float32 arithmetic; an encoder of reduced precision stays far inside this.
NORM_TOLERANCE = 1e-3
_MAX_DIMENSION = 16_000
#: Prefix of internal collections; names given by users contain no dot.
_INTERNAL = "code."


def check_name(name: str) -> None:
    """Refuse a name that no collection can have."""
    if not _NAME.match(name):
        raise BadInput(
            f"{name!r} is not a name for a collection",
            hint="1 to 63 of a-z, 0-9, _ and -, starting with a letter or digit",
        )


def internal_name(number: int) -> str:
    """Return the name of the collection that an import writes."""
    return f"{_INTERNAL}{number}"


def is_internal(name: str) -> bool:
    """Return whether only an import may write a collection of this name."""
    return name.startswith(_INTERNAL)


def check_model(model: EmbeddingModel) -> None:
    """Refuse a model whose vectors cannot be stored."""
    if not 1 <= model.dimension <= _MAX_DIMENSION:
        raise BadInput(f"vectors have 1 to {_MAX_DIMENSION} dimensions, not {model.dimension}")
    check_texts((model.name, model.revision, model.precision), "the name of a model")


def is_text(text: str) -> bool:
    """Return whether a text can be stored."""
    try:
        # The codec refuses half of a surrogate pair, a thousand times faster than a loop here.
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def check_texts(texts: Sequence[str], what: str) -> None:
    """Refuse texts that UTF-8 or PostgreSQL cannot hold."""
    if is_text("".join(texts)):
        return
    for text in texts:
        if "\0" in text:
            raise BadInput(f"{what} holds the character NUL, which cannot be stored")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise BadInput(f"{what} holds half of a surrogate pair at {error.start}") from error


def check_tags(tags: DocumentTags, what: str) -> None:
    """Refuse tags that hold half of a surrogate pair."""
    check_texts((*tags.acl, *tags.labels), f"a tag of {what}")


def check_json(value: Any, what: str) -> None:
    """Refuse values that JSON in the database cannot hold. Cost: linear in their size."""
    texts: list[str] = []
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise BadInput(f"{what} holds {item}, which is not a number of JSON")
        elif isinstance(item, dict):
            for key in item:
                if not isinstance(key, str):
                    raise BadInput(f"{what} holds the key {key!r}, which is not a string")
            texts += item
            pending += item.values()
        elif isinstance(item, list | tuple):
            pending += item
        elif item is not None and not isinstance(item, bool | int):
            raise BadInput(f"{what} holds {type(item).__name__}, which is not a type of JSON")
    check_texts(texts, what)


def _check_draft(draft: DocumentDraft) -> None:
    if not draft.document_id:
        raise BadInput("a document needs an id that is not empty")
    name = f"document {draft.document_id[:100]!r}"
    if not _is_clean(draft):
        _check_draft_texts(draft, name)
    if len(draft.document_id.encode()) > _MAX_ID_BYTES:
        raise BadInput(f"the id of {name} is longer than {_MAX_ID_BYTES} bytes")
    check_json(draft.metadata, f"the metadata of {name}")
    for chunk in draft.chunks:
        if not 0 <= chunk.page < 2**31:
            raise BadInput(f"{name} has a chunk on page {chunk.page}")


def _is_clean(value: DocumentDraft | TraceRecord) -> bool:
    """Return whether all texts can surely be stored; reads them at once."""
    try:
        return b"\\u0000" not in msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return False


def _check_draft_texts(draft: DocumentDraft, name: str) -> None:
    check_texts((draft.document_id,), "a document's id")
    sources = (draft.source_digest, draft.root, draft.source_file, draft.source_url)
    check_texts(
        (draft.digest, draft.title, draft.date, draft.encoding, *draft.left_out, *sources), name
    )
    check_tags(draft.tags, name)
    check_texts((*draft.gaps, *(place.anchor for place in draft.places)), f"the text of {name}")
    for chunk in draft.chunks:
        texts = (chunk.content, chunk.heading, chunk.section_path, chunk.embed_text, chunk.lead)
        check_texts(texts, name)


def check_documents(collection: CollectionInfo, documents: Sequence[EmbeddedDocument]) -> None:
    """Refuse documents that cannot be stored. Cost: linear in their size."""
    seen: set[str] = set()
    for document in documents:
        _check_draft(document.draft)
        document_id = document.draft.document_id
        if document_id in seen:
            raise BadInput(f"document {document_id!r} is given twice")
        seen.add(document_id)
        chunks, codes = len(document.draft.chunks), len(document.token_codes)
        if codes not in (0, chunks):
            raise BadInput(f"document {document_id!r} has {chunks} chunks and {codes} token codes")
        _check_shape(collection, document)
    given = [one for one in documents if one.vectors is not None and len(one.vectors)]
    vectors = [one.vectors for one in given if one.vectors is not None]
    if vectors and not are_unit_vectors(np.concatenate(vectors)):
        places = (place for place, one in enumerate(vectors) if not are_unit_vectors(one))
        name = f"document {given[next(places)].draft.document_id!r}"
        raise BadInput(f"{name} has a vector whose length is not 1")


def _check_shape(collection: CollectionInfo, document: EmbeddedDocument) -> None:
    vectors = document.vectors
    name = f"document {document.draft.document_id!r}"
    if vectors is None:
        return
    if vectors.ndim != 2 or vectors.shape[0] != len(document.draft.chunks):
        raise BadInput(
            f"{name} has {len(document.draft.chunks)} chunks and vectors of shape {vectors.shape}"
        )
    if len(vectors) and vectors.shape[1] != collection.model.dimension:
        raise _other_dimension(collection, vectors.shape[1], f"the vectors of {name}")


def check_passage_vectors(model: EmbeddingModel, vectors: Sequence[PassageVector]) -> None:
    """Refuse vectors of another length than the model's, or not of length 1."""
    for one in vectors:
        if one.vector.shape != (model.dimension,):
            raise ModelMismatch(f"a vector of shape {one.vector.shape} for {describe_model(model)}")
    if vectors and not are_unit_vectors(np.stack([one.vector for one in vectors])):
        raise BadInput("a vector of a passage is not of length 1")


def are_unit_vectors(vectors: NDArray[np.float32]) -> bool:
    """Return whether all rows have length 1, within `NORM_TOLERANCE`; shape (n, dimension)."""
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    return bool((np.abs(norms - 1.0) <= NORM_TOLERANCE).all())


def _other_dimension(collection: CollectionInfo, dimension: int, what: str) -> ModelMismatch:
    return ModelMismatch(
        f"{what}: {dimension} dimensions; collection {collection.name!r}"
        f" has {collection.model.dimension} ({describe_model(collection.model)})"
    )


def check_limit(limit: int) -> None:
    """Refuse a limit below 1."""
    if limit < 1:
        raise BadInput(f"limit must be 1 or more, not {limit}")


def check_dense_query(
    collection: CollectionInfo,
    vector: NDArray[np.float32],
    limit: int,
    threshold: float,
    model: EmbeddingModel | None = None,
) -> NDArray[np.float32]:
    """Check the arguments of a dense search; return the vector as float32, shape (dimension,)."""
    check_limit(limit)
    if not 0.0 <= threshold <= 1.0:
        raise BadInput(f"threshold must be 0 to 1, not {threshold}")
    if vector.ndim != 1:
        raise BadInput(f"a query is one vector, not an array of shape {vector.shape}")
    if model is not None and model != collection.model:
        raise other_model(collection, model)
    if len(vector) != collection.model.dimension:
        raise _other_dimension(collection, len(vector), "the query's vector")
    # What single precision rounds off is far below the tolerance.
    norm = math.sqrt(vector.dot(vector))
    if not abs(norm - 1.0) <= NORM_TOLERANCE:
        raise BadInput(f"the query's vector has length {norm:g}, not 1")
    return np.ascontiguousarray(vector, dtype=np.float32)


def check_trace(record: TraceRecord) -> None:
    """Refuse a trace that cannot be stored unchanged."""
    if not record.answer_id:
        raise BadInput("a trace needs an answer id")
    name = f"trace {record.answer_id[:100]!r}"
    check_json(record.settings, f"the settings of {name}")
    check_json(msgspec.to_builtins(record.answer), f"the answer of {name}")
    if not _is_clean(record):
        check_json(msgspec.to_builtins(record), name)
    for event in record.events:
        for triple in event.triples:
            if "l" in (triple.s.type, triple.p.type):
                raise BadInput(f"{name} has a literal where only an IRI is allowed: {triple!r}")
            for term in (triple.s, triple.p, triple.o):
                if (term.value or term.datatype) if term.type == "i" else term.iri:
                    raise BadInput(
                        f"{name} has the term {term!r}, which is neither an IRI nor a literal"
                    )


def missing_collection(name: str) -> NotFound:
    """Return the error for a missing collection."""
    return NotFound(
        f"there is no collection {name!r}",
        hint="index something into it first; `whence collections` lists what there is",
    )


def other_model(collection: CollectionInfo, model: EmbeddingModel) -> ModelMismatch:
    """Return the error for a collection of another model."""
    return ModelMismatch(
        f"collection {collection.name!r} was made with {describe_model(collection.model)},"
        f" not with {describe_model(model)}"
    )


def other_vectors(
    collection: str, model: EmbeddingModel, available: EmbeddingModel
) -> ModelMismatch:
    """Return the error for passages that wait for vectors of a model that is not here."""
    return ModelMismatch(
        f"passages of collection {collection!r} wait for vectors of {describe_model(model)}, which is not"
        f" here; `whence reembed` makes vectors of {describe_model(available)}",
        hint="words find them meanwhile; run `whence reembed`, or install the model",
    )


def describe_model(model: EmbeddingModel) -> str:
    """Return the description of a model for error messages."""
    parts = (model.name, model.revision[:12], model.precision, f"dimension {model.dimension}")
    return ", ".join(part for part in parts if part)


def json_text(value: Any) -> str:
    """Return the JSON of a checked value."""
    return msgspec.json.encode(value).decode()
