"""Answer SPARQL over a trace in a process of its own, with limits on time, memory and output.

rdflib evaluates queries in Python, where products, nested repeats of regular expressions and long texts have no
limit of their own. The process is `python -m whence.provenance.render.sparql`: an order in, an answer out.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterable

import msgspec

from whence.provenance.render.rdf import MAX_SPARQL_CHARS, SparqlAnswer, run_sparql
from whence.schema.errors import BadInput
from whence.schema.terms import Triple

#: Most bytes of an answer on the wire.
_MAX_ANSWER_BYTES = 32 * 2**20
_HINT = "ask for less: no products of patterns without a common variable, a LIMIT, a simpler regular expression"


class _Order(msgspec.Struct, frozen=True):
    triples: tuple[Triple, ...]
    query: str
    memory: int
    seconds: int


class _Reply(msgspec.Struct, frozen=True):
    answer: SparqlAnswer | None = None
    message: str = ""
    hint: str = ""


def answer_sparql(
    triples: Iterable[Triple], query: str, *, seconds: int, memory: int
) -> SparqlAnswer:
    """Answer a query as `run_sparql` does, in at most so many seconds and bytes of memory.

    Raises:
        BadInput: As `run_sparql`, or the query takes more than the limits.
    """
    if len(query) > MAX_SPARQL_CHARS:
        raise BadInput(f"the query has {len(query)} characters, more than {MAX_SPARQL_CHARS}")
    try:
        order = msgspec.json.encode(_Order(tuple(triples), query, memory, seconds))
    except UnicodeEncodeError as error:
        raise BadInput("the query holds half of a character (a lone surrogate)") from error
    late = BadInput(f"the query takes longer than {seconds} s (WHENCE_SPARQL_TIMEOUT)", hint=_HINT)
    try:
        done = subprocess.run(
            # `-m` without `-P` would add the working folder, whose modules are not those of the caller.
            [sys.executable, "-P", "-m", "whence.provenance.render.sparql"],
            input=order,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise late from error
    try:
        reply = msgspec.json.decode(done.stdout, type=_Reply)
    except msgspec.DecodeError as error:
        # A process without memory may end before it can say so.
        raise _too_much(memory) from error
    if reply.answer is None:
        raise BadInput(reply.message, hint=reply.hint)
    return reply.answer


def _too_much(memory: int) -> BadInput:
    size = f"{memory // 2**20} MB"
    return BadInput(
        f"the query takes more than {size} of memory (WHENCE_SPARQL_MEMORY)", hint=_HINT
    )


def main() -> None:
    """Answer one order, within its limits."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=_Order)
    for what, limit in (
        (resource.RLIMIT_DATA, order.memory),
        # The caller waits for so long; this holds when the caller was killed.
        (resource.RLIMIT_CPU, order.seconds + 2),
        (resource.RLIMIT_CORE, 0),
    ):
        _, most = resource.getrlimit(what)
        resource.setrlimit(what, (limit if most < 0 else min(limit, most), most))
    out_of_memory = msgspec.json.encode(_refusal(_too_much(order.memory)))
    try:
        data = msgspec.json.encode(_reply(order))
        if len(data) > _MAX_ANSWER_BYTES:
            size = f"{_MAX_ANSWER_BYTES // 2**20} MB"
            data = msgspec.json.encode(_Reply(None, f"the answer is larger than {size}", _HINT))
    except MemoryError:
        data = out_of_memory
    sys.stdout.buffer.write(data)


def _reply(order: _Order) -> _Reply:
    try:
        return _Reply(run_sparql(order.triples, order.query))
    except BadInput as error:
        if isinstance(error.__cause__, MemoryError):
            raise MemoryError from error  # noqa: TRY004
        return _refusal(error)


def _refusal(error: BadInput) -> _Reply:
    return _Reply(None, error.message, error.hint)


if __name__ == "__main__":
    main()
