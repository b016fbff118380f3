"""Close a stream that is left early."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Generic, TypeVar

__all__ = ("closing",)

T = TypeVar("T")


class closing(Generic[T]):  # noqa: N801 - used like a function, as `contextlib.aclosing`
    """Close a stream on exit, so that its source stops at once.

    Python closes an abandoned async generator only when it is collected. An iterator that cannot be closed is
    left as it is.
    """

    def __init__(self, items: AsyncIterator[T]) -> None:
        self._items = items

    async def __aenter__(self) -> AsyncIterator[T]:
        return self._items

    async def __aexit__(self, *_: object) -> None:
        aclose = getattr(self._items, "aclose", None)
        if aclose is not None:
            await aclose()
