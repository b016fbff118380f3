"""Models of a hub with Hugging Face's API: the files that an ONNX model needs, each checked by its digest.

The hub lists the files of one commit with their digests: SHA-256 of large files, the id of the git blob of
others.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from whence.schema.errors import BadInput, Unavailable, error_text

_URL: Final = "https://huggingface.co"
_TIMEOUT_S: Final = 20.0
_BLOCK_BYTES: Final = 1 << 20
_NAME = re.compile(r"(\w[\w.-]{0,95}/\w[\w.-]{0,95})(?:@([\w./-]{1,100}))?\Z", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}\Z")
_CONFIGURATION = re.compile(
    r"(?:1_Pooling/)?config\.json\Z|(?:tokenizer|modules|tokenizer_config|special_tokens_map|"
    r"config_sentence_transformers|sentence_\w{1,40}_config)\.json\Z"
)


class _File(NamedTuple):
    """A file of the listing."""

    name: str
    size: int
    sha256: str
    blob: str
    """Id of the git blob, for a file without SHA-256."""

    def digest(self) -> Any:
        """Return the digest to compare with, before any content; git puts the size before that."""
        if self.sha256:
            return hashlib.sha256()
        return hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)


def fetch_hub_model(
    what: str, folder: Path, progress: Callable[[int, int], None], *, hub_url: str | None = None
) -> tuple[Path, str]:
    """Download a model into a new folder of its name.

    Args:
        what: `OWNER/NAME`, or `OWNER/NAME@REVISION` with a branch, tag or commit.
        folder: Where the new folder is made.
        progress: Called with the bytes done and the bytes in all.
        hub_url: Address of the hub; None for `$HF_ENDPOINT`, else Hugging Face.

    Returns:
        The folder, and the origin with the commit.

    Raises:
        BadInput: There is no such model, or it has no ONNX graph.
        Unavailable: The hub does not answer, or a file is not the one that it lists.
    """
    import httpx

    found = _NAME.match(what)
    if found is None:
        raise BadInput(f"{what!r} is no model of a hub", hint="it looks like hf:OWNER/NAME")
    name, revision = found[1], found[2] or "main"
    hub = (hub_url or os.environ.get("HF_ENDPOINT") or _URL).rstrip("/")
    target = folder / name.rpartition("/")[2]
    try:
        with httpx.Client(follow_redirects=True, timeout=_TIMEOUT_S) as client:
            place = f"{hub}/api/models/{name}/revision/{quote(revision, safe='')}"
            response = client.get(place, params={"blobs": "true"})
            if response.status_code in (401, 404):
                raise BadInput(f"the hub has no model {name} with the revision {revision}")
            commit, files = _listing(response.raise_for_status().json(), name)
            total, done = sum(one.size for one in files), 0
            for one in files:
                path = target / one.name
                path.parent.mkdir(parents=True, exist_ok=True)
                url = f"{hub}/{name}/resolve/{commit}/{one.name}"
                digest = one.digest()
                with client.stream("GET", url) as answer, path.open("wb") as file:
                    for block in answer.raise_for_status().iter_bytes(_BLOCK_BYTES):
                        file.write(block)
                        digest.update(block)
                        done += len(block)
                        progress(done, max(done, total))
                if digest.hexdigest() != (one.sha256 or one.blob):
                    raise Unavailable(
                        f"{one.name} of {name} is not the file that the hub lists",
                        hint="try again; if it stays, do not use this hub",
                    )
    except (httpx.HTTPError, OSError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise Unavailable(
            f"the model {name} could not be fetched from {hub}: {error_text(error)}",
            hint="download its files elsewhere and run `whence models install FOLDER`",
        ) from error
    return target, f"hf:{name}@{commit}"


def _listing(found: Any, name: str) -> tuple[str, list[_File]]:
    """Return commit and wanted files of a listing; the graph last."""
    if not isinstance(found, dict) or not _COMMIT.match(str(found.get("sha"))):
        raise ValueError("its answer names no commit")
    entries = [one for one in found.get("siblings") or () if isinstance(one, dict)]
    listed = {str(one.get("rfilename")): one for one in entries}
    graphs: list[str] = [one for one in ("onnx/model.onnx", "model.onnx") if one in listed]
    graphs += sorted(one for one in listed if re.match(r"(?:onnx/)?[\w.-]+\.onnx\Z", one))
    if not graphs:
        raise BadInput(
            f"the model {name} has no ONNX graph on the hub",
            hint="choose one with a file onnx/model.onnx, or export it and install the folder",
        )
    graph = graphs[0]
    outside = re.compile(re.escape(graph) + r"[._]data(?:[_-]?\d{1,5})?\Z")
    wanted = [one for one in sorted(listed) if _CONFIGURATION.match(one) or outside.match(one)]
    files = []
    for one in [*wanted, graph]:
        entry = listed[one]
        large, size, blob = entry.get("lfs"), entry.get("size"), entry.get("blobId")
        sha256 = large.get("sha256") if isinstance(large, dict) else None
        if type(size) is not int or not (sha256 or blob):
            raise ValueError(f"it lists no digest of {one}")
        files.append(_File(one, size, str(sha256 or ""), str(blob or "")))
    return str(found["sha"]), files
