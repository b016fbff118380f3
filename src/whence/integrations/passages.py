"""Passages for the retrievers of frameworks, from an engine in this process or from a server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from whence.operations.json_documents import answer_document, search_document
from whence.operations.search import Search
from whence.schema.access import Access
from whence.schema.codec import to_builtins
from whence.schema.errors import BadInput, ErrorReply, Unavailable, error_from_reply
from whence.surfaces.python.engine import Engine
from whence.surfaces.python.loop_thread import LoopThread

if TYPE_CHECKING:
    import httpx

#: Seconds for a search or a question to a server.
_TIMEOUT_S = 120.0


class FrameworkPassage(NamedTuple):
    """One passage, as every framework gets it."""

    id: str
    """IRI of the chunk."""
    text: str
    """The text, verbatim: of the whole passage, or of the part that an answer quotes."""
    score: float | None
    """0 to 1, higher is better; None for a quote."""
    metadata: dict[str, Any]
    """`document_id`, `title`, `heading`, `source_file`, `source_url`, `location`, the document's own metadata,
    `lead` where a reader needs what stands above the text, such as the header of its table,
    and `trace_id` of the search or `answer_id` of the answer, which `whence explain` takes."""


class PassageSource:
    """Finds passages for a query.

    Nothing is opened before the first search. An engine runs in a thread of its own, so that blocking and
    asynchronous callers may share one source, from any thread and event loop.

    Args:
        collection: Collection to search.
        url: Address of `whence serve`; empty for an engine in this process.
        token: Token for that server; empty without one.
        home: Home of the engine; the usual one when empty.
        access: Rights of the reader. A server allows at most those of the token.
        mode: `hybrid`, `dense` or `bm25`.
        filters: Conditions on metadata, see `whence.schema.filters`.
        cited_only: Ask a question, and return what its answer quotes, in place of a search.
    """

    def __init__(
        self,
        collection: str = "default",
        *,
        url: str = "",
        token: str = "",
        home: str = "",
        access: Access = Access.public(),  # noqa: B008 - immutable
        mode: str = "hybrid",
        filters: Mapping[str, Any] | None = None,
        cited_only: bool = False,
    ) -> None:
        self._collection = collection
        self._url = url.rstrip("/")
        self._token = token
        self._access = access
        self._mode = mode
        self._filters = dict(filters or {})
        self._cited_only = cited_only
        self._engine: LoopThread[Engine] = LoopThread(
            lambda: Engine(home=home or None), name="whence-passages"
        )
        self._http: httpx.Client | None = None
        self._lock = threading.Lock()

    def find(
        self, query: str, limit: int, filters: Mapping[str, Any] | None = None
    ) -> list[FrameworkPassage]:
        """Return the best passages, best first; waits for them.

        Args:
            query: Any text that is not blank.
            limit: Most passages, 1 or more.
            filters: Further conditions on metadata; they hold beside those of the source.

        Raises:
            WhenceError: As for `whence.surfaces.python.engine.Engine.search` and `ask`.
        """
        if limit < 1:
            raise BadInput(f"the number of passages must be 1 or more, not {limit}")
        given = [one for one in (self._filters, dict(filters or {})) if one]
        both = {"and": given} if len(given) > 1 else {} if not given else given[0]
        find = self._find_by_http if self._url else self._find_here
        document = find(query, limit, both)
        found = _quotes(document) if self._cited_only else _hits(document)
        return found[:limit]

    async def afind(
        self, query: str, limit: int, filters: Mapping[str, Any] | None = None
    ) -> list[FrameworkPassage]:
        """Return what `find` does, without blocking the event loop."""
        return await asyncio.to_thread(self.find, query, limit, filters)

    def close(self) -> None:
        """Close the engine or the connection; a later search opens it again."""
        self._engine.close()
        with self._lock:
            http, self._http = self._http, None
        if http is not None:
            http.close()

    def _find_here(self, query: str, limit: int, filters: dict[str, Any]) -> dict[str, Any]:
        common: dict[str, Any] = {
            "collection": self._collection, "access": self._access, "mode": self._mode, "filters": filters,
        }  # fmt: skip

        async def ask(engine: Engine) -> dict[str, Any]:
            return answer_document(await engine.ask(query, **common))

        async def search(engine: Engine) -> dict[str, Any]:
            report = await engine.run(Search(query=query, top_k=limit, locations=True, **common))
            return search_document(query, self._mode, report) | {"trace_id": report.trace_id}

        found: dict[str, Any] = to_builtins(self._engine.run(ask if self._cited_only else search))
        return found

    def _find_by_http(self, query: str, limit: int, filters: dict[str, Any]) -> dict[str, Any]:
        import httpx

        body: dict[str, Any] = {
            "collection": self._collection, "mode": self._mode, "filters": filters,
        }  # fmt: skip
        if self._access != Access.public():
            access = self._access
            body["access"] = {
                "acl": sorted(access.acl_tags), "labels": sorted(access.labels), "clearance": access.clearance,
            }  # fmt: skip
        body |= {"question": query} if self._cited_only else {"query": query, "top_k": limit}
        body |= {} if self._cited_only else {"locations": True}
        path = "/v1/ask" if self._cited_only else "/v1/search"
        try:
            response = self._client().post(self._url + path, json=body)
            found: dict[str, Any] = response.json()
        except (httpx.HTTPError, ValueError) as error:
            raise Unavailable(
                f"{self._url} does not answer as Whence: {str(error) or type(error).__name__}",
                hint="start it with `whence serve`, or correct the address",
            ) from error
        if response.status_code != httpx.codes.OK:
            raise _error(found, response.status_code, self._url)
        return found

    def _client(self) -> httpx.Client:
        import httpx

        with self._lock:
            if self._http is None:
                headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
                self._http = httpx.Client(headers=headers, timeout=_TIMEOUT_S)
            return self._http


def _error(document: dict[str, Any], status: int, url: str) -> Exception:
    told = document.get("error")
    told = told if isinstance(told, dict) else {}
    return error_from_reply(
        ErrorReply(
            code=str(told.get("code", "unavailable")),
            message=str(told.get("message", f"{url} answered {status}")),
            hint=str(told.get("hint", "")),
        )
    )


def _hits(document: dict[str, Any]) -> list[FrameworkPassage]:
    return [
        FrameworkPassage(
            hit["chunk"]["id"],
            hit["chunk"]["content"],
            hit["similarity_score"],
            {
                **hit["chunk"]["metadata"],
                "document_id": hit["document_id"],
                "location": hit["location"],
                "weak": hit["weak"],
                "trace_id": document["trace_id"],
                **_lead(hit["chunk"]),
            },
        )
        for hit in document["hits"]
    ]


def _lead(part: dict[str, Any]) -> dict[str, str]:
    """Return what stands above a text, such as the header of its table, if anything does."""
    return {"lead": part["lead"]} if part.get("lead") else {}


def _quotes(document: dict[str, Any]) -> list[FrameworkPassage]:
    kept = ("marker", "document_id", "title", "heading", "source_file", "source_url", "location")
    return [
        FrameworkPassage(
            one["chunk_id"],
            one["quote"],
            None,
            {name: one[name] for name in kept} | {"answer_id": document["answer_id"]} | _lead(one),
        )
        for one in document["citations"]
    ]
