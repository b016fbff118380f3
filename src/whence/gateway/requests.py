"""Request bodies of HTTP and MCP, also the source of their descriptions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from whence.gateway.auth import AccessBody
from whence.retrieval.pipeline import RERANK_BUDGET_S
from whence.schema.document_rag import Diversity
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from starlette.requests import Request

#: Maximum time limit of a question in seconds: an absent caller must not occupy a slot for long.
MAX_TIMEOUT_S = 600.0

_Mode = Annotated[str, msgspec.Meta(description="hybrid, dense or bm25.")]
_Collection = Annotated[
    str, msgspec.Meta(description="Collection to read; the server's default when empty.")
]
_Filters = Annotated[
    dict[str, Any],
    msgspec.Meta(
        description="Conditions on metadata, all of which must hold: key to a value, a list of alternatives, a range such"
        ' as {"gte": 2020, "lt": 2024}, or a prefix: {"prefix": "guides/"}. `or` and `and` have a list of such objects, `not` has one.'
    ),
]
_Access = Annotated[
    AccessBody | None,
    msgspec.Meta(description="Rights to read with, within those of the token."),
]
_Snapshot = Annotated[
    str, msgspec.Meta(description="Snapshot of code to read: id, head sha, branch or tag.")
]
_Set = Annotated[str, msgspec.Meta(description="Set of snapshots.")]
_Member = Annotated[str, msgspec.Meta(description="Member of the set: primary or secondary.")]
_Question = Annotated[str, msgspec.Meta(description="The question.")]
_Exact = Annotated[
    bool, msgspec.Meta(description="Search for all words as they are; quoted words always are.")
]
_AnswerId = Annotated[str, msgspec.Meta(description="Id of the answer.")]

#: Longest number of a clearance.
_MAX_DIGITS = 10
#: Most objects and lists inside one another in a message.
_MAX_DEPTH = 32

T = TypeVar("T")


class _Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Refuses unknown fields: a misspelt limit must not be ignored."""


class SearchBody(_Body, frozen=True, kw_only=True):
    """Find passages."""

    query: Annotated[str, msgspec.Meta(description="Words or a question.")]
    top_k: Annotated[int, msgspec.Meta(ge=1, description="Maximum number of hits.")] = 5
    threshold: Annotated[
        float,
        msgspec.Meta(ge=0, le=1, description="Minimum score, 0 to 1; hits below 0.5 are `weak`."),
    ] = 0.0
    mode: _Mode = "hybrid"
    collection: _Collection = ""
    filters: _Filters = {}
    match: Annotated[
        str,
        msgspec.Meta(description="Whether a passage must contain any or all words."),
    ] = "any"
    exact: _Exact = False
    rerank: Annotated[
        bool, msgspec.Meta(description="Reorder the best hits with the reranker.")
    ] = False
    rerank_budget_s: Annotated[
        float, msgspec.Meta(gt=0, description="Time limit of reranking in seconds.")
    ] = RERANK_BUDGET_S
    locations: Annotated[
        bool,
        msgspec.Meta(
            description="Add to each hit where it stands in its file, and the W3C `trace_id` of the search."
        ),
    ] = False
    snapshot: _Snapshot = ""
    set: _Set = ""
    snapshot_source: _Member = ""
    access: _Access = None


class FetchBody(_Body, frozen=True, kw_only=True):
    """Read a whole document, or the text of a code node, by an id or URL that `search` returned."""

    id: Annotated[str, msgspec.Meta(description="Id or URL of a result, or id of a document.")]
    collection: _Collection = ""
    snapshot: _Snapshot = ""
    set: _Set = ""
    snapshot_source: _Member = ""
    access: _Access = None


class ExpandBody(_Body, frozen=True, kw_only=True):
    """Find what code nodes of a snapshot depend on, or what depends on them."""

    nodes: Annotated[list[str], msgspec.Meta(description="Ids to start from.", min_length=1)]
    snapshot: _Snapshot = ""
    set: _Set = ""
    snapshot_source: _Member = ""
    max_depth: Annotated[int, msgspec.Meta(ge=1, description="Most steps from a node.")] = 2
    max_nodes: Annotated[int, msgspec.Meta(ge=1, description="Most nodes in all.")] = 120
    relations: Annotated[
        list[str], msgspec.Meta(description="Relations to follow, e.g. ReadsFrom; all when empty.")
    ] = []
    direction: Annotated[str, msgspec.Meta(description="out, in or both.")] = "out"
    access: _Access = None


class AskBody(_Body, frozen=True, kw_only=True):
    """Answer a question from documents, with citations."""

    question: _Question
    mode: Annotated[str | None, msgspec.Meta(description="hybrid, dense or bm25.")] = None
    collection: _Collection = ""
    doc_limit: Annotated[int, msgspec.Meta(ge=1, description="Passages given to the writer.")] = 20
    fetch_limit: Annotated[
        int,
        msgspec.Meta(ge=0, description="Candidates before reranking; 0 for three times doc_limit."),
    ] = 0
    rerank: Annotated[bool, msgspec.Meta(description="Whether candidates are reranked.")] = True
    rerank_limit: Annotated[
        int, msgspec.Meta(ge=0, description="Candidates that the reranker reads; 0 for all.")
    ] = 0
    diversity: Annotated[
        Diversity | None,
        msgspec.Meta(
            description="mmr chooses passages that say different things; null for the flow's own."
        ),
    ] = None
    diversity_lambda: Annotated[
        Annotated[float, msgspec.Meta(ge=0, le=1)] | None,
        msgspec.Meta(description="Weight of relevance against diversity."),
    ] = None
    filters: _Filters = {}
    exact: _Exact = False
    history: Annotated[
        list[str],
        msgspec.Meta(
            description="Earlier questions of the conversation, oldest first; they complete a follow-up question."
        ),
    ] = []
    timeout_s: Annotated[
        float, msgspec.Meta(gt=0, le=MAX_TIMEOUT_S, description="Time limit in seconds.")
    ] = 120.0
    access: _Access = None


class ExplainBody(_Body, frozen=True, kw_only=True):
    """Show how an answer was produced."""

    answer_id: _AnswerId
    access: _Access = None


class WhyNotBody(_Body, frozen=True, kw_only=True):
    """Show why a passage or document is not in an answer."""

    item: Annotated[str, msgspec.Meta(description="Id of a chunk or document.")]
    answer_id: _AnswerId
    access: _Access = None


def access_of(request: Request) -> AccessBody | None:
    """Return the rights in a query string: `acl` and `label`, repeatable, and `clearance`."""
    query = request.query_params
    if not query.keys() & {"acl", "label", "clearance"}:
        return None
    level = clearance_of(query.get("clearance", "0"))
    return AccessBody(query.getlist("acl"), query.getlist("label"), level)


def clearance_of(text: str) -> int:
    """Return the number of a clearance.

    Raises:
        BadInput: It is none; whether it is too large is checked later.
    """
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        raise BadInput("clearance is not a number", hint="use 0 or more")
    return int(text)


async def read_body(request: Request) -> bytes:
    """Return the body, which must be declared as JSON: forms on foreign pages can send other types.

    Raises:
        BadInput: It has another type.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadInput(
            f"a body of type {kind or 'unknown'!r} is not read",
            hint="send `Content-Type: application/json`",
        )
    return await request.body()


async def read_json(request: Request) -> Any:
    """Return the decoded body; errors as for `read_body` and `decode_json`."""
    return decode_json(await read_body(request))


def decode_json(raw: bytes) -> Any:
    """Decode a message.

    Raises:
        BadInput: It is no JSON, or is nested too deeply for those who read it.
    """
    try:
        document = msgspec.json.decode(raw)
    except RecursionError as error:
        raise _too_deep() from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"not JSON: {error}") from error
    level = [document]
    for _ in range(_MAX_DEPTH):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return document
    raise _too_deep()


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_deep() -> BadInput:
    return BadInput(f"the message is nested more than {_MAX_DEPTH} levels deep")


def parse_body(document: object, form: type[T]) -> T:
    """Convert a decoded message to a request body."""
    try:
        return msgspec.convert(document, type=form)
    except msgspec.ValidationError as error:
        # The error names the field and the expected type.
        hint = f"the fields are {', '.join(getattr(form, '__struct_fields__', ()))}"
        raise BadInput(f"the request is malformed: {error}", hint=hint) from error
