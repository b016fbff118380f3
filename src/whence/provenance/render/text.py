"""Texts of every rendering: untrusted ones made safe to show, durations, counts of a stage."""

from __future__ import annotations

import unicodedata

from whence.provenance.trace import Trace
from whence.schema.access import Access

#: Characters that reverse the direction of the text around them, and could disguise it.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def one_line(text: str) -> str:
    r"""Return the text on one line without control characters, so that it cannot control a terminal.

    >>> one_line("a\n b\x1b[31m")
    'a b [31m'
    """
    clean = "".join(
        " " if unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp", "Cn"} else char
        for char in text
        if char not in _BIDI
    )
    return " ".join(clean.split())


def shorten(text: str, width: int) -> str:
    """Return one line of at most `width` characters, cut at the end.

    >>> shorten("retrieval", 6)
    'retri…'
    """
    text = one_line(text)
    return text if len(text) <= width else text[: width - 1] + "…"


def format_duration(duration_ms: float | None) -> str:
    """Format a duration for people; empty when there is none.

    >>> format_duration(0.4), format_duration(12.3), format_duration(1234.0), format_duration(None)
    ('0.4 ms', '12 ms', '1.23 s', '')
    """
    if duration_ms is None:
        return ""
    if duration_ms < 10:
        return f"{duration_ms:.1f} ms"
    return f"{duration_ms:.0f} ms" if duration_ms < 1000 else f"{duration_ms / 1000:.2f} s"


def rights_text(access: Access) -> str:
    """Describe the rights of a reader.

    >>> rights_text(Access()), rights_text(Access({"hr", "finance"}, {"internal"}, 2))
    ('public documents only', 'acl finance, hr; labels internal; clearance 2')
    """
    given = [
        f"{name} {', '.join(value) if isinstance(value, list) else value}"
        for name, value in access.by_option().items()
        if value
    ]
    return one_line("; ".join(given)) or "public documents only"


def stage_counts(stage: str, trace: Trace) -> list[str]:
    """Return what a stage received and what it kept, as short texts."""
    match stage:
        case "grounding":
            return [f"{len(trace.concepts)} searched for"]
        case "exploration":
            return [f"{len(trace.candidates)} found", f"{len(trace.explored)} read"]
        case "focus":
            return [f"{trace.reranked_count} reranked", f"{len(trace.selections)} kept"]
        case "synthesis":
            cited = {citation.chunk_id for citation in trace.citations}
            return [f"{len(trace.used)} used", f"{len(cited)} cited"]
        case _:
            return [
                f"{len(step.queries)} searched for, {len(step.added)} added"
                for step in trace.steps
                if step.stage == stage
            ]
