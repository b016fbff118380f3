"""A WebDAV server of a few files, as far as listings and reads go."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, unquote

_PASSWORD = "Basic YWRhOnNlY3JldA=="
_ANSWER = "<d:response><d:href>{}</d:href><d:propstat><d:prop>{}</d:prop></d:propstat></d:response>"


@contextmanager
def webdav_server(files: Mapping[str, bytes]) -> Iterator[tuple[int, list[str]]]:
    """Serve files by their paths to ada with the password secret; yield the port and the requests."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_PROPFIND(self) -> None:
            folder = unquote(self.path)
            names = {
                one.removeprefix(folder).partition("/") for one in files if one.startswith(folder)
            }
            answers = [_ANSWER.format(quote(folder), _FOLDER)]
            for name, slash, _ in sorted({(name, slash, "") for name, slash, _ in names}):
                path = f"{folder}{name}{slash}"
                answers.append(
                    _ANSWER.format(quote(path), _FOLDER if slash else _file(files[path]))
                )
            self._answer(
                207, f'<d:multistatus xmlns:d="DAV:">{"".join(answers)}</d:multistatus>'.encode()
            )

        def do_GET(self) -> None:
            data = files.get(unquote(self.path))
            self._answer(404 if data is None else 200, data or b"")

        def _answer(self, status: int, data: bytes) -> None:
            requests.append(f"{self.command} {self.path}")
            is_known = self.headers["Authorization"] == _PASSWORD
            self.send_response(status if is_known else 401)
            self.end_headers()
            self.wfile.write(data if is_known else b"")

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, requests
        finally:
            server.shutdown()
            thread.join()


_FOLDER = "<d:resourcetype><d:collection/></d:resourcetype>"


def _file(data: bytes) -> str:
    tag = hashlib.sha256(data).hexdigest()
    return (
        f"<d:resourcetype/><d:getetag>{tag}</d:getetag><d:getcontentlength>{len(data)}</d:getcontentlength>"
        "<d:getlastmodified>Tue, 05 Mar 2024 10:00:00 GMT</d:getlastmodified>"
    )
