"""Installation of cross-encoders and embedders: from a hub by name, or from a folder or archive.

A cross-encoder is a folder in flashrank's layout, one `.onnx` graph and four files of a tokenizer, or any other
one with a graph and a tokenizer; an embedder has the layout of sentence-transformers. A model is loaded once
before it gets its name, so that what is installed works.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from whence.models.encoders import ENCODERS, find_encoder
from whence.models.hub import fetch_hub_model
from whence.models.installation import InstallReport
from whence.models.installed import (
    CROSS_ENCODER,
    MANIFEST,
    ONNX_EMBEDDER,
    ONNX_RERANKER,
    file_sha256,
    install_target,
    write_manifest,
)
from whence.models.weights import RERANKER_NAME
from whence.schema.errors import BadInput, ModelMissing, Unavailable, error_text

_HUB_TIMEOUT_S: Final = 20.0
#: Before the name of a model on a hub with Hugging Face's API.
_HUB: Final = "hf:"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


def hub_models() -> tuple[str, ...]:
    """Return the names of the cross-encoders on flashrank's hub."""
    from flashrank.Config import listwise_rankers, model_file_map

    return tuple(sorted(set(model_file_map) - set(listwise_rankers)))


def install_cross_encoder(
    what: str,
    target: Path | None = None,
    *,
    hub_url: str | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> InstallReport:
    """Install a cross-encoder or an embedder; it replaces an installed one of the same name.

    Args:
        what: A name on flashrank's hub, `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION` of Hugging Face's, a
            folder, or a `.zip` archive of one.
        target: Folder to install into; see `installed.install_target` for the default.
        hub_url: Address of an archive with `{}` for the name, or of a hub with Hugging Face's API; None for the
            usual one.
        progress: Called with the bytes done and the bytes in all.

    Raises:
        BadInput: It is neither a name nor a folder nor an archive, or it holds no cross-encoder.
        Unavailable: The hub does not answer.
    """
    start = time.monotonic()
    place = install_target() if target is None else Path(target).expanduser()
    try:
        place.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".staging-", dir=place))
    except OSError as error:
        raise BadInput(
            f"models cannot be installed into {place}: {error.strerror or error}",
            hint="choose a folder that can be written: --to FOLDER or WHENCE_MODELS",
        ) from error
    try:
        folder, origin = _fetched(what, staging, hub_url, progress)
        name = folder.name
        if not _NAME.match(name) or find_encoder(name) or name == RERANKER_NAME:
            raise BadInput(f"{name!r} cannot be the name of a cross-encoder", hint="rename it")
        (folder / MANIFEST).unlink(missing_ok=True)
        try:
            kind, revision = _tried(folder)
        except ModelMissing as error:
            raise BadInput(
                f"{what} is no cross-encoder: {error.message}", hint=error.hint
            ) from error
        write_manifest(folder, name, kind=kind, revision=revision, origin=origin)
        final = place / name
        if final.exists():
            final.rename(staging / f"{name}.old")
        folder.rename(final)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return InstallReport(
        target=str(place),
        models=(name,),
        installed=True,
        source=origin,
        seconds=time.monotonic() - start,
    )


def _tried(folder: Path) -> tuple[str, str]:
    """Use a model once; return its kind, and the digest of what decides its results, shortened.

    Raises:
        ModelMissing: It cannot be used.
    """
    from whence.models.flashrank_reranker import (
        load_cross_encoder,
        load_onnx_cross_encoder,
        model_file,
    )
    from whence.models.onnx_embedder import OnnxEmbedder
    from whence.models.onnx_folder import OnnxFolder

    if (folder / "modules.json").is_file() or (folder / "1_Pooling").is_dir():
        return ONNX_EMBEDDER, OnnxEmbedder(str(folder)).load().revision
    if (folder / "onnx").is_dir():
        files = OnnxFolder(str(folder))
        load_onnx_cross_encoder(files).score("a question", "a passage")
        return ONNX_RERANKER, files.digest()[:12]
    load_cross_encoder(folder).score("a question", "a passage")
    return CROSS_ENCODER, file_sha256(folder / model_file(folder))[:12]


def _fetched(
    what: str, staging: Path, hub_url: str | None, progress: Callable[[int, int], None]
) -> tuple[Path, str]:
    """Put the files into a folder of the staging folder; return it and where they come from."""
    if what.startswith(_HUB):
        return fetch_hub_model(what.removeprefix(_HUB), staging, progress, hub_url=hub_url)
    path = Path(what).expanduser()
    if path.is_dir():
        path = path.resolve()
        return Path(shutil.copytree(path, staging / path.name)), str(path)
    if path.is_file():
        return _unpacked(path, staging, path.stem), str(path)
    if what in hub_models():
        archive = staging / "model.zip"
        _download(what, archive, hub_url, progress)
        return _unpacked(archive, staging, what), "flashrank's hub"
    raise BadInput(
        f"there is no model, folder or archive {what!r}",
        hint="one of "
        + ", ".join([*(one.name for one in ENCODERS), *hub_models()])
        + ", hf:OWNER/NAME, or a folder or .zip with a model",
    )


def _unpacked(archive: Path, staging: Path, name: str) -> Path:
    """Unpack an archive; return its one folder, or a folder of that name with its files."""
    folder = staging / "unpacked" / name
    try:
        with zipfile.ZipFile(archive) as members:
            members.extractall(folder)
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError) as error:
        raise BadInput(f"{archive} is not a readable archive: {error}") from error
    # Archives made on a Mac have a folder of its file system beside the model's.
    inner = [one for one in folder.iterdir() if one.name != "__MACOSX"]
    return inner[0] if len(inner) == 1 and inner[0].is_dir() else folder


def _download(
    name: str, archive: Path, hub_url: str | None, progress: Callable[[int, int], None]
) -> None:
    import httpx
    from flashrank.Config import model_url

    url = (hub_url or model_url).format(name)
    done = 0
    try:
        with (
            httpx.stream("GET", url, follow_redirects=True, timeout=_HUB_TIMEOUT_S) as response,
            archive.open("wb") as file,
        ):
            response.raise_for_status()
            size = int(response.headers.get("content-length", 0))
            for block in response.iter_bytes(1 << 20):
                file.write(block)
                done += len(block)
                progress(done, max(size, done))
    except (httpx.HTTPError, OSError) as error:
        raise Unavailable(
            f"the cross-encoder {name} could not be fetched from flashrank's hub: {error_text(error)}",
            hint="download its archive elsewhere and run `whence models install FILE.zip`",
        ) from error
