"""Write the fake bundles to `tests/repositories/fake`, which is not committed."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.fake_bundles import write_fake_bundles

FOLDER = Path(__file__).parent.parent / "tests" / "repositories" / "fake"


def main() -> int:
    """Write them; the bytes are the same each time."""
    for path in write_fake_bundles(FOLDER):
        sys.stdout.write(f"wrote {path.name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
