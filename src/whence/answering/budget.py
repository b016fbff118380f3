"""How many passages fit the window of a model; tokens are estimated, for every model counts its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from whence.provenance.reasons import DropCode
from whence.schema.passages import Passage

#: Characters of a token: of ASCII text, and of other scripts, where many tokenizers need one a character.
_ASCII_CHARS: Final = 3.6
_OTHER_CHARS: Final = 1.2
#: Tokens of the tags around one passage, and of what the prompt says beside passages and question.
_FRAME: Final = 40
_RULES: Final = 650
#: Tokens that are kept for the answer; of a small window a quarter.
_ANSWER: Final = 800
#: A prompt of so few tokens fits every window, and nobody is asked for it.
ALWAYS_FITS: Final = 1200


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has, rather too many.

    >>> estimate_tokens("a" * 36), estimate_tokens("\u9001\u6599\u306f\u4e94\u767e\u5186")
    (10, 5)
    """
    others = 0 if text.isascii() else sum(not one.isascii() for one in text)
    return round((len(text) - others) / _ASCII_CHARS + others / _OTHER_CHARS)


def passage_tokens(passage: Passage) -> int:
    """Return about how many tokens a passage takes in a prompt."""
    path = str(passage.metadata.get("section_path") or "")
    return _FRAME + estimate_tokens(f"{passage.whole_text}{path}")


def prompt_tokens(query: str, passages: Sequence[Passage]) -> int:
    """Return about how many tokens the prompt of an answer has."""
    return _RULES + estimate_tokens(query) + sum(map(passage_tokens, passages))


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What a writer may read."""

    passages: int
    """Most passages."""
    chars: int = 0
    """Most characters of their texts; 0 for no limit."""
    tokens: int | None = None
    """Most tokens of their texts, as `passage_tokens` estimates them; None for no limit."""

    limit_code: DropCode = "over_limit"
    """Why passages after the most are dropped."""

    def within(self, window: int, query: str, ratio: float = 1.0) -> Budget:
        """Return the budget for a window in tokens.

        Args:
            window: Tokens of prompt and answer together.
            query: The question.
            ratio: Tokens of the model for each estimated one.
        """
        left = window - min(_ANSWER, window // 4)
        return msgspec.structs.replace(
            self, tokens=int(left / max(ratio, 0.25)) - _RULES - estimate_tokens(query)
        )

    def cut(self, passages: Sequence[Passage]) -> tuple[list[Passage], list[Passage]]:
        """Return the passages that fit, and records of the dropped ones.

        A text is taken whole or skipped, and smaller ones after it may still fit; the best one is always taken.
        """
        kept: list[Passage] = []
        dropped: list[Passage] = []
        chars = tokens = 0
        for passage in passages:
            size, cost = len(passage.text), passage_tokens(passage)
            code: DropCode = "over_budget"
            if len(kept) >= self.passages:
                code = self.limit_code
            elif not kept or (
                (not self.chars or chars + size <= self.chars)
                and (self.tokens is None or tokens + cost <= self.tokens)
            ):
                kept.append(passage)
                chars, tokens = chars + size, tokens + cost
                continue
            # Only the reason: the stages before recorded everything else.
            dropped.append(Passage(chunk_id=passage.chunk_id, rank=passage.rank, reason_code=code))
        return kept, dropped
