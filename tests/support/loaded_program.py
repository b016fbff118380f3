"""Does once, when it is imported, what each run of a program does first, for runs that are forked afterwards.

It opens the shipped model, which takes 0.1 s of a core, half the time of a search. A session that computes on
the thread of its caller has no thread of its own, so a fork of its process can use it. What the model computes
of a text is kept for later runs: they ask the same passages again and again.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.remembering_session import RememberingSession

from whence import Engine
from whence.models import local_embedder
from whence.models.installed import find_model, shipped_graph
from whence.models.onnx_sessions import Session, open_session
from whence.models.weights import EMBEDDER_NAME
from whence.store.memory.store import MemoryStore

_GRAPH = shipped_graph("minilm-w8.onnx")
_FOLDER = find_model(EMBEDDER_NAME)


_SESSION = RememberingSession(open_session(_GRAPH, _FOLDER))


def _open(graph: Path | bytes, weights: Path | None = None) -> Session:
    """Return the open session of this graph and folder; open any other."""
    return _SESSION if (graph, weights) == (_GRAPH, _FOLDER) else open_session(graph, weights)


local_embedder.open_session = _open  # type: ignore[attr-defined]


async def _ask_once() -> None:
    """Answer one question from a store in memory: decoders, patterns and the model's buffers are made then."""
    with TemporaryDirectory() as folder:
        page = Path(folder, "page.md")
        page.write_text("# Leave\n\nEmployees get 27 days of annual leave. It ends in March.\n")
        async with Engine(home=Path(folder, "home"), store=MemoryStore()) as engine:
            await engine.index([page])
            await engine.search("annual leave")
            await engine.ask("How many days of annual leave do employees get?")


asyncio.run(_ask_once())
# A thread does not survive a fork.
assert threading.active_count() == 1
