"""`--deep`: a language model searches again before it answers, through the installed command and over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.chat_replies import chat, error, text
from tests.support.model_server import Answer, Server
from tests.support.serving import serving

pytestmark = pytest.mark.models

COLLECTION = "harbour"
QUESTION = "In which town was the master of the Osprey born?"
SAID = "Marta Lind was born in Kelmar [{}]."
QUERY = "Marta Lind born"
AGAIN = f"SEARCH: {QUERY} | her place of birth"
ASKS_AGAIN = "Reply ANSWER, or lines"


class Model:
    """Names the entity that is missing, then answers from the document that has it."""

    def __init__(self, *steps: Answer) -> None:
        self.steps = [*steps]
        self.asked: list[str] = []
        self.answered: list[str] = []

    def __call__(self, path: str, body: dict[str, Any]) -> Answer:
        prompt = body["messages"][-1]["content"]
        if ASKS_AGAIN in prompt:
            self.asked.append(prompt)
            return self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        self.answered.append(prompt)
        before, found, _ = prompt.partition("born in Kelmar")
        number = before.rpartition(' n="')[2].partition('"')[0]
        return text(SAID.format(number) if found else "The documents do not say it.")


@pytest.fixture(scope="module", autouse=True)
def folder(cli: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Index the master, her place of birth and many that resemble the question more."""
    folder = tmp_path_factory.mktemp("harbour")
    (folder / "osprey.md").write_text("# Osprey\n\nThe master of the Osprey is Marta Lind.\n")
    (folder / "people.md").write_text("# Marta Lind\n\nMarta Lind was born in Kelmar.\n")
    for number in range(12):
        ship = f"Ship{number}"
        (folder / f"{ship}.md").write_text(
            f"# {ship}\n\nThe master of the {ship} was in which town the Osprey was built, number {number}.\n"
        )
    (folder / "secret.md").write_text(
        "# Marta Lind\n\nMarta Lind was born in Otter Bay, a secret.\n"
    )
    secret = folder / "secret"
    secret.mkdir()
    (folder / "secret.md").rename(secret / "secret.md")
    assert cli("index", secret, "--collection", COLLECTION, "--acl", "staff").code == 0
    (secret / "secret.md").unlink()
    secret.rmdir()
    assert cli("index", folder, "--collection", COLLECTION).code == 0
    return folder


def environment(server: Server, **more: str) -> dict[str, str]:
    return {"WHENCE_WRITER": "openai:m", "WHENCE_WRITER_URL": f"{server.url}/v1", **more}


def ask(cli: Any, server: Server, *options: str, **more: str) -> Any:
    words = ("ask", QUESTION, "--collection", COLLECTION, "--doc-limit", "4")
    return cli(*words, *options, env=environment(server, **more))


def test_one_pass_does_not_find_what_a_second_search_finds(cli: Any) -> None:
    """Without `--deep` the model is asked once; with it, it searches for the name that it read."""
    model = Model(text(AGAIN), text("ANSWER"))
    with Server(chat(model)) as server:
        once = ask(cli, server, "--json")
        deep = ask(cli, server, "--deep", "--json")

    assert (once.code, deep.code) == (1, 0), deep.err
    assert [one["document_id"] for one in deep.json["citations"]] == ["people.md"]
    assert len(model.asked) == 2
    assert "Marta Lind is" in model.asked[0] or "is Marta Lind" in model.asked[0]
    assert QUERY in model.asked[1].partition("Searched for before")[2]
    assert "born in Kelmar" in model.asked[1]
    stages = [one["stage"] for one in deep.json["stages"]]
    assert [one for one in stages if one.startswith("step")] == ["step/1", "step/2"]
    assert not any(one["stage"].startswith("step") for one in once.json["stages"])


def test_the_trace_has_each_step(cli: Any) -> None:
    """Queries, reasons, passages added and tokens stand in every rendering; the trace is complete."""
    model = Model(text(AGAIN), text("ANSWER"))
    with Server(chat(model)) as server:
        answer_id = ask(cli, server, "--deep", "--json").json["answer_id"]
        explained = cli("explain", answer_id, "--json").json
        tree = cli("explain", answer_id).out
        picture = cli("explain", answer_id, "--format", "svg").out
        first, second = (one for one in explained["stages"] if one["stage"].startswith("step"))
        told = cli("why-not", "people.md", "--answer", answer_id, "--json")
        again = cli("replay", answer_id, "--json", env=environment(server))

    assert explained["complete"], explained["faults"]
    assert first["queries"] == [{"query": QUERY, "reason": "her place of birth"}]
    assert any("people" in one for one in first["added"])
    assert (second["queries"], second["settings"]["outcome"]) == ([], "answer")
    assert first["settings"]["prompt_template"].startswith("search-again@")
    synthesis = explained["stages"][-1]
    assert synthesis["derived_from"] == second["uri"]
    assert {one["g"] for one in explained["triples"]} == {"urn:graph:retrieval"}
    for shown in (tree, picture):
        assert QUERY in shown
    assert told.json["code"] == "cited"
    assert again.code == 1, "the second time the model has nothing to search for"
    assert ("step", "queries") in [(one["stage"], one["what"]) for one in again.json["differs"]]


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (text("ANSWER"), "answer"),
        (text("I think that the documents are enough."), "unreadable"),
        (text(f"SEARCH: {QUESTION} | all"), "repeated"),
        (text(""), "failed"),
        (error(500, "out of memory"), "failed"),
    ],
)
def test_a_step_that_names_nothing_is_the_last(cli: Any, said: Answer, outcome: str) -> None:
    """The answer is written from what is there; a failure is said in `degraded`."""
    model = Model(said)
    with Server(chat(model)) as server:
        asked = ask(cli, server, "--deep", "--json")
        explained = cli("explain", asked.json["answer_id"], "--json").json

    (step,) = (one for one in explained["stages"] if one["stage"].startswith("step"))
    assert step["settings"]["outcome"] == outcome
    assert len(model.answered) == 1
    codes = [one["code"] for one in asked.json["degraded"]]
    assert ("step_failed" in codes) is (outcome == "failed")


def test_steps_end_with_their_number(cli: Any) -> None:
    """A model that always wants more is asked as often as `--steps` says."""
    for most in (1, 2):
        model = Model(*(text(f"SEARCH: Ship{number} master | more") for number in range(9)))
        with Server(chat(model)) as server:
            asked = ask(cli, server, "--deep", "--steps", str(most), "--json")
        assert len(model.asked) == most
        assert asked.json["answer_id"]


def test_what_cannot_be_deep_is_refused(cli: Any) -> None:
    """Without a language model nothing can choose what to search for; `--steps` alone means nothing."""
    without = cli(
        "ask", QUESTION, "--collection", COLLECTION, "--deep", env={"WHENCE_WRITER": "extractive"}
    )
    alone = cli("ask", QUESTION, "--collection", COLLECTION, "--steps", "2")

    assert (without.code, alone.code) == (2, 2)
    assert "language model" in without.err
    assert "--deep" in alone.err


def test_a_step_has_the_rights_of_the_reader(cli: Any) -> None:
    """A hidden passage is not found by a step, and a reader of fewer rights sees no word taken from one."""
    model = Model(text(AGAIN), text("SEARCH: Otter Bay | the town"), text("ANSWER"))
    with Server(chat(model)) as server:
        public = ask(cli, server, "--deep", "--json")
        staff = Model(text(AGAIN), text("SEARCH: Otter Bay town | the town"), text("ANSWER"))
        model.steps = staff.steps
        seen = ask(cli, server, "--deep", "--acl", "staff", "--json")
        hidden = cli("explain", seen.json["answer_id"], "--json")

    assert public.code == seen.code == 0
    assert not any("a secret" in one for one in model.asked[: len(model.asked) - 3])
    assert any("a secret" in one for one in model.asked)
    assert "Otter" not in hidden.out


def test_steps_are_seen_over_http_while_they_happen(cli: Any) -> None:
    """The fields are those of the command; a stream has an event a step, in order."""
    model = Model(text(AGAIN), text("ANSWER"))
    with Server(chat(model)) as server:
        env = environment(server)
        with serving(cli, collection=COLLECTION, env=env) as gateway:
            body = {"question": QUESTION, "deep": True, "steps": 2, "doc_limit": 4}
            whole = gateway.post("/v1/ask", body).json()
            model.steps = [text(AGAIN), text("ANSWER")]
            headers = {"Accept": "text/event-stream"}
            with gateway.http.stream("POST", "/v1/ask", json=body, headers=headers) as reply:
                lines = [one[6:] for one in reply.iter_lines() if one.startswith("data: ")]
            refused = gateway.post("/v1/ask", {"question": QUESTION, "steps": 2})
            params = {"name": "ask", "arguments": {"question": QUESTION, "deep": True}}
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            model.steps = [text(AGAIN), text("ANSWER")]
            tool = gateway.post("/mcp", call, Accept="application/json, text/event-stream")

    events = [json.loads(one) for one in lines]
    stages = [one["stage"] for one in events if "stage" in one and "uri" in one]
    assert [one for one in stages if one.startswith("step")] == ["step/1", "step/2"]
    assert stages.index("step/2") < stages.index("synthesis")
    assert whole["found"]
    assert events[-1]["answer"] == whole["answer"]
    assert refused.status_code == 400
    assert tool.json()["result"]["structuredContent"]["found"]


def test_passages_that_stay_here_are_in_no_step(cli: Any, tmp_path: Path) -> None:
    """A writer elsewhere is sent them in no prompt of a question; one on this machine is."""
    where = ("--collection", "harbour-local")
    for name, said, tags in (
        ("secret", "hides in Otter Bay", ("--label", "payroll")),
        ("open", "is Marta Lind", ()),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.md").write_text(
            f"# Osprey\n\nThe master of the Osprey {said}.\n"
        )
        assert cli("index", tmp_path / name, *where, *tags).code == 0
    sent = {}
    for host in ("0.0.0.0", "127.0.0.1"):
        model = Model(text("SEARCH: Otter hides | where"), text("ANSWER"))
        with Server(chat(model)) as server:
            env = environment(server, WHENCE_LOCAL_ONLY_LABELS="payroll")
            env["WHENCE_WRITER_URL"] = env["WHENCE_WRITER_URL"].replace("127.0.0.1", host)
            words = ("ask", QUESTION, *where, "--label", "payroll", "--deep", "--json")
            assert cli(*words, env=env).json["answer_id"]
        sent[host] = str(model.asked + model.answered)
        assert model.asked

    assert "Marta Lind" in sent["0.0.0.0"]
    assert "Otter Bay" not in sent["0.0.0.0"]
    assert "Otter Bay" in sent["127.0.0.1"]
