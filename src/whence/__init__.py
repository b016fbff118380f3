"""Whence: retrieval that shows how every answer was produced.

The names below are imported on first use, so that importing the package is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whence.retrieval.results import RetrievalResult
    from whence.schema.access import Access
    from whence.surfaces.python.engine import Engine
    from whence.surfaces.python.retriever import Retriever

__all__ = ("Access", "Engine", "RetrievalResult", "Retriever")

_MODULES = {
    "Access": "whence.schema.access",
    "Engine": "whence.surfaces.python.engine",
    "RetrievalResult": "whence.retrieval.results",
    "Retriever": "whence.surfaces.python.retriever",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'whence' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
