"""The gateway as an ASGI application.

| Path | Response |
|---|---|
| `GET /`, `GET /a/{id}` | the web page, which shows that answer |
| `POST /v1/search` | passages |
| `POST /v1/ask` | an answer; as events with `Accept: text/event-stream` |
| `GET /v1/answers/{id}` | trace of an answer; `?format=` as of `whence explain` |
| `GET /v1/answers/{id}/why-not?item=` | why a passage is not in the answer |
| `/v1/reader/...` | who reads, signing in and out, see `reader` |
| `/v1/overview`, ... | what the page shows beside that, see `page_routes` |
| `/v1/collections/...` | documents, see `documents` |
| `POST /v1/chat/completions`, ... | OpenAI's API, see `openai.routes` |
| `POST /mcp` | the Model Context Protocol |
| `GET /openapi.json` | OpenAPI description |
| `GET /live`, `GET /ready`, `GET /health`, `GET /metrics` | see `operations` |
| `GET /.well-known/oauth-protected-resource` | where clients sign in; also with `/mcp` |
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from whence.operations.ask import Ask
from whence.operations.explain import Explain, ExplainAbsence, ExportEvidence
from whence.operations.json_documents import why_not_document
from whence.operations.search import Search
from whence.provenance.render import render_trace
from whence.schema.errors import BadInput, WhenceError
from whence.surfaces.http.auth import Authenticator, Caller
from whence.surfaces.http.bodies import Op, read_operation
from whence.surfaces.http.documents import DocumentRoutes
from whence.surfaces.http.events import (
    EVENT_STREAM,
    STREAM_HEADERS,
    OnStage,
    OnText,
    stream_events,
    stream_messages,
)
from whence.surfaces.http.failures import JsonResponse, handle_error, handle_http_error
from whence.surfaces.http.host_check import MAX_BODY, HostCheck
from whence.surfaces.http.oidc import METADATA_PATH, RESOURCES, ProtectedResource
from whence.surfaces.http.openapi import openapi
from whence.surfaces.http.page_routes import PageRoutes
from whence.surfaces.http.probes import OperationRoutes, RequestMetrics
from whence.surfaces.http.reader import Readers
from whence.surfaces.http.requests import access_of, read_body, read_json
from whence.surfaces.http.service import FORMATS, MEDIA_TYPES, Service
from whence.surfaces.mcp.offer import DocumentOffer
from whence.surfaces.mcp.protocol import Mcp, McpReply, Notify
from whence.surfaces.openai.routes import OpenAiRoutes

if TYPE_CHECKING:
    from whence.flow.telemetry.metrics import FlowMetrics
    from whence.surfaces.http.code_flow import CodeFlow

_PAGE: Final = Path(__file__).parent / "page"


class _Routes:
    """The handlers of all paths."""

    def __init__(self, service: Service, readers: Readers, metrics: FlowMetrics | None) -> None:
        self._readers = readers
        self._caller = readers.caller
        self._operations = OperationRoutes(self._caller, metrics)
        self.registry = self._operations.registry
        self._service = service
        self._mcp = Mcp(DocumentOffer(service))

    def routes(self) -> list[Route | Mount]:
        """Return the routing table."""
        return [
            Route("/", self.page),
            Route("/a/{answer_id}", self.permalink),
            Mount("/page", StaticFiles(directory=_PAGE)),
            Route("/v1/search", self.search, methods=["POST"]),
            Route("/v1/ask", self.ask, methods=["POST"]),
            Route("/v1/answers/{answer_id}", self.explain),
            Route("/v1/answers/{answer_id}/why-not", self.why_not),
            *self._readers.routes(),
            *PageRoutes(self._service, self._readers).routes(),
            *DocumentRoutes(self._service, self._caller).routes(),
            *OpenAiRoutes(self._service, self._caller).routes(),
            Route("/mcp", self.mcp, methods=["POST"]),
            Route("/openapi.json", self.openapi),
            *self._operations.routes(),
            Route(METADATA_PATH + "{path:path}", self.resource),
        ]

    async def page(self, _: Request) -> Response:
        return FileResponse(_PAGE / "index.html")

    async def permalink(self, _: Request) -> Response:
        # Paths in the page are relative, so that a proxy may serve it below a prefix.
        text = await asyncio.to_thread((_PAGE / "index.html").read_text, "utf-8")
        return HTMLResponse(text.replace('="page/', '="../page/'))

    async def search(self, request: Request) -> Response:
        caller = await self._caller(request)
        asked = await self._read(request, Search, caller)
        return JsonResponse(await self._service.search(caller, asked))

    async def ask(self, request: Request) -> Response:
        caller = await self._caller(request)
        asked = await self._read(request, Ask, caller)
        reader, fresh = self._readers.asking(caller, request)

        async def question(
            on_text: OnText | None = None, on_stage: OnStage | None = None
        ) -> dict[str, object]:
            answer = await self._service.ask(caller, asked, on_text=on_text, on_stage=on_stage)
            if reader:
                await self._service.note_asked(str(answer["answer_id"]), reader)
            return answer

        response: Response
        if EVENT_STREAM not in request.headers.get("accept", ""):
            response = JsonResponse(await question())
        else:
            # Once events are sent the status cannot say that there are too many requests.
            self._service.check_ask(caller, asked)
            stream = stream_events(question)
            response = StreamingResponse(stream, media_type=EVENT_STREAM, headers=STREAM_HEADERS)
        self._readers.keep_browser(request, response, fresh)
        return response

    async def explain(self, request: Request) -> Response:
        caller = await self._caller(request)
        form = request.query_params.get("format", "json")
        if form not in FORMATS:
            raise BadInput(f"unknown format {form!r}", hint=f"use one of {', '.join(FORMATS)}")
        answer_id, access = request.path_params["answer_id"], caller.access_for(access_of(request))
        if form == "evidence":
            return JsonResponse(await self._service.run(caller, ExportEvidence(answer_id, access)))
        trace = await self._service.run(caller, Explain(answer_id, access))
        if form == "json":
            from whence.provenance.render.json import to_json

            return JsonResponse(to_json(trace))
        return Response(render_trace(trace, form), media_type=MEDIA_TYPES[form])

    async def why_not(self, request: Request) -> Response:
        caller = await self._caller(request)
        item = request.query_params.get("item", "")
        answer_id, access = request.path_params["answer_id"], caller.access_for(access_of(request))
        found = await self._service.run(caller, ExplainAbsence(item, answer_id, access))
        document = why_not_document(found)
        return JsonResponse(document, 404 if "error" in document else 200)

    async def mcp(self, request: Request) -> Response:
        caller = await self._caller(request)
        body, headers = await read_body(request), dict(request.headers)
        takes_events = EVENT_STREAM in headers.get("accept", "")

        async def answer(notify: Notify) -> McpReply:
            return await self._mcp.answer(body, caller, headers, notify if takes_events else None)

        reply = await stream_messages(answer)
        if not isinstance(reply, McpReply):
            return StreamingResponse(reply, media_type=EVENT_STREAM, headers=STREAM_HEADERS)
        if reply.document is None:
            return Response(status_code=reply.status)
        return JsonResponse(reply.document, reply.status)

    async def openapi(self, _: Request) -> Response:
        return JsonResponse(openapi())

    async def resource(self, request: Request) -> Response:
        known: ProtectedResource | None = request.app.state.resource
        path = request.url.path.removeprefix(METADATA_PATH)
        if known is None or path not in RESOURCES:
            raise HTTPException(404)
        return JsonResponse(known.metadata(request, path))

    async def _read(self, request: Request, operation: type[Op], caller: Caller) -> Op:
        document = await read_json(request)
        return read_operation(document, operation, caller, self._service.collection)


def gateway(
    service: Service,
    auth: Authenticator,
    *,
    hosts: Iterable[str],
    max_body: int = MAX_BODY,
    resource: ProtectedResource | None = None,
    origins: Iterable[str] = (),
    metrics: FlowMetrics | None = None,
    public_url: str = "",
    code_flow: CodeFlow | None = None,
) -> Starlette:
    """Return the ASGI application.

    Args:
        service: Does the work.
        auth: Finds callers.
        hosts: Names of this server.
        max_body: Largest body in bytes, except that of files.
        resource: What clients are told about the issuer of tokens.
        origins: Other origins whose pages may use the server.
        metrics: Those of the flow in this process.
        public_url: Address for callers; that of each request when empty.
        code_flow: Signs readers of the page in with the issuer; None where they cannot.
    """
    pages = frozenset(origins)
    handlers = _Routes(
        service, Readers(service, auth, public_url=public_url, code_flow=code_flow), metrics
    )
    cors = Middleware(
        CORSMiddleware,
        allow_origins=sorted(pages),
        allow_methods=("GET", "POST", "DELETE"),
        allow_headers=("Authorization", "Content-Type", "Accept", "MCP-Protocol-Version"),
        expose_headers=("Retry-After", "WWW-Authenticate"),
    )
    checks = Middleware(HostCheck, hosts=hosts, max_body=max_body, origins=pages)
    app = Starlette(
        routes=handlers.routes(),
        middleware=[
            Middleware(RequestMetrics, registry=handlers.registry),
            checks,
            *([cors] if pages else []),
        ],
        exception_handlers={
            WhenceError: handle_error,
            HTTPException: handle_http_error,
            Exception: handle_error,
        },
    )
    app.state.resource, app.state.public_url = resource, public_url
    return app
