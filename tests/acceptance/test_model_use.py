"""Tokens and cost of language models beside an answer and in `status`, for who may see the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.chat_replies import FERRY, QUESTION, SAID, chat, stream
from tests.support.model_server import Server

pytestmark = pytest.mark.models

COLLECTION = "ferry-cost"
PRICES = 'currency = "EUR"\n\n[models."m"]\ninput = 1000.0\noutput = 2000.0\n'
REPLY = stream(
    {"choices": [{"delta": {"content": SAID}}]},
    {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 700, "completion_tokens": 20}},
)


def test_status_adds_up_what_models_cost(cli: Any, tmp_path: Path) -> None:
    """Tokens by the server's count, cost by the price list; answers asked with more rights do not count.

    An answer over two collections counts once.
    """
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "ferry.md").write_text(FERRY)
    (tmp_path / "prices.toml").write_text(PRICES)
    two = f"{COLLECTION},{COLLECTION}-2"
    for name in two.split(","):
        assert cli("index", docs, "--collection", name).code == 0

    def used(*options: str) -> dict[str, Any]:
        found: dict[str, Any] = cli("status", *options, "--json").json["language_models"]
        return found

    before, all_before = used(), used("--acl", "staff")
    with Server(chat(REPLY)) as server:
        env = {"WHENCE_WRITER": "openai:m", "WHENCE_WRITER_URL": f"{server.url}/v1"}
        env["WHENCE_PRICES"] = str(tmp_path / "prices.toml")
        words = ("ask", QUESTION, "--collection", COLLECTION, "--json")
        answer = cli(*words, env=env).json
        assert cli("ask", QUESTION, "--collection", two, "--acl", "staff", env=env).code == 0
    after, all_after = used(), used("--acl", "staff")

    assert (answer["in_token"], answer["out_token"], answer["currency"]) == (700, 20, "EUR")
    assert answer["cost"] == pytest.approx(0.74)
    assert after["answers"] - before["answers"] == 1
    assert after["in_token"] - before["in_token"] == 700
    assert after["out_token"] - before["out_token"] == 20
    assert after["costs"]["EUR"] - before["costs"].get("EUR", 0.0) == pytest.approx(0.74)
    assert all_after["answers"] - all_before["answers"] == 2
    assert "tokens read" in cli("status").out
