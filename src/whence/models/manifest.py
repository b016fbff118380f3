"""What lies in a model's folder: digests, and whether the files still are what was installed.

Reading 125 MB to check a digest at every start would double the time to the first vector. So the manifest also
keeps size and time of change of every file, and only a file whose time differs is read again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Final

import msgspec

from whence.models.weights import (
    EMBEDDER_NAME,
    RERANKER_NAME,
    SAFETENSORS_SHA256,
    TOKENIZER_SHA256,
    W8_SHA256,
    WEIGHTS_REVISION,
)
from whence.schema.errors import ModelMissing

__all__ = (
    "MANIFEST",
    "FileRecord",
    "Manifest",
    "check_files",
    "expected_digests",
    "file_sha256",
    "read_manifest",
    "shipped_graph",
    "write_manifest",
)

#: Written last, so that a folder with a manifest is whole.
MANIFEST: Final = "manifest.json"
_BLOCK_BYTES = 1 << 20


class FileRecord(msgspec.Struct, frozen=True):
    """One file as it was installed."""

    sha256: str
    size: int
    """Bytes."""
    mtime_ns: int
    """Time of change, nanoseconds since the epoch."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A model's folder as it was installed."""

    model: str
    revision: str
    files: dict[str, FileRecord]
    license: str = "Apache-2.0"
    origin: str = "sentence-transformers/all-MiniLM-L6-v2"


def shipped_graph(name: str) -> bytes:
    """Return one of the graphs that come with Whence."""
    return (files("whence.models") / "graphs" / name).read_bytes()


def expected_digests(model: str) -> dict[str, str]:
    """Return the digests that this version of Whence wants in a model's folder, by file name."""
    graphs = {
        EMBEDDER_NAME: {name: name for name in ("minilm-fp32.onnx", "minilm-w8.onnx")},
        RERANKER_NAME: {"maxsim.onnx": "maxsim-w8.onnx"},
    }[model]
    digests = {
        file: hashlib.sha256(shipped_graph(graph)).hexdigest() for file, graph in graphs.items()
    }
    digests["tokenizer.json"] = TOKENIZER_SHA256
    digests["w8.bin"] = W8_SHA256
    if model == EMBEDDER_NAME:
        digests["model.safetensors"] = SAFETENSORS_SHA256
    return digests


def file_sha256(path: Path, advance: Callable[[int], None] | None = None) -> str:
    """Digest a file, hexadecimal; `advance` is told the bytes of each block."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            if advance is not None:
                advance(len(block))
    return digest.hexdigest()


def write_manifest(folder: Path, model: str) -> None:
    """Record all files of a folder."""
    records = {}
    for path in sorted(folder.iterdir()):
        if path.name != MANIFEST:
            status = path.stat()
            records[path.name] = FileRecord(file_sha256(path), status.st_size, status.st_mtime_ns)
    manifest = Manifest(model=model, revision=WEIGHTS_REVISION, files=records)
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2))


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder.

    Raises:
        ModelMissing: There is none, or it cannot be read.
    """
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except OSError as error:
        raise ModelMissing(f"{folder} holds no installed model") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ModelMissing(f"the model in {folder} is damaged: {MANIFEST} is unreadable") from error


def check_files(folder: Path, *, rehash: bool = False) -> Manifest:
    """Compare the files of a folder with its manifest.

    Args:
        folder: A model's folder.
        rehash: True reads all files, also those whose time of change is as recorded.

    Raises:
        ModelMissing: A file is absent or is not what was installed; the message names it.
    """
    manifest = read_manifest(folder)
    for name, record in manifest.files.items():
        fault = _fault(folder / name, record, rehash=rehash)
        if fault:
            raise ModelMissing(f"the model in {folder} is damaged: {name} {fault}")
    return manifest


def _fault(path: Path, record: FileRecord, *, rehash: bool) -> str:
    try:
        status = path.stat()
        if status.st_size != record.size:
            return f"has {status.st_size} bytes instead of {record.size}"
        touched = rehash or status.st_mtime_ns != record.mtime_ns
        if touched and file_sha256(path) != record.sha256:
            return "has other contents than were installed"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""
