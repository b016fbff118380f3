"""What requests cost, as servers say it in their answers; nothing is estimated, and no price is known here."""

from __future__ import annotations

import math
from typing import Any

import msgspec


class ServerUsage(msgspec.Struct):
    """Sums over the requests to one server."""

    tokens: int = 0
    """Tokens read and written."""
    units: int = 0
    """Searches that a rerank service bills."""
    price: float | None = None
    """What the server says that it charges, in its currency; None when it says nothing."""

    def add(self, answer: Any) -> None:
        """Add what an answer says: `usage` of OpenAI's API, or `meta` of Cohere's; other forms add nothing."""
        if not isinstance(answer, dict):
            return
        usage, meta = _object(answer, "usage"), _object(answer, "meta")
        billed = _object(meta, "billed_units") or _object(meta, "tokens")
        parts = ("prompt_tokens", "completion_tokens")
        self.tokens += _whole(usage, "total_tokens") or sum(_whole(usage, one) for one in parts)
        self.tokens += _whole(billed, "input_tokens") + _whole(billed, "output_tokens")
        self.units += _whole(billed, "search_units")
        cost = usage.get("cost")
        if isinstance(cost, int | float) and not isinstance(cost, bool) and math.isfinite(cost):
            self.price = (self.price or 0.0) + cost

    def __str__(self) -> str:
        """Return it in words; empty when nothing is known."""
        said = [f"{self.tokens:,} tokens"] if self.tokens else []
        said += [f"{self.units} billed searches"] if self.units else []
        said += [f"price {self.price:g}, as the server says"] if self.price is not None else []
        return ", ".join(said)


def _object(found: dict[str, Any], name: str) -> dict[str, Any]:
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def _whole(found: dict[str, Any], name: str) -> int:
    value: Any = found.get(name)
    return int(value) if type(value) in (int, float) and 0 <= value < 1e12 else 0
