"""A model server for tests: a real HTTP server that answers with a function and remembers what it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], bytes]
"""Status, headers, body; status 0 cuts the connection."""
Respond = Callable[[str, dict[str, Any]], Answer]
"""Takes path and body; the body of a GET is empty."""


class Server:
    """A server on this machine, from `with` on."""

    def __init__(self, respond: Respond) -> None:
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers.get("content-length", 0))
                body = json.loads(self.rfile.read(size) or b"{}")
                outer.requests.append((self.path, dict(self.headers), body))
                status, headers, data = respond(self.path, body)
                # The client may have disconnected.
                with suppress(OSError):
                    self._answer(status, headers, data)

            do_GET = do_POST  # noqa: N815 - the name that http.server calls

            def _answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
                if not status:
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in {"content-type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Stay silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"http://{self.host}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def keys(self) -> set[str]:
        """The credentials that it was sent."""
        return {headers.get("Authorization", "") for _, headers, _ in self.requests}


def ok(body: Any) -> Answer:
    """Return an answer of JSON."""
    return 200, {}, json.dumps(body).encode()


def in_turn(*answers: Answer | Respond) -> Respond:
    """Return each answer once, the last one for ever."""
    left = list(answers)

    def respond(path: str, body: dict[str, Any]) -> Answer:
        answer = left.pop(0) if len(left) > 1 else left[0]
        return answer(path, body) if callable(answer) else answer

    return respond
