"""Run `counting.yaml` in this process and send it one request. It needs the plug-in to be installed."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from whence_word_counter import CountRequest, CountResponse

from whence.broker.memory.transport import MemoryTransport
from whence.flow.client import FlowClient
from whence.flow.loader import load_flow
from whence.flow.resources import Resources
from whence.flow.runtime import run_flow
from whence.flow.settings import Settings


async def main() -> None:
    """Count the words of one text."""
    flow = load_flow(Path(__file__).with_name("counting.yaml"))
    transport = MemoryTransport()
    with tempfile.TemporaryDirectory() as home:
        async with (
            Resources(Settings({"home": home})) as resources,
            run_flow(flow, transport, resources),
        ):
            client = FlowClient(flow, transport)
            request = CountRequest(text="a flow of processors that you can read in a minute")
            response = await client.call("count", request, CountResponse)
            print(f"{response.words} words of four letters or more")
    await transport.aclose()


if __name__ == "__main__":
    asyncio.run(main())
