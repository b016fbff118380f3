"""What callers send, and its reading: one typed form for HTTP, MCP and the description of both."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

from whence.gateway.auth import AccessBody
from whence.retrieval.pipeline import RERANK_BUDGET_S
from whence.schema.errors import BadInput

__all__ = ("MAX_TIMEOUT_S", "AskBody", "ExplainBody", "SearchBody", "WhyNotBody", "read_body")

#: Longest time for one question, in seconds: a caller who left must not keep a place for ever.
MAX_TIMEOUT_S = 600.0

_Mode = Annotated[str, msgspec.Meta(description="hybrid, dense or bm25.")]
_Collection = Annotated[
    str, msgspec.Meta(description="Collection to read; the server's own when empty.")
]
_Filters = Annotated[
    dict[str, Any],
    msgspec.Meta(
        description="Conditions on metadata, all of which must hold: key to a value, a list of which any fits,"
        ' a range such as {"gte": 2020, "lt": 2024}, or a beginning: {"prefix": "guides/"}.'
    ),
]
_Access = Annotated[
    AccessBody | None,
    msgspec.Meta(description="Rights to read with; they can only narrow those of the token."),
]
_Question = Annotated[str, msgspec.Meta(description="The question, in plain words.")]
_AnswerId = Annotated[str, msgspec.Meta(description="Id that an answer came with.")]

T = TypeVar("T")


class _Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unknown names are refused: a misspelt limit must not be silently no limit."""


class SearchBody(_Body, frozen=True, kw_only=True):
    """Find passages."""

    query: Annotated[str, msgspec.Meta(description="What to look for, three characters or more.")]
    top_k: Annotated[int, msgspec.Meta(ge=1, description="Most hits.")] = 5
    threshold: Annotated[float, msgspec.Meta(ge=0, le=1, description="Lowest score, 0 to 1.")] = 0.5
    mode: _Mode = "hybrid"
    collection: _Collection = ""
    filters: _Filters = {}
    match: Annotated[
        str,
        msgspec.Meta(
            description="all lets words count only in passages that have every one of them; any takes what there is."
        ),
    ] = "any"
    rerank: Annotated[
        bool, msgspec.Meta(description="Read the best hits together with the query.")
    ] = False
    rerank_budget_s: Annotated[
        float, msgspec.Meta(gt=0, description="Seconds for that; then hits stay as they are.")
    ] = RERANK_BUDGET_S
    snapshot: Annotated[
        str, msgspec.Meta(description="Snapshot of code to search: id, head sha, branch or tag.")
    ] = ""
    set: Annotated[str, msgspec.Meta(description="Set of snapshots.")] = ""
    snapshot_source: Annotated[
        str, msgspec.Meta(description="primary or secondary member of the set.")
    ] = ""
    access: _Access = None


class AskBody(_Body, frozen=True, kw_only=True):
    """Answer a question from documents, with citations."""

    question: _Question
    mode: Annotated[str | None, msgspec.Meta(description="hybrid, dense or bm25.")] = None
    collection: _Collection = ""
    doc_limit: Annotated[int, msgspec.Meta(ge=1, description="Passages that the writer reads.")] = (
        20
    )
    fetch_limit: Annotated[
        int,
        msgspec.Meta(ge=0, description="Candidates before reranking; 0 for three times doc_limit."),
    ] = 0
    rerank: Annotated[bool, msgspec.Meta(description="False leaves the reranker out.")] = True
    filters: _Filters = {}
    timeout_s: Annotated[
        float, msgspec.Meta(gt=0, le=MAX_TIMEOUT_S, description="Seconds for the whole question.")
    ] = 120.0
    access: _Access = None


class ExplainBody(_Body, frozen=True, kw_only=True):
    """Show where an answer came from."""

    answer_id: _AnswerId
    access: _Access = None


class WhyNotBody(_Body, frozen=True, kw_only=True):
    """Tell why a passage or document is not in an answer."""

    item: Annotated[str, msgspec.Meta(description="Id of a chunk or document.")]
    answer_id: _AnswerId
    access: _Access = None


def read_body(document: object, form: type[T]) -> T:
    """Read what a caller sent.

    Args:
        document: Raw JSON, or what was read from it.
        form: What it must be.

    Raises:
        BadInput: It is no JSON, or something else than the form; the message names the place.
    """
    try:
        if isinstance(document, bytes):
            return msgspec.json.decode(document, type=form)
        return msgspec.convert(document, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # Its words name the field and what was expected there.
        hint = f"the fields are {', '.join(getattr(form, '__struct_fields__', ()))}"
        raise BadInput(f"the request is malformed: {error}", hint=hint) from error
