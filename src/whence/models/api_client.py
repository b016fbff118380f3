"""HTTP client of a model service: retries within a time limit, and errors that never show a key."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from whence.schema.errors import BadInput, ConfigError, Unavailable

if TYPE_CHECKING:
    import httpx
    from tenacity import RetryCallState

T = TypeVar("T")

#: Longest time of a request with all its attempts, in seconds.
TIMEOUT_S = 27.0
#: As many as a worker makes by default; it counts these and adds none of its own.
_ATTEMPTS = 5
_ATTEMPT_TIMEOUT_S = 20.0
_CONNECT_TIMEOUT_S = 5.0
_DETAIL_CHARACTERS = 200
#: Another attempt would get the same answer.
_REFUSED = frozenset({401, 403, 404, 405})
_BUSY = frozenset({408, 409, 425, 429})


class _Transient(Exception):
    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class ApiClient:
    """A service at a base address, with a key that is sent and never shown.

    Raises:
        ConfigError: The address is not an http or https URL.
    """

    def __init__(
        self,
        service: str,
        base_url: str,
        key: str | None,
        key_name: str,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"the address of the {service} is not an http or https URL",
                hint="it looks like https://host/v1",
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        place = host if parts.port is None else f"{host}:{parts.port}"
        self.address = urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))
        """The address without credentials, for people."""
        self._service = service
        self._key = key
        self._key_name = key_name
        self._login = (parts.username, parts.password or "") if parts.username else None
        self._timeout_s = timeout_s
        self._client: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"ApiClient({self.address!r})"

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Post JSON and return the JSON of the answer.

        Raises:
            Unavailable: The service refuses, fails, answers not in time, or not with JSON.
            BadInput: The service rejects the request.
        """

        async def once() -> Any:
            response = await self._http().post(self.address + path, json=body)
            self._check(response.status_code, response.headers, response.text)
            try:
                return response.json()
            except ValueError as error:
                raise self.broken("its answer is not JSON") from error

        return await self._retried(once)

    @asynccontextmanager
    async def stream(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[httpx.Response]:
        """Post JSON and yield the open response; retries end when the response begins."""
        import httpx

        async def begin() -> httpx.Response:
            client = self._http()
            request = client.build_request("POST", self.address + path, json=body)
            response = await client.send(request, stream=True)
            if response.status_code >= 400:
                try:
                    text = (await response.aread()).decode("utf-8", "replace")
                finally:
                    await response.aclose()
                self._check(response.status_code, response.headers, text)
            return response

        response = await self._retried(begin)
        try:
            yield response
        except httpx.HTTPError as error:
            raise self.broken(f"the stream broke off ({_one_line(error)})") from error
        finally:
            await response.aclose()

    def broken(self, what: str) -> Unavailable:
        """Return the error for an unusable answer."""
        return Unavailable(
            f"the {self._service} at {self.address} gave no usable answer: {what}",
            hint="check that the address and the model are those of such a service",
        )

    async def aclose(self) -> None:
        """Close the connections; using it again opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _http(self) -> httpx.AsyncClient:
        import httpx

        if self._client is None:
            headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
            timeout = httpx.Timeout(_ATTEMPT_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S)
            try:
                self._client = httpx.AsyncClient(headers=headers, auth=self._login, timeout=timeout)
            except UnicodeEncodeError as error:
                raise ConfigError(
                    f"{self._key_name} holds a character that no key has", hint="copy it again"
                ) from error
        return self._client

    async def _retried(self, attempt: Callable[[], Awaitable[T]]) -> T:
        from tenacity import (
            AsyncRetrying,
            retry_if_exception_type,
            stop_after_attempt,
            stop_before_delay,
        )

        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_Transient),
            stop=stop_after_attempt(_ATTEMPTS) | stop_before_delay(self._timeout_s),
            wait=_wait,
            reraise=True,
        )
        start = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await retrying(self._attempt, attempt)
        except _Transient as error:
            raise self._unavailable(str(error), error.retry_after_s) from error
        except TimeoutError as error:
            waited = time.monotonic() - start
            raise self._unavailable(f"no answer within {waited:.0f} s", None) from error

    def _unavailable(self, reason: str, retry_after_s: float | None) -> Unavailable:
        error = Unavailable(
            f"the {self._service} at {self.address} is unavailable: {reason}",
            hint="check the address and that the service runs, then try again",
            retry_after_s=retry_after_s,
        )
        # The time limit also ends the attempts of the worker.
        error.attempts = _ATTEMPTS
        return error

    async def _attempt(self, attempt: Callable[[], Awaitable[T]]) -> T:
        import httpx

        try:
            return await attempt()
        except httpx.TimeoutException as error:
            raise _Transient("it does not answer") from error
        except httpx.TransportError as error:
            raise _Transient(_one_line(error)) from error
        except httpx.HTTPError as error:
            raise self.broken(_one_line(error)) from error

    def _check(self, status: int, headers: Mapping[str, str], text: str) -> None:
        if status < 400:
            return
        detail = self._without_key(_error_detail(text))
        reason = f"it answered {status}" + (f": {detail}" if detail else "")
        if status in _BUSY or status >= 500:
            raise _Transient(reason, _seconds(headers.get("retry-after")))
        if status in _REFUSED:
            raise Unavailable(
                f"the {self._service} at {self.address} refused: {reason}",
                hint=f"check {self._key_name}, the address and the name of the model",
            )
        raise BadInput(
            f"the {self._service} at {self.address} finds the request wrong: {reason}",
            hint="check the name of the model and the length of the texts",
        )

    def _without_key(self, text: str) -> str:
        for secret in (self._key, self._login[1] if self._login else None):
            if secret:
                text = text.replace(secret, "***")
        # Services quote parts of a key, e.g. sk-ab***xyz.
        return re.sub(r"\b(?:sk|co|key)-[\w*.-]+", "***", text)


def _wait(state: RetryCallState) -> float:
    """Return the wait that the service asks for, else 0.3, 0.6, 1.2, 2.4 seconds."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after_s if isinstance(error, _Transient) else None
    return float(0.3 * 2 ** (state.attempt_number - 1)) if asked is None else asked


def _seconds(header: str | None) -> float | None:
    """Return the seconds of a Retry-After header; None for a date."""
    try:
        return max(0.0, float(header)) if header is not None else None
    except ValueError:
        return None


def _error_detail(text: str) -> str:
    message: Any = text
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if isinstance(body, dict):
        inner = body.get("error")
        message = inner.get("message") if isinstance(inner, dict) else inner
        message = message or body.get("message") or body.get("detail") or ""
    line = re.sub(r"\s+", " ", str(message)).strip()
    return "" if line.startswith("<") else line[:_DETAIL_CHARACTERS]


def _one_line(error: Exception) -> str:
    """Return the message of an exception on one line, or its type; many exceptions of httpx have no message."""
    return re.sub(r"\s+", " ", str(error)).strip() or type(error).__name__
