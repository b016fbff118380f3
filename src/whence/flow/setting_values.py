"""Values of settings and options: a text in, a time, a size or a switch out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

from whence.schema.errors import ConfigError

if TYPE_CHECKING:
    from whence.ingest.limited_process import Limits

#: Stands for a secret that is shown.
MASK: Final = "***"
_DURATION: Final = re.compile(r"(\d{1,7})([hdw])\Z")
_HOURS: Final = {"h": 1, "d": 24, "w": 168}
_MOST_HOURS: Final = 24 * 36_525
_SIZE: Final = re.compile(r"([0-9]{1,10}) ?([KMG]B)\Z", re.IGNORECASE)
_BYTES: Final = {"KB": 2**10, "MB": 2**20, "GB": 2**30}


def parse_duration(name: str, value: str) -> timedelta:
    """Return a time in hours, days or weeks, e.g. `12h`, `30d` or `4w`; `0` is none.

    Raises:
        ConfigError: It is no such time, or more than 100 years.
    """
    found = _DURATION.match(value)
    hours = int(found[1]) * _HOURS[found[2]] if found else _MOST_HOURS + 1
    if value != "0" and not 0 < hours <= _MOST_HOURS:
        raise ConfigError(
            f"{name} must be a time such as 30d, 12h or 4w, or 0 for none, not {value!r}"
        )
    return timedelta(hours=0 if value == "0" else hours)


def parse_size(name: str, value: str, *, least: int = 2**10) -> int:
    """Return a number of bytes, e.g. of `64MB`; units are powers of 1024.

    Raises:
        ConfigError: It is no such size, less than `least` bytes or more than 1 TB.
    """
    found = _SIZE.match(value)
    size = int(found[1]) * _BYTES[found[2].upper()] if found else 0
    if not least <= size <= 2**40:
        needed = f"{least // 2**20}MB" if least >= 2**20 else "1KB"
        raise ConfigError(
            f"{name} must be a size such as 512MB or 1GB, at least {needed}, not {value!r}"
        )
    return size


def parse_limits(get: Callable[[str], str | None]) -> Limits:
    """Return the limits of reading one document; `get` returns the value of a setting."""
    from whence.ingest.limited_process import Limits

    return Limits(
        seconds=float(get("document_timeout") or 0),
        memory=parse_size("document_memory", get("document_memory") or "", least=2**27),
        ocr=get("ocr_languages") or "auto",
        output=parse_size("document_output", get("document_output") or ""),
    )


def parse_decimal(name: str, value: str, most: float) -> float:
    """Return a decimal number from 0.

    Raises:
        ConfigError: It is no number from 0 to `most`.
    """
    if not re.fullmatch(r"[0-9]{1,6}(?:\.[0-9]{1,9})?", value) or float(value) > most:
        raise ConfigError(f"{name} must be a number from 0 to {most:g}, not {value!r}")
    return float(value)


def parse_whole(name: str, value: str) -> int:
    """Return a whole number, which may be negative.

    Raises:
        ConfigError: It is none, or has more than 18 digits.
    """
    if not re.fullmatch(r"-?[0-9]{1,18}", value):
        raise ConfigError(f"{name} must be a whole number, not {value!r}")
    return int(value)


def parse_object(name: str, value: str) -> dict[str, Any]:
    """Return an object of JSON.

    Raises:
        ConfigError: It is none.
    """
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConfigError(f"{name} must be an object of JSON", hint='such as {"top_p": 0.9}')
    return found


def is_on(name: str, value: str) -> bool:
    """Return whether a setting is `on`.

    Raises:
        ConfigError: It is neither `on` nor `off`.
    """
    if value not in ("on", "off"):
        raise ConfigError(f"{name} must be on or off, not {value!r}")
    return value == "on"


def mask_url(url: str) -> str:
    """Return an address without its credentials: user, password and query values are masked."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return MASK
    host = parts.netloc.rpartition("@")[2]
    netloc = f"{MASK}@{host}" if "@" in parts.netloc else host
    query = re.sub(r"=[^&]*", f"={MASK}", parts.query)
    masked = urlunsplit((parts.scheme, netloc, parts.path, query, ""))
    # urlunsplit drops the slashes of an address without a host.
    return f"{parts.scheme}://" if masked == f"{parts.scheme}:" else masked
