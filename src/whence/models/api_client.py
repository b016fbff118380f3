"""HTTP client of a model server: retries, rate limits and a time limit, and errors that never show a key.

No redirect is followed: a key and a text go to the configured server and to no other.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import logging
import math
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from whence.models.endpoints import Endpoint
from whence.models.rate_limits import in_words, requested_wait_s
from whence.models.server_errors import ServerFault, read_fault
from whence.models.spending import ServerUsage
from whence.schema.errors import (
    BadInput,
    ConfigError,
    PromptTooLong,
    ServerFailed,
    ServerRefused,
    Unavailable,
    WhenceError,
    error_text,
)
from whence.schema.time_limit import seconds_left

if TYPE_CHECKING:
    import httpx
    from tenacity import RetryCallState

T = TypeVar("T")

#: As many as a worker makes by default; it counts these and adds none of its own.
_ATTEMPTS: Final = 5
#: Part of the whole time that one attempt may wait for the next bytes.
_ATTEMPT_SHARE: Final = 0.75
#: For a question about the server itself, which few servers answer.
_ASK_TIMEOUT_S: Final = 5.0
_CONNECT_TIMEOUT_S = 5.0
#: For the first bytes of a text where nothing else limits the work.
_MOST_PATIENCE_S: Final = 3600.0
#: Another attempt would get the same answer.
_REFUSED = frozenset({401, 402, 403})
_NOT_SERVED = frozenset({404, 405})
_BUSY = frozenset({408, 409, 425, 429})
#: What servers answer where a limit of the account is spent.
_LIMITED: Final = frozenset({402, 403, 429})
#: A shorter wait renews no limit of an hour or more.
_LEAST_OF_PERIOD_S: Final = 60.0
#: So long at most a server that asks for a wait is sent nothing. Chosen by hand: the limit may be raised.
_MOST_HOLD_S: Final = 60.0
#: So long no request is made after such a limit.
_SPENT_S: Final = 10.0
_FAILED: Final = 500
#: What a server says of texts that are too long.
TOO_LONG: Final = re.compile(r"token|length|long|context|large|size|exceed", re.IGNORECASE)
#: So many refused values of parameters are remembered.
_MOST_REFUSED: Final = 256
#: Newer names of parameters, sent where a server refuses the former ones.
_RENAMED: Final = {"max_tokens": "max_completion_tokens"}
_VERSION: Final = re.compile(r"/v\d\w*\Z")
#: Parameter of the addresses of Azure OpenAI, which takes its key in a header of its own.
_AZURE: Final = "api-version"


class _Transient(Exception):
    def __init__(
        self, reason: str, retry_after_s: float | None = None, *, slow: bool = False
    ) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s
        self.slow = slow


class NotServed(ServerRefused):
    """The server has no such path, or no such model."""


class Filtered(ServerRefused):
    """A filter of the server keeps the model from reading or answering."""


class TooSlow(Unavailable):
    """The server took the request and did not answer in time."""


class ApiClient:
    """A server at a base address, with a key that is sent and never shown.

    Raises:
        ConfigError: The address is not an http or https URL.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._service = f"{endpoint.role}'s server"
        parts = urlsplit(endpoint.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"the address of the {self._service} is not an http or https URL",
                hint="it looks like https://host/v1",
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.host = host if parts.port is None else f"{host}:{parts.port}"
        """Host and port, for traces."""
        self.is_local = _is_loopback(parts.hostname)
        self.address = urlunsplit((parts.scheme, self.host, parts.path.rstrip("/"), "", ""))
        """The address without credentials and query, for people."""
        self.spent = ServerUsage()
        """What the requests cost so far, as the server says."""
        self._endpoint = endpoint
        self._login = (parts.username, parts.password or "") if parts.username else None
        self._query = dict(parse_qsl(parts.query))
        #: Optional parameters that the server refused, those of writers with their values; not sent again.
        self._refused: set[tuple[str, str]] = set()
        self._client: httpx.AsyncClient | None = None
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        #: When the server takes requests again, by the monotonic clock.
        self._ready_at = 0.0
        #: Until when a spent limit is reported without a request, and what is reported.
        self._spent_said: tuple[float, str, str, float | None] | None = None

    def __repr__(self) -> str:
        return f"ApiClient({self.address!r})"

    @property
    def root(self) -> str:
        """The address without the version of an API."""
        return re.sub(r"(/v\d+)?(/rerank)?\Z", "", self.address)

    async def post(
        self, path: str, body: Mapping[str, Any], optional: Mapping[str, Any] | None = None
    ) -> Any:
        """Post JSON and return the JSON of the answer.

        Args:
            path: Appended to the address; or a whole address on the same server.
            body: What is sent.
            optional: Is sent as well; what the server refuses by name is left out from then on.

        Raises:
            Unavailable: The server refuses, fails, answers not in time, or not with JSON.
            BadInput: The server rejects the request.
        """
        url = path if path.startswith(self.root) else self.address + path
        return await self._json("POST", url, body, optional or {})

    async def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return what the server says of itself below its root, above `/v1`; None when it does not.

        Posts a body, else gets; once, and for a few seconds.
        """
        method = "POST" if body else "GET"
        try:
            return await self._json(method, self.root + path, body, {}, 1, _ASK_TIMEOUT_S)
        except WhenceError:
            return None

    async def _json(
        self,
        method: str,
        url: str,
        body: Mapping[str, Any] | None,
        optional: Mapping[str, Any],
        attempts: int = _ATTEMPTS,
        most_s: float = math.inf,
    ) -> Any:
        async def once() -> Any:
            extra = self._accepted(optional)
            sent = {**body, **extra} if body else None
            response = await self._http().request(method, url, json=sent)
            self._check(response.status_code, response.headers, response.text, extra)
            try:
                answer = response.json()
            except (ValueError, RecursionError) as error:
                raise self.broken("its answer is not JSON") from error
            self.spent.add(answer)
            return answer

        self._http()
        async with self._slots:
            return await self._retried(once, attempts, most_s)

    @asynccontextmanager
    async def stream(
        self, path: str, body: Mapping[str, Any], optional: Mapping[str, Any]
    ) -> AsyncIterator[httpx.Response]:
        """Post as `post` does and yield the open response; retries end when the response begins.

        Once the server takes the request, the first bytes have the time of the work at hand, unless a time
        was set.
        """
        import httpx

        timeout_s = self._endpoint.timeout_s
        patient = not self._endpoint.timeout_is_set
        wait_s = seconds_left(_MOST_PATIENCE_S) if patient else timeout_s * _ATTEMPT_SHARE
        timeout = httpx.Timeout(max(wait_s, timeout_s * _ATTEMPT_SHARE), connect=_CONNECT_TIMEOUT_S)

        async def begin() -> httpx.Response:
            client, extra = self._http(), self._accepted(optional)
            url = self.address + path
            request = client.build_request("POST", url, json={**body, **extra}, timeout=timeout)
            response = await client.send(request, stream=True)
            if response.status_code >= 300:
                try:
                    text = (await response.aread()).decode("utf-8", "replace")
                finally:
                    await response.aclose()
                self._check(response.status_code, response.headers, text, extra)
            return response

        self._http()
        async with self._slots:
            response = await self._retried(begin, patient=patient)
            try:
                yield response
            except httpx.HTTPError as error:
                raise self.broken(f"the stream broke off ({error_text(error)})") from error
            finally:
                await response.aclose()

    def _accepted(self, optional: Mapping[str, Any]) -> dict[str, Any]:
        newer = {
            _RENAMED[name]: value
            for name, value in optional.items()
            if name in _RENAMED and self._refuses(name, value)
        }
        all_of_them = {**optional, **newer}
        return {name: one for name, one in all_of_them.items() if not self._refuses(name, one)}

    def _refuses(self, name: str, value: object) -> bool:
        return (name, self._value_of(value)) in self._refused

    def _value_of(self, value: object) -> str:
        """Return what is remembered of a refused value: callers choose those of writers, each their own."""
        return repr(value) if self._endpoint.role == "writer" else ""

    def _remember_refused(self, sent: Mapping[str, Any], detail: str) -> bool:
        """Remember the parameters that a refusal names; return whether there are any."""
        named = {(name, self._value_of(value)) for name, value in sent.items() if name in detail}
        if len(self._refused) >= _MOST_REFUSED:
            self._refused.clear()
        self._refused |= named
        return bool(named)

    def not_taken(self, asked: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of those parameters that the server refuses, under each name that they have."""
        accepted = self._accepted(asked)
        return tuple(one for one in asked if not {one, _RENAMED.get(one, one)} & accepted.keys())

    def broken(self, what: str) -> Unavailable:
        """Return the error for an unusable answer; one more attempt is made."""
        kind = ServerFailed if self._endpoint.role == "writer" else Unavailable
        error = kind(
            f"the {self._service} at {self.address} gave no usable answer: {what}",
            hint="check that the address and the model are those of such a service",
        )
        error.attempts = _ATTEMPTS - 1
        return error

    def unusable(self, what: str, hint: str) -> ServerRefused:
        """Return the error for an answer that another attempt would not change."""
        return ServerRefused(
            f"the {self._service} at {self.address} gave no usable answer: {what}", hint=hint
        )

    def error_of(self, body: object) -> WhenceError:
        """Return the error that a server reports in an answer that began well."""
        fault = read_fault(json.dumps(body))
        if fault.period:
            said = self._without_key(fault.message)
            return self._spent(f"it reports {said}", fault.period, fault.wait_s)
        return self._refusal(fault, "it reports") or self.broken(
            f"it reports an error in the middle: {self._without_key(fault.message)}"
        )

    def _refusal(self, fault: ServerFault, what: str) -> ServerRefused | None:
        """Return the error for a fault of the request or the account; None for any other fault."""
        said = self._without_key(fault.message)
        reason = f"{what}: {said}" if said else what
        if fault.is_filtered:
            return Filtered(f"a filter of the {self._service} at {self.address} refused: {reason}")
        if fault.is_quota:
            hint = "look after the account of the key, or use another server"
            return ServerRefused(
                f"the {self._service} at {self.address} refused: {reason}", hint=hint
            )
        if fault.is_too_long and self._endpoint.role == "writer":
            sizes = f" ({fault.sizes})" if fault.sizes else ""
            return PromptTooLong(
                f"the {self._service} at {self.address} finds the prompt too long: {reason}",
                hint=f"give fewer passages (--doc-limit), or serve the model with a larger window{sizes}",
            )
        return None

    def _spent(self, reason: str, period: str, wait_s: float | None) -> ServerRefused:
        """Return the error for a limit that no wait within a question renews."""
        now = time.monotonic()
        if self._spent_said is None or self._spent_said[0] <= now:
            # The next calls of the same question would be paid, too.
            self._spent_said = (now + _SPENT_S, reason, period, wait_s)
        # A delay of seconds is that of a shorter limit.
        later = wait_s if wait_s is not None and wait_s >= _LEAST_OF_PERIOD_S else None
        when = f"in {in_words(later)}" if later else f"when the {period} is over"
        return ServerRefused(
            f"the limit of the {period} is spent at the {self._service} at {self.address}: {reason}",
            hint=f"try again {when}, raise the limit of the account, or use another server",
            retry_after_s=later,
        )

    async def aclose(self) -> None:
        """Close the connections; using it again opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _http(self) -> httpx.AsyncClient:
        import httpx

        if self._client is None:
            key, timeout_s = self._endpoint.key, self._endpoint.timeout_s
            headers = {}
            if key and _AZURE in self._query:
                headers = {"api-key": key}
            elif key:
                headers = {"Authorization": f"Bearer {key}"}
            timeout = httpx.Timeout(timeout_s * _ATTEMPT_SHARE, connect=_CONNECT_TIMEOUT_S)
            # At the level `debug` it logs the headers of answers, which may quote a key.
            logging.getLogger("httpcore").setLevel(logging.INFO)
            if self._query:  # It logs addresses, whose query may hold a key.
                logging.getLogger("httpx").setLevel(logging.WARNING)
            # With the connections, a loop of its own.
            self._slots = asyncio.Semaphore(self._endpoint.concurrency)
            try:
                self._client = httpx.AsyncClient(
                    headers=headers, auth=self._login, timeout=timeout, params=self._query
                )
            except UnicodeEncodeError as error:
                raise ConfigError(
                    f"{self._endpoint.key_name} holds a character that no key has",
                    hint="copy it again",
                ) from error
        return self._client

    async def _retried(
        self,
        attempt: Callable[[], Awaitable[T]],
        attempts: int = _ATTEMPTS,
        most_s: float = math.inf,
        *,
        patient: bool = False,
    ) -> T:
        """Make attempts until one succeeds or the time is over; `patient` ones only begin within it."""
        from tenacity import (
            AsyncRetrying,
            retry_if_exception_type,
            stop_after_attempt,
            stop_before_delay,
        )

        limit_s = seconds_left(min(self._endpoint.timeout_s, most_s))
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_Transient),
            stop=stop_after_attempt(attempts) | stop_before_delay(limit_s),
            wait=_wait,
            reraise=True,
        )
        start = time.monotonic()
        try:
            async with asyncio.timeout(None if patient else limit_s):
                return await retrying(self._attempt, attempt, start + limit_s)
        except _Transient as error:
            raise self._unavailable(str(error), error.retry_after_s, slow=error.slow) from error
        except TimeoutError as error:
            waited = time.monotonic() - start
            raise self._unavailable(f"no answer within {waited:.0f} s", slow=True) from error

    def _unavailable(
        self, reason: str, retry_after_s: float | None = None, *, slow: bool
    ) -> Unavailable:
        more = "; WHENCE_MODEL_TIMEOUT gives a slow model more seconds" if slow else ""
        if retry_after_s is not None and retry_after_s >= 1:
            more += f"; it asks to wait {retry_after_s:.0f} s ({in_words(retry_after_s)})"
        failed = ServerFailed if self._endpoint.role == "writer" else Unavailable
        error = (TooSlow if slow and failed is Unavailable else failed)(
            f"the {self._service} at {self.address} is unavailable: {reason}",
            hint=f"check the address and that the server runs, then try again{more}",
            retry_after_s=retry_after_s,
        )
        # The time limit also ends the attempts of the worker.
        error.attempts = _ATTEMPTS
        return error

    async def _attempt(self, attempt: Callable[[], Awaitable[T]], end: float) -> T:
        """Make one attempt, once the server takes requests again."""
        import httpx

        now = time.monotonic()
        if self._spent_said and now < self._spent_said[0]:
            raise self._spent(*self._spent_said[1:])
        if self._ready_at >= end:
            raise _Transient("it takes no requests yet", self._ready_at - now)
        await asyncio.sleep(max(0.0, self._ready_at - now))
        try:
            return await attempt()
        except httpx.TimeoutException as error:
            slow = isinstance(error, httpx.ReadTimeout)
            raise _Transient("it does not answer", slow=slow) from error
        except httpx.TransportError as error:
            raise _Transient(error_text(error)) from error
        except httpx.HTTPError as error:
            raise self.broken(error_text(error)) from error

    def _check(
        self, status: int, headers: Mapping[str, str], text: str, optional: Mapping[str, Any]
    ) -> None:
        asked = requested_wait_s(headers, time.time(), refused=status == 429)
        if asked is not None:
            hold_s = min(asked, _MOST_HOLD_S)
            self._ready_at = max(self._ready_at, time.monotonic() + hold_s)
        if status < 300:
            return
        if status < 400:
            place = _host(headers.get("location", "")) or "another address"
            raise ServerRefused(
                f"the {self._service} at {self.address} redirects to {place}, which is not followed",
                hint="set the address that it redirects to, if it is the one that you want",
            )
        fault = read_fault(text)
        detail = self._without_key(fault.message)
        reason = f"it answered {status}" + (f": {detail}" if detail else "")
        if asked is None and status in _BUSY:
            asked = fault.wait_s
        if fault.period and status in _LIMITED:
            raise self._spent(reason, fault.period, asked)
        if refusal := self._refusal(fault, f"it answered {status}"):
            raise refusal
        if status in _BUSY or (status >= _FAILED and not (status == _FAILED and fault.is_too_long)):
            raise _Transient(reason, asked)
        if status in _REFUSED | _NOT_SERVED:
            kind = NotServed if status in _NOT_SERVED else ServerRefused
            raise kind(
                f"the {self._service} at {self.address} refused: {reason}", hint=self._look_after()
            )
        if self._remember_refused(optional, detail):
            raise _Transient(reason, 0.0)
        wrong = ServerRefused if self._endpoint.role == "writer" else BadInput
        raise wrong(
            f"the {self._service} at {self.address} finds the request wrong: {reason}",
            hint="check the name of the model and the length of the texts",
        )

    def _look_after(self) -> str:
        """Return a hint about the key, the address and the model."""
        named = f"{self._endpoint.key_name}, " if self._endpoint.key_name else ""
        is_usual = self._endpoint.role != "writer" or self._query or _VERSION.search(self.address)
        more = "" if is_usual else "; the address usually ends in /v1"
        return f"check {named}the address and the name of the model{more}"

    def _without_key(self, text: str) -> str:
        secrets = [self._endpoint.key or ""]
        if self._login:
            login = ":".join(self._login).encode()
            secrets += [self._login[1], base64.b64encode(login).decode()]
        secrets += [value for name, value in self._query.items() if name != _AZURE]
        for secret in filter(None, secrets):
            text = text.replace(secret, "***")
        # Services quote parts of a key, e.g. sk-ab***xyz.
        return re.sub(r"\b(?:sk|co|key)-[\w*.-]+", "***", text)


class ServedModel:
    """A model on a server.

    Args:
        name: Name of the model there.
        endpoint: The server.
    """

    def __init__(self, name: str, endpoint: Endpoint) -> None:
        self._name = name
        self._client = ApiClient(endpoint)

    @property
    def served_by(self) -> str:
        """Model and host for traces."""
        return f"{self._name}@{self._client.host}"

    @property
    def is_remote(self) -> bool:
        """Whether the server is on another machine than this."""
        return not self._client.is_local

    @property
    def spent(self) -> ServerUsage:
        """What the requests cost so far, as the server says."""
        return self._client.spent

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _wait(state: RetryCallState) -> float:
    """Return the wait that the service asks for, else 0.3, 0.6, 1.2, 2.4 seconds."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after_s if isinstance(error, _Transient) else None
    return float(0.3 * 2 ** (state.attempt_number - 1)) if asked is None else asked


async def in_order(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Make calls at the same time and return their results in order; the first error ends all."""
    if len(calls) == 1:
        return [await calls[0]()]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_awaited(call)) for call in calls]
    except BaseExceptionGroup as errors:  # callers expect the error itself
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def _awaited(call: Callable[[], Awaitable[T]]) -> T:
    return await call()


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host(url: str) -> str:
    """Return the host and port of an address; empty when it has none or is malformed."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return ""
