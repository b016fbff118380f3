"""Index the example handbook, ask a question, and print the answer with its sources."""

from __future__ import annotations

import asyncio
from pathlib import Path

from whence import Access, Engine

HANDBOOK = Path(__file__).parent / "handbook"


async def main() -> None:
    """Ask as a reader with the ACL tag `finance`."""
    async with Engine() as engine:
        await engine.index([HANDBOOK], collection="handbook")
        answer = await engine.ask(
            "What are the salary bands for engineers?",
            collection="handbook",
            access=Access(acl_tags=frozenset({"finance"})),
        )
        print(answer.text)
        for citation in answer.citations:
            print(f"[{citation.marker}] {citation.source_file}, {citation.heading}")


if __name__ == "__main__":
    asyncio.run(main())
