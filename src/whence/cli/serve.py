"""`whence serve`: the gateway for programs, assistants and browsers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.options import ReaderAccess
from whence.cli.output import note, print_json
from whence.cli.session import as_json, settings_of, start_logging

if TYPE_CHECKING:
    from whence.flow.settings import Settings
    from whence.gateway.service import Service


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
    stdio: Annotated[
        bool,
        typer.Option("--stdio", help="Serve MCP on standard input and output instead of HTTP."),
    ] = False,
    access: ReaderAccess,
) -> int:
    """Serve HTTP, server-sent events, MCP and a web page until stopped.

    The access options are the rights of requests without a token; by default public documents only.
    """
    start_logging("WARNING")
    settings = settings_of(context)
    from whence.gateway.auth import Authenticator, Caller, read_tokens
    from whence.gateway.server import check_exposure, listen, serve_stdio, url_of

    if stdio:
        streams = (sys.stdin.buffer, sys.stdout.buffer)
        asyncio.run(
            _with_service(settings, lambda one: serve_stdio(one, Caller("", access), *streams))
        )
        return 0

    known = {} if tokens is None else read_tokens(tokens)
    check_exposure(host, access, require_token=require_token)
    rights = Authenticator(access, known, require_token=require_token)
    with listen(host, port) as listening:
        url = url_of(listening)

        def ready() -> None:
            if as_json(context):
                print_json({"url": url, "mcp": f"{url}/mcp", "openapi": f"{url}/openapi.json"})
            note(f"ready {url}")

        from whence.gateway.app import gateway
        from whence.gateway.server import allowed_hosts, serve_http

        async def serve_requests(service: Service) -> None:
            app = gateway(service, rights, hosts=allowed_hosts(allow_host or ()))
            await serve_http(app, listening, on_ready=ready)

        asyncio.run(_with_service(settings, serve_requests))
    return 0


async def _with_service(settings: Settings, serve: Callable[[Service], Awaitable[None]]) -> None:
    from whence.engine.engine import Engine
    from whence.gateway.service import Service

    async with Engine(settings=settings, warm_up="questions") as engine:
        await serve(Service(engine, settings.collection))
