"""What servers of language models really send, through the installed command and over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.chat_replies import FERRY, FORMS, QUESTION, SAID, SENT, chat, error, stream, text
from tests.support.model_server import Answer, Respond, Server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ferry")
    (folder / "ferry.md").write_text(FERRY)
    return folder


@pytest.fixture
def ask(cli: Any, folder: Path) -> Any:
    """Return a function that asks with a scripted writer: result and bodies of its chat requests."""
    assert cli("index", folder, "--collection", "ferry").code == 0

    def asked(answer: Answer | Respond, *options: str, **env: str) -> Any:
        with Server(chat(answer)) as server:
            env = {"WHENCE_WRITER": "openai:m", "WHENCE_WRITER_URL": f"{server.url}/v1", **env}
            env = {"WHENCE_WRITER_API_KEY": "key-of-the-writer", **env}
            result = cli("ask", QUESTION, "--collection", "ferry", *options, env=env)
            bodies = [body for path, _, body in server.requests if path.endswith("completions")]
        return result, bodies

    return asked


@pytest.mark.models
@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_an_answer_is_clean_however_it_is_sent(ask: Any, sent: tuple[Any, ...]) -> None:
    """Whole and streaming, the reader sees the answer with its citation, and nothing else that was sent."""
    whole, _ = ask(text(*sent), "--json")
    live, _ = ask(text(*sent), "--stream")

    assert whole.code == live.code == 0, whole.err
    assert "Ilse Brandt" in whole.json["answer"]
    assert [one["marker"] for one in whole.json["citations"]] == [1]
    for shown in (whole.json["answer"], live.out):
        assert (
            shown.splitlines()[0]
            .replace(" [1]", "")
            .replace("[1]", "")
            .rstrip(".")
            .endswith("Ilse Brandt")
        )
        for left_out in (
            "think",
            "hm",
            "<",
            "[2]",
            "\0",
            "\x1b",
            "```",
            "Sources:",
            "And who",
            "analysis",
        ):
            assert left_out not in shown


@pytest.mark.models
@pytest.mark.parametrize("answer", FORMS.values(), ids=FORMS)
def test_an_answer_is_read_in_every_form(ask: Any, answer: Answer) -> None:
    """Ends of lines, declared types and odd fields of a body change nothing; one request is paid."""
    whole, bodies = ask(answer, "--json")

    assert (whole.code, len(bodies)) == (0, 1), whole.err
    assert whole.json["answer"] == SAID
    assert whole.json["degraded"] == []


@pytest.mark.models
@pytest.mark.parametrize(
    ("answer", "words", "requests"),
    [
        ((200, {"content-type": "text/html"}, b"<!DOCTYPE html><p>Log in</p>"), "a page of HTML", 1),
        ((200, {"content-type": "text/event-stream"}, b"<html>\nLog in</html>"), "a page of HTML", 1),
        ((200, {}, b'{"detail": "Not authenticated"}'), "Not authenticated", 2),
        ((200, {}, b'{"code": 1113, "msg": "No balance"}'), "No balance", 2),
        ((200, {"content-type": "text/event-stream"}, b'error: {"message": "slot lost"}\n\n'), "slot lost", 2),
        ((200, {"content-type": "text/event-stream"}, b'event: error\ndata: {"message": "overload"}\n\n'), "overload", 2),
        ((200, {}, b""), "ended before any text came", 2),
    ],
    ids=["page", "page as events", "detail", "code", "line of error", "event of error", "nothing"],
)  # fmt: skip
def test_what_is_no_answer_is_said(ask: Any, answer: Answer, words: str, requests: int) -> None:
    """The error has the words of the server, or names what it sent."""
    result, bodies = ask(answer)

    assert (result.code, len(bodies)) == (4, requests)
    assert words in " ".join(result.err.split())


#: What may stand behind other text, not only around all of it.
BEHIND = ("end of turn", "list of sources", "lenticular", "named", "footnote", "raised", "tag", "joined",
          "attribute of our prompt", "escaped", "round", "circled", "caret")  # fmt: skip


@pytest.mark.models
@pytest.mark.parametrize("name", BEHIND)
def test_a_stream_of_characters_shows_the_whole_answer(ask: Any, name: str) -> None:
    """Behind text that is shown at once, nothing that is cleaned away is shown, and nothing is missing."""
    begin = "The ferry leaves every 40 minutes [1]. " * 12
    live, _ = ask(text(*begin, *"".join(SENT[name])), "--stream", "--json")
    shown, _ = ask(text(*begin, *"".join(SENT[name])), "--stream")

    assert live.json["answer"].startswith(begin)
    assert shown.out.startswith(live.json["answer"])


@pytest.mark.models
@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("A ticket costs 12 euros (1).", "A ticket costs 12 euros [1]."),
        ("Follow document 1: a ticket costs 12 euros.", "Follow document [1]: a ticket costs 12 euros."),
        ("A ticket costs (1) 12 euros, (2) no more [1].", None),
        ("Dogs sleep in the harbour office (1).", None),
        ("A ticket is valid for 3 days (9).", None),
    ],
)  # fmt: skip
def test_a_number_that_may_be_something_else_is_weighed(
    ask: Any, said: str, shown: str | None
) -> None:
    """It cites at the end of a sentence that the passage of this number supports, and is prose elsewhere."""
    whole, _ = ask(text(said), "--json")
    live, _ = ask(text(*said), "--stream")

    assert whole.json["answer"] == (shown or said)
    assert live.out.startswith(shown or said)


@pytest.mark.models
def test_a_number_of_the_documents_is_no_citation(cli: Any, tmp_path: Path) -> None:
    """What a passage has as the model writes it is quoted."""
    said = "The owner must give notice under section (1)."
    (tmp_path / "notice.md").write_text(f"# Notice\n\n{said} The notice is free.\n")
    assert cli("index", tmp_path, "--collection", "notice").code == 0
    with Server(chat(text(said))) as server:
        env = {"WHENCE_WRITER": "openai:m", "WHENCE_WRITER_URL": f"{server.url}/v1"}
        asked = cli(
            "ask", "When must the owner give notice?", "--collection", "notice", "--json", env=env
        )

    assert asked.json["answer"] == said


@pytest.mark.models
def test_values_in_brackets_are_no_markers(cli: Any, tmp_path: Path) -> None:
    """Numbers that the passages have stay; those that no passage has and that cite none are left out."""
    (tmp_path / "retries.md").write_text("# Retries\n\nRetried are 429, 502 and 503.\n")
    assert cli("index", tmp_path, "--collection", "retries").code == 0
    with Server(chat(text("Retried are [429], [502, 503] [1][7][777]."))) as server:
        env = {"WHENCE_WRITER": "openai:m", "WHENCE_WRITER_URL": f"{server.url}/v1"}
        asked = cli("ask", "Which are retried?", "--collection", "retries", "--json", env=env)

    assert asked.json["answer"] == "Retried are 429, 502, 503 [1]."


@pytest.mark.models
def test_thoughts_that_turn_out_to_be_some_are_followed_by_the_answer(ask: Any) -> None:
    """A template may have opened them, so a long one is shown; the answer still comes whole."""
    thoughts = "".join(
        f"I read line {n} of the first document [1]. It names no {n}. " for n in range(20)
    )
    live, _ = ask(text(thoughts, "</think>", SAID), "--stream")

    assert f"\n{SAID}" in live.out


@pytest.mark.models
def test_a_sentence_without_a_marker_is_attributed(ask: Any) -> None:
    """Words and numbers that stand in one sentence of a passage get a citation that says who added it."""
    result, _ = ask(text("The ferry leaves every 40 minutes."), "--json")

    assert result.code == 0
    (cited,) = result.json["citations"]
    assert (cited["added"], cited["document_id"]) == (True, "ferry.md")
    wrong, _ = ask(text("The ferry leaves every 50 minutes."), "--json")
    assert wrong.code == 1

    assert wrong.json["unsupported"]


REFUSED = {
    "key": error(401, "wrong key"),
    "rights": error(403, "not yours"),
    "model": error(404, "no such model"),
    "quota": error(429, "You exceeded your current quota", code="insufficient_quota"),
    "no text": text(""),
    "only thoughts": text("<think>hm</think>"),
    "redirect": (302, {"location": "http://elsewhere.example/v1"}, b""),
    "tool in the text": text('<tool_call>{"name": "search"}</tool_call>'),
    "tool": stream(
        {"choices": [{"delta": {"tool_calls": [{"id": "1"}]}, "finish_reason": "tool_calls"}]}
    ),
    "cut at once": text("", finish="length"),
}


@pytest.mark.models
@pytest.mark.parametrize("answer", REFUSED.values(), ids=REFUSED)
def test_what_cannot_change_is_paid_once(ask: Any, answer: Answer) -> None:
    """One request, exit 4, and on stderr the error and its hint alone."""
    result, bodies = ask(answer)

    assert (result.code, len(bodies)) == (4, 1)
    assert [line.partition(":")[0] for line in result.err.splitlines()] == ["error", "hint"]


@pytest.mark.models
def test_a_broken_stream_is_tried_once_more(ask: Any) -> None:
    """The words of the server are told."""
    broken = stream(
        {"choices": [{"delta": {"content": "The"}}]}, {"error": {"message": "out of memory"}}
    )
    result, bodies = ask(broken)

    assert (result.code, len(bodies)) == (4, 2)
    assert "out of memory" in result.err
    assert [line.partition(":")[0] for line in result.err.splitlines()] == ["error", "hint"]


@pytest.mark.models
@pytest.mark.parametrize(
    "answer",
    [
        stream({"choices": [{"delta": {"refusal": "I must not say."}, "finish_reason": "stop"}]}),
        stream({"choices": [{"delta": {}, "finish_reason": "content_filter"}]}),
        error(400, "the prompt triggered the content management policy", code="content_filter"),
    ],
    ids=["field", "finish", "status"],
)
def test_a_model_that_declines_is_a_refusal(ask: Any, answer: Answer) -> None:
    """Exit 1 after one request, with a reason of its own."""
    result, bodies = ask(answer, "--json")

    assert (result.code, len(bodies)) == (1, 1)
    assert result.json["refusal"]["code"] == "model_refused"
    assert result.json["nearest"]


@pytest.mark.models
@pytest.mark.parametrize(
    ("answer", "cut"),
    [
        (text(SAID, finish="length"), True),
        (text(SAID, finish=None, done=False), True),
        (text(SAID, finish="error"), True),
        (text(SAID, finish=None), False),
        (text(SAID), False),
    ],
    ids=["length", "no end", "error", "no reason", "whole"],
)
def test_a_cut_answer_says_so(ask: Any, answer: Answer, cut: bool) -> None:
    """The text is kept, and `degraded` says that it may not be whole."""
    result, _ = ask(answer, "--json")

    assert (result.code, result.json["answer"]) == (0, SAID)
    assert ("answer_cut" in [one["code"] for one in result.json["degraded"]]) is cut


@pytest.mark.models
def test_a_model_that_repeats_itself_is_cut(ask: Any) -> None:
    """After some turns, long before its window ends, in whatever pieces they come; a drawn line is none."""
    turn = f"{SAID} It is open to all who come by boat, by bus or on foot, but for the days of storms.\n"
    looping, _ = ask(text(*(turn * 60)), "--json")
    line, _ = ask(text(SAID, "\n", *("-" * 4000)), "--json")

    assert 2 <= looping.json["answer"].count("by boat") <= 10
    assert "repeated itself" in str(looping.json["degraded"])
    assert "answer_cut" not in [one["code"] for one in line.json["degraded"]]


@pytest.mark.models
def test_the_wait_that_a_server_asks_for_is_told(ask: Any) -> None:
    """More seconds than there are end the question at once."""
    result, bodies = ask((429, {"retry-after": "3600"}, b"{}"))

    assert (result.code, len(bodies)) == (4, 1)
    assert "3600 s" in result.err


@pytest.mark.models
@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Les documents ne répondent pas à cette question [1].", False),
        ("Le informazioni non si trovano nei documenti [1].", False),
        ("文档中没有回答这个问题 [1]。", False),
        ("Die Dokumente beantworten das nicht [1]. Bitte wenden Sie sich an die Leitung [1].", False),
        ("Based on the documents, there is no information about this [1]. Sorry! Ask the office.", False),
        ("Les documents ne précisent pas le prix. Le bac part toutes les 40 minutes [1].", True),
        ("Der Hafenmeister ist Ilse Brandt, und mehr steht nicht fest [1].", True),
    ],
)  # fmt: skip
def test_a_refusal_is_one_in_any_language(ask: Any, said: str, found: bool) -> None:
    """With a marker, and with a courtesy behind it, it is no answer; a fact beside it is one."""
    result, _ = ask(text(said), "--json")

    assert (result.json["found"], result.code) == (found, 0 if found else 1)
    if not found:
        assert "found no answer" in result.json["refusal"]["reason"]


def limited(message: str, **fields: Any) -> Answer:
    return 429, {}, json.dumps({"error": {"message": message, **fields}}).encode()


#: Limits of an hour and longer, as servers of several kinds report them, and what the hint says.
SPENT = {
    "tokens a day": (limited("Limit reached on tokens per day (TPD): Limit 100000. Please try again in 16m10.08s."), "17 minutes"),
    "details": (limited("You exceeded your current quota.", status="RESOURCE_EXHAUSTED", details=[
        {"violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}]}, {"retryDelay": "34s"}]), "the day is over"),
    "name": (limited("Rate limit exceeded: free-models-per-day", code=429), "the day is over"),
    "month": (limited("Your monthly allowance is used up"), "the month is over"),
    "week": ((429, {"retry-after": "200000"}, b'{"error": "weekly usage limit reached"}'), "56 hours"),
}  # fmt: skip


@pytest.mark.models
@pytest.mark.parametrize(("answer", "when"), SPENT.values(), ids=SPENT)
def test_a_limit_of_a_long_period_is_paid_once(ask: Any, answer: Answer, when: str) -> None:
    """One request, exit 4, and a hint that says when to come back."""
    result, bodies = ask(answer)

    assert (result.code, len(bodies)) == (4, 1)
    assert when in " ".join(result.err.split())


@pytest.mark.models
def test_a_spent_limit_is_paid_once_for_all_calls_of_a_question(ask: Any) -> None:
    """A model that would complete a follow-up question first is not asked again for its answer."""
    first, _ = ask(text(SAID), "--json")
    result, bodies = ask(limited("daily limit reached"), "--follow", first.json["answer_id"])

    assert (result.code, len(bodies)) == (4, 1)


@pytest.mark.models
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TEMPERATURE", "hot"),
        ("SEED", "1.5"),
        ("EXTRA", "top_k: 3"),
        ("EXTRA", '{"messages": []}'),
        ("WINDOW", "0"),
    ],
)
def test_a_wrong_setting_of_the_writer_is_named(ask: Any, name: str, value: str) -> None:
    """No request is made, and the error names the setting."""
    result, bodies = ask(text(SAID), **{f"WHENCE_WRITER_{name}": value})

    assert (result.code, bodies) == (2, [])
    assert f"writer_{name.lower()}" in result.err


@pytest.mark.models
@pytest.mark.parametrize(
    "answer",
    [
        limited("You exceeded your current quota.", details=[
            {"violations": [{"quotaId": "RequestsPerMinutePerProject"}]}, {"retryDelay": "0.4s"}]),
        limited("Too many requests (60 requests per minute, 1000 per day). Try again in 400ms."),
    ],
    ids=["details", "list of limits"],
)  # fmt: skip
def test_a_limit_of_a_minute_is_waited_for(ask: Any, answer: Answer) -> None:
    """The request is made again after the time that the body names."""
    replies = iter([answer])

    result, bodies = ask(lambda path, body: next(replies, None) or chat(text(SAID))(path, body))

    assert (result.code, len(bodies)) == (0, 2)


@pytest.mark.models
def test_marks_of_support_are_text(ask: Any) -> None:
    """A sentence that its passage does not support is marked in the text, also while it streams."""
    wrong = text(f"{SAID} Dogs are allowed on the upper deck [1].")
    plain, _ = ask(wrong)
    live, _ = ask(wrong, "--stream")

    assert plain.code == live.code == 0
    assert "[1]. (not supported)" in " ".join(plain.out.split())
    assert "Not supported" in live.out


@pytest.mark.models
def test_passages_that_do_not_fit_are_dropped(cli: Any, tmp_path: Path) -> None:
    """The window is asked of the server; what does not fit is `over_budget`, and the rest is answered from."""
    for number in range(12):
        words = " ".join(f"harbour{number}x{place}" for place in range(60))
        (tmp_path / f"{number}.md").write_text(
            f"# Harbour {number}\n\nThe harbour master is Ida {number}. {words}.\n"
        )
    assert cli("index", tmp_path, "--collection", "harbours").code == 0

    def respond(path: str, body: dict[str, Any]) -> Answer:
        if path == "/props":
            return 200, {}, json.dumps({"default_generation_settings": {"n_ctx": 2048}}).encode()
        return chat(text("The harbour master is Ida [1]."))(path, body)

    with Server(respond) as server:
        env = {"WHENCE_WRITER": "openai:m", "WHENCE_WRITER_URL": f"{server.url}/v1"}
        told = cli(
            "ask", "Who is the harbour master?", "--collection", "harbours", "--json", env=env
        )
        (body,) = [body for path, _, body in server.requests if path.endswith("completions")]
        explained = cli("explain", told.json["answer_id"], "--json", env=env)
    prompt = body["messages"][-1]["content"]

    assert told.code in (0, 1)
    assert 1 <= prompt.count(' n="') < 12
    assert "over_budget" in json.dumps(explained.json)


@pytest.mark.models
def test_a_prompt_that_is_too_long_is_sent_once_more(cli: Any, tmp_path: Path) -> None:
    """The sizes that an error names decide how many passages are given then; a second error is the end."""
    for number in range(8):
        words = " ".join(f"quay{number}x{place}" for place in range(60))
        (tmp_path / f"{number}.md").write_text(
            f"# Quay {number}\n\nThe quay master is Ida {number}. {words}.\n"
        )
    assert cli("index", tmp_path, "--collection", "quays").code == 0
    message = "the request (5000 tokens) exceeds the available context size (4000 tokens), try increasing it"
    too_long = error(400, message, type="exceed_context_size_error")

    def respond(path: str, body: dict[str, Any]) -> Answer:
        fits = body["messages"][-1]["content"].count(' n="') < 8
        return text("The quay master is Ida [1].") if fits else too_long

    with Server(chat(respond)) as server:
        env = {"WHENCE_WRITER": "openai:m", "WHENCE_WRITER_URL": f"{server.url}/v1"}
        told = cli("ask", "Who is the quay master?", "--collection", "quays", "--json", env=env)
        sent = [body for path, _, body in server.requests if path.endswith("completions")]
    with Server(chat(too_long)) as server:
        env["WHENCE_WRITER_URL"] = f"{server.url}/v1"
        failed = cli("ask", "Who is the quay master?", "--collection", "quays", env=env)

    assert told.code in (0, 1)
    assert len(sent) == 2
    assert failed.code == 4
    assert "5000 tokens" in failed.err.splitlines()[-1]
    assert "4000 tokens" in failed.err.splitlines()[-1]


@pytest.mark.models
def test_settings_of_the_writer_are_sent(ask: Any, tmp_path: Path) -> None:
    """Temperature, most tokens, seed and extra fields; language and instructions stand in the prompt."""
    (tmp_path / "document-prompt.toml").write_text(
        'system = "Be brief."\nprompt = "{documents} Q: {query} {language}"\n'
    )
    settings = {
        "WHENCE_WRITER_TEMPERATURE": "0.7",
        "WHENCE_WRITER_MAX_TOKENS": "77",
        "WHENCE_WRITER_SEED": "5",
        "WHENCE_WRITER_EXTRA": '{"top_k": 3}',
        "WHENCE_ANSWER_LANGUAGE": "Finnish",
        "WHENCE_ANSWER_INSTRUCTIONS": "Write like a clerk.",
    }
    _, (body,) = ask(text(SAID), "--json", **settings)
    _, (own,) = ask(text(SAID), "--json", **settings, WHENCE_PROMPTS=str(tmp_path))

    sent = {name: body[name] for name in ("temperature", "max_tokens", "seed", "top_k")}
    assert sent == {"temperature": 0.7, "max_tokens": 77, "seed": 5, "top_k": 3}
    assert "Write like a clerk." in body["messages"][0]["content"]
    assert "Answer in Finnish." in body["messages"][1]["content"]
    assert own["messages"][0]["content"].startswith("Be brief.")


@pytest.mark.models
def test_an_answer_has_its_price(ask: Any, tmp_path: Path) -> None:
    """A price list gives cost and currency; a model without a price has none; a wrong list is named."""
    usage = {"prompt_tokens": 2_000_000, "completion_tokens": 500_000}
    paid = stream(
        {"choices": [{"delta": {"content": SAID}}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage},
    )
    prices = tmp_path / "prices.toml"
    found = {}
    for name, content in {
        "known": 'currency = "EUR"\n[models."m"]\ninput = 0.5\noutput = 4\n',
        "unknown": 'currency = "EUR"\n[models."other"]\ninput = 0.5\n',
        "wrong": '[models."m"]\ninput = "much"\n',
    }.items():
        prices.write_text(content)
        found[name], _ = ask(paid, "--json", WHENCE_PRICES=str(prices))

    assert (found["known"].json["cost"], found["known"].json["currency"]) == (3.0, "EUR")
    assert (found["unknown"].json["cost"], found["unknown"].json["currency"]) == (None, "")
    assert found["wrong"].code == 2
    assert str(prices) in found["wrong"].err
