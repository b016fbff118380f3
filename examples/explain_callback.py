"""Print the triples of each stage of an answer as soon as the stage is done."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from whence import Engine
from whence.schema import Triple

HANDBOOK = Path(__file__).parent / "handbook"


async def print_stage(triples: tuple[Triple, ...], explain_id: str) -> None:
    """Print the triples of one stage."""
    print(explain_id)
    for triple in triples:
        if triple.s.iri == explain_id:
            name = re.split("[/#]", triple.p.iri)[-1]
            print(f"  {name}: {triple.o.iri or triple.o.value}")


async def main() -> None:
    """Ask as a public reader; the trace names public documents only."""
    async with Engine() as engine:
        await engine.index([HANDBOOK], collection="handbook")
        answer = await engine.ask(
            "Who decides on a safety recall, and how many Barges did the recall of November 2024 cover?",
            collection="handbook",
            explain_callback=print_stage,
        )
        print(answer.text)


if __name__ == "__main__":
    asyncio.run(main())
