"""Print the notes of a release: the section of its version in CHANGELOG.md.

Ends with 1 when the tag, `pyproject.toml` and CHANGELOG.md do not name one version.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def release_notes(tag: str, version: str, changelog: str) -> str:
    """Return the section of a version.

    Args:
        tag: Tag of the release, `v` and the version.
        version: Version of the distribution.
        changelog: Text with one heading `## VERSION` or `## [VERSION]`, and maybe a date, for each version.

    Raises:
        ValueError: The tag is not that of the version, or the changelog has no section for it.
    """
    if tag != f"v{version}":
        raise ValueError(f"the tag is {tag!r}, the version of pyproject.toml {version!r}")
    heading = rf"^## \[?{re.escape(version)}\]?(?: [^\n]*)?$"
    found = re.search(rf"{heading}\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise ValueError(f"CHANGELOG.md has no section for {version}")
    return found[1].strip() + "\n"


def main() -> int:
    """Print the notes of the tag that is the only argument."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    try:
        notes = release_notes(sys.argv[1], version, (ROOT / "CHANGELOG.md").read_text())
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(notes, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
