"""What the page asks the gateway for: sign-in, overview, sources of citations; on a store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec import convert
from tests.support.page_server import URL, PageServer, page_server
from tests.support.pdf_canvas import Canvas, canvas_pdf

from whence.evaluation.gate.files import SuiteFile
from whence.schema.access import Access
from whence.schema.errors import NotFound
from whence.store.reader_records import ReaderSession
from whence.surfaces.http.admission import TooManyRequests
from whence.surfaces.http.attempts import FIRST_WAIT_S, FREE, LONGEST_WAIT_S, Attempts
from whence.surfaces.http.auth import Caller, token_digest

LEAVE = """# Leave

## Annual leave

Every employee gets thirty days of annual leave a year. Leave that is not taken by the end of March expires.

## Parental leave

Parents stay at home for up to fourteen months. They announce it seven weeks before it begins.
"""
SALARIES = """# Salaries

## Bonus of the board

The bonus of the board is nine hundred thousand euro. It is paid in April, with the salary of that month.
"""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[PageServer]:
    """Return a server with a public document and one for finance."""
    folder = tmp_path / "wiki"
    folder.mkdir()
    (folder / "leave.md").write_text(LEAVE, "utf-8")
    (folder / "salaries.md").write_text(f"---\nacl: [finance]\n---\n{SALARIES}", "utf-8")
    async with page_server(tmp_path / "home") as server:
        await server.engine.index([folder])
        yield server


async def sign_in(browser: httpx.AsyncClient, token: str = "reader") -> httpx.Response:
    """Sign in."""
    return await browser.post("/v1/reader/session", json={"token": token})


async def ask(browser: httpx.AsyncClient, question: str, **body: Any) -> dict[str, Any]:
    """Ask, and return the answer's document."""
    answered = await browser.post("/v1/ask", json={"question": question, **body})
    assert answered.status_code == 200, answered.text
    document: dict[str, Any] = answered.json()
    return document


DAYS = "How many days of annual leave does every employee get?"
BONUS = "What is the bonus of the board?"


async def test_a_session_has_the_rights_of_its_token(server: PageServer) -> None:
    """The cookie is opaque, for this server's own scripts unreadable, and reads with the token's rights."""
    async with server.browser() as browser:
        before = (await browser.get("/v1/reader")).json()
        assert (before["signed_in"], before["rights"]["acl"]) == (False, [])
        begun = await sign_in(browser)
        assert begun.status_code == 204
        cookie = begun.headers["set-cookie"].lower()
        assert {"httponly", "samesite=strict", "path=/"} <= {*cookie.split("; ")}
        assert not {"secure", "max-age", "expires"} & {
            one.partition("=")[0] for one in cookie.split("; ")
        }
        assert "reader" not in cookie
        after = (await browser.get("/v1/reader")).json()
        assert (after["signed_in"], after["name"], after["may_write"]) == (True, "reader", False)
        assert after["rights"] == {"acl": ["finance"], "labels": [], "clearance": 0}
        assert (await ask(browser, BONUS))["found"]


async def test_a_session_outlives_a_restart_and_ends_with_sign_out(server: PageServer) -> None:
    """A new gateway before the same store knows the session; after sign-out no gateway does."""
    async with server.browser() as browser:
        await sign_in(browser)
        kept = httpx.Cookies(browser.cookies)
    async with server.browser(kept) as browser:
        assert (await browser.get("/v1/reader")).json()["signed_in"]
        stolen = httpx.Cookies(browser.cookies)
        ended = await browser.delete("/v1/reader/session")
        assert ended.status_code == 204
        assert "whence_session" not in browser.cookies
    async with server.browser(stolen) as browser:
        assert not (await browser.get("/v1/reader")).json()["signed_in"]
        assert not (await ask(browser, BONUS))["found"]


async def test_a_session_ends_with_its_token(server: PageServer) -> None:
    """A revoked token has no session."""
    async with server.browser() as browser:
        await sign_in(browser)
        del server.callers[token_digest("reader")]
        assert not (await browser.get("/v1/reader")).json()["signed_in"]


async def test_a_session_ends_after_twelve_hours(server: PageServer) -> None:
    """The store has no session that has ended."""
    async with server.browser() as browser:
        await sign_in(browser)
        (session,) = server.store._sessions.values()
        left = session.ends_at - datetime.now(UTC)
        assert timedelta(hours=11, minutes=59) < left <= timedelta(hours=12)
        ended = ReaderSession(
            digest=session.digest, token=session.token, caller="", ends_at=datetime.now(UTC)
        )
        server.store._sessions[session.digest] = ended
        assert not (await browser.get("/v1/reader")).json()["signed_in"]


@pytest.mark.parametrize(
    "head",
    [
        {"Origin": "https://chat.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_the_cookie_is_not_taken_for_other_pages(
    server: PageServer, head: dict[str, str]
) -> None:
    """Requests of other pages have no session, of allowed origins neither, whatever headers they add."""
    origins = ["https://chat.example", "null", "http://127.0.0.1:9999"]
    async with server.browser(origins=origins) as browser:
        await sign_in(browser, "editor")
        own = (await browser.get("/v1/reader", headers={"Origin": URL})).json()
        assert own["signed_in"]
        seen = await browser.get("/v1/reader", headers=head)
        assert not seen.json()["signed_in"]
        found = await browser.post("/v1/search", json={"query": "bonus"}, headers=head)
        assert [one["document_id"] for one in found.json()["hits"]] == ["leave.md"] * len(
            found.json()["hits"]
        )
        removed = await browser.delete("/v1/collections/default/documents/leave.md", headers=head)
        assert removed.status_code == 401
        assert (await browser.delete("/v1/reader/session", headers=head)).status_code == 403
        begun = await browser.post("/v1/reader/session", json={"token": "editor"}, headers=head)
        assert begun.status_code == 403


async def test_writes_need_the_header_of_the_page(server: PageServer) -> None:
    """A form of another site cannot send it, so the cookie alone writes nothing and signs nobody out."""
    path = "/v1/collections/default/documents/leave.md"
    async with server.browser() as browser:
        await sign_in(browser, "editor")
        for value in ("", "0"):
            head = {"X-Whence-Page": value}
            assert (await browser.delete(path, headers=head)).status_code == 401
            ended = await browser.delete("/v1/reader/session", headers=head)
            assert ended.status_code == 403
        assert (await browser.delete(path)).status_code == 200


async def test_a_token_goes_before_the_cookie(server: PageServer) -> None:
    """A request with a token has its rights alone, and a wrong one is refused."""
    async with server.browser() as browser:
        await sign_in(browser)
        named = await browser.get("/v1/reader", headers={"Authorization": "Bearer other"})
        assert named.json()["name"] == "other"
        wrong = await browser.get("/v1/reader", headers={"Authorization": "Bearer wrong"})
        assert wrong.status_code == 401


async def test_wrong_tokens_are_slowed_down(server: PageServer) -> None:
    """After some wrong tokens even the right one waits, and the answer says for how long."""
    async with server.browser() as browser:
        for _ in range(FREE):
            assert (await sign_in(browser, "wrong")).status_code == 401
        refused = await sign_in(browser)
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) >= 1
        assert refused.json()["error"]["code"] == "too_many_requests"
        # Tokens of programs are not held up.
        head = {"Authorization": "Bearer reader"}
        assert (await browser.get("/v1/reader", headers=head)).status_code == 200


def test_attempts_wait_longer_with_each_wrong_token() -> None:
    """The wait doubles up to its limit, holds for one address, and a right token ends it."""
    now = [1000.0]
    attempts = Attempts(lambda: now[0])
    waits = []
    for _ in range(FREE + 12):
        try:
            attempts.check("10.0.0.1")
        except TooManyRequests as refused:
            waits.append(refused.retry_after_s or 0.0)
            now[0] += waits[-1]
            attempts.check("10.0.0.1")
        attempts.failed("10.0.0.1")
        attempts.check("10.0.0.2")
    assert waits[:3] == [FIRST_WAIT_S, 2 * FIRST_WAIT_S, 4 * FIRST_WAIT_S]
    assert waits[-1] == LONGEST_WAIT_S
    attempts.succeeded("10.0.0.1")
    attempts.check("10.0.0.1")


@pytest.mark.parametrize("body", [{}, {"token": 3}, {"token": "reader", "more": 1}, []])
async def test_a_malformed_sign_in_is_refused(server: PageServer, body: Any) -> None:
    """Nothing but a token signs in."""
    async with server.browser() as browser:
        refused = await browser.post("/v1/reader/session", json=body)
        assert refused.status_code == 400
        assert "set-cookie" not in refused.headers


async def test_behind_tls_the_cookie_is_secure(server: PageServer) -> None:
    """A server that is reached by https gives its cookies for https alone."""
    async with server.browser(public_url="https://wiki.example") as browser:
        begun = await browser.post(
            "/v1/reader/session",
            json={"token": "reader"},
            headers={"Origin": "https://wiki.example", "Host": "wiki.example"},
        )
        assert "secure" in begun.headers["set-cookie"].lower().split("; ")


async def test_the_overview_counts_what_the_reader_sees(server: PageServer) -> None:
    """Counts, last change and examples are those of visible documents."""
    async with server.browser() as browser:
        public = (await browser.get("/v1/overview")).json()
        await sign_in(browser)
        finance = (await browser.get("/v1/overview")).json()
    (seen,), (whole,) = public["collections"], finance["collections"]
    assert (seen["name"], seen["documents"], whole["documents"]) == ("default", 1, 2)
    assert 0 < seen["chunks"] < whole["chunks"]
    assert (seen["unread_files"], seen["vectors_share"]) == (0, 1.0)
    assert seen["changed_at"] <= whole["changed_at"]
    assert not any("board" in one["question"] for one in public["examples"])
    assert any("board" in one["question"] for one in finance["examples"])
    assert public["default"] == "default"
    assert not public["handbook"]
    assert public["data"] == {"where": "memory"}
    assert public["models"]["writer_server"] is None


@pytest.mark.parametrize(
    ("heading", "mark"),
    [
        ("Returns", "?"),
        ("الإجازة السنوية", "\u061f"),
        ("年次休暇の日数", "\uff1f"),
        ("연차 휴가", "?"),
    ],
)
async def test_example_questions_are_about_prose_in_its_script(
    server: PageServer, tmp_path: Path, heading: str, mark: str
) -> None:
    """Code gives no example while there is prose; a question ends with the mark of its script."""
    wiki = tmp_path / "wiki"
    body = f"{heading} 1234. " * 12
    (wiki / "leave.md").write_text(f"# Notes\n\n## {heading}\n\n{body}\n", "utf-8")
    lines = "\n".join(f"    total += {number}" for number in range(40))
    (wiki / "sums.py").write_text(f"def add_all_numbers(total: int) -> int:\n{lines}\n", "utf-8")
    await server.engine.index([wiki])
    async with server.browser() as browser:
        asked = [one["question"] for one in (await browser.get("/v1/overview")).json()["examples"]]
    assert f"Notes: {heading}{mark}" in asked
    assert not any("add_all_numbers" in one for one in asked)


async def test_a_document_says_how_it_is_shown(server: PageServer, tmp_path: Path) -> None:
    """Only text that is written for programs is shown as code."""
    texts = {
        "run.sh": "set -e\nmake all\n",
        "LICENSE": "All may use this.",
        "notes.txt": "Some notes.",
    }
    for name, text in texts.items():
        (tmp_path / "wiki" / name).write_text(text)
    await server.engine.index([tmp_path / "wiki"])
    async with server.browser() as browser:
        path = "/v1/collections/default/documents"
        media = {name: (await browser.get(f"{path}/{name}")).json()["media"] for name in texts}
    assert media == {"run.sh": "code", "LICENSE": "text", "notes.txt": "text"}


async def test_an_empty_home_offers_the_handbook_to_writers(tmp_path: Path) -> None:
    """One request indexes the example handbook; only a token that may write may send it, and only once."""
    async with page_server(tmp_path / "home") as server, server.browser() as browser:
        empty = (await browser.get("/v1/overview")).json()
        assert (empty["collections"], empty["examples"], empty["handbook"]) == ([], [], False)
        assert (await browser.post("/v1/handbook")).status_code == 401
        await sign_in(browser)
        assert (await browser.post("/v1/handbook")).status_code == 403
        await sign_in(browser, "editor")
        assert (await browser.get("/v1/overview")).json()["handbook"]
        stored = await browser.post("/v1/handbook")
        assert stored.status_code == 201
        assert stored.json()["documents"]["added"] > 5
        full = (await browser.get("/v1/overview")).json()
        assert not full["handbook"]
        assert len(full["examples"]) == 3
        assert (await browser.post("/v1/handbook")).status_code == 400


async def test_a_source_is_the_document_with_the_quote_marked(server: PageServer) -> None:
    """What is marked is the quote, character by character; the file is given as an attachment."""
    async with server.browser() as browser:
        answer = await ask(browser, DAYS)
        quote = answer["citations"][0]["quote"]
        base = f"/v1/answers/{answer['answer_id']}/citations/0"
        source = (await browser.get(f"{base}/source")).json()
        assert "".join(source["text"][a:b] for a, b in source["marks"]) == quote
        assert (source["document_id"], source["media"], source["changed"]) == (
            "leave.md",
            "markdown",
            False,
        )
        assert "Annual leave" in source["headings"]
        assert (source["more_before"], source["more_after"]) == (False, False)
        assert source["total"] == len(source["text"])
        assert source["original"] == f"{base}/original"
        assert source["picture"] is None
        file = await browser.get(source["original"])
        assert file.content.decode() == LEAVE
        assert file.headers["content-disposition"].startswith("attachment;")
        assert file.headers["content-type"] == "application/octet-stream"


async def test_a_source_of_a_changed_document_shows_what_was_cited(
    server: PageServer, tmp_path: Path
) -> None:
    """The quote stays readable, is called changed, and no other file is given for the one that was indexed."""
    async with server.browser() as browser:
        answer = await ask(browser, DAYS)
        base = f"/v1/answers/{answer['answer_id']}/citations/0"
        (tmp_path / "wiki" / "leave.md").write_text("# Leave\n\nAll of it was cancelled.", "utf-8")
        source = (await browser.get(f"{base}/source")).json()
        assert (source["changed"], source["original"]) == (True, None)
        assert (await browser.get(f"{base}/original")).status_code == 404
        await server.engine.index([tmp_path / "wiki"])
        source = (await browser.get(f"{base}/source")).json()
        assert source["changed"] is True
        assert source["text"] == answer["citations"][0]["quote"]


async def test_a_long_source_is_a_window_around_the_quote(
    server: PageServer, tmp_path: Path
) -> None:
    """At most 40,000 characters, counted in code points, with the offset of the first one."""
    filler = "\n\n".join(
        f"The \N{GRINNING FACE} door number {n} is painted blue." for n in range(3000)
    )
    fact = "The observatory of Kestrel opens at nine in the evening."
    (tmp_path / "wiki" / "long.md").write_text(f"# Long\n\n{filler}\n\n{fact}\n\n{filler}", "utf-8")
    await server.engine.index([tmp_path / "wiki"])
    async with server.browser() as browser:
        answer = await ask(browser, "When does the observatory of Kestrel open?")
        base = f"/v1/answers/{answer['answer_id']}/citations/0"
        source = (await browser.get(f"{base}/source")).json()
        ((start, end),) = source["marks"]
        assert fact in source["text"][start:end]
        assert len(source["text"]) == 40_000
        assert source["more_before"]
        assert source["more_after"]
        shown = await browser.get("/v1/collections/default/documents/long.md")
        at = source["offset"]
        assert shown.json()["text"][at : at + 40_000] == source["text"]


@pytest.mark.parametrize("tail", ["source", "original", "page.png"])
async def test_a_source_is_for_those_who_see_the_answer(server: PageServer, tail: str) -> None:
    """Without the rights, for another answer or another citation: the same words as for none."""
    async with server.browser() as browser:
        await sign_in(browser)
        answer = await ask(browser, BONUS)
        base = f"/v1/answers/{answer['answer_id']}/citations"
        if tail != "page.png":
            assert (await browser.get(f"{base}/0/{tail}")).status_code == 200
        for wrong in ("99", "-1", "x", "1e3", "\N{SUPERSCRIPT TWO}"):
            assert (await browser.get(f"{base}/{wrong}/{tail}")).status_code == 404
        await browser.delete("/v1/reader/session")
        hidden = await browser.get(f"{base}/0/{tail}")
        missing = await browser.get(f"/v1/answers/none/citations/0/{tail}")
        assert hidden.status_code == missing.status_code == 404
        own = hidden.json()["error"]["message"].replace(answer["answer_id"], "none")
        assert own == missing.json()["error"]["message"]


async def test_a_file_of_records_is_no_file_of_one_of_them(
    server: PageServer, tmp_path: Path
) -> None:
    """It holds other documents, which the reader may not see."""
    rows = [
        '{"_id": "a", "title": "Gate", "text": "The western gate of the castle closes at eight."}',
        '{"_id": "b", "title": "Vault", "text": "The vault opens with 4711.", "acl": ["finance"]}',
    ]
    (tmp_path / "wiki" / "records.jsonl").write_text("\n".join(rows), "utf-8")
    await server.engine.index([tmp_path / "wiki"])
    async with server.browser() as browser:
        answer = await ask(browser, "When does the western gate of the castle close?")
        base = f"/v1/answers/{answer['answer_id']}/citations/0"
        source = (await browser.get(f"{base}/source")).json()
        assert (source["document_id"], source["original"]) == ("a", None)
        assert (await browser.get(f"{base}/original")).status_code == 404


async def test_a_link_out_of_the_root_is_not_followed(server: PageServer, tmp_path: Path) -> None:
    """A file that became a link to another place is not given, even with the same bytes."""
    async with server.browser() as browser:
        answer = await ask(browser, DAYS)
        file = tmp_path / "wiki" / "leave.md"
        away = file.rename(tmp_path / "away.md")
        file.symlink_to(away)
        base = f"/v1/answers/{answer['answer_id']}/citations/0"
        assert (await browser.get(f"{base}/source")).json()["original"] is None
        assert (await browser.get(f"{base}/original")).status_code == 404


async def test_a_permalink_is_the_page(server: PageServer) -> None:
    """Whatever its id, with paths that lead to the page's own files."""
    async with server.browser() as browser:
        page = await browser.get("/a/any")
        assert page.headers["content-type"].startswith("text/html")
        assert '="../page/' in page.text
        assert '="page/' not in page.text
        assert "script-src 'self'" in page.headers["content-security-policy"]


async def test_a_history_is_of_its_browser_or_its_token(server: PageServer) -> None:
    """A browser has what it asked without a token, a token what it asked anywhere; nobody else has it."""
    async with server.browser() as browser, server.browser() as another:
        answer = await ask(browser, DAYS)
        assert "whence_browser" in browser.cookies
        (row,) = (await browser.get("/v1/history")).json()["answers"]
        assert (row["answer_id"], row["question"]) == (answer["answer_id"], DAYS)
        assert (row["collection"], row["found"], row["state"]) == ("default", True, "current")
        assert (await another.get("/v1/history")).json() == {"answers": [], "next": None}
        await sign_in(browser)
        assert (await browser.get("/v1/history")).json()["answers"] == []
        own = await ask(browser, BONUS)
        await sign_in(another)
        seen = (await another.get("/v1/history")).json()["answers"]
        assert [one["answer_id"] for one in seen] == [own["answer_id"]]
        await another.delete("/v1/reader/session")
        assert (await another.get("/v1/history")).json()["answers"] == []


async def test_a_history_outlives_a_restart_and_has_streamed_answers(server: PageServer) -> None:
    """Another gateway before the same store shows it, in pages, the latest first."""
    async with server.browser() as browser:
        head = {"Accept": "text/event-stream"}
        streamed = await browser.post("/v1/ask", json={"question": DAYS}, headers=head)
        assert "event: answer" in streamed.text
        await ask(browser, "How long do parents stay at home?")
        kept = httpx.Cookies(browser.cookies)
    async with server.browser(kept) as browser:
        first = (await browser.get("/v1/history?limit=1")).json()
        rest = (await browser.get(f"/v1/history?after={first['next']}")).json()
        asked = [one["question"] for one in (*first["answers"], *rest["answers"])]
        assert asked == ["How long do parents stay at home?", DAYS]
        assert rest["next"] is None
        assert (await browser.get("/v1/history?limit=0")).status_code == 400


async def test_only_questions_of_the_page_are_in_a_history(server: PageServer) -> None:
    """Programs ask without its header, and other origins with theirs; neither get a browser's cookie."""
    async with server.browser(origins=["https://chat.example"]) as browser:
        await sign_in(browser)
        for head in (
            {"X-Whence-Page": "", "Authorization": "Bearer reader"},
            {"Origin": "https://chat.example", "Authorization": "Bearer reader"},
            {"Origin": "https://chat.example"},
        ):
            asked = await browser.post("/v1/ask", json={"question": DAYS}, headers=head)
            assert asked.status_code == 200
            assert "set-cookie" not in asked.headers
        assert (await browser.get("/v1/history")).json()["answers"] == []


async def test_readers_behind_one_token_have_a_history_each(server: PageServer) -> None:
    """A token that speaks for others is not one reader."""
    async with server.browser() as browser, server.browser() as another:
        head = {"Authorization": "Bearer intranet"}
        await browser.post("/v1/ask", json={"question": DAYS}, headers=head)
        mine = (await browser.get("/v1/history", headers=head)).json()["answers"]
        assert [one["question"] for one in mine] == [DAYS]
        assert (await another.get("/v1/history", headers=head)).json()["answers"] == []


async def test_a_history_says_what_became_of_the_sources(
    server: PageServer, tmp_path: Path
) -> None:
    """A changed or removed document, and an erased one; nothing of the latter is left in answers or notes."""
    async with server.browser() as browser:
        await sign_in(browser)
        leave, bonus = await ask(browser, DAYS, access={}), await ask(browser, BONUS)

        async def states() -> dict[str, str]:
            rows = (await browser.get("/v1/history")).json()["answers"]
            return {one["answer_id"]: one["state"] for one in rows}

        ids = leave["answer_id"], bonus["answer_id"]
        assert await states() == dict.fromkeys(ids, "current")
        (tmp_path / "wiki" / "leave.md").write_text(LEAVE.replace("thirty", "forty"), "utf-8")
        assert await states() == {ids[0]: "changed", ids[1]: "current"}
        await server.engine.index([tmp_path / "wiki"])
        assert await states() == {ids[0]: "changed", ids[1]: "current"}
        note = {"verdict": "wrong", "note": "nine hundred thousand euro is too much"}
        await browser.post(f"/v1/answers/{ids[1]}/feedback", json=note)
        await server.engine.erase("salaries.md")
        assert await states() == {ids[0]: "changed", ids[1]: "erased"}
        kept = (await browser.get(f"/v1/answers/{ids[1]}/answer")).text
        assert "nine hundred" not in kept
        (case,) = await server.engine.owner.export_cases()
        assert (case["verdict"], case["note"]) == ("wrong", "")
        source = await browser.get(f"/v1/answers/{ids[1]}/citations/0/source")
        assert "nine hundred" not in source.text


async def test_a_history_ends_where_rights_end(server: PageServer) -> None:
    """An answer that the reader may not see any more is not in the history, nor is its state."""
    async with server.browser() as browser:
        await sign_in(browser)
        answer = await ask(browser, BONUS)
        public = await ask(browser, DAYS, access={})
        caller = server.callers[token_digest("reader")]
        server.callers[token_digest("reader")] = Caller(caller.name, Access.public())
        rows = (await browser.get("/v1/history")).json()["answers"]
        assert [one["answer_id"] for one in rows] == [public["answer_id"]]
        hidden = await browser.get(f"/v1/answers/{answer['answer_id']}/answer")
        assert hidden.status_code == 404


async def test_a_recorded_answer_is_the_one_that_was_given(server: PageServer) -> None:
    """All that the page shows of it, also after a restart."""
    async with server.browser() as browser:
        for question in (DAYS, "Who invented the steam engine of Zanzibar?"):
            given = await ask(browser, question)
            again = (await browser.get(f"/v1/answers/{given['answer_id']}/answer")).json()
            assert again == given
        assert (await browser.get("/v1/answers/none/answer")).status_code == 404


async def test_erased_passages_beside_a_refusal_are_gone(server: PageServer) -> None:
    """The nearest passages of a refusal are words of documents, too."""
    async with server.browser() as browser:
        await sign_in(browser)
        given = await ask(browser, "When was the bonus bank founded?")
        assert not given["found"]
        assert any("nine hundred" in one["text"] for one in given["nearest"])
        await server.engine.erase("salaries.md")
        kept = (await browser.get(f"/v1/answers/{given['answer_id']}/answer")).text
        assert "nine hundred" not in kept


async def test_two_answers_are_compared(server: PageServer) -> None:
    """The document of `whence diff --json`; answers that the reader may not see do not exist."""
    async with server.browser() as browser:
        one, other = await ask(browser, DAYS), await ask(browser, DAYS)
        found = await browser.get(f"/v1/answers/{one['answer_id']}/diff/{other['answer_id']}")
        assert (found.json()["answer_a"], found.json()["answer_changed"]) == (
            one["answer_id"],
            False,
        )
        await sign_in(browser)
        hidden = await ask(browser, BONUS)
        await browser.delete("/v1/reader/session")
        refused = await browser.get(f"/v1/answers/{one['answer_id']}/diff/{hidden['answer_id']}")
        assert refused.status_code == 404


async def test_feedback_becomes_a_case(server: PageServer) -> None:
    """The last verdict of a reader counts; a right answer names what its question should find."""
    async with server.browser() as browser, server.browser() as another:
        answer = await ask(browser, DAYS)
        path = f"/v1/answers/{answer['answer_id']}/feedback"
        assert (await browser.post(path, json={"verdict": "wrong"})).status_code == 204
        note = {"verdict": "right", "note": "It is \N{SNOWMAN} thirty."}
        assert (await browser.post(path, json=note)).status_code == 204
        assert (await another.post(path, json={"verdict": "missing"})).status_code == 204
    cases = await server.engine.owner.export_cases()
    assert sorted(one["verdict"] for one in cases) == ["missing", "right"]
    (right,) = [one for one in cases if one["verdict"] == "right"]
    assert (right["query"], right["note"]) == (DAYS, "It is \N{SNOWMAN} thirty.")
    assert right["expected_targets"] == [{"hint": "leave.md"}]
    assert right["answer_id"] == answer["answer_id"]
    assert right["collection_version"] > 0
    with pytest.raises(NotFound):
        await server.engine.owner.export_cases("elsewhere")
    convert({"version": "1", "queries": [right]}, SuiteFile)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"verdict": "good"},
        {"verdict": "right", "note": 3},
        {"verdict": "right", "note": "x" * 4001},
        {"verdict": "right", "note": "a\0b"},
        {"verdict": "right", "more": 1},
    ],
)
async def test_malformed_feedback_is_refused(server: PageServer, body: Any) -> None:
    """Nothing of it is stored."""
    async with server.browser() as browser:
        answer = await ask(browser, DAYS)
        refused = await browser.post(f"/v1/answers/{answer['answer_id']}/feedback", json=body)
        assert refused.status_code == 400
    assert await server.engine.owner.export_cases() == []


async def test_feedback_is_for_those_who_see_the_answer(server: PageServer) -> None:
    """To others the answer does not exist."""
    async with server.browser() as browser:
        await sign_in(browser)
        answer = await ask(browser, BONUS)
        await browser.delete("/v1/reader/session")
        path = f"/v1/answers/{answer['answer_id']}/feedback"
        refused = await browser.post(path, json={"verdict": "wrong"})
        assert refused.status_code == 404
    assert await server.engine.owner.export_cases() == []


async def test_a_removal_is_previewed_with_the_visible_answers(server: PageServer) -> None:
    """The answers that cite a document, of those that the reader may see; hidden and missing are one."""
    base = "/v1/collections/default/documents"
    async with server.browser() as browser:
        public = await ask(browser, DAYS)
        await sign_in(browser)
        own = await ask(browser, DAYS)
        found = (await browser.get(f"{base}/leave.md/answers")).json()
        ids = [one["answer_id"] for one in found["answers"]]
        assert (sorted(ids), found["count"]) == (
            sorted([public["answer_id"], own["answer_id"]]),
            2,
        )
        await ask(browser, BONUS)
        assert (await browser.get(f"{base}/salaries.md/answers")).json()["count"] == 1
        await browser.delete("/v1/reader/session")
        found = (await browser.get(f"{base}/leave.md/answers")).json()
        assert [one["answer_id"] for one in found["answers"]] == [public["answer_id"]]
        hidden = await browser.get(f"{base}/salaries.md/answers")
        missing = await browser.get(f"{base}/missing.md/answers")
        assert hidden.status_code == missing.status_code == 404
        words = hidden.json()["error"]["message"].replace("salaries", "missing")
        assert words == missing.json()["error"]["message"]


async def test_a_document_may_be_called_answers(server: PageServer, tmp_path: Path) -> None:
    """Its own id goes before the preview of another document."""
    (tmp_path / "wiki" / "leave.md").rename(tmp_path / "wiki" / "faq")
    (tmp_path / "wiki" / "faq").unlink()
    (tmp_path / "wiki" / "faq").mkdir()
    (tmp_path / "wiki" / "faq" / "answers").write_text("# Faq\n\nAll questions are answered here.")
    await server.engine.index([tmp_path / "wiki"])
    async with server.browser() as browser:
        shown = await browser.get("/v1/collections/default/documents/faq/answers")
        assert shown.json()["document_id"] == "faq/answers"


async def test_documents_are_listed_newest_first(server: PageServer, tmp_path: Path) -> None:
    """Pages of that order meet, and the key of another order is refused."""
    base = "/v1/collections/default/documents"
    for name in ("a", "z", "m"):
        (tmp_path / "wiki" / f"{name}.md").write_text(f"# {name}\n\nThe text of {name}.", "utf-8")
        await server.engine.index([tmp_path / "wiki"])
    async with server.browser() as browser:
        first = (await browser.get(f"{base}?order=newest&limit=2")).json()
        query = {"order": "newest", "after": first["next"]}
        rest = (await browser.get(base, params=query)).json()
        ids = [one["document_id"] for one in (*first["documents"], *rest["documents"])]
        assert ids == ["m.md", "z.md", "a.md", "leave.md"]
        for wrong in ("order=oldest", "order=newest&after=m.md"):
            assert (await browser.get(f"{base}?{wrong}")).status_code == 400


async def retrieved(browser: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    """Return the report of a retrieval."""
    found = await browser.post("/v1/retrieve", json={"query": "annual leave of employees", **body})
    assert found.status_code == 200, found.text
    document: dict[str, Any] = found.json()
    return document


async def test_retrieval_shows_every_candidate_and_records_nothing(server: PageServer) -> None:
    """Those after a limit or below a threshold stand there with their reason, at their rank."""
    async with server.browser() as browser:
        whole = (await retrieved(browser, rerank=False))["candidates"]
        assert len(whole) > 1
        assert [one["rank"] for one in whole] == [*range(1, len(whole) + 1)]
        assert [one["rank_before"] for one in whole] == [one["rank"] for one in whole]
        assert all(one["drop"] is None and one["text"] and one["title"] for one in whole)
        assert {"dense", "bm25"} == {*whole[0]["retrievers"]}
        few = (await retrieved(browser, rerank=False, doc_limit=1))["candidates"]
        assert [one["drop"] for one in few] == [None, *["over_limit"] * (len(few) - 1)]
        few = (await retrieved(browser, rerank=False, fetch_limit=1))["candidates"]
        assert {one["drop"] for one in few[1:]} == {"over_fetch_limit"}
        between = (whole[0]["score"] + whole[1]["score"]) / 2
        cut = (await retrieved(browser, rerank=False, threshold=between))["candidates"]
        assert [one["drop"] for one in cut][:2] == [None, "below_threshold"]
        assert (await browser.get("/v1/history")).json()["answers"] == []
    assert await server.store.recent_traces() == []


async def test_the_weight_of_vectors_moves_candidates(server: PageServer) -> None:
    """With none the words alone order, with all the cosines do; the calibrated one is the default."""
    async with server.browser() as browser:
        words = (await retrieved(browser, rerank=False, dense_weight=0))["candidates"]
        shares = [one["sparse_score"] or 0.0 for one in words]
        assert shares == sorted(shares, reverse=True)
        vectors = (await retrieved(browser, rerank=False, dense_weight=1))["candidates"]
        cosines = [one["dense_score"] for one in vectors]
        assert cosines == sorted(cosines, reverse=True)
        usual = await retrieved(browser, rerank=False)
        same = await retrieved(browser, rerank=False, dense_weight=usual["dense_weight"])
        ids = [[one["chunk_id"] for one in each["candidates"]] for each in (usual, same)]
        assert ids[0] == ids[1]


async def test_retrieval_has_visible_candidates_only(server: PageServer) -> None:
    """Rights are those of the reader, whatever the request asks for."""
    body = {"query": "bonus of the board", "access": {"acl": ["finance"]}}
    async with server.browser() as browser:
        found = (await retrieved(browser, **body))["candidates"]
        assert {one["document_id"] for one in found} == {"leave.md"}
        await sign_in(browser)
        found = (await retrieved(browser, **body))["candidates"]
        assert "salaries.md" in {one["document_id"] for one in found}


@pytest.mark.parametrize(
    "body", [{"query": " "}, {"dense_weight": 2}, {"fetch_limit": 501}, {"mode": "x"}, {"more": 1}]
)
async def test_a_malformed_retrieval_is_refused(server: PageServer, body: dict[str, Any]) -> None:
    """As a malformed search is."""
    async with server.browser() as browser:
        refused = await browser.post("/v1/retrieve", json={"query": "leave"} | body)
        assert refused.status_code == 400


async def test_a_page_of_a_pdf_is_a_picture(server: PageServer, tmp_path: Path) -> None:
    """The page of the quote, or the one that is asked for, of the file that was indexed and no other."""
    pages = [Canvas(), Canvas()]
    pages[0].text(72, 700, "The lighthouse of Corvo", size=18)
    pages[0].text(72, 660, "The lighthouse was built by fishermen of the island in a single year.")
    pages[1].text(72, 700, "The lamp of the lighthouse of Corvo burns whale oil every night.")
    file = tmp_path / "wiki" / "light.pdf"
    file.write_bytes(canvas_pdf(pages))
    await server.engine.index([tmp_path / "wiki"])
    async with server.browser() as browser:
        answer = await ask(browser, "What does the lamp of the lighthouse of Corvo burn?")
        base = f"/v1/answers/{answer['answer_id']}/citations/0"
        source = (await browser.get(f"{base}/source")).json()
        assert (source["media"], source["page"], source["pages"]) == ("pdf", 2, 2)
        assert source["picture"] == f"{base}/page.png"
        second = await browser.get(source["picture"])
        assert second.headers["content-type"] == "image/png"
        assert second.content.startswith(b"\x89PNG")
        assert (await browser.get(f"{source['picture']}?page=2")).content == second.content
        first = await browser.get(f"{source['picture']}?page=1")
        assert first.status_code == 200
        assert first.content != second.content
        for page in ("0", "3", "x", "-1", "9999999"):
            assert (await browser.get(f"{source['picture']}?page={page}")).status_code == 400
        leave = await ask(browser, DAYS)
        other = f"/v1/answers/{leave['answer_id']}/citations/0/page.png"
        assert (await browser.get(other)).status_code == 404
        file.write_bytes(canvas_pdf(pages[:1]))
        assert (await browser.get(source["picture"])).status_code == 404
        assert (await browser.get(f"{base}/source")).json()["picture"] is None


async def test_a_document_is_read_again_with_its_tags(server: PageServer, tmp_path: Path) -> None:
    """What changed in its file is stored; who may see it stays the same, and who may not write may not."""
    base = "/v1/collections/default/documents"
    file = tmp_path / "wiki" / "salaries.md"
    file.write_text(SALARIES.replace("nine", "seven"), "utf-8")
    async with server.browser() as browser:
        assert (await browser.post(f"{base}/salaries.md/again")).status_code == 401
        await sign_in(browser)
        assert (await browser.post(f"{base}/salaries.md/again")).status_code == 403
        await sign_in(browser, "editor")
        stored = await browser.post(f"{base}/salaries.md/again")
        assert stored.json()["documents"]["updated"] == 1
        shown = (await browser.get(f"{base}/salaries.md")).json()
        assert "seven hundred thousand" in shown["text"]
        assert (await browser.post(f"{base}/missing.md/again")).status_code == 404
        sent = await browser.post(base, files=[("file", ("sent.md", b"# Sent\n\nBy a browser."))])
        assert sent.status_code == 201
        refused = await browser.post(f"{base}/sent.md/again")
        assert refused.status_code == 400
        assert "upload" in refused.json()["error"]["message"]
        await browser.delete("/v1/reader/session")
        # The front matter is gone, and the rights that it gave are kept.
        assert (await browser.get(f"{base}/salaries.md")).status_code == 404


async def test_a_file_of_records_is_not_read_again_for_one(
    server: PageServer, tmp_path: Path
) -> None:
    """Its records have tags of their own, which those of one would replace."""
    rows = [f'{{"_id": "{one}", "text": "The room {one} is painted blue."}}' for one in "ab"]
    (tmp_path / "wiki" / "records.jsonl").write_text("\n".join(rows), "utf-8")
    await server.engine.index([tmp_path / "wiki"])
    async with server.browser() as browser:
        await sign_in(browser, "editor")
        refused = await browser.post("/v1/collections/default/documents/a/again")
        assert refused.status_code == 400
        assert "other documents" in refused.json()["error"]["message"]
