"""`whence serve`: the gateway for programs, assistants and browsers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.options import KeepTraces, ReaderAccess
from whence.cli.output import note, print_json
from whence.cli.session import as_json, settings_of, start_logging

if TYPE_CHECKING:
    from whence.flow.settings import Settings
    from whence.gateway.auth import Authenticator
    from whence.gateway.service import Service

#: Requests that run at the same time: for each core when all is computed here, at least when a service writes.
_CONCURRENT_PER_CORE = 2
_CONCURRENT_WITH_SERVICE = 16


def serve(
    context: typer.Context,
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 for a free one.")] = 8080,
    tokens: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="TOML file with tokens and their rights."),
    ] = None,
    require_token: Annotated[
        bool, typer.Option("--require-token", help="Refuse requests without a token.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Host name that requests may use for this server; repeatable."
        ),
    ] = None,
    concurrent: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Requests that run at the same time; others wait, or are refused when they could not be done in"
            " time. Default: two for each processor core, at least 16 when a service writes the answers.",
        ),
    ] = None,
    stdio: Annotated[
        bool,
        typer.Option("--stdio", help="Serve MCP on standard input and output instead of HTTP."),
    ] = False,
    keep: KeepTraces = None,
    access: ReaderAccess,
) -> int:
    """Serve HTTP, server-sent events, MCP and a web page until stopped.

    The access options are the rights of requests without a token; by default public documents only.
    """
    start_logging("WARNING")
    settings = settings_of(context, keep=keep)
    from whence.gateway.auth import Authenticator, Caller, read_tokens
    from whence.gateway.server import check_exposure, serve_stdio

    if stdio:
        streams = (sys.stdin.buffer, sys.stdout.buffer)
        asyncio.run(
            _with_service(
                settings, concurrent, lambda one: serve_stdio(one, Caller("", access), *streams)
            )
        )
        return 0
    known = {} if tokens is None else read_tokens(tokens)
    check_exposure(host, access, require_token=require_token)
    rights = Authenticator(access, known, require_token=require_token)
    _serve_http(context, (host, port), rights, allow_host or (), concurrent)
    return 0


def _serve_http(
    context: typer.Context,
    address: tuple[str, int],
    rights: Authenticator,
    allowed: Iterable[str],
    concurrent: int | None,
) -> None:
    from whence.gateway.server import listen, url_of

    with listen(*address) as listening:
        url = url_of(listening)

        def ready() -> None:
            if as_json(context):
                print_json({"url": url, "mcp": f"{url}/mcp", "openapi": f"{url}/openapi.json"})
            note(f"ready {url}")

        from whence.gateway.app import gateway
        from whence.gateway.server import allowed_hosts, serve_http

        async def serve_requests(service: Service) -> None:
            app = gateway(service, rights, hosts=allowed_hosts(allowed))
            await serve_http(app, listening, on_ready=ready)

        asyncio.run(_with_service(settings_of(context), concurrent, serve_requests))


async def _with_service(
    settings: Settings, concurrent: int | None, serve: Callable[[Service], Awaitable[None]]
) -> None:
    from whence.engine.engine import Engine
    from whence.gateway.service import Service
    from whence.models.onnx_sessions import usable_cores

    waits = settings.writer != "extractive"
    least = _CONCURRENT_WITH_SERVICE if waits else 1
    at_once = concurrent or max(least, _CONCURRENT_PER_CORE * usable_cores())
    async with Engine(settings=settings, warm_up="questions") as engine:
        await serve(Service(engine, settings.collection, concurrent=at_once))
