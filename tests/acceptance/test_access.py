"""`whence access`: for the owner, who sees a document and what other tags would change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

BUDGET = "finance/budget-2025.md"


def test_an_explanation_names_the_rule(cli: Any, handbook: Path) -> None:
    """Readers with and without the tag: visible or not, by which rule; a missing document is an error."""
    del handbook
    hidden = cli("access", "explain", BUDGET, "--json").json
    seen = cli("access", "explain", BUDGET, "--acl", "finance", "--json").json
    printed = cli("access", "explain", BUDGET).out

    assert (hidden["visible"], seen["visible"]) == (False, True)
    assert [one["rule"] for one in hidden["rules"] if not one["holds"]] == ["acl"]
    assert hidden["tags"]["acl"] == ["finance"]
    assert seen["reader"] == {"acl": ["finance"], "labels": [], "clearance": 0}
    assert hidden["chunks_visible"] == 0 < seen["chunks_visible"]
    assert "does not see" in printed
    assert "'finance'" in printed
    cli("access", "explain", "finance/nothing.md").assert_error(3)


def test_a_preview_changes_nothing(cli: Any, handbook: Path) -> None:
    """New tags of a document, and of all documents of an indexed folder, are compared with those it has."""
    one = cli("access", "preview", BUDGET, "--public", "--json").json
    folder = cli("access", "preview", "--source", handbook / "finance", "--acl", "board", "--json")
    after = cli("access", "explain", BUDGET, "--json").json

    (document,) = one["documents"]
    assert document["before"]["acl"] == ["finance"]
    assert document["after"] == {"acl": [], "labels": [], "clearance": 0}
    public = {"acl": [], "labels": [], "clearance": 0}
    assert [reader["gains"] for reader in one["readers"] if reader["reader"] == public] == [1]
    names = {document["document_id"] for document in folder.json["documents"]}
    assert BUDGET in names
    assert all(name.startswith("finance/") for name in names)
    assert after["visible"] is False
    cli("access", "preview", BUDGET).assert_error(2)
    cli("access", "preview", "--acl", "board").assert_error(2)
