"""Documents that must not leave the machine: nothing of them is sent to a language model elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.chat_replies import FERRY, QUESTION, SAID, chat, text
from tests.support.model_server import Server

pytestmark = pytest.mark.models

COLLECTION = "ferry-local"
RIGHTS = ("--acl", "crew", "--acl", "harbour", "--label", "payroll", "--label", "plans")
SECRET = "Ilse Brandt"


@pytest.mark.parametrize(
    ("tags", "setting", "stays"),
    [
        (("--label", "payroll"), "payroll", True),
        (("--label", "payroll", "--label", "plans"), "plans,other", True),
        (("--acl", "crew", "--acl", "harbour"), "harbour", True),
        (("--label", "plans"), "payroll", False),
        (("--acl", "crew"), "harbour,payroll", False),
        ((), "payroll", False),
    ],
)
def test_passages_with_a_label_are_not_sent(
    cli: Any, tmp_path: Path, tags: tuple[str, ...], setting: str, *, stays: bool
) -> None:
    """What has a label or tag of the setting stays here, and the reader sees why, and the passages."""
    secret, open_ = tmp_path / "secret", tmp_path / "open"
    secret.mkdir()
    open_.mkdir()
    (secret / "ferry.md").write_text(FERRY)
    (open_ / "bus.md").write_text("# Bus\n\nThe bus master of Ostrava is away.\n")
    where = ("--collection", f"ferry-{len(tags)}-{setting.replace(',', '-')}-{stays}".lower())
    assert cli("index", secret, *where, *tags).code == 0
    assert cli("index", open_, *where).code == 0

    with Server(chat(text(SAID))) as server:
        # An address of this machine that does not say so.
        url = server.url.replace("127.0.0.1", "0.0.0.0")
        env = {"WHENCE_WRITER": "openai:m", "WHENCE_WRITER_URL": f"{url}/v1"}
        env["WHENCE_LOCAL_ONLY_LABELS"] = setting
        told = cli("ask", QUESTION, *where, "--json", *RIGHTS, env=env)
        cli(
            "ask",
            QUESTION,
            *where,
            "--json",
            *RIGHTS,
            env={**env, "WHENCE_WRITER_URL": f"{server.url}/v1"},
        )
        remote, local = [
            str(body) for path, _, body in server.requests if path.endswith("completions")
        ]
        explained = cli("explain", told.json["answer_id"], "--json", *RIGHTS, env=env)

    assert (SECRET in remote) is not stays
    assert SECRET in local
    assert ("passages_kept_local" in [one["code"] for one in told.json["degraded"]]) is stays
    assert ("local_only" in str(explained.json)) is stays


def test_nothing_is_asked_when_nothing_may_be_sent(cli: Any, tmp_path: Path) -> None:
    """The refusal says why and shows the passages; an encoder on another machine is refused."""
    (tmp_path / "ferry.md").write_text(FERRY)
    where = ("--collection", f"{COLLECTION}-all")
    assert cli("index", tmp_path, *where, "--label", "payroll").code == 0
    with Server(chat(text(SAID))) as server:
        url = server.url.replace("127.0.0.1", "0.0.0.0")
        env = {"WHENCE_WRITER": "openai:m", "WHENCE_WRITER_URL": f"{url}/v1"}
        env["WHENCE_LOCAL_ONLY_LABELS"] = "payroll"
        told = cli("ask", QUESTION, *where, "--json", *RIGHTS, env=env)
        asked = [path for path, _, _ in server.requests if path.endswith("completions")]
        env |= {"WHENCE_EMBEDDER": "openai:e", "WHENCE_EMBEDDER_URL": f"{url}/v1"}
        refused = cli("search", "ferry", *where, *RIGHTS, env=env)

    assert (told.code, asked) == (1, [])
    assert told.json["refusal"]["code"] == "local_only"
    assert SECRET in told.json["nearest"][0]["text"]
    assert refused.code == 2
    assert "WHENCE_LOCAL_ONLY_LABELS" in refused.err
