"""Files that a caller names: checked before the work, and written as a whole."""

from __future__ import annotations

import os
from pathlib import Path

from whence.schema.errors import BadInput


def write_text(path: Path, text: str) -> None:
    """Write a file as UTF-8; another reader sees the old file or the whole new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(text.encode())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise BadInput(
            f"cannot write {path}: {error.strerror}", hint="check the folder and its permissions"
        ) from error


def check_folder(path: Path | None) -> None:
    """Check that a file can be written later; None is no file."""
    if path is None:
        return
    replaceable = path.is_file() or not path.exists()
    if not replaceable or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise BadInput(
            f"cannot write {path}", hint="name a file in a folder that exists and can be written"
        )
