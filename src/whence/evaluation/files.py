"""Reading and writing text files, with errors for people."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from whence.schema.errors import BadInput

__all__ = ("check_folder", "read_lines", "read_text", "write_text")


def read_text(path: Path) -> str:
    """Read a file as UTF-8; a byte order mark is left out.

    Raises:
        BadInput: It cannot be read, or is not UTF-8.
    """
    with _readable(path):
        return path.read_bytes().decode("utf-8-sig")


def read_lines(path: Path) -> Iterator[str]:
    r"""Yield the lines of a file as `read_text` reads it, one at a time; only `\n` ends a line.

    Raises:
        BadInput: As for `read_text`, once the line is reached.
    """
    with _readable(path), path.open(encoding="utf-8-sig", newline="\n") as file:
        yield from file


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(
            f"cannot read {path}: {error.strerror}", hint="check the path and its permissions"
        ) from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text", hint="save it in UTF-8") from error


def write_text(path: Path, text: str) -> None:
    """Write a file as UTF-8; another reader sees the old file or the whole new one.

    Raises:
        BadInput: It cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise BadInput(
            f"cannot write {path}: {error.strerror}", hint="check the folder and its permissions"
        ) from error


def check_folder(path: Path | None) -> None:
    """Refuse a file that is to be written later into a folder that is not there; None is no file.

    Raises:
        BadInput: The folder does not exist, or the path is a folder itself.
    """
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise BadInput(f"cannot write {path}", hint="make the folder first, and name a file in it")
