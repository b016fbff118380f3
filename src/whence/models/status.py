"""The state of the installed models, for `whence doctor` and `whence models status`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from whence.models.manifest import check_files, expected_digests
from whence.models.model_folders import find_model
from whence.models.weights import EMBEDDER_NAME, RERANKER_NAME
from whence.schema.errors import ModelMissing

__all__ = ("MODELS", "ModelState", "ModelStatus", "is_current", "model_status")

#: All models that `whence models install` puts in place.
MODELS = (EMBEDDER_NAME, RERANKER_NAME)

ModelState = Literal["ready", "missing", "damaged", "outdated"]


class ModelStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One model."""

    name: str
    state: ModelState
    """`outdated` works, but comes from another version of Whence."""
    folder: str = ""
    """Where it lies; empty when missing."""
    revision: str = ""
    """Digest of the weights, shortened."""
    files: dict[str, str] = {}
    """SHA-256 by file name, as installed."""
    detail: str = ""
    """What is wrong, and what to do; empty when ready."""


def model_status(
    home: Path | None = None, models: Path | None = None, *, rehash: bool = False
) -> list[ModelStatus]:
    """Return the state of every model; never raises for a model that is missing or damaged.

    Args:
        home: The home whose `models` folder is looked into.
        models: The only folder to look into, when set.
        rehash: True reads all files (125 MB) instead of trusting unchanged times of change.
    """
    return [_status(name, home, models, rehash=rehash) for name in MODELS]


def is_current(folder: Path, name: str, *, rehash: bool = False) -> bool:
    """Return whether a folder holds a model, whole and as this version of Whence wants it."""
    try:
        manifest = check_files(folder, rehash=rehash)
    except ModelMissing:
        return False
    installed = {file: record.sha256 for file, record in manifest.files.items()}
    return expected_digests(name).items() <= installed.items()


def _status(name: str, home: Path | None, models: Path | None, *, rehash: bool) -> ModelStatus:
    try:
        folder = find_model(name, home, models)
    except ModelMissing as error:
        return ModelStatus(name=name, state="missing", detail=f"{error.message}; {error.hint}")
    try:
        manifest = check_files(folder, rehash=rehash)
    except ModelMissing as error:
        detail = f"{error.message}; {error.hint}"
        return ModelStatus(name=name, state="damaged", folder=str(folder), detail=detail)
    digests = {file: record.sha256 for file, record in manifest.files.items()}
    current = expected_digests(name).items() <= digests.items()
    return ModelStatus(
        name=name,
        state="ready" if current else "outdated",
        folder=str(folder),
        revision=manifest.revision,
        files=digests,
        detail="" if current else "made by another version of Whence; run `whence models install`",
    )
