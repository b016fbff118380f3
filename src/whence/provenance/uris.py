"""IRIs of a trace, derived from the id of the answer: the same id always has the same IRIs."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote, unquote

import msgspec

from whence.schema.errors import BadInput

QUESTION_PREFIX = "urn:trustgraph:docrag:"
SELECTION_PREFIX = "urn:trustgraph:prov:chunk:"
#: Prefix of an id that is not an IRI; everything but letters, digits and `_.-~` is percent-escaped after it.
OPAQUE_PREFIX = "urn:whence:id:"

_ANSWER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}\Z")
#: An absolute IRI: a scheme, then the characters that N-Quads allows between `<` and `>` (section 3 of the
#: recommendation), without surrogates, which UTF-8 cannot encode.
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\\x7f-\xa0\ud800-\udfff]+\Z")


class AnswerUris(msgspec.Struct, frozen=True):
    """The IRIs of one answer's stages."""

    question: str
    grounding: str
    exploration: str
    focus: str
    synthesis: str
    answer: str
    """Document under which the text of the answer is stored."""
    error: str
    """Node that ends the chain when the question failed."""
    candidate_prefix: str
    """Followed by the candidate's rank, 1 for the first."""
    selection_prefix: str
    """Followed by the place among the kept chunks, 0 for the first."""


def validate_answer_id(answer_id: str) -> str:
    """Return the id if it is valid in an IRI and a file name; else raise `BadInput`."""
    if not _ANSWER_ID.match(answer_id):
        raise BadInput(
            f"{answer_id!r} is not an answer id",
            hint="an id has 1 to 128 letters, digits, dots, dashes, underscores or tildes",
        )
    return answer_id


@lru_cache(maxsize=1024)
def answer_uris(answer_id: str) -> AnswerUris:
    """Return the IRIs of an answer; a malformed id raises `BadInput`."""
    question = QUESTION_PREFIX + validate_answer_id(answer_id)
    parts = ("grounding", "exploration", "focus", "synthesis", "answer", "error", "candidate/")
    stages = [f"{question}/{part}" for part in parts]
    return AnswerUris(*(question, *stages, f"{SELECTION_PREFIX}{answer_id}:"))


def candidate_uri(answer_id: str, rank: int) -> str:
    """Return the IRI of a candidate by its rank, 1 for the first.

    >>> candidate_uri("a1", 1)
    'urn:trustgraph:docrag:a1/candidate/1'
    """
    return f"{answer_uris(answer_id).candidate_prefix}{rank}"


def answer_id_from_uri(uri: str) -> str:
    """Return the id of the answer whose question or stage has this IRI; empty for any other IRI.

    >>> answer_id_from_uri("urn:trustgraph:docrag:a1/focus")
    'a1'
    """
    if not uri.startswith(QUESTION_PREFIX):
        return ""
    answer_id = uri[len(QUESTION_PREFIX) :].split("/", 1)[0]
    return answer_id if _ANSWER_ID.match(answer_id) else ""


def stage_from_uri(uri: str) -> str:
    """Return the stage that has this IRI; empty for any other IRI.

    >>> stage_from_uri("urn:trustgraph:docrag:a1"), stage_from_uri("urn:trustgraph:docrag:a1/focus")
    ('question', 'focus')
    """
    if not answer_id_from_uri(uri):
        return ""
    # An answer id has no slash.
    return uri[len(QUESTION_PREFIX) :].partition("/")[2] or "question"


def iri_from_id(identifier: str) -> str:
    """Return the IRI of a chunk or document id: the id if it is an IRI, else escaped under `OPAQUE_PREFIX`.

    `id_from_iri` is the inverse.

    >>> iri_from_id("urn:chunk:policy:0")
    'urn:chunk:policy:0'
    >>> iri_from_id("notes/a b.md#1")
    'urn:whence:id:notes%2Fa%20b.md%231'
    """
    if _IRI.match(identifier) and not identifier.startswith(OPAQUE_PREFIX):
        return identifier
    if not identifier:
        raise BadInput("an empty id has no IRI")
    return OPAQUE_PREFIX + quote(identifier, safe="", errors="surrogatepass")


def id_from_iri(iri: str) -> str:
    """Return the id from which `iri_from_id` made the IRI.

    >>> id_from_iri("urn:whence:id:notes%2Fa%20b.md%231")
    'notes/a b.md#1'
    """
    if not iri.startswith(OPAQUE_PREFIX):
        return iri
    return unquote(iri[len(OPAQUE_PREFIX) :], errors="surrogatepass")
