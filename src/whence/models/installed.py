"""Installed models: the folders they are in, the manifest of a folder, and whether its files are intact.

Hashing 125 MB at every start would double the time to the first vector. So the manifest also records size and
modification time of every file, and only a file whose time differs is hashed again.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Collection
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

import msgspec

from whence.models.encoders import ENCODERS, find_encoder
from whence.models.weights import EMBEDDER_NAME
from whence.schema.errors import ModelMissing

#: All models that `whence models install` installs without a name.
MODELS = (EMBEDDER_NAME,)
#: Written last, so that a folder with a manifest is complete.
MANIFEST: Final = "manifest.json"
#: Folder of models; when set, no other is searched.
_MODELS_VARIABLE: Final = "WHENCE_MODELS"

#: Kinds of folders that the user installed: a reranker in flashrank's layout, and any other ONNX models.
CROSS_ENCODER: Final = "cross-encoder"
ONNX_RERANKER: Final = "onnx-reranker"
ONNX_EMBEDDER: Final = "onnx-embedder"
_BROUGHT: Final = (CROSS_ENCODER, ONNX_RERANKER, ONNX_EMBEDDER)

ModelState = Literal["ready", "missing", "damaged", "outdated"]


class FileRecord(msgspec.Struct, frozen=True):
    """A file as it was installed."""

    sha256: str
    size: int
    mtime_ns: int
    """Modification time, nanoseconds since the epoch."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of a model as it was installed."""

    model: str
    revision: str
    files: dict[str, FileRecord]
    license: str = "Apache-2.0"
    origin: str = "sentence-transformers/all-MiniLM-L6-v2"
    kind: str = "embedder"
    """`embedder`, `cross-encoder`, `onnx-reranker` or `onnx-embedder`."""


class ListedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be installed by name, or that is installed."""

    name: str
    role: str
    """`embedder` or `reranker`."""
    installed: bool
    """Whether its folder is there; `model_status` checks the files."""
    bytes: int
    """Bytes of its files in the folder, also before it is installed."""
    languages: tuple[str, ...] = ()
    """ISO 639-1 codes of the languages that it serves; empty when not known."""
    source: str = ""
    """Where it comes from: `pypi:`, `maven:` or `hf:` with the name there, or what was installed."""
    sha256: str = ""
    """Digest of the archive that is downloaded; empty of a model that the user brought."""


class ModelStatus(msgspec.Struct, frozen=True, kw_only=True):
    """State of a model."""

    name: str
    state: ModelState
    """`outdated` works, but comes from another version of Whence."""
    folder: str = ""
    revision: str = ""
    """Digest of the weights, shortened."""
    files: dict[str, str] = {}
    """SHA-256 by file name, as installed."""
    detail: str = ""
    """What is wrong, and what to do; empty when ready."""


def model_folders(home: Path | None = None, models: Path | None = None) -> tuple[Path, ...]:
    """Return the folders that may hold models, in the order of the search.

    `models`, or `$WHENCE_MODELS`, alone when it is set; else those of the home, the Python environment and the
    user.
    """
    chosen = models or os.environ.get(_MODELS_VARIABLE, "")
    if chosen:
        return (Path(chosen).expanduser(),)
    folders = [] if home is None else [Path(home) / "models"]
    folders += [_environment_folder(), _user_folder()]
    return tuple(dict.fromkeys(folders))


def find_model(name: str, home: Path | None = None, models: Path | None = None) -> Path:
    """Return the folder of an installed model."""
    folders = model_folders(home, models)
    for folder in folders:
        # `os.path`: a path that no file system accepts (too long, say) is a folder without models, no error.
        if os.path.isfile(folder / name / MANIFEST):  # noqa: PTH113
            return folder / name
    searched = ", ".join(str(folder) for folder in folders)
    raise ModelMissing(
        f"the model {name} is not installed; looked in {searched}", hint=install_hint(name)
    )


def install_hint(name: str) -> str:
    """Return the remedy for a model that is missing or damaged: the command that installs it."""
    named = f" {name}" if name not in MODELS and find_encoder(name) else ""
    return f"run `whence models install{named}`"


def install_target() -> Path:
    """Return the folder that models are installed into by default.

    `$WHENCE_MODELS` when set; the Python environment when it is a virtual one that can be written, so that
    removing the environment removes the models; else the user's data folder.
    """
    chosen = os.environ.get(_MODELS_VARIABLE, "")
    if chosen:
        return Path(chosen).expanduser()
    is_virtual = sys.prefix != sys.base_prefix
    return (
        _environment_folder() if is_virtual and os.access(sys.prefix, os.W_OK) else _user_folder()
    )


def _environment_folder() -> Path:
    return Path(sys.prefix) / "share" / "whence" / "models"


def _user_folder() -> Path:
    from platformdirs import user_data_path

    return user_data_path("whence", appauthor=False) / "models"


def shipped_graph(name: str) -> bytes:
    """Return one of the ONNX graphs that Whence ships."""
    return (files("whence.models") / "graphs" / name).read_bytes()


def file_sha256(path: Path) -> str:
    """Return the hexadecimal digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def installed_models(
    home: Path | None = None,
    models: Path | None = None,
    kinds: Collection[str] = (CROSS_ENCODER, ONNX_RERANKER),
) -> list[tuple[Path, str]]:
    """Return the folders that the user installed and their kinds, in the order of the search, then by name."""
    found: dict[str, tuple[Path, str]] = {}
    for folder in model_folders(home, models):
        for path in sorted(folder.glob(f"*/{MANIFEST}")):
            with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
                kind = msgspec.json.decode(path.read_bytes(), type=Manifest).kind
                if kind in kinds:
                    found.setdefault(path.parent.name, (path.parent, kind))
    return list(found.values())


def write_manifest(
    folder: Path,
    model: str,
    *,
    kind: str = "embedder",
    revision: str,
    origin: str,
    licence: str = "",
) -> None:
    """Record all files of a folder in its manifest; the licence is empty where it is not known."""
    records = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != MANIFEST:
            status = path.stat()
            name = path.relative_to(folder).as_posix()
            records[name] = FileRecord(file_sha256(path), status.st_size, status.st_mtime_ns)
    manifest = Manifest(
        model=model, revision=revision, files=records, kind=kind, origin=origin, license=licence
    )
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2))


def check_files(folder: Path, *, rehash: bool = False, hashed: Collection[str] = ()) -> Manifest:
    """Compare the files of a folder with its manifest.

    Args:
        folder: A folder with a manifest.
        rehash: Whether all files are hashed, also those with an unchanged modification time.
        hashed: Files that are hashed in any case.

    Raises:
        ModelMissing: There is no readable manifest, or a file is absent or is not what was installed; the
            message names it.
    """
    manifest = _read_manifest(folder)
    for name, record in manifest.files.items():
        fault = _fault(folder / name, record, rehash=rehash or name in hashed)
        if fault:
            raise ModelMissing(
                f"the model in {folder} is damaged: {name} {fault}", hint=install_hint(folder.name)
            )
    return manifest


def _read_manifest(folder: Path) -> Manifest:
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except OSError as error:
        raise ModelMissing(f"{folder} holds no installed model") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ModelMissing(f"the model in {folder} is damaged: {MANIFEST} is unreadable") from error


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


def is_current(folder: Path, name: str, *, rehash: bool = False) -> bool:
    """Return whether a folder holds a model, intact and as this version of Whence requires it."""
    try:
        manifest = check_files(folder, rehash=rehash)
    except ModelMissing:
        return False
    return _wanted(name).items() <= _digests(manifest).items()


def _wanted(name: str) -> dict[str, str]:
    """Return the digests that this version of Whence requires of a model; none of one that a user brought."""
    encoder = find_encoder(name)
    return encoder.files if encoder else {}


def _digests(manifest: Manifest) -> dict[str, str]:
    return {file: record.sha256 for file, record in manifest.files.items()}


def model_status(
    home: Path | None = None, models: Path | None = None, *, rehash: bool = False
) -> list[ModelStatus]:
    """Return the state of every model, installed ones included; a missing or damaged one raises no error."""
    own = installed_models(home, models, _BROUGHT)
    names = [
        one.name for one in ENCODERS if one.name in MODELS or _is_installed(one.name, home, models)
    ]
    names += [folder.name for folder, _ in own]
    return [_status(name, home, models, rehash=rehash) for name in names]


def listed_models(home: Path | None = None, models: Path | None = None) -> list[ListedModel]:
    """Return the encoders of the table, then what the user installed; no file but manifests is read."""
    listed = [
        ListedModel(
            name=one.name,
            role="embedder",
            installed=_is_installed(one.name, home, models),
            bytes=one.bytes,
            languages=one.languages,
            source=one.source,
            sha256=one.archive_sha256,
        )
        for one in ENCODERS
    ]
    for folder, kind in installed_models(home, models, _BROUGHT):
        manifest = _read_manifest(folder)
        listed.append(
            ListedModel(
                name=folder.name,
                role="embedder" if kind == ONNX_EMBEDDER else "reranker",
                installed=True,
                bytes=sum(record.size for record in manifest.files.values()),
                source=manifest.origin,
            )
        )
    return listed


def _is_installed(name: str, home: Path | None, models: Path | None) -> bool:
    try:
        find_model(name, home, models)
    except ModelMissing:
        return False
    return True


def _status(name: str, home: Path | None, models: Path | None, *, rehash: bool) -> ModelStatus:
    folder: Path | None = None
    try:
        folder = find_model(name, home, models)
        manifest = check_files(folder, rehash=rehash)
    except ModelMissing as error:
        return ModelStatus(
            name=name,
            state="damaged" if folder else "missing",
            folder=str(folder or ""),
            detail=f"{error.message}; {error.hint}",
        )
    digests = _digests(manifest)
    current = _wanted(name).items() <= digests.items()
    return ModelStatus(
        name=name,
        state="ready" if current else "outdated",
        folder=str(folder),
        revision=manifest.revision,
        files=digests,
        detail="" if current else f"made by another version of Whence; {install_hint(name)}",
    )
