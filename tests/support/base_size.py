"""Print what the base of Whence takes on the disk of the environment that runs this file.

The output is a JSON object: `sizes` has the bytes of each distribution that Whence requires without extras,
directly or not, without Python's compiled files; `absent` those that are required and not installed.
"""

from __future__ import annotations

import json
import re
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement

#: Bytes that the base may take.
BASE_LIMIT = 320_000_000


def base_size() -> tuple[dict[str, int], list[str]]:
    """Return bytes by distribution, and the distributions that are absent."""
    sizes: dict[str, int] = {}
    absent = []
    waiting = [("whence", frozenset[str]())]
    seen = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        try:
            found = distribution(name)
        except PackageNotFoundError:
            absent.append(name)
            continue
        paths = [Path(str(found.locate_file(file))) for file in found.files or ()]
        if name == "whence":  # may be installed as a link to a checkout
            spec = find_spec(name)
            assert spec is not None
            assert spec.origin is not None
            paths = list(Path(spec.origin).parent.rglob("*"))
        sizes[name] = sum(
            one.stat().st_size for one in paths if one.suffix != ".pyc" and one.is_file()
        )
        for line in found.requires or ():
            wanted = Requirement(line)
            marker = wanted.marker
            if marker is None or any(marker.evaluate({"extra": one}) for one in extras | {""}):
                key = (re.sub(r"[-_.]+", "-", wanted.name).lower(), frozenset(wanted.extras))
                if key not in seen:
                    seen.add(key)
                    waiting.append(key)
    return sizes, sorted(absent)


if __name__ == "__main__":
    sizes, absent = base_size()
    print(json.dumps({"sizes": sizes, "absent": absent}))
