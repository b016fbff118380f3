"""Load Word and PowerPoint files of the formats before 2007, converted by LibreOffice where it is installed.

The program has a profile of its own that is removed again, runs no macro, and reaches no network where the
system lets a process do without one. The time and memory of reading a document are its limits, too.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from whence.ingest.blocks import ParsedDocument
from whence.ingest.loaders.base import Loader
from whence.ingest.loaders.docx import load_word
from whence.ingest.loaders.pptx import load_presentation
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput

PROGRAM = "soffice"
#: Seconds of a conversion, less than those of a document: the first one of a machine takes about ten.
_SECONDS = 25.0
#: Settings of the profile: no macro runs, and no linked picture is fetched.
_PROFILE = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema">
<item oor:path="/org.openoffice.Office.Common/Security/Scripting"><prop oor:name="DisableMacrosExecution"
 oor:op="fuse"><value>true</value></prop></item>
<item oor:path="/org.openoffice.Office.Common/Security/Scripting"><prop oor:name="MacroSecurityLevel"
 oor:op="fuse"><value>3</value></prop></item>
<item oor:path="/org.openoffice.Office.Common/Security/Scripting"><prop oor:name="BlockUntrustedRefererLinks"
 oor:op="fuse"><value>true</value></prop></item>
</oor:items>
"""


def load_doc(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a Word file of the format before 2007."""
    return load_word(file, _converted(data, ".doc", "docx:MS Word 2007 XML"))


def load_ppt(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a PowerPoint file of the format before 2007."""
    return load_presentation(file, _converted(data, ".ppt", "pptx:Impress MS PowerPoint 2007 XML"))


def _converted(data: bytes, suffix: str, target: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="whence-office-") as name:
        folder = Path(name)
        settings = folder / "profile" / "user" / "registrymodifications.xcu"
        settings.parent.mkdir(parents=True)
        settings.write_text(_PROFILE, encoding="utf-8")
        given = folder / f"document{suffix}"
        given.write_bytes(data)
        out = folder / "out"
        _run(
            [
                *_without_network(),
                PROGRAM,
                f"-env:UserInstallation={(folder / 'profile').as_uri()}",
                *("--headless", "--norestore", "--nolockcheck", "--nodefault"),
                *("--convert-to", target, "--outdir", str(out), str(given)),
            ],
            folder,
        )
        found = next(iter(out.glob("document.*")), None) if out.is_dir() else None
        if found is None:
            raise BadInput("LibreOffice cannot read it: damaged, or protected by a password")
        return found.read_bytes()


def _run(command: list[str], folder: Path) -> None:
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | {"HOME": str(folder), "SAL_USE_VCLPLUGIN": "svp"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Its programs end with it.
        start_new_session=True,
    )
    try:
        process.wait(_SECONDS)
    except subprocess.TimeoutExpired:
        raise BadInput(f"LibreOffice took more than {_SECONDS:g} s to read it") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@cache
def _without_network() -> tuple[str, ...]:
    """Return the beginning of a command that has no network, where the system offers that to anybody."""
    command = ("unshare", "--map-root-user", "--net", "--")
    if shutil.which(command[0]) is None:
        return ()
    tried = subprocess.run([*command, "true"], check=False, capture_output=True)
    return command if tried.returncode == 0 else ()


_OLD = Loader(name="", suffixes=(), is_binary=True, program=PROGRAM)
_WORD, _SLIDES = (
    "a Word file of the format before 2007",
    "a PowerPoint file of the format before 2007",
)
LOADERS = (
    replace(
        _OLD,
        name="Word before 2007",
        suffixes=(".doc",),
        parse_file=load_doc,
        absent=f"{_WORD}: install LibreOffice (Debian: libreoffice-writer-nogui), or save it as .docx",
    ),
    replace(
        _OLD,
        name="PowerPoint before 2007",
        suffixes=(".ppt",),
        parse_file=load_ppt,
        absent=f"{_SLIDES}: install LibreOffice (Debian: libreoffice-impress-nogui), or save it as .pptx",
    ),
)
