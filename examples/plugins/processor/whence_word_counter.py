"""A processor that counts the words of a text; it knows no broker and no other processor.

A flow file names it as `type: word-counter`. `counting.yaml` beside this file is such a flow.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from whence.processors.base import Context, Processor, Service
from whence.schema.message import Message


class CountRequest(Message, frozen=True, kw_only=True):
    """Ask for the number of words."""

    TYPE: ClassVar[str] = "count-request.v1"

    text: str


class CountResponse(Message, frozen=True, kw_only=True):
    """The number of words."""

    TYPE: ClassVar[str] = "count-response.v1"

    words: int


class CounterParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the counter."""

    least_letters: int = 1


class WordCounter(Processor):
    """Counts words of some length."""

    type_name = "word-counter"
    summary = "a text to the number of its words"
    serves = Service(CountRequest, (CountResponse,))
    Parameters = CounterParameters

    parameters: CounterParameters

    async def handle(self, message: CountRequest, context: Context) -> CountResponse:
        """Count the words of one text."""
        least = self.parameters.least_letters
        return CountResponse(words=sum(len(word) >= least for word in message.text.split()))
