"""Requests to the admin interface of the broker: backlog of a group, and the broker's time."""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from whence.broker.pulsar.options import PulsarOptions
from whence.broker.transport import TopicStats
from whence.schema.errors import Unavailable, error_text

if TYPE_CHECKING:
    import httpx

_TIMEOUT_S = 10.0
#: Default port of the admin interface, and how long to wait for it there, seconds.
_DEFAULT_PORT = 8080
_FIND_S = 1.0
#: Clocks that differ by less count as equal, in seconds.
_SAME_TIME_S = 2.0


async def find_admin(url: str, options: PulsarOptions) -> str:
    """Return the address of the admin interface at the default port of the broker's host; empty without answer.

    Only without TLS: a secured cluster has its admin interface where its operator put it.
    """
    import httpx

    parts = urlsplit(url.partition(",")[0])
    if parts.scheme != "pulsar" or not parts.hostname:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    guess = f"http://{host}:{_DEFAULT_PORT}"
    path = f"admin/v2/namespaces/{options.namespace.partition('/')[0]}"
    try:
        # No token goes to a place that was only guessed.
        async with httpx.AsyncClient(timeout=_FIND_S, verify=False) as client:  # noqa: S501
            answer = await client.get(f"{guess}/{path}")
            return guess if isinstance(answer.json(), list) else ""
    except (httpx.HTTPError, ValueError):
        return ""


async def group_stats(
    options: PulsarOptions, topics: list[str], group: str, own: Mapping[tuple[str, str], int]
) -> TopicStats:
    """Add up a group's backlog over a topic and its retry topic; one that does not exist has none.

    Acks reach the broker in bunches, so that numbers are up to 100 ms old. For consumers in other processes
    what their client has fetched ahead counts as in flight.

    Args:
        options: Has `admin_url` and, when needed, a token and trusted certificates.
        topics: Full names as on the cluster.
        group: Name of the subscription.
        own: Messages handed out by consumers of this process, by topic and name of the consumer.

    Raises:
        Unavailable: The admin interface does not answer, or refuses.
    """
    found: dict[str, dict[str, Any]] = {}
    async with _admin(options, "statistics") as client:
        for topic in topics:
            answer = await client.get(
                f"/admin/v2/{quote(topic.replace('://', '/', 1))}/stats",
                params={"getPreciseBacklog": "true", "getEarliestTimeInBacklog": "true"},
            )
            if answer.status_code != HTTPStatus.NOT_FOUND:
                found[topic] = answer.raise_for_status().json()
    return _add_up(found, group, own)


async def clock_offset(options: PulsarOptions, now: Callable[[], float]) -> float:
    """Return the seconds that a clock is behind the broker's, from the `Date` of a response; 0 when equal.

    The date has whole seconds, so differences below two seconds are ignored.

    Raises:
        Unavailable: The admin interface does not answer, or without a date.
    """
    async with _admin(options, "time") as client:
        before = now()
        answer = await client.get("/admin/v2/clusters")
        middle = (before + now()) / 2
        theirs = parsedate_to_datetime(answer.headers["Date"]).timestamp() + 0.5
    offset = theirs - middle
    return offset if abs(offset) >= _SAME_TIME_S else 0.0


@asynccontextmanager
async def _admin(options: PulsarOptions, wanted: str) -> AsyncIterator[httpx.AsyncClient]:
    """Yield an HTTP client of the admin interface with the credentials of the broker.

    Raises:
        Unavailable: `wanted` was not received within the block.
    """
    import httpx

    base = options.admin_url.rstrip("/")
    token = options.bearer()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    trust = options.tls_trust_certs
    # Reading the usual authorities takes a tenth of a second, which an address without TLS can do without.
    verify: ssl.SSLContext | bool = base.startswith("https:")
    if verify and trust:
        verify = ssl.create_default_context(cafile=trust)
    try:
        async with httpx.AsyncClient(
            base_url=base, headers=headers, verify=verify, timeout=_TIMEOUT_S
        ) as client:
            yield client
    except (httpx.HTTPError, KeyError, ValueError) as error:
        raise Unavailable(
            f"no {wanted} from {base}: {error_text(error)}",
            hint="check WHENCE_PULSAR_ADMIN_URL",
        ) from error


def _add_up(
    found: dict[str, dict[str, Any]], group: str, own: Mapping[tuple[str, str], int]
) -> TopicStats:
    backlog = in_flight = 0
    earliest = 0
    for topic, stats in found.items():
        subscription = stats.get("subscriptions", {}).get(group, {})
        unacked = 0
        for consumer in subscription.get("consumers", ()):
            reported = max(0, consumer.get("unackedMessages", 0))
            unacked += own.get((topic, consumer.get("consumerName", "")), reported)
        total = subscription.get("msgBacklog", 0)
        in_flight += unacked
        backlog += max(0, total - unacked)
        published = subscription.get("earliestMsgPublishTimeInBacklog", 0)
        if total and published > 0:
            earliest = min(earliest, published) if earliest else published
    age = max(0.0, time.time() - earliest / 1000) if earliest else 0.0
    return TopicStats(backlog=backlog, in_flight=in_flight, oldest_age_s=age)
