"""Count the functions that one warm `Engine.ask` enters and the calls that it makes.

`python tools/question_calls.py FOLDER` prints `[files, functions, calls, deepest stack]` of the functions whose
source is below FOLDER. A resumed coroutine or generator is a call, as `sys.setprofile` has it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

QUESTION = "Who keeps the key of the archive?"
DOCUMENTS = {
    "archive.md": "The key of the archive is kept by the porter.",
    "garden.md": "Roses grow along the southern wall of the garden.",
    "gate.md": "The porter lives in the house by the gate of the garden.",
    "hall.md": "The key of the hall hangs in the archive of the house.",
    "kitchen.md": "The kitchen opens at noon and closes at nine.",
    "letters.md": "Letters are collected at eight and at four.",
}


class CallCounter:
    """Count the calls of functions below a folder, in every thread that starts after `install`."""

    def __init__(self, folder: Path) -> None:
        self._prefix = f"{folder.resolve()}{os.sep}"
        self.reset()

    def install(self) -> None:
        """Watch this thread and those that start from now on."""
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)

    def reset(self) -> None:
        """Start from zero."""
        self.calls = self.deepest = 0
        self.codes: set[CodeType] = set()

    def figures(self) -> list[int]:
        """Return files and functions entered, calls, and the most own functions on one stack."""
        functions = {(code.co_filename, code.co_qualname) for code in self.codes}
        return [len({file for file, _ in functions}), len(functions), self.calls, self.deepest]

    def _on_event(self, frame: FrameType | None, event: str, _: object) -> None:
        if event != "call" or frame is None or not self._is_own(frame):
            return
        self.calls += 1
        self.codes.add(frame.f_code)
        depth = 0
        while frame is not None:
            depth += self._is_own(frame)
            frame = frame.f_back
        self.deepest = max(self.deepest, depth)

    def _is_own(self, frame: FrameType) -> bool:
        return frame.f_code.co_filename.startswith(self._prefix)


async def count_question(counter: CallCounter, folder: Path) -> list[list[int]]:
    """Ask a warm engine with stub models and a memory store three times; return the figures of each question.

    Whence is imported here, after the counter was installed, so that all of its threads are counted.
    """
    from whence import Engine
    from whence.store.memory.store import MemoryStore
    from whence.testing.stub_models import EchoWriter, HashEmbedder, OverlapReranker

    models: dict[str, Any] = {
        "embedder": HashEmbedder(),
        "reranker": OverlapReranker(),
        "writer": EchoWriter(is_language_model=True),
    }
    async with Engine(home=folder / "home", store=MemoryStore(), **models) as engine:
        await engine.index([folder / "documents"])
        measured = []
        for _ in range(5):
            counter.reset()
            await engine.ask(QUESTION)
            measured.append(counter.figures())
            await asyncio.sleep(0.2)  # the trace is stored after the answer
        sys.setprofile(None)
    return measured[2:]  # the first two fill caches


def main() -> None:
    """Print the figures of the cheapest question."""
    counter = CallCounter(Path(sys.argv[1]))
    counter.install()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "documents").mkdir()
        for document, text in DOCUMENTS.items():
            (folder / "documents" / document).write_text(text, encoding="utf-8")
        measured = asyncio.run(count_question(counter, folder))
    print(json.dumps(min(measured, key=lambda figures: figures[2])))


if __name__ == "__main__":
    main()
