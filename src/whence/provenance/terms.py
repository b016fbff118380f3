"""Names and values of a trace: IRIs derived from the id of its answer, typed literals, and back.

The same answer id always has the same IRIs. A malformed answer id and an empty chunk id raise `BadInput`.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from urllib.parse import quote, unquote

import msgspec

from whence.provenance import namespaces as ns
from whence.provenance.stage_records import Scalar
from whence.schema.errors import BadInput
from whence.schema.terms import Term, literal

QUESTION_PREFIX = "urn:trustgraph:docrag:"
SELECTION_PREFIX = "urn:trustgraph:prov:chunk:"
#: Prefix of an id that is not an IRI; everything but letters, digits and `_.-~` is percent-escaped after it.
OPAQUE_PREFIX = "urn:whence:id:"

_ANSWER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}\Z")
#: An absolute IRI: a scheme, then the characters that N-Quads allows between `<` and `>` (section 3 of the
#: recommendation), without surrogates, which UTF-8 cannot encode.
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\\x7f-\xa0\ud800-\udfff]+\Z")


# Typed literals: Python values as terms, and back.

_NOT_FINITE = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}

#: Returns an `xsd:dateTime` from an ISO 8601 text.
date_time = partial(literal, datatype=ns.XSD_DATE_TIME)


@lru_cache(maxsize=1024)
def integer(value: int) -> Term:
    """Return an `xsd:integer`; ranks and counts repeat, and terms are immutable."""
    return literal(str(int(value)), ns.XSD_INTEGER)


def double(value: float) -> Term:
    """Return an `xsd:double` that reads back as the same number."""
    text = repr(float(value))
    return literal(_NOT_FINITE.get(text, text), ns.XSD_DOUBLE)


def scalar(value: Scalar) -> Term:
    """Return a literal of the datatype that fits the value; a string stays plain."""
    if isinstance(value, bool):
        return literal(str(value).lower(), ns.XSD_BOOLEAN)
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, float):
        return double(value)
    return literal(str(value))


def read_scalar(term: Term) -> Scalar:
    """Return the Python value of a literal; a text that does not fit its datatype stays a string."""
    text = term.value
    try:
        if term.datatype == ns.XSD_INTEGER:
            return int(text)
        if term.datatype == ns.XSD_DOUBLE:
            return float(text)
    except ValueError:
        return text
    if term.datatype == ns.XSD_BOOLEAN:
        return text in {"true", "1"}
    return text


# IRIs of a trace, and back.

#: Followed by the number of a step, 1 for the first.
STEP = "step/"


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
    activity_prefix: str
    """Followed by the name of the stage that the activity is the run of."""
    agent_prefix: str
    """Followed by `whence`, or by the role and the escaped name of a model."""
    document_prefix: str
    """Followed by the place among the cited documents, 0 for the first."""
    candidate_prefix: str
    """Followed by the candidate's rank, 1 for the first."""
    selection_prefix: str
    """Followed by the place among the kept chunks, 0 for the first."""

    def stage(self, name: str) -> str:
        """Return the IRI of a stage, `step/2` for the second step."""
        return f"{self.question}/{name}" if name.startswith(STEP) else str(getattr(self, name))


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
    return AnswerUris(
        question=question,
        grounding=f"{question}/grounding",
        exploration=f"{question}/exploration",
        focus=f"{question}/focus",
        synthesis=f"{question}/synthesis",
        answer=f"{question}/answer",
        error=f"{question}/error",
        activity_prefix=f"{question}/activity/",
        agent_prefix=f"{question}/agent/",
        document_prefix=f"{question}/document/",
        candidate_prefix=f"{question}/candidate/",
        selection_prefix=f"{SELECTION_PREFIX}{answer_id}:",
    )


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
