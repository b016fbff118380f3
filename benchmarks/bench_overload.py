"""Measure what `whence serve` completes when it is asked more than it can do.

The floor is what it completes at its capacity: as many clients as requests may run, each with one question at a
time. Then questions arrive at two and four times that rate, each with a time limit, whatever became of those
before. Goodput is the number of answers within their limit per second.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parent.parent
WHENCE = Path(sys.executable).parent / "whence"
#: Time limit of the floor, which nothing exceeds.
_PATIENT_S = 60.0
QUESTIONS = (
    "How many days of annual leave do employees get?",
    "Until when must expense reports be submitted?",
    "How long is parental leave?",
    "What is the price of the Barge?",
    "Who approves reports above 1,000 euros?",
)


async def ask(client: httpx.AsyncClient, number: int, limit_s: float) -> str:
    """Ask a question; return `answered`, `late`, `refused` or the status."""
    body = {"question": QUESTIONS[number % len(QUESTIONS)], "timeout_s": limit_s}
    began = time.perf_counter()
    try:
        response = await client.post("/v1/ask", json=body)
    except httpx.HTTPError as error:
        return type(error).__name__
    if response.status_code == 200:
        return "answered" if time.perf_counter() - began <= limit_s else "late"
    return "refused" if response.status_code == 429 else str(response.status_code)


async def at_capacity(
    client: httpx.AsyncClient, clients: int, seconds: float, limit_s: float
) -> float:
    """Return the answers a second to clients that each wait for theirs."""
    end = time.perf_counter() + seconds
    outcomes: Counter[str] = Counter()

    async def one(number: int) -> None:
        while time.perf_counter() < end:
            outcomes[await ask(client, number, limit_s)] += 1
            number += 1

    await asyncio.gather(*(one(number) for number in range(clients)))
    return outcomes["answered"] / seconds


async def arriving(
    client: httpx.AsyncClient, rate: float, seconds: float, limit_s: float
) -> Counter[str]:
    """Ask at a rate; return what became of the questions."""
    began = time.perf_counter()
    tasks = []
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        tasks.append(asyncio.create_task(ask(client, number, limit_s)))
    return Counter(await asyncio.gather(*tasks))


async def measure(url: str, clients: int, seconds: float, limit_s: float) -> None:
    """Print answers a second at one, two and four times the capacity."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=200)
    async with httpx.AsyncClient(base_url=url, timeout=_PATIENT_S, limits=limits) as client:
        await at_capacity(client, clients, 2, _PATIENT_S)
        capacity = await at_capacity(client, clients, seconds, _PATIENT_S)
        print(f"{'load':>6} {'goodput/s':>10} {'ratio':>6}  outcomes")
        print(f"{'1':>6} {capacity:>10.1f} {1:>6.2f}")
        for factor in (2, 4):
            outcomes = await arriving(client, factor * capacity, seconds, limit_s)
            goodput = outcomes["answered"] / seconds
            told = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
            print(f"{factor:>6} {goodput:>10.1f} {goodput / capacity:>6.2f}  {told}")


def main() -> None:
    """Serve the example handbook and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15, help="length of each part")
    parser.add_argument("--limit", type=float, default=5, help="time limit of a question")
    parser.add_argument("--clients", type=int, default=8, help="clients of the floor")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        env = os.environ | {"WHENCE_HOME": home}
        subprocess.run([WHENCE, "index", ROOT / "examples/handbook"], env=env, check=True)
        command = [WHENCE, "serve", "--port", "0"]
        server = stack.enter_context(subprocess.Popen(command, env=env, stderr=subprocess.PIPE))
        stack.callback(server.terminate)
        assert server.stderr is not None
        url = server.stderr.readline().decode().removeprefix("ready ").strip()
        asyncio.run(measure(url, given.clients, given.seconds, given.limit))


if __name__ == "__main__":
    main()
