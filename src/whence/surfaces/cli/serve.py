"""`whence serve`: the gateway for programs, assistants and browsers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar
from urllib.parse import urlsplit

import typer

from whence.schema.errors import BadInput
from whence.surfaces.cli.options import KeepTraces, OptionGroup, ReaderAccess, option, state_of
from whence.surfaces.cli.output import INTERRUPTED, note, print_json
from whence.surfaces.cli.session import as_json, settings_of, start_logging

T = TypeVar("T")

if TYPE_CHECKING:
    from whence.flow.settings import Settings
    from whence.flow.telemetry.monitor import FlowMonitor
    from whence.operations.watch import Watch, WatchEvent
    from whence.schema.access import Access
    from whence.surfaces.http.auth import Authenticator
    from whence.surfaces.http.code_flow import CodeFlow
    from whence.surfaces.http.oidc import ProtectedResource
    from whence.surfaces.http.service import Service
    from whence.surfaces.python.engine import Engine

#: Requests that run at the same time: for each core when all is computed here, at least when a service writes.
_CONCURRENT_PER_CORE = 2
_CONCURRENT_WITH_SERVICE = 16


SignIn = Annotated[
    dict[str, str | None],
    OptionGroup(
        (
            option(
                "tokens",
                "TOML file with tokens and their rights; tokens.toml in the home by default.",
                metavar="FILE",
            ),
            option("oidc_issuer", "Issuer whose JSON Web Tokens are accepted.", metavar="URL"),
            option("oidc_audience", "Audience that these tokens must be made for.", metavar="NAME"),
            option(
                "oidc_groups_claim",
                "Claim with the reader's groups, which become access tags; `groups` by default.",
                metavar="CLAIM",
            ),
            option(
                "oidc_mapping",
                "TOML file with what each group grants instead of its name.",
                metavar="FILE",
            ),
            option(
                "oidc_jwks",
                "File with the issuer's keys, which are fetched by default.",
                metavar="FILE",
            ),
            option(
                "oidc_clock_skew",
                "Seconds by which clocks may differ; 60 by default.",
                metavar="SECONDS",
            ),
            option("oidc_scopes", "Scopes that clients are told to ask for.", metavar="SCOPES"),
            option(
                "oidc_client_id",
                "Name of the page at the issuer, for readers who sign in there; the audience by default.",
                metavar="NAME",
            ),
            option(
                "public_url",
                "Address at which callers reach the server, such as that of a proxy.",
                metavar="URL",
            ),
        ),
        lambda **given: given,
    ),
]
"""Tokens that are accepted, as settings."""


#: Seconds between two looks at passages that wait for vectors.
_EMBEDDING_PAUSE_S = 2.0


def serve(
    context: typer.Context,
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 for a free one.")] = 9420,
    sign_in: SignIn,
    require_token: Annotated[
        bool, typer.Option("--require-token", help="Refuse requests without a token.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Host name that requests may use for this server; repeatable."
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Origin whose pages may use this server, such as https://chat.example; repeatable.",
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
    upload_rights: Annotated[
        Path | None,
        typer.Option(
            "--rights",
            metavar="FILE",
            help="Rules that give files that are sent tags by their path; a file without a rule is refused.",
        ),
    ] = None,
    watch: Annotated[
        list[Path] | None,
        typer.Option(
            "--watch",
            metavar="PATH",
            help="Folder that the collection is kept equal to, see `whence watch`; repeatable. --rights gives its"
            " files their tags.",
        ),
    ] = None,
    passwords: Annotated[
        Path | None,
        typer.Option(
            "--passwords",
            metavar="FILE",
            help="File of passwords, one a line, for encrypted files of --watch; they are never stored.",
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

    The access options are the rights of requests without a token; by default public documents only. Open
    requests are completed when the server is stopped. Exit 0 after SIGTERM, 130 after Ctrl-C.
    """
    start_logging("WARNING")
    settings = settings_of(context, keep=keep, **sign_in)
    from whence.surfaces.http.auth import Caller
    from whence.surfaces.http.server import check_exposure, read_origin, serve_stdio

    if stdio:
        streams = (sys.stdin.buffer, sys.stdout.buffer)
        asyncio.run(
            _with_service(
                settings, concurrent, lambda one, _: serve_stdio(one, Caller("", access), *streams)
            )
        )
        return 0
    check_exposure(host, access, require_token=require_token)
    if upload_rights is not None:
        from whence.ingest.folder_rights import read_folder_rights

        read_folder_rights(upload_rights)
    who = _who(settings, access, require_token=require_token)
    allowed = (allow_host or (), [read_origin(one) for one in allow_origin or ()])
    return _serve_http(
        context,
        (host, port),
        who,
        allowed,
        concurrent,
        (upload_rights, _watch_of(settings, watch, upload_rights, passwords)),
    )


def _who(
    settings: Settings, anonymous: Access, *, require_token: bool
) -> tuple[Authenticator, ProtectedResource | None, CodeFlow | None]:
    """Return what finds the caller of a request, what clients are told about the issuer, and its sign-in."""
    from whence.surfaces.http.auth import Authenticator
    from whence.surfaces.http.oidc import code_flow, sign_in
    from whence.surfaces.http.tokens_file import watch_tokens

    tokens = watch_tokens(settings.tokens, required=settings.get("tokens") is not None)
    tokens.read()
    check, resource, keys = sign_in(settings) or (None, None, None)
    if keys is not None:
        asyncio.run(keys.check())
    rights = Authenticator(anonymous, tokens.current, jwt=check, require_token=require_token)
    return rights, resource, code_flow(settings, check)


def _serve_http(
    context: typer.Context,
    address: tuple[str, int],
    who: tuple[Authenticator, ProtectedResource | None, CodeFlow | None],
    allowed: tuple[Iterable[str], Iterable[str]],
    concurrent: int | None,
    stored: tuple[Path | None, Watch | None],
) -> int:
    """Serve, and return the exit code.

    Args:
        context: Of the command.
        address: Host and port.
        who: What finds the caller, what clients are told of the issuer, and its sign-in.
        allowed: Names of hosts, and origins of other pages.
        concurrent: Requests at the same time.
        stored: Rules for files that are sent, and the folders that are watched.
    """
    from whence.surfaces.http.oidc import public_url_of
    from whence.surfaces.http.server import listen, url_of

    settings = settings_of(context)
    public_url = public_url_of(settings)
    public = urlsplit(public_url).hostname

    with listen(*address) as listening:
        url = url_of(listening)

        def ready() -> None:
            if as_json(context):
                state_of(context).told = True
                print_json({"url": url, "mcp": f"{url}/mcp", "openapi": f"{url}/openapi.json"})
            note(f"ready {url}")

        from whence.surfaces.http.app import gateway
        from whence.surfaces.http.server import allowed_hosts, serve_http

        rights, resource, flow = who

        async def serve_requests(service: Service, monitor: FlowMonitor) -> bool:
            names, origins = allowed
            service.upload_rights = stored[0]
            app = gateway(
                service,
                rights,
                hosts=allowed_hosts((*names, public) if public else names),
                resource=resource,
                origins=origins,
                metrics=monitor.metrics,
                public_url=public_url,
                code_flow=flow,
            )
            return await serve_http(app, listening, on_ready=ready)

        interrupted = asyncio.run(
            _with_service(settings, concurrent, serve_requests, watch=stored[1])
        )
        return INTERRUPTED if interrupted else 0


async def _with_service(
    settings: Settings,
    concurrent: int | None,
    serve: Callable[[Service, FlowMonitor], Awaitable[T]],
    *,
    watch: Watch | None = None,
) -> T:
    from whence.broker.connect import in_process
    from whence.flow.telemetry.genai import Spans
    from whence.flow.telemetry.monitor import start_telemetry
    from whence.models.onnx_sessions import usable_cores
    from whence.surfaces.http.service import Service
    from whence.surfaces.python.engine import Engine

    waits = settings.writer != "extractive"
    least = _CONCURRENT_WITH_SERVICE if waits else 1
    at_once = concurrent or max(least, _CONCURRENT_PER_CORE * usable_cores())
    # A flow elsewhere has metrics of its own.
    with start_telemetry("all-in-one", counts=in_process(settings.broker)) as monitor:
        async with Engine(settings=settings, warm_up="questions", monitor=monitor) as engine:
            spans = Spans(monitor.provider)
            service = Service(engine, settings.collection, concurrent=at_once, spans=spans)
            beside = [asyncio.create_task(engine.keep_embedding(_EMBEDDING_PAUSE_S, note))]
            if watch is not None:
                beside.append(asyncio.create_task(_keep_watching(engine, watch)))
            try:
                return await serve(service, monitor)
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)


def _watch_of(
    settings: Settings, paths: list[Path] | None, rights: Path | None, passwords: Path | None
) -> Watch | None:
    """Return the watch of the folders that were given; `BadInput` for one that cannot be read."""
    from whence.ingest.passwords import read_passwords
    from whence.ingest.sources import validate_paths
    from whence.operations.watch import Watch

    if not paths and passwords is not None:
        raise BadInput(
            "--passwords opens the files of --watch, and no folder is watched",
            hint="add --watch PATH",
        )
    if not paths:
        return None
    validate_paths(paths)
    if passwords is not None:
        read_passwords(passwords)
    return Watch(
        paths,
        collection=settings.collection,
        rights=rights,
        passwords=passwords,
        on_event=_note_event,
    )


def _note_event(event: WatchEvent) -> None:
    if event.change == "failed":
        note(f"watch: {event.path or event.root}: {event.reason}")


async def _keep_watching(engine: Engine, watch: Watch) -> None:
    """Watch until cancelled; a watch that cannot begin is reported, and the server goes on."""
    from whence.schema.errors import WhenceError

    try:
        await engine.run(watch)
    except WhenceError as error:
        note(f"watch: {error.message}")
