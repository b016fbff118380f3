"""Search one collection as three readers with different rights."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

from whence import Access, Engine

RECORDS = (
    {"_id": "menu", "text": "Lunch is served in the cafeteria from noon."},
    {
        "_id": "bands",
        "text": "The salary band of senior engineers begins at 71,000.",
        "acl": ["finance"],
    },
    {
        "_id": "merger",
        "text": "The merger is to be signed in June.",
        "labels": ["secret"],
        "clearance": 2,
    },
)
READERS = {
    "public": Access.public(),
    "finance": Access(acl_tags=frozenset({"finance"})),
    "the board": Access(frozenset({"finance"}), labels=frozenset({"secret"}), clearance=2),
}


async def main() -> None:
    """Print the documents that each reader finds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
        async with Engine() as engine:
            await engine.index([path], collection="access-rules")
            for name, access in READERS.items():
                hits = await engine.search(
                    "lunch, salary bands and the merger",
                    collection="access-rules",
                    access=access,
                )
                print(f"{name}: {', '.join(sorted(hit.document_id for hit in hits))}")


if __name__ == "__main__":
    asyncio.run(main())
