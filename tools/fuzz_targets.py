"""The decoders that `tools/fuzz.py` tries: bytes in, or the errors that each documents."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from whence.engine.evidence_verifier import faults
from whence.evaluation.beir import read_qrels
from whence.evaluation.gate.schema import load_baseline, load_policy, load_suite
from whence.evaluation.validation.suite import parse_suite
from whence.flow.loader import parse_flow
from whence.gateway import requests as bodies
from whence.gateway.tokens_file import read_tokens
from whence.ingest.bundles.archive import BundleLimits
from whence.ingest.bundles.bundle import open_bundle
from whence.ingest.bundles.bundle_reader import BundleReader, validate
from whence.ingest.front_matter import read_front_matter
from whence.ingest.load_results import LoadFailure
from whence.ingest.loader_registry import detect_loader, loaders_by_suffix
from whence.ingest.sources import SourceFile
from whence.provenance.render.rdf import run_sparql
from whence.provenance.trace import read_trace
from whence.schema.codec import decode_as
from whence.schema.errors import WhenceError
from whence.schema.filters import parse_filter_options, parse_filters
from whence.schema.message import message_types
from whence.schema.terms import Triple
from whence.text.sentences import split_sentences


class Target(NamedTuple):
    """A decoder."""

    name: str
    decode: Callable[[bytes], object]
    documented: tuple[type[Exception], ...] = (WhenceError,)
    batch: int = 0
    """Inputs of one process; 0 for the usual number."""


def _file(read: Callable[[Path], object], suffix: str = "") -> Callable[[bytes], object]:
    """Return a decoder of bytes from one of a file."""

    def decode(data: bytes) -> object:
        path = Path(tempfile.gettempdir()) / f"whence-fuzz-input{suffix}"
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
    loader = loaders_by_suffix()[".jsonl"]
    assert loader.records is not None
    assert loader.parse_record is not None
    file = SourceFile(path=str(path), document_id=path.name, suffix=".jsonl")
    for record in loader.records(file, 2**20):
        if not isinstance(record, LoadFailure):
            try:
                loader.parse_record(record)
            except WhenceError:
                continue


_MESSAGES = [kind for _, kind in sorted(message_types().items())]
_BODIES = (bodies.SearchBody, bodies.AskBody, bodies.ExplainBody, bodies.WhyNotBody)
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
    validate(bundle)


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


TARGETS = (
    Target("messages", _all(lambda kind, data: decode_as(data, kind), _MESSAGES)),
    Target("html", _document(".html")),
    Target("markdown", _document(".md")),
    Target("rst", _document(".rst"), batch=300),
    Target("text", _document(".txt")),
    Target("docx", _document(".docx"), batch=300),
    Target("pdf", _document(".pdf"), batch=300),
    Target("python", _document(".py")),
    Target("sql", _document(".sql")),
    Target("records", _file(_records, ".jsonl")),
    Target("frontmatter", _front_matter),
    Target("filters", _filters),
    Target("tokens", _file(read_tokens, ".toml")),
    Target("flow", parse_flow, batch=300),
    Target("suite", _suite),
    Target("gatesuite", _file(load_suite, ".json")),
    Target("baseline", _file(load_baseline, ".json")),
    Target("policy", _file(load_policy, ".json")),
    Target("bodies", _all(_body, _BODIES)),
    Target("clearance", _clearance),
    Target("bundle", _file(_bundle, ".zip"), batch=300),
    Target("qrels", _file(read_qrels, ".tsv")),
    Target("evidence", _evidence, batch=100),
    Target("trace", _trace),
    Target("sparql", _sparql, batch=100),
)
