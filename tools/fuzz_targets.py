"""The decoders that `tools/fuzz.py` tries: bytes in, or the errors that each documents."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from whence.code.bundles.archive import BundleLimits
from whence.code.bundles.bundle import open_bundle
from whence.code.bundles.bundle_reader import BundleReader, validate_bundle
from whence.evaluation.beir.trec import read_qrels
from whence.evaluation.gate.files import load_baseline, load_policy, load_suite
from whence.evaluation.validation.suite_file import parse_suite
from whence.flow.loader import parse_flow
from whence.flow.settings import Settings
from whence.ingest.content_detection import HEAD_BYTES, readable_suffix
from whence.ingest.front_matter import read_front_matter
from whence.ingest.load_results import LoadFailure
from whence.ingest.loader_registry import detect_loader, loaders_by_suffix
from whence.ingest.reading_process import read_document
from whence.ingest.sources import SourceFile
from whence.operations.ask import Ask
from whence.operations.evidence_verifier import faults
from whence.operations.explain import Explain, ExplainAbsence
from whence.operations.search import Search
from whence.provenance.render.rdf import run_sparql
from whence.provenance.trace import read_trace
from whence.schema.access import Access
from whence.schema.codec import decode_as
from whence.schema.errors import NotFound, WhenceError
from whence.schema.filters import parse_filter_options, parse_filters
from whence.schema.message import message_types
from whence.schema.terms import Triple
from whence.surfaces.http import requests as bodies
from whence.surfaces.http.auth import Caller
from whence.surfaces.http.bodies import body_of
from whence.surfaces.http.documents import files_of, tags_for
from whence.surfaces.http.group_rights import GroupRights
from whence.surfaces.http.jwt_check import JwtCheck
from whence.surfaces.http.key_sets import KeyFile
from whence.surfaces.http.service import Service
from whence.surfaces.http.tokens_file import read_tokens
from whence.surfaces.mcp.offer import DocumentOffer
from whence.surfaces.mcp.protocol import Mcp
from whence.surfaces.openai.bodies import ChatBody, EmbeddingsBody
from whence.surfaces.openai.embeddings import texts_of
from whence.text.sentences import split_sentences


class Target(NamedTuple):
    """A decoder."""

    name: str
    decode: Callable[[bytes], object]
    documented: tuple[type[Exception], ...] = (WhenceError,)
    most_bytes: int = 20_000
    """Length of the longest input."""


def _file(read: Callable[[Path], object], suffix: str = "") -> Callable[[bytes], object]:
    """Return a decoder of bytes from one of a file."""

    def decode(data: bytes) -> object:
        path = Path(tempfile.gettempdir()) / f"{os.getpid()}{suffix}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o600)
        return read(path)

    return decode


def _document(suffix: str) -> Callable[[bytes], object]:
    loader = loaders_by_suffix()[suffix]
    file = SourceFile(path=f"/nowhere/a{suffix}", document_id=f"a{suffix}", suffix=suffix)

    def decode(data: bytes) -> object:
        document = detect_loader(loader, data).parse(file, data)
        return list(split_sentences(document.text))

    return decode


def _records(path: Path) -> None:
    loader = loaders_by_suffix()[path.suffix]
    assert loader.records is not None
    file = SourceFile(path=str(path), document_id=path.name, suffix=path.suffix)
    for record in loader.records(file, 2**20):
        if isinstance(record, LoadFailure):
            continue
        try:
            if loader.parse_record is not None:
                loader.parse_record(record)
            else:
                read_document(record.file, record.line)
        except WhenceError:
            continue


def _any_file(data: bytes) -> object:
    """Read a file without a suffix, whose format is found."""
    suffix = readable_suffix("", loaders_by_suffix().keys(), data[:HEAD_BYTES], lambda: data)
    return read_document(SourceFile(path="/nowhere/a", document_id="a", suffix=suffix), data)


_MESSAGES = [kind for _, kind in sorted(message_types().items())]
_BODIES = tuple(body_of(one) for one in (Search, Ask, Explain, ExplainAbsence))
_TRIPLES: Any = msgspec.json.Decoder(list[Triple])


def _all(decode: Callable[[Any, bytes], object], kinds: Any) -> Callable[[bytes], object]:
    """Return a decoder that gives its input to each of some forms."""

    def every(data: bytes) -> None:
        for kind in kinds:
            try:
                decode(kind, data)
            except WhenceError:
                continue

    return every


def _body(kind: Any, data: bytes) -> object:
    body = bodies.parse_body(bodies.decode_json(data), kind)
    filters = getattr(body, "filters", None)
    return parse_filters(filters) if filters else body


def _filters(data: bytes) -> object:
    return parse_filters(parse_filter_options(data.decode("utf-8", "surrogateescape").split("\n")))


def _bundle(path: Path) -> None:
    bundle = open_bundle(path, limits=BundleLimits(max_total_bytes=2**24))
    for _ in BundleReader(bundle).nodes():
        pass
    validate_bundle(bundle)


def _clearance(data: bytes) -> object:
    return bodies.clearance_of(data.decode("utf-8", "replace"))


def _evidence(data: bytes) -> object:
    try:
        evidence = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return faults(evidence, "12" * 32)


def _trace(data: bytes) -> object:
    try:
        triples = _TRIPLES.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return read_trace(triples)


def _sparql(data: bytes) -> object:
    return run_sparql((), data.decode("utf-8", "replace"))


def _front_matter(data: bytes) -> object:
    return read_front_matter(data.decode("utf-8", "replace"))


def _suite(data: bytes) -> object:
    return parse_suite(data.decode("utf-8", "replace"), "suite")


def _result(coroutine: Coroutine[Any, Any, object]) -> object:
    """Return the result of what waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


_READER = Caller("reader", Access(frozenset({"staff"})))
_KEYS = Path(__file__).resolve().parent.parent / "tests/fuzz/corpus/jwks/keys.json"


class _Nothing:
    """A service without documents."""

    collection = "default"

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, object]]:
        async def refuse(*_: object) -> object:
            raise NotFound(name)

        return refuse


_MCP = Mcp(DocumentOffer(cast("Service", _Nothing())))


def _mcp(data: bytes) -> object:
    return _result(_MCP.answer(data, _READER))


def _chat(data: bytes) -> object:
    document = bodies.decode_json(data)
    if isinstance(document, dict) and "input" in document:
        return texts_of(bodies.parse_body(document, EmbeddingsBody))
    body = bodies.parse_body(document, ChatBody)
    return body.asked(_READER), body.notes(document)


def _form(data: bytes) -> object:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": data, "more_body": False}

    async def read() -> object:
        kind = (b"content-type", b"multipart/form-data; boundary=B")
        request = Request({"type": "http", "headers": [kind]}, receive)
        async with request.form(max_files=100, max_fields=100, max_part_size=4096) as fields:
            return tags_for(_READER, fields), list(files_of(fields))

    return _result(read())


@cache
def _jwt_check() -> JwtCheck:
    """Return a check with the keys of a seed; the token of another seed is signed with one of them."""
    keys, rights = KeyFile(_KEYS), GroupRights("groups")
    return JwtCheck("urn:issuer", "whence", keys, rights, clock=lambda: 1.8e9)


def _jwt(data: bytes) -> object:
    return _result(_jwt_check().caller(data.decode("utf-8", "replace")))


def _groups(path: Path) -> object:
    return GroupRights("groups", path).granted({"groups": ["finance", "other"]})


def _settings(path: Path) -> object:
    """Read settings from a file that is named as the one in a working folder."""
    settings = Settings.load(options={"home": "/nowhere"}, environ={}, folder=path.parent)
    path.unlink()
    return settings.describe()


#: Beyond this size some grammars of tree-sitter take over a second, see the threat model.
_MOST_CODE = 4_000
_CODE = {
    "c": ".c", "cpp": ".cpp", "csharp": ".cs", "go": ".go", "java": ".java", "javascript": ".js",
    "python": ".py", "rust": ".rs", "typescript": ".tsx",
}  # fmt: skip

TARGETS = (
    Target("messages", _all(lambda kind, data: decode_as(data, kind), _MESSAGES)),
    Target("html", _document(".html")),
    Target("markdown", _document(".md")),
    Target("rst", _document(".rst")),
    Target("text", _document(".txt")),
    Target("epub", _document(".epub")),
    Target("notebook", _document(".ipynb")),
    Target("mhtml", _document(".mhtml")),
    Target("docx", _document(".docx")),
    Target("pptx", _document(".pptx")),
    Target("odt", _document(".odt")),
    Target("rtf", _document(".rtf")),
    Target("pdf", _document(".pdf")),
    *(Target(name, _document(suffix), most_bytes=_MOST_CODE) for name, suffix in _CODE.items()),
    Target("sql", _document(".sql")),
    Target("xlsx", _document(".xlsx")),
    Target("xls", _document(".xls")),
    Target("ods", _document(".ods")),
    Target("csv", _document(".csv")),
    Target("mail", _document(".eml")),
    Target("mailbox", _file(_records, ".mbox")),
    Target("json", _document(".json")),
    Target("xml", _document(".xml")),
    Target("lines", _document(".conf")),
    Target("anyfile", _any_file),
    Target("records", _file(_records, ".jsonl")),
    Target("frontmatter", _front_matter),
    Target("filters", _filters),
    Target("tokens", _file(read_tokens, ".toml")),
    Target("flow", parse_flow),
    Target("suite", _suite),
    Target("gatesuite", _file(load_suite, ".json")),
    Target("baseline", _file(load_baseline, ".json")),
    Target("policy", _file(load_policy, ".json")),
    Target("bodies", _all(_body, _BODIES)),
    Target("chat", _chat),
    Target("mcp", _mcp),
    Target("form", _form, (WhenceError, MultiPartException)),
    Target("jwks", _file(KeyFile, ".json")),
    Target("jwt", _jwt),
    Target("groups", _file(_groups, ".toml")),
    Target("dotenv", _file(_settings, "/.env")),
    Target("settings", _file(_settings, "/whence.toml")),
    Target("clearance", _clearance),
    Target("bundle", _file(_bundle, ".zip")),
    Target("qrels", _file(read_qrels, ".tsv")),
    Target("evidence", _evidence),
    Target("trace", _trace),
    Target("sparql", _sparql),
)
