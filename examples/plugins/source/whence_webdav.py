"""A source of files on a WebDAV server, such as Nextcloud's: `webdav+https://user:password@host/folder/`."""

from __future__ import annotations

import base64
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener
from xml.etree import ElementTree as ET

from whence.ingest.remote_sources import Listing, SourceEntry, shown_address
from whence.schema.errors import BadInput, Unavailable

DAV = "{DAV:}"
SECONDS = 60.0
#: Longest answer to one listing, in bytes.
MAX_LISTING = 16 * 2**20


class NoRedirects(HTTPRedirectHandler):
    """Sends the password to no other server."""

    def redirect_request(self, *_: object) -> None:
        """Follow no redirect."""


class WebDavSource:
    """The files below a folder; a file has another version when its `ETag` is another one.

    Args:
        address: See the module.
        folder: Not used: nothing is kept between two listings.
    """

    def __init__(self, address: str, folder: Path) -> None:
        parts = urlsplit(address.removeprefix("webdav+"))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadInput(f"{shown_address(address)} is not webdav+https://HOST/FOLDER/")
        host = parts.netloc.rpartition("@")[2]
        self.base = f"{parts.scheme}://{host}{parts.path.rstrip('/')}/"
        self.name = unquote(parts.path.rstrip("/").rpartition("/")[2]) or parts.hostname
        self.opener = build_opener(NoRedirects)
        self.headers = {}
        if parts.username:
            secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self.headers["Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"

    def list_entries(self, state: str) -> Listing:
        """Return all files, folder by folder; a folder that cannot be listed ends the listing."""
        entries: list[SourceEntry] = []
        waiting, seen = [self.base], {self.base}
        while waiting:
            for url, properties in self.listed(waiting.pop()):
                if not url.startswith(self.base) or url in seen:
                    continue
                seen.add(url)
                if properties.find(f"{DAV}resourcetype/{DAV}collection") is not None:
                    waiting.append(url if url.endswith("/") else f"{url}/")
                else:
                    entries.append(self.entry(url, properties))
        return Listing(entries=entries)

    def listed(self, url: str) -> list[tuple[str, ET.Element]]:
        """Return addresses and properties of a folder and what is in it."""
        with self.request(url, "PROPFIND", Depth="1") as stream:
            text = stream.read(MAX_LISTING + 1)
        if len(text) > MAX_LISTING or b"<!DOCTYPE" in text:
            raise Unavailable(f"{url} answers with no listing of a folder")
        try:
            answers = ET.fromstring(text).findall(f"{DAV}response")
        except ET.ParseError as error:
            raise Unavailable(f"{url} answers with no XML: {error}") from error
        return [
            (urljoin(url, one.findtext(f"{DAV}href", "")), properties)
            for one in answers
            if (properties := one.find(f"{DAV}propstat/{DAV}prop")) is not None
        ]

    def entry(self, url: str, properties: ET.Element) -> SourceEntry:
        """Return a file with its version."""
        changed = properties.findtext(f"{DAV}getlastmodified", "")
        date = parsedate_to_datetime(changed).isoformat() if changed else ""
        size = properties.findtext(f"{DAV}getcontentlength", "")
        return SourceEntry(
            path=unquote(url.removeprefix(self.base)),
            version=properties.findtext(f"{DAV}getetag", "") or f"{changed} {size}",
            size=int(size) if size.isdecimal() else -1,
            metadata={"date": date} if date else {},
            url=url,
        )

    def open_entry(self, entry: SourceEntry) -> BinaryIO:
        """Return the bytes of a file."""
        return self.request(entry.url, "GET")

    def request(self, url: str, method: str, **headers: str) -> BinaryIO:
        """Send a request; the address in an error has no password."""
        request = Request(url, method=method, headers=self.headers | headers)
        try:
            stream: BinaryIO = self.opener.open(request, timeout=SECONDS)
        except HTTPError as error:
            raise BadInput(f"{url} cannot be read: the server answers {error.code}") from error
        except (URLError, OSError) as error:
            raise Unavailable(f"{url} does not answer: {error}") from error
        return stream

    def close(self) -> None:
        """Nothing is held."""
