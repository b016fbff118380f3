"""How many tokens a model reads and writes together, as its server says it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from whence.models.api_client import ApiClient

#: What Ollama reads of a prompt where nobody says more, whatever the model could read.
_OLLAMA: Final = 4096
#: Fields of a list of models that hold the window, those of the running model before those of its training.
_FIELDS: Final = (
    "max_model_len",
    "loaded_context_length",
    "context_window",
    "context_length",
    "max_context_length",
    "n_ctx",
)
_NUM_CTX: Final = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)


async def find_window(client: ApiClient, model: str) -> int | None:
    """Return the window of a model; None when its server does not say.

    llama.cpp says it at `/props`, Ollama at `/api/ps` and `/api/show`, others in their list of models.
    """
    props, running, shown, listed = await asyncio.gather(
        client.ask("/props"),
        running_window(client, model),
        client.ask("/api/show", {"model": model}),
        client.ask("/v1/models"),
    )
    found = _of_props(props) or running or _of_show(shown)
    return found or next(_of_list(listed, model), None)


async def running_window(client: ApiClient, model: str) -> int | None:
    """Return the window of a model that Ollama runs; 0 when it does not run, None for another server."""
    found = await client.ask("/api/ps")
    running = found.get("models") if isinstance(found, dict) else None
    if not isinstance(running, list):
        return None
    for one in running:
        if isinstance(one, dict) and one.get("name") in (model, f"{model}:latest"):
            return _whole(one.get("context_length")) or 0
    return 0


def _of_props(found: Any) -> int | None:
    if not isinstance(found, dict):
        return None
    inner = found.get("default_generation_settings")
    return _whole(inner.get("n_ctx") if isinstance(inner, dict) else None) or _whole(
        found.get("n_ctx")
    )


def _of_show(found: Any) -> int | None:
    """Return what Ollama would give a model: its own parameter, else at most the default."""
    if not isinstance(found, dict):
        return None
    if set_to := _NUM_CTX.search(str(found.get("parameters") or "")):
        return int(set_to[1])
    info = found.get("model_info")
    sizes = info.items() if isinstance(info, dict) else ()
    trained = next(
        (_whole(size) for name, size in sizes if str(name).endswith(".context_length")), None
    )
    return min(trained, _OLLAMA) if trained else None


def _of_list(found: Any, model: str) -> Iterator[int]:
    models = found.get("data") if isinstance(found, dict) else None
    known = [one for one in models if isinstance(one, dict)] if isinstance(models, list) else []
    for one in known:
        if one.get("id") == model or len(known) == 1:
            meta = one.get("meta")
            for fields in (one, meta if isinstance(meta, dict) else {}):
                yield from filter(None, (_whole(fields.get(name)) for name in _FIELDS))


def _whole(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None
