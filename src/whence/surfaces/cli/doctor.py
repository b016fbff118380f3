"""`whence doctor`: check the installation and its services, and print a remedy for each fault."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import typer
from rich.text import Text

from whence.flow.settings_files import DOTENV_NAME, read_dotenv
from whence.schema.errors import WhenceError
from whence.surfaces.cli.config import settings_table
from whence.surfaces.cli.output import BUG_HINT, console, one_line, print_json, size
from whence.surfaces.cli.session import as_json, settings_of, start_logging
from whence.surfaces.cli.tables import PlainTable

if TYPE_CHECKING:
    from whence.flow.resources import Resources
    from whence.flow.settings import Settings

#: Minimum free space in bytes; an empty database takes 40 MB.
_MIN_FREE_BYTES = 200_000_000
_INSTALL = "run `whence models install`"
#: Variables that are not settings.
_OTHER_NAMES = frozenset({"WHENCE_LOG", "WHENCE_DEBUG", "WHENCE_METRICS"})


_Use: TypeAlias = "Callable[[Settings, Resources], Awaitable[str | dict[str, Any]]]"
"""Uses a service; returns the detail of its check, or all fields that it has."""
_Tried: TypeAlias = "Callable[[Resources], Awaitable[tuple[Any, str, str]]]"
"""Makes one request to the model of a role; returns the model, its name, and what else to say of it."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one check."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    """What to do about a fault; empty without one."""
    model: str = ""
    """Model of a role; empty for other checks, and for a fault."""
    host: str = ""
    """Its server; empty for a model of this machine."""
    latency_ms: float | None = None
    """Time of one small request, loading included."""
    tokens: int = 0
    """Tokens of that request, as the server says."""
    price: float | None = None
    """Its price, when the server says one."""


def doctor(context: typer.Context) -> int:
    """Check Python, home, database, models and broker; exit 1 when a check fails."""
    start_logging()
    settings = settings_of(context)
    checks = [*_local_checks(settings), *asyncio.run(_service_checks(settings))]
    ok = all(check.ok for check in checks)
    if as_json(context):
        lines = [line._asdict() for line in settings.describe()]
        print_json({"ok": ok, "checks": checks, "settings": lines})
    else:
        _print_checks(settings, checks)
    return 0 if ok else 1


def _local_checks(settings: Settings) -> Iterator[Check]:
    yield Check(
        name="python",
        ok=sys.version_info >= (3, 11),
        detail=f"{platform.python_version()} on {platform.machine()}",
    )
    yield from _environment(settings, {*os.environ, *read_dotenv(Path.cwd() / DOTENV_NAME)})
    yield _home(settings.home)
    yield from _programs(settings)
    yield from _models(settings)


def _environment(settings: Settings, environment: Iterable[str]) -> Iterator[Check]:
    known = sorted({f"WHENCE_{line.name.upper()}" for line in settings.describe()} | _OTHER_NAMES)
    for name in sorted(environment):
        if not name.startswith("WHENCE_") or name in known:
            continue
        if near := get_close_matches(name, known, n=1, cutoff=0.85):
            yield Check(
                name="environment",
                ok=False,
                detail=f"{name} is not a setting and is ignored",
                remedy=f"rename it to {near[0]}, or unset it",
            )


def _home(home: Path) -> Check:
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    if fault := _write_fault(place):
        remedy = "choose another home with --home or WHENCE_HOME, or change its permissions"
        return Check(name="home", ok=False, detail=fault, remedy=remedy)
    from whence.store.postgres.server.home import Home

    if Home(home).erasure_mark.exists():
        detail = f"{home} may hold words of erased documents: an erasure was interrupted"
        return Check(name="home", ok=False, detail=detail, remedy="run `whence erase` again")
    free = shutil.disk_usage(place).free
    ok = free >= _MIN_FREE_BYTES
    remedy = "" if ok else "free at least 200 MB"
    return Check(name="home", ok=ok, detail=f"{home}, {free / 1e9:.1f} GB free", remedy=remedy)


def _write_fault(place: Path) -> str:
    """Return why a folder is not writable, by writing a file; empty when it is."""
    if not place.is_dir():
        return f"{place} is not a folder"
    try:
        with tempfile.TemporaryFile(dir=place):
            return ""
    except OSError as error:
        return f"{place} is not writable: {error.strerror}"


def _programs(settings: Settings) -> Iterator[Check]:
    """Programs that read more formats; to be without them is no fault."""
    from whence.ingest import ocr
    from whence.ingest.loaders import old_office

    languages = settings.get("ocr_languages") or "auto"
    detail = "off: pictures and pages without text are not read (WHENCE_OCR_LANGUAGES)"
    if languages != "off":
        detail = "tesseract is not installed: pictures and pages without text are not read"
        if program := shutil.which(ocr.PROGRAM):
            known = ", ".join(ocr.installed_languages())
            detail = f"{program} reads pictures and pages without text; languages: {known}"
    missing = "" if languages == "off" or ocr.is_available(languages) else "tesseract-ocr"
    remedy = f"for OCR install tesseract (Debian: {missing})" if missing else ""
    absent = [one for one in languages.split("+") if one not in ocr.installed_languages()]
    if not missing and languages not in ("auto", "off") and absent:
        detail, remedy = f"{detail}; not {', '.join(absent)}", "install these languages"
    is_fault = remedy.startswith("install these")
    yield Check(name="ocr", ok=not is_fault, detail=detail, remedy=remedy)
    program = shutil.which(old_office.PROGRAM)
    yield Check(
        name="office before 2007",
        ok=True,
        detail=f"{program} reads .doc and .ppt"
        if program
        else "LibreOffice is not installed: .doc and .ppt are not read",
        remedy=""
        if program
        else "for .doc and .ppt install LibreOffice (Debian: libreoffice-writer-nogui, libreoffice-impress-nogui)",
    )


def _models(settings: Settings) -> Iterator[Check]:
    from whence.models.factory import encoder_of
    from whence.models.installed import install_hint, model_status
    from whence.models.weights import RERANKER_NAME

    encoder = encoder_of(settings.embedder)
    wanted = encoder is not None or settings.reranker in ("auto", RERANKER_NAME)
    states = model_status(settings.home, settings.models, rehash=True) if wanted else []
    for model in states:
        ok = model.state == "ready"
        where, fault = f"{model.folder} ({model.revision[:12]})", model.detail
        remedy = install_hint(model.name)
        detail = where if ok else fault.removesuffix(f"; {remedy}")
        yield Check(name=f"model {model.name}", ok=ok, detail=detail, remedy="" if ok else remedy)


async def _service_checks(settings: Settings) -> list[Check]:
    from whence.flow.resources import Resources

    checks: list[tuple[str, _Use]] = [("database", _database), ("broker", _broker)]
    checks += [("embedder", _role(_embedder)), ("writer", _role(_writer))]
    if "reranker" not in Resources(settings).disabled:
        checks.append(("reranker", _role(_reranker)))
    return await asyncio.gather(*(_check_service(name, use, settings) for name, use in checks))


async def _check_service(name: str, use: _Use, settings: Settings) -> Check:
    """Use a service once; its error is the finding."""
    from whence.flow.resources import Resources

    try:
        async with asyncio.timeout(60), Resources(settings) as resources:
            found = await use(settings, resources)
            return Check(
                name=name, ok=True, **({"detail": found} if isinstance(found, str) else found)
            )
    except WhenceError as error:
        detail, remedy = one_line(error.message), error.hint
    except TimeoutError:
        detail, remedy = f"{name} gave no answer within 60 s", "check whether it is running"
    except Exception as error:
        if os.environ.get("WHENCE_DEBUG"):
            raise
        detail = one_line(f"{type(error).__name__}: {error}")
        remedy = BUG_HINT
    return Check(name=name, ok=False, detail=detail, remedy=remedy)


async def _database(settings: Settings, resources: Resources) -> str:
    store = await resources.get("store")
    collections = await store.collections()
    found = await store.overview()
    chunks = sum(collection.chunks for collection in collections)
    kind = "embedded" if settings.database_url is None else "external"
    return (
        f"{kind} {found.server} with pgvector {found.pgvector}, {size(found.bytes)},"
        f" collections: {len(collections)}, chunks: {chunks:,}"
    )


def _role(tried: _Tried) -> _Use:
    """Return the check of a role: its model, host, latency, and what the request cost."""

    async def use(_: Settings, resources: Resources) -> dict[str, Any]:
        start = time.monotonic()
        model, name, more = await tried(resources)
        latency_ms = round((time.monotonic() - start) * 1e3, 1)
        served, _mark, host = str(getattr(model, "served_by", "")).rpartition("@")
        spent = getattr(model, "spent", None)
        place = f"at {host}" if host else "on this machine"
        said = [f"{served or name} {place}", more, f"{latency_ms:.0f} ms", str(spent or "")]
        return {
            "detail": ", ".join(filter(None, said)),
            "model": served or name,
            "host": host,
            "latency_ms": latency_ms,
            "tokens": spent.tokens if spent else 0,
            "price": spent.price if spent else None,
        }

    return use


async def _reranker(resources: Resources) -> tuple[Any, str, str]:
    reranker = await resources.get("reranker")
    await reranker.score("one", ["small call"])
    share = getattr(reranker, "share", 1.0)
    if share >= 1.0:
        return reranker, reranker.model, "decides the order"
    more = (
        f"a share of {share:g} of the order;"
        " `whence models install FOLDER_OR_ZIP` installs a cross-encoder, which decides it"
    )
    return reranker, reranker.model, more


async def _embedder(resources: Resources) -> tuple[Any, str, str]:
    embedder = await resources.get("embedder")
    await embedder.embed(["one small call"])
    return embedder, embedder.model.name, f"dimension {embedder.model.dimension}"


async def _writer(resources: Resources) -> tuple[Any, str, str]:
    from whence.models.protocols import WriteRequest

    request = WriteRequest(
        template_id="document-prompt",
        query="Say yes.",
        documents=("yes",),
        system="Answer with one word.",
        prompt="Say yes.",
    )
    writer = await resources.get("writer")
    async for _piece in writer.write(request):
        pass
    return writer, writer.model, ""


async def _broker(settings: Settings, _: Resources) -> str:
    from whence.broker.connect import connect

    transport = await connect(settings.broker)
    try:
        await transport.health()
        return transport.url
    finally:
        await transport.aclose()


def _print_checks(settings: Settings, checks: list[Check]) -> None:
    out = console()
    out.print(settings_table(settings))
    out.print()
    found = PlainTable(show_header=False)
    found.add_column(no_wrap=True)
    found.add_column(no_wrap=True, style="bold")
    found.add_column(overflow="fold")
    for check in checks:
        mark = Text("ok", style="green") if check.ok else Text("fault", style="red")
        found.add_values(mark, check.name, check.detail)
        if check.remedy:
            found.add_values("", "", Text(check.remedy, style="yellow"))
    out.print(found)
