"""Watch an answer come about: every stage tells its provenance as soon as it is done."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from whence import Engine
from whence.schema import Triple

HANDBOOK = Path(__file__).parent / "handbook"


async def tell(triples: tuple[Triple, ...], explain_id: str) -> None:
    """Print what one stage says of itself."""
    print(explain_id)
    for triple in triples:
        if triple.s.iri == explain_id:
            name = re.split("[/#]", triple.p.iri)[-1]
            print(f"  {name}: {triple.o.iri or triple.o.value}")


async def main() -> None:
    """Ask as the public; the trace names nothing that the public may not see."""
    async with Engine() as engine:
        await engine.index([HANDBOOK], collection="handbook")
        answer = await engine.ask(
            "Who decides on a safety recall, and how many Barges did the recall of November 2024 cover?",
            collection="handbook",
            explain_callback=tell,
        )
        print(answer.text)


if __name__ == "__main__":
    asyncio.run(main())
