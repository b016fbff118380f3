"""`answer_cache`: an equal question gets its recorded answer, from the command line and over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.chat_replies import FERRY, QUESTION, SAID, chat, text
from tests.support.model_server import Answer, Server
from tests.support.serving import serving

pytestmark = pytest.mark.models

COLLECTION = "ferry-cache"


class Model:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0
        self.said = text(SAID)

    def __call__(self, path: str, body: dict[str, Any]) -> Answer:
        self.calls += 1
        return self.said


@pytest.fixture
def folder(cli: Any, tmp_path: Path) -> Path:
    (tmp_path / "ferry.md").write_text(FERRY)
    assert cli("index", tmp_path, "--collection", COLLECTION, "--root", "ferry").code == 0
    return tmp_path


def environment(server: Server, **more: str) -> dict[str, str]:
    on = {"WHENCE_WRITER": "openai:m", "WHENCE_WRITER_URL": f"{server.url}/v1"}
    return {**on, "WHENCE_ANSWER_CACHE": "on", **more}


def test_an_equal_question_is_answered_once(cli: Any, folder: Path, tmp_path: Path) -> None:
    """An answer is given again only to an equal question of an equal reader; it is off by default.

    Another option, reader, model, prompt or state of the documents asks the model again.
    """
    model = Model()
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    (prompts / "document-prompt.toml").write_text(
        'system = "Be kind."\nprompt = "{query} {documents}"'
    )
    with Server(chat(model)) as server:

        def asked(*options: str, **more: str) -> tuple[Any, int]:
            before = model.calls
            words = ("ask", QUESTION, "--collection", COLLECTION, *options, "--json")
            return cli(*words, env=environment(server, **more)).json, model.calls - before

        for _ in range(2):
            assert asked(WHENCE_ANSWER_CACHE="off")[1] == 1
        first, paid = asked()
        again, free = asked()
        live = cli("ask", QUESTION, "--collection", COLLECTION, "--stream", env=environment(server))
        explained = cli("explain", again["answer_id"], "--json").json

        assert (paid, free, model.calls) == (1, 0, 3)
        assert (first["cached"], again["cached"]) == (False, True)
        assert (again["answer"], again["answer_id"]) == (first["answer"], first["answer_id"])
        assert [one["document_id"] for one in again["citations"]] == ["ferry.md"]
        assert SAID in live.out
        assert "answer cache" in live.err
        assert explained["complete"]
        assert explained["stages"][0]["settings"]["reusable"] is True

        assert asked("--doc-limit", "3")[1] == 1
        assert asked("--acl", "staff")[1] == 1
        assert asked(WHENCE_WRITER="openai:other")[1] == 1
        assert asked(WHENCE_PROMPTS=str(prompts))[1] == 1
        assert asked()[1] == 0
        (folder / "ferry.md").write_text(FERRY.replace("40 minutes", "50 minutes"))
        assert cli("index", folder, "--collection", COLLECTION, "--root", "ferry").code == 0
        assert asked()[1] == 1
        assert asked()[1] == 0
        assert cli("erase", "ferry.md", "--collection", COLLECTION).code == 0
        gone, _ = asked()

    assert not gone["cached"]
    assert not gone["found"]


def test_what_was_not_found_is_asked_again(cli: Any, folder: Path) -> None:
    """An answer without support, or one in which a service failed, is not given again."""
    model = Model()
    with Server(chat(model)) as server:
        for said in (text("The documents do not say it."), text(SAID, finish="length")):
            model.said = said
            for _ in range(2):
                before = model.calls
                words = ("ask", QUESTION, "--collection", COLLECTION, "--json")
                assert not cli(*words, env=environment(server)).json["cached"]
                assert model.calls == before + 1


def test_the_cache_over_http(cli: Any, folder: Path) -> None:
    """Whole and streamed; readers with other rights share no entry."""
    model = Model()
    with (
        Server(chat(model)) as server,
        serving(cli, collection=COLLECTION, env=environment(server)) as gateway,
    ):
        body = {"question": QUESTION}
        first = gateway.post("/v1/ask", body).json()
        again = gateway.post("/v1/ask", body).json()
        headers = {"Accept": "text/event-stream"}
        with gateway.http.stream("POST", "/v1/ask", json=body, headers=headers) as reply:
            lines = [one[6:] for one in reply.iter_lines() if one.startswith("data: ")]

    events = [json.loads(one) for one in lines]
    assert model.calls == 1
    assert (first["cached"], again["cached"], events[-1]["cached"]) == (False, True, True)
    assert "".join(one["text"] for one in events if "end" in one) == first["answer"]
    assert [one["stage"] for one in events if "uri" in one][-1] == "synthesis"


def test_a_change_in_one_of_several_collections_asks_anew(
    cli: Any, folder: Path, tmp_path: Path
) -> None:
    """An answer over several collections is given again until one of them changes."""
    model, second = Model(), f"{COLLECTION}-2"
    other = tmp_path / "other"
    other.mkdir()
    (other / "harbour.md").write_text("# Harbour\n\nThe harbour is closed on Sundays.\n")
    assert cli("index", other, "--collection", second).code == 0
    with Server(chat(model)) as server:
        words = ("ask", QUESTION, "--collection", f"{COLLECTION},{second}", "--json")
        calls = []
        for change in (False, False, True):
            if change:
                (other / "harbour.md").write_text(
                    "# Harbour\n\nThe harbour is closed on Mondays.\n"
                )
                assert cli("index", other, "--collection", second).code == 0
            assert cli(*words, env=environment(server)).json["found"]
            calls.append(model.calls)
    assert calls == [1, 1, 2]
