"""Write the missing golden files of messages; existing files are never changed.

A golden file is `tests/unit/golden/<type>.<n>.json`: n is 1 for the first form of a type and is incremented
when fields are added, so that tests decode every form that was ever sent.
"""

from __future__ import annotations

import sys
from pathlib import Path

from whence.operations.ask import DocumentRagRequest
from whence.schema import encode, message_types
from whence.testing.samples import sample

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "unit" / "golden"


def main() -> int:
    """Write the missing files and print their names."""
    assert DocumentRagRequest.TYPE in message_types(), "its import registers it"
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, cls in message_types().items():
        wire = encode(sample(cls)) + b"\n"
        known = sorted(GOLDEN.glob(f"{name}.*.json"))
        if any(path.read_bytes() == wire for path in known):
            continue
        path = GOLDEN / f"{name}.{len(known) + 1}.json"
        path.write_bytes(wire)
        sys.stdout.write(f"wrote {path.name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
