"""Source texts: files as they were indexed, and pages behind addresses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from whence.evaluation.searcher import Passage
from whence.evaluation.validation import source_texts
from whence.evaluation.validation.source_texts import (
    Page,
    fetch_pages,
    is_web_address,
    read_documents,
    read_source_texts,
)
from whence.ingest.limited_process import Limits
from whence.ingest.reader import DocumentReader

HTML = b"<head><style>a{}</style></head><p>words</p><p>of<script>x</script> it</p>"
READER = DocumentReader(Limits())
#: Status, type and body by path.
PAGES = {
    "/plain": (200, "text/plain", "naïve <b>".encode()),
    "/html": (200, "text/html; charset=utf-8", HTML),
    "/latin": (200, "text/plain; charset=latin-1", "naïve".encode("latin-1")),
    "/broken": (200, "text/plain", b"a\xffb"),
    "/odd": (200, "text/plain; charset=none-such", b"a"),
    "/bare": (200, "", b"<p>a"),
    "/399": (399, "text/plain", b"it is here"),
    "/400": (400, "text/plain", b"no"),
    "/full": (200, "text/plain", b"x" * 200),
    "/large": (200, "text/plain", b"x" * 201),
    "/empty": (200, "text/html", b""),
}


@pytest.fixture
def server() -> Iterator[str]:
    """Serve the pages; `/moved` leads to `/plain`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, body = PAGES.get(self.path, (302, "", b""))
            self.send_response(status)
            if kind:
                self.send_header("Content-Type", kind)
            if status == 302:
                self.send_header("Location", "/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{listener.server_port}"
    listener.shutdown()
    thread.join()
    listener.server_close()


async def test_pages_are_read_as_words(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of a page, or the fault by which it cannot be read; one address does not harm another."""
    monkeypatch.setattr(source_texts, "_LARGEST_PAGE", 200)
    found = await fetch_pages([f"{server}{path}" for path in [*PAGES, "/moved"]])
    nowhere = await fetch_pages(["http://127.0.0.1:1/", "http://["])
    pages = {address.removeprefix(server): page for address, page in found.items()}

    assert pages == {
        "/plain": Page("naïve <b>"),
        "/html": Page("words of  it"),
        "/latin": Page("naïve"),
        "/broken": Page("a\ufffdb"),
        "/odd": Page(None, "the page cannot be read: unknown encoding: none-such"),
        "/bare": Page("<p>a"),
        "/399": Page("it is here"),
        "/400": Page(None, "the page answered 400"),
        "/full": Page("x" * 200),
        "/large": Page(None, "the page is larger than 200 bytes"),
        "/empty": Page(""),
        "/moved": Page("naïve <b>"),
    }
    assert [one.fault.partition(":")[0] for one in nowhere.values()] == [
        "the page cannot be read"
    ] * 2
    assert all(one.fault.partition(": ")[2] for one in nowhere.values())


def _passage(document_id: str, source_file: str = "", source_url: str | None = None) -> Passage:
    return Passage(
        id=document_id,
        score=1.0,
        text="",
        document_id=document_id,
        source_file=source_file,
        source_url=source_url,
    )


def test_originals_are_found_by_file_and_by_id(tmp_path: Path) -> None:
    """Files below a folder, a file on its own, records of a file; nothing outside, and the first root wins."""
    docs, other, single = tmp_path / "docs", tmp_path / "other", tmp_path / "single.md"
    (docs / "deep").mkdir(parents=True)
    other.mkdir()
    (docs / "deep" / "a.md").write_text("first a")
    (other / "b.md").write_text("only b")
    (docs / "c.md").write_text("c of docs")
    (other / "c.md").write_text("c of other")
    single.write_text("alone")
    (docs / "empty.md").write_text("")
    rows = [{"_id": "one", "text": "record one"}, {"_id": "two", "text": "record two"}]
    (docs / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    wanted = [
        _passage("empty.md"),
        _passage("deep/a.md"),
        _passage("b.md"),
        _passage("c.md"),
        _passage("single.md"),
        _passage("two", "rows.jsonl"),
        _passage("other name", "b.md"),
        _passage("../single.md"),
        _passage(str(single)),
        _passage("a\0b"),
        _passage("missing.md"),
    ]

    assert read_documents(wanted, [docs, other, single, tmp_path / "gone"], READER) == {
        "deep/a.md": "first a",
        "b.md": "only b",
        "c.md": "c of docs",
        "single.md": "alone",
        "two": "record two",
    }
    assert read_documents([_passage("b.md")], [single], READER) == {}


@pytest.mark.parametrize(
    ("address", "web"),
    [("http://a", True), ("https://a", True), ("ftp://a", False), ("a.md", False)],
)
def test_web_addresses(address: str, *, web: bool) -> None:
    """Those of http and https are fetched, others are files."""
    assert is_web_address(address) is web


def test_addresses_that_are_no_files_are_faults(tmp_path: Path) -> None:
    """Only those that should be files, are asked about and are not there; roots are named."""
    (tmp_path / "a.md").write_text("a")
    found = [
        _passage("a.md", source_url="a.md"),
        _passage("b.md", source_url="b.md"),
        _passage("c", source_url="https://c"),
        _passage("d"),
    ]
    pages = {"https://c": Page("c")}
    roots = [tmp_path, tmp_path / "more"]

    checked = read_source_texts(found, roots, pages, check_files=True)
    unchecked = read_source_texts(found, roots, pages, required=False)
    nowhere = read_source_texts(found[1:2], [], {}, check_files=True)

    fault = f"there is no such document in {roots[0]}, {roots[1]}"
    assert checked == ({"a.md": "a"}, pages | {"b.md": Page(None, fault)}, True)
    assert unchecked == ({"a.md": "a"}, pages, False)
    assert nowhere.documents is None
    assert nowhere.pages["b.md"].fault == (
        "there is no such document in any folder that is known to have been indexed"
    )
