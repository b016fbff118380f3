"""Follow-up questions about the last answer: with a language model that does not complete them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.chat_replies import FERRY, QUESTION, SAID, chat, text
from tests.support.model_server import Answer, Server
from tests.support.serving import serving

pytestmark = pytest.mark.models

COLLECTION = "ferry-talk"
GERMAN = "Der F\u00e4hrmeister ist Ilse Brandt [1]."


class Model:
    """Repeats a question that it is to complete, as small models do; keeps the other prompts."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def __call__(self, path: str, body: dict[str, Any]) -> Answer:
        prompt = body["messages"][-1]["content"]
        if "Newest question:" in prompt:
            return text(prompt.partition("Newest question:\n")[2].partition("\n")[0])
        self.prompts.append(prompt)
        return text(SAID if QUESTION in prompt.splitlines() else GERMAN)


@pytest.fixture
def folder(cli: Any, tmp_path: Path) -> Path:
    (tmp_path / "ferry.md").write_text(FERRY)
    for number in range(8):
        (tmp_path / f"bus{number}.md").write_text(f"# Bus {number}\n\nThe bus stops {number}.\n")
    assert cli("index", tmp_path, "--collection", COLLECTION).code == 0
    return tmp_path


@pytest.mark.parametrize(
    "wish", ["In German", "explain the second point", "shorter, please", "auf Deutsch"]
)
def test_a_wish_about_an_answer_is_answered_from_its_passages(
    cli: Any, folder: Path, wish: str
) -> None:
    """`--follow` sends question and answer; the passages are those of the earlier question."""
    model = Model()
    with Server(chat(model)) as server:
        env = {"WHENCE_WRITER": "openai:m", "WHENCE_WRITER_URL": f"{server.url}/v1"}
        first = cli("ask", QUESTION, "--collection", COLLECTION, "--json", env=env)
        words = ("ask", wish, "--follow", first.json["answer_id"], "--collection", COLLECTION)
        told = cli(*words, "--json", env=env)
        third = cli(*words[:3], told.json["answer_id"], *words[4:], "--json", env=env)
        again = cli("replay", told.json["answer_id"], "--json", env=env)

    assert (first.code, told.code, third.code) == (0, 0, 0), told.err
    assert told.json["question_used"].startswith(QUESTION)
    assert third.json["question_used"].startswith(QUESTION)
    assert [one["document_id"] for one in told.json["citations"]] == ["ferry.md"]
    assert SAID.removesuffix(" [1].") in model.prompts[1].partition("The last answer")[2]
    assert "The last answer" not in model.prompts[0]
    assert again.code == 0
    assert model.prompts[-1] == model.prompts[1]


ASKED = "Who is the pilot of Ostrava?"


#: What the model writes, and the question in it; None where there is none.
COMPLETED = (
    (f"{ASKED}\nWho pilots the ferry of Ostrava?", ASKED),
    (f"Here it is:\n\n1. **{ASKED}**\n2. Who is the mayor?", ASKED),
    (f"Standalone: {ASKED} (made complete)", ASKED),
    (f"{ASKED}\n\nNote: I put the town in.", ASKED),
    ("Who is the pilot\nof Ostrava?", ASKED),
    (ASKED.removesuffix("?"), ASKED.removesuffix("?")),
    ("The pilot of Ostrava is Jan Novak.", None),
    ("I am not able to do this.", None),
    ("Wer lotst dort die Schiffe?", None),
    ("Question: And the pilot?", None),
)


def test_the_question_is_taken_out_of_what_the_model_writes(cli: Any, folder: Path) -> None:
    """It is the first line that asks; where none does, or it is about something else, the rule completes it."""
    replies = [reply for reply, _ in COMPLETED]

    def respond(path: str, body: dict[str, Any]) -> Answer:
        rewrites = "Newest question:" in body["messages"][-1]["content"]
        return text(replies.pop(0)) if rewrites else text(SAID)

    used = []
    with Server(chat(respond)) as server:
        env = {"WHENCE_WRITER": "openai:m", "WHENCE_WRITER_URL": f"{server.url}/v1"}
        with serving(cli, collection=COLLECTION, env=env) as gateway:
            for _ in COMPLETED:
                body = {"question": "And the pilot?", "history": [QUESTION]}
                used.append(gateway.post("/v1/ask", body).json()["question_used"])

    by_rule = f"{QUESTION} And the pilot?"
    assert used == [found or by_rule for _, found in COMPLETED]


def test_only_an_answer_that_the_reader_may_see_is_followed(cli: Any, folder: Path) -> None:
    """A missing one, one that was asked with more rights, and one from a removed document are not found."""
    model = Model()
    with Server(chat(model)) as server:
        env = {"WHENCE_WRITER": "openai:m", "WHENCE_WRITER_URL": f"{server.url}/v1"}
        staff = ("--acl", "staff")
        secret = folder / "secret"
        secret.mkdir()
        (secret / "quay.md").write_text("# Quay\n\nThe quay master is Ilse Brandt.\n")
        assert cli("index", secret, "--collection", COLLECTION, *staff).code == 0
        first = cli("ask", QUESTION, "--collection", COLLECTION, "--json", *staff, env=env)
        for answer_id in ("missing", first.json["answer_id"]):
            words = ("ask", "shorter", "--collection", COLLECTION, "--follow", answer_id)
            refused = cli(*words, env=env)
            assert refused.code == 3
            assert "Ilse" not in refused.err + refused.out


def test_a_conversation_over_http(cli: Any, folder: Path) -> None:
    """`follow`, `previous_answer` and the messages of a chat do the same; both at once are refused."""
    model = Model()
    with Server(chat(model)) as server:
        env = {"WHENCE_WRITER": "openai:m", "WHENCE_WRITER_URL": f"{server.url}/v1"}
        with serving(cli, collection=COLLECTION, env=env) as gateway:
            first = gateway.post("/v1/ask", {"question": QUESTION}).json()
            wish = {"question": "In German", "follow": first["answer_id"]}
            followed = gateway.post("/v1/ask", wish).json()
            stated = {"history": [QUESTION], "previous_answer": SAID, "question": "In German"}
            told = gateway.post("/v1/ask", stated).json()
            messages = [
                {"role": "user", "content": QUESTION},
                {"role": "assistant", "content": SAID},
                {"role": "user", "content": "In German"},
            ]
            body = {"model": COLLECTION, "messages": messages}
            chatted = gateway.post("/v1/chat/completions", body).json()
            both = gateway.post("/v1/ask", {**stated, "follow": first["answer_id"]})

    answers = {followed["answer"], told["answer"], chatted["choices"][0]["message"]["content"]}
    assert answers == {GERMAN}
    assert len(set(model.prompts[1:])) == 1
    assert both.status_code == 400
