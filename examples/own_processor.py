"""Write a processor that counts words, and run it in a flow.

This example passes the type to the loader. A distribution registers it for every flow as an entry point:

    [project.entry-points."whence.processors"]
    word-counter = "my_package.word_counter:WordCounter"
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import ClassVar

import msgspec

from whence.broker.memory.transport import MemoryTransport
from whence.flow.client import FlowClient
from whence.flow.loader import load_flow
from whence.flow.registry import Registry
from whence.flow.resources import Resources
from whence.flow.runtime import run_flow
from whence.flow.settings import Settings
from whence.processors.base import Context, Processor, Service
from whence.schema.message import Message

FLOW = """
flow: counting
description: Count words.
processors:
  counter:
    type: word-counter
    concurrency: 4
    parameters:
      min_letters: 4
    topics:
      request: count.request
interfaces:
  count:
    request: count.request
    response: count.response
"""


class CountRequest(Message, frozen=True, kw_only=True):
    """Ask for the number of words."""

    TYPE: ClassVar[str] = "count-request.v1"

    text: str


class CountResponse(Message, frozen=True, kw_only=True):
    """The number of words."""

    TYPE: ClassVar[str] = "count-response.v1"

    words: int


class CounterParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of the counter."""

    min_letters: int = 1


class WordCounter(Processor):
    """Count the words of a minimal length."""

    type_name = "word-counter"
    summary = "a text to the number of its words"
    serves = Service(CountRequest, (CountResponse,))
    Parameters = CounterParameters

    async def handle(self, message: CountRequest, context: Context) -> CountResponse:
        """Count the words of one text."""
        minimum = self.parameters.min_letters
        return CountResponse(words=sum(len(word) >= minimum for word in message.text.split()))


async def main() -> None:
    """Run the flow in this process and send one request."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counting.yaml"
        path.write_text(FLOW)
        flow = load_flow(path, registry=Registry({WordCounter.type_name: WordCounter}))
        transport = MemoryTransport()
        async with (
            Resources(Settings({"home": folder})) as resources,
            run_flow(flow, transport, resources),
        ):
            client = FlowClient(flow, transport)
            question = CountRequest(text="a flow of processors that you can read in a minute")
            answer = await client.call("count", question, CountResponse)
            print(f"{answer.words} words of four letters or more")
        await transport.aclose()


if __name__ == "__main__":
    asyncio.run(main())
