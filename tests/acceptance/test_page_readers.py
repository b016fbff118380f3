"""Readers of the page against a running server and its database: history, feedback and its export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
from tests.support.serving import serving

ROOT = Path(__file__).resolve().parents[2]
PAGE = {"X-Whence-Page": "1"}
QUESTION = "How many days of leave do we get?"


def browser_of(url: str, cookies: httpx.Cookies | None = None) -> httpx.Client:
    """Return a client that keeps cookies and sends what the page sends."""
    return httpx.Client(base_url=url, headers=PAGE, cookies=cookies, timeout=60)


def test_a_reader_comes_back_after_a_restart(own: Any, tmp_path: Path) -> None:
    """History, session and feedback outlive the server; the command exports what the reader said."""
    assert own("index", ROOT / "examples" / "handbook", "--collection", "serve").code == 0
    made = own("tokens", "new", "anna", "--acl", "finance", "--json")
    token = made.json["token"]
    with serving(own) as running, browser_of(running.url) as browser:
        assert browser.post("/v1/reader/session", json={"token": token}).status_code == 204
        answer = browser.post("/v1/ask", json={"question": QUESTION}).json()
        cookies = httpx.Cookies(browser.cookies)
    with serving(own) as running, browser_of(running.url, cookies) as browser:
        assert browser.get("/v1/reader").json()["name"] == "anna"
        (row,) = browser.get("/v1/history").json()["answers"]
        assert (row["answer_id"], row["state"]) == (answer["answer_id"], "current")
        path = f"/v1/answers/{answer['answer_id']}"
        assert browser.get(f"{path}/answer").json()["answer"] == answer["answer"]
        source = browser.get(f"{path}/citations/0/source").json()
        quote = "".join(source["text"][start:end] for start, end in source["marks"])
        assert quote == answer["citations"][0]["quote"]
        given = browser.post(f"{path}/feedback", json={"verdict": "wrong", "note": "Ask HR."})
        assert given.status_code == 204
        assert browser.delete("/v1/reader/session").status_code == 204
        assert not browser.get("/v1/reader").json()["signed_in"]
        assert browser.get("/v1/history").json()["answers"] == []
    out = tmp_path / "cases.json"
    assert own("eval", "cases", "export", "--out", out).code == 0
    (case,) = json.loads(out.read_text())["queries"]
    assert (case["query"], case["verdict"], case["note"]) == (QUESTION, "wrong", "Ask HR.")
    assert case["answer_id"] == answer["answer_id"]
    assert own("eval", "cases", "export", "--json").json["queries"] == [case]
    own("eval", "cases", "export", "--collection", "elsewhere", "--json").assert_error(3)
    assert own("eval", "cases", "forget").code == 2
