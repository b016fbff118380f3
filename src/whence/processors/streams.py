"""Leaving a stream early."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TypeVar

__all__ = ("closing",)

T = TypeVar("T")


@contextlib.asynccontextmanager
async def closing(items: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Close a stream on the way out, so that whoever fills it stops at once.

    Python closes an abandoned async generator only when it is collected. An iterator that cannot be closed
    is left as it is.
    """
    try:
        yield items
    finally:
        aclose = getattr(items, "aclose", None)
        if aclose is not None:
            await aclose()
