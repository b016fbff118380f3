"""What servers of models say when they fail: their words, whether it stays so, and the sizes that they name."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from whence.models.rate_limits import duration_s
from whence.schema.errors import WhenceError

_DETAIL_CHARACTERS: Final = 200
#: Kinds of errors, in their codes, types and words.
_FILTERED: Final = re.compile(
    r"content[_ ](?:filter|policy|management)|responsible_?ai|safety|moderation|guardrail",
    re.IGNORECASE,
)
_FILTER_WORDS: Final = re.compile(r"content[_ -](?:filter|policy|management)", re.IGNORECASE)
#: Periods of limits: one that ends while a question waits, and those that do not.
_SHORT: Final = re.compile(
    r"per[\s_-]?(?:second|minute)|(?<![a-z])[rt]p[ms](?![a-z])", re.IGNORECASE
)
_LONG: Final = {
    "hour": re.compile(r"per[\s_-]?hour|hourly|(?<![a-z])[rt]ph(?![a-z])", re.IGNORECASE),
    "day": re.compile(
        r"per[\s_-]?day|daily|(?<![a-z])[rt]pd(?![a-z])|24[\s-]?hours?|[每当]日|每天|今日",
        re.IGNORECASE,
    ),
    "week": re.compile(r"per[\s_-]?week|weekly", re.IGNORECASE),
    "month": re.compile(r"per[\s_-]?month|monthly|每月", re.IGNORECASE),
}
#: A wait in words or as a field: `try again in 16m10.08s`, `"retryDelay": "34s"`, `wait 2 hours`.
_WAIT: Final = re.compile(
    r"(?:again|retry|retrydelay|reset|resets|wait|after|in)[^\w]{1,4}(?:\w{2,5}\s)?"
    r"(?P<wait>\d[\w.]{0,20}|\d{1,6}(?:\.\d{1,6})?\s(?:second|minute|hour|day)s?)(?![\w.]*\d)",
    re.IGNORECASE,
)
_UNITS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_QUOTA: Final = re.compile(r"quota|billing|credit|payment|spend", re.IGNORECASE)
_TOO_LONG: Final = re.compile(
    r"context[ _](?:length|size|window)|exceed_context|maximum context|too (?:large|long|many tokens)"
    r"|exceeds? the (?:maximum|available|limit)|token(?: count| limit)?[^.]{0,40}exceed|prompt[^.]{0,30}too",
    re.IGNORECASE,
)
_LIMIT: Final = re.compile(
    r"(?:maximum|max|limit|context|window|allowed|available|n_ctx)\b[^\d]{0,40}?(\d[\d,_]{0,20}\d)"
    r"|(?<![\d,_])(\d[\d,_]{0,20}\d)\s*+(?:tokens?\s*)?(?:maximum|max\b|limit)",
    re.IGNORECASE,
)
_SIZE: Final = re.compile(r"(?<![\w.])\d[\d,_]*\d(?![\w.]*\d)")
#: A smaller number is no size of a prompt.
_LEAST: Final = 64


class ServerFault(NamedTuple):
    """What a server says of an error."""

    message: str
    """Its words, one line; empty for none."""
    is_filtered: bool = False
    is_quota: bool = False
    is_too_long: bool = False
    window: int | None = None
    """Tokens that the model reads, where the server says it."""
    prompt: int | None = None
    """Tokens of the prompt, where the server says it."""
    period: str = ""
    """`hour`, `day`, `week` or `month` of a limit that is spent; empty for a shorter one."""
    wait_s: float | None = None
    """Seconds after which the server takes requests again, where it says so."""

    @property
    def sizes(self) -> str:
        """The sizes in words; empty when none is known."""
        said = [f"the prompt has {self.prompt} tokens"] if self.prompt else []
        said += [f"its window is {self.window} tokens"] if self.window else []
        return ", ".join(said)


def read_fault(text: str) -> ServerFault:
    """Return what the body of an error says: JSON in one of the usual forms, or text."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    fields: dict[str, Any] = body if isinstance(body, dict) else {}
    inner = fields.get("error")
    error = inner if isinstance(inner, dict) else fields
    message: Any = text if not fields else error.get("message")
    if fields and not message:
        message = (
            (inner if isinstance(inner, str) else "")
            or fields.get("message")
            or fields.get("detail")
            or fields.get("msg")
            or ""
        )
    line = re.sub(r"\s+", " ", str(message)).strip()
    line = "" if line.startswith("<") else line
    kinds = " ".join(str(error.get(name) or "") for name in ("code", "type", "param", "status"))
    window, prompt = sizes_in(line)
    too_long = bool(_TOO_LONG.search(f"{kinds} {line}"))
    return ServerFault(
        line[:_DETAIL_CHARACTERS],
        bool(_FILTERED.search(kinds) or _FILTER_WORDS.search(line)),
        bool(_QUOTA.search(kinds) or re.search(r"exceeded your current quota", line, re.IGNORECASE))
        and not _SHORT.search(text),
        too_long,
        (_whole(error.get("n_ctx")) or window) if too_long else None,
        (_whole(error.get("n_prompt_tokens")) or prompt) if too_long else None,
        _period(line, f"{kinds} {json.dumps(error.get('details') or '')}"),
        _wait_in(f"{line} {json.dumps(error.get('details') or '')}"),
    )


def _period(message: str, fields: str) -> str:
    """Return the period of a limit; a message that also names a short one only lists the limits."""
    listed = "" if _SHORT.search(message) else message
    said = f"{fields} {listed}"
    return next((one for one in reversed(_LONG) if _LONG[one].search(said)), "")


def _wait_in(text: str) -> float | None:
    """Return the longest wait in a text.

    >>> _wait_in("Please try again in 16m10.5s."), _wait_in("Retry after 2 hours"), _wait_in("in 3 words")
    (970.5, 7200.0, None)
    """
    waits = []
    for match in _WAIT.finditer(text):
        number, _, unit = match["wait"].partition(" ")
        if unit:
            waits.append(float(number) * _UNITS[unit.lower().rstrip("s")])
        elif not number[-1].isdigit() and (seconds := duration_s(number.rstrip("."))) is not None:
            waits.append(seconds)
    return max(waits, default=None)


def sizes_in(text: str) -> tuple[int | None, int | None]:
    """Return the window and the size of the prompt that a message names, in tokens; None where it does not.

    >>> sizes_in("This model's maximum context length is 4,097 tokens, but you requested 5303 tokens")
    (4097, 5303)
    >>> sizes_in("prompt is too long: 205000 tokens > 200000 maximum")
    (200000, 205000)
    """
    found = _LIMIT.search(text)
    window = _number(found[1] or found[2]) if found else None
    numbers = [_number(match[0]) for match in _SIZE.finditer(text)]
    larger = [one for one in numbers if one > (window or _LEAST)]
    return window if window and window >= _LEAST else None, max(larger, default=None)


def _number(text: str) -> int:
    return int(re.sub(r"[,_]", "", text)[:12])


def _whole(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None


_WINDOW_SAID: Final = re.compile(r"window (?:of \S+ )?is (\d+) tokens")
_PROMPT_SAID: Final = re.compile(r"prompt has (\d+) tokens")


def sizes_of(error: WhenceError) -> tuple[int | None, int | None]:
    """Return the window and the size of the prompt that an error of `ApiClient` names."""
    text = f"{error.message} {error.hint}"
    window, prompt = _WINDOW_SAID.search(text), _PROMPT_SAID.search(text)
    return int(window[1]) if window else None, int(prompt[1]) if prompt else None
