"""What the page asks for beside searches, questions and documents.

| Path | Response |
|---|---|
| `GET /v1/overview` | collections, example questions, models and where data lies |
| `POST /v1/handbook` | index the example handbook: the document of `whence index --json` |
| `POST /v1/retrieve` | every candidate of a query; nothing is recorded |
| `GET /v1/answers/{id}/answer` | a recorded answer: the document of `POST /v1/ask` |
| `GET /v1/answers/{a}/diff/{b}` | two answers compared: the document of `whence diff --json` |
| `POST /v1/answers/{id}/feedback` | `{verdict, note}`: `right`, `wrong` or `missing`; 204 |
| `GET /v1/history` | answers of this reader, the latest first: `?limit=`, `?after=` |
| `GET /v1/answers/{id}/citations/{n}/source` | the document of a citation, cited words marked |
| `GET /v1/answers/{id}/citations/{n}/page.png` | a page of its PDF with the cited words marked: `?page=` |
| `GET /v1/answers/{id}/citations/{n}/original` | the file that it was read from, as an attachment |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote, urlsplit

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from whence.operations.answers import ShowAnswer
from whence.operations.citation_source import DrawSourcePage, ReadSourceFile, ShowSource, SourceView
from whence.operations.history import GiveFeedback, ListHistory
from whence.operations.index import Index
from whence.operations.json_documents import answer_document
from whence.operations.overview import Overview, example_folder
from whence.operations.replay import Diff
from whence.operations.retrieve import Retrieve
from whence.schema.errors import BadInput, NotFound
from whence.store.reader_records import Verdict
from whence.surfaces.http.bodies import read_operation
from whence.surfaces.http.failures import JsonResponse
from whence.surfaces.http.requests import access_of, limit_of, parse_body, read_json

if TYPE_CHECKING:
    from starlette.requests import Request

    from whence.schema.access import Access
    from whence.surfaces.http.auth import Caller
    from whence.surfaces.http.reader import Readers
    from whence.surfaces.http.service import Service

#: Time limit of indexing the example handbook, in seconds.
_INDEX_S: Final = 900.0
_CITATION: Final = "/v1/answers/{answer_id}/citations/{citation}"


class FeedbackBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request of feedback."""

    verdict: Verdict
    """`right`, `wrong` or `missing`."""
    note: Annotated[str, msgspec.Meta(max_length=4000)] = ""
    """What is wrong or missing."""


class PageRoutes:
    """The handlers of these paths.

    Args:
        service: Does the work.
        readers: Finds the caller of a request.
    """

    def __init__(self, service: Service, readers: Readers) -> None:
        self._service = service
        self._readers = readers
        self._caller: Callable[[Request], Awaitable[Caller]] = readers.caller

    def routes(self) -> list[Route]:
        """Return the routing table."""
        return [
            Route("/v1/overview", self.overview),
            Route("/v1/handbook", self.handbook, methods=["POST"]),
            Route("/v1/retrieve", self.retrieve, methods=["POST"]),
            Route("/v1/history", self.history),
            Route("/v1/answers/{answer_id}/answer", self.answer),
            Route("/v1/answers/{answer_id}/diff/{other_id}", self.diff),
            Route("/v1/answers/{answer_id}/feedback", self.feedback, methods=["POST"]),
            Route(f"{_CITATION}/source", self.source),
            Route(f"{_CITATION}/original", self.original),
            Route(f"{_CITATION}/page.png", self.page_picture),
        ]

    async def overview(self, request: Request) -> Response:
        """Return what there is."""
        caller, access = await self._reading(request)
        collection = self._service.collection
        found = await self._service.run(caller, Overview(access, collection))
        can_begin = not found.collections and caller.may_write and example_folder() is not None
        document = msgspec.to_builtins(found)
        return JsonResponse(document | {"default": collection, "handbook": can_begin})

    async def handbook(self, request: Request) -> Response:
        """Index the example handbook."""
        caller = await self._caller(request)
        caller.require_write()
        folder = example_folder()
        if folder is None:
            raise NotFound("the example documents are not installed", hint="install Whence again")
        if await self._service.collections(caller.access):
            raise BadInput(
                "there are documents already", hint="the handbook is for an empty installation"
            )
        report = await self._service.run(
            caller, Index([folder], self._service.collection), _INDEX_S
        )
        return JsonResponse(report, 201)

    async def retrieve(self, request: Request) -> Response:
        """Return every candidate of a query."""
        caller = await self._caller(request)
        document = await read_json(request)
        asked = read_operation(document, Retrieve, caller, self._service.collection)
        return JsonResponse(await self._service.run(caller, asked))

    async def history(self, request: Request) -> Response:
        """Return the answers of this reader, or of this browser."""
        caller, access = await self._reading(request)
        reader, fresh = self._readers.reader_key(caller, request)
        limit, after = limit_of(request, 50), request.query_params.get("after", "")
        # A browser without an id has asked nothing.
        asked = ListHistory(reader, access, limit + 1, after)
        rows = [] if fresh else await self._service.run(caller, asked)
        more = rows[limit - 1].answer_id if len(rows) > limit else None
        return JsonResponse({"answers": rows[:limit], "next": more})

    async def answer(self, request: Request) -> Response:
        """Return a recorded answer."""
        caller, access = await self._reading(request)
        answer_id = request.path_params["answer_id"]
        return JsonResponse(
            answer_document(await self._service.run(caller, ShowAnswer(answer_id, access)))
        )

    async def diff(self, request: Request) -> Response:
        """Compare two recorded answers."""
        caller, access = await self._reading(request)
        ids = request.path_params["answer_id"], request.path_params["other_id"]
        return JsonResponse(await self._service.run(caller, Diff(*ids, access)))

    async def feedback(self, request: Request) -> Response:
        """Store what a reader says of an answer."""
        caller, access = await self._reading(request)
        body = parse_body(await read_json(request), FeedbackBody)
        reader, fresh = self._readers.reader_key(caller, request)
        answer_id = request.path_params["answer_id"]
        given = GiveFeedback(answer_id, body.verdict, body.note, reader, access)
        await self._service.run(caller, given)
        response = Response(status_code=204)
        self._readers.keep_browser(request, response, fresh)
        return response

    async def source(self, request: Request) -> Response:
        """Return the document that a citation quotes."""
        caller, access = await self._reading(request)
        answer_id, number = request.path_params["answer_id"], citation_of(request)
        found = await self._service.run(caller, ShowSource(answer_id, number, access))
        return JsonResponse(source_document(found, answer_id, number))

    async def page_picture(self, request: Request) -> Response:
        """Return a page of a cited PDF as a picture, with the cited words marked."""
        caller, access = await self._reading(request)
        answer_id, number = request.path_params["answer_id"], citation_of(request)
        asked = DrawSourcePage(answer_id, number, access, page_of(request))
        return Response(await self._service.run(caller, asked), media_type="image/png")

    async def original(self, request: Request) -> Response:
        """Return the file of a citation; a browser stores it and never shows it."""
        caller, access = await self._reading(request)
        answer_id, number = request.path_params["answer_id"], citation_of(request)
        view = await self._service.run(caller, ShowSource(answer_id, number, access))
        data = await self._service.run(caller, ReadSourceFile(answer_id, number, access))
        name = quote(PurePosixPath(view.path).name, safe="")
        head = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
        return Response(data, media_type="application/octet-stream", headers=head)

    async def _reading(self, request: Request) -> tuple[Caller, Access]:
        caller = await self._caller(request)
        return caller, caller.access_for(access_of(request))


def citation_of(request: Request) -> int:
    """Return the index of a citation in a path.

    Raises:
        NotFound: It is no number.
    """
    text = request.path_params["citation"]
    if not (text.isascii() and text.isdecimal() and len(text) < 7):
        raise NotFound(f"there is no citation {text!r}", hint="citations are counted from 0")
    return int(text)


def page_of(request: Request) -> int | None:
    """Return the number of a page in a query; None for that of the quote.

    Raises:
        BadInput: It is no number from 1.
    """
    text = request.query_params.get("page", "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 7 and int(text) > 0):
        raise BadInput(f"page is {text!r}", hint="pages are counted from 1")
    return int(text)


def source_document(view: SourceView, answer_id: str, number: int) -> dict[str, Any]:
    """Return the JSON document of a source, with the addresses of its picture and its file."""
    document: dict[str, Any] = msgspec.to_builtins(view)
    has_file, url = document.pop("has_file"), document.pop("source_url")
    base = f"/v1/answers/{quote(answer_id, safe='')}/citations/{number}"
    is_link = urlsplit(url).scheme in ("http", "https")
    document["original"] = f"{base}/original" if has_file else url if is_link else None
    document["picture"] = f"{base}/page.png" if has_file and view.media == "pdf" else None
    return document
