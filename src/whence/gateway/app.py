"""The gateway as an ASGI application.

| Path | What |
|---|---|
| `GET /` | the page |
| `POST /v1/search` | passages |
| `POST /v1/ask` | an answer; as events with `Accept: text/event-stream` |
| `GET /v1/answers/{id}` | where it came from; `?format=` json, tree, nquads, trig, jsonld or svg |
| `GET /v1/answers/{id}/why-not?item=` | what became of a passage |
| `POST /mcp` | the Model Context Protocol |
| `GET /openapi.json` | all of this for machines |
| `GET /live`, `GET /ready` | probes |
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from whence.gateway.auth import AccessBody, Caller, Rights
from whence.gateway.events import OnStage, OnText, asked
from whence.gateway.failures import JsonResponse, tell_error, tell_http_error
from whence.gateway.host_check import MAX_BODY, Door
from whence.gateway.mcp import Mcp
from whence.gateway.openapi import openapi
from whence.gateway.requests import AskBody, ExplainBody, SearchBody, WhyNotBody, read_body
from whence.gateway.service import FORMATS, MEDIA_TYPES, Service, rendered
from whence.schema.errors import BadInput, WhenceError

__all__ = ("gateway",)

_PAGE: Final = Path(__file__).parent / "page"
_EVENTS: Final = "text/event-stream"


class _Routes:
    """What each path does."""

    def __init__(self, service: Service, rights: Rights) -> None:
        self._service = service
        self._rights = rights
        self._mcp = Mcp(service)

    def routes(self) -> list[Route | Mount]:
        """Give the table of paths."""
        return [
            Route("/", self.page),
            Mount("/page", StaticFiles(directory=_PAGE)),
            Route("/v1/search", self.search, methods=["POST"]),
            Route("/v1/ask", self.ask, methods=["POST"]),
            Route("/v1/answers/{answer_id}", self.explain),
            Route("/v1/answers/{answer_id}/why-not", self.why_not),
            Route("/mcp", self.mcp, methods=["POST"]),
            Route("/openapi.json", self.openapi),
            Route("/live", self.probe),
            Route("/ready", self.probe),
        ]

    async def page(self, _: Request) -> Response:
        return FileResponse(_PAGE / "index.html")

    async def search(self, request: Request) -> Response:
        caller = self._caller(request)
        body = read_body(await _json(request), SearchBody)
        return JsonResponse(await self._service.search(caller, body))

    async def ask(self, request: Request) -> Response:
        caller = self._caller(request)
        body = read_body(await _json(request), AskBody)
        if _EVENTS not in request.headers.get("accept", ""):
            return JsonResponse(await self._service.ask(caller, body))

        async def question(on_text: OnText, on_stage: OnStage) -> dict[str, object]:
            return await self._service.ask(caller, body, on_text=on_text, on_stage=on_stage)

        # Proxies that gather an answer before they pass it on would make events useless.
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(asked(question), media_type=_EVENTS, headers=headers)

    async def explain(self, request: Request) -> Response:
        caller = self._caller(request)
        form = request.query_params.get("format", "json")
        if form not in FORMATS:
            raise BadInput(f"unknown format {form!r}", hint=f"use one of {', '.join(FORMATS)}")
        body = ExplainBody(answer_id=request.path_params["answer_id"], access=_access(request))
        trace = await self._service.trace(caller, body)
        if form == "json":
            from whence.provenance.render.json import to_json

            return JsonResponse(to_json(trace))
        return Response(rendered(trace, form), media_type=MEDIA_TYPES[form])

    async def why_not(self, request: Request) -> Response:
        caller = self._caller(request)
        item = request.query_params.get("item", "")
        answer_id = request.path_params["answer_id"]
        body = WhyNotBody(item=item, answer_id=answer_id, access=_access(request))
        return JsonResponse(await self._service.why_not(caller, body))

    async def mcp(self, request: Request) -> Response:
        caller = self._caller(request)
        reply = await self._mcp.answer(await _json(request), caller, dict(request.headers))
        if reply.document is None:
            return Response(status_code=reply.status)
        return JsonResponse(reply.document, reply.status)

    async def openapi(self, _: Request) -> Response:
        return JsonResponse(openapi())

    async def probe(self, _: Request) -> Response:
        return JsonResponse({"status": "ok"})

    def _caller(self, request: Request) -> Caller:
        return self._rights.caller(request.headers.get("authorization"))


def gateway(
    service: Service, rights: Rights, *, hosts: Iterable[str], max_body: int = MAX_BODY
) -> Starlette:
    """Give the application.

    Args:
        service: What it serves.
        rights: Who may see what.
        hosts: Names that requests may use for this server; plain addresses always go.
        max_body: Largest request, in bytes.
    """
    return Starlette(
        routes=_Routes(service, rights).routes(),
        middleware=[Middleware(Door, hosts=hosts, max_body=max_body)],
        exception_handlers={
            WhenceError: tell_error,
            HTTPException: tell_http_error,
            Exception: tell_error,
        },
    )


async def _json(request: Request) -> bytes:
    """Give the body, which must say that it is JSON: a form on a foreign page can send anything else.

    Raises:
        BadInput: It says something else.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadInput(
            f"a body of type {kind or 'unknown'!r}", hint="send `Content-Type: application/json`"
        )
    return await request.body()


def _access(request: Request) -> AccessBody | None:
    """Give the rights that a query string asks to read with: `acl` and `label`, repeated, and `clearance`.

    Raises:
        BadInput: The clearance is no number.
    """
    query = request.query_params
    if not query.keys() & {"acl", "label", "clearance"}:
        return None
    level = query.get("clearance", "0")
    if not level.isdecimal():
        raise BadInput(f"clearance {level!r} is no number", hint="use 0 or more")
    return AccessBody(query.getlist("acl"), query.getlist("label"), int(level))
