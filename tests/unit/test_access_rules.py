"""The rules by which a reader sees a document or not, one by one."""

from __future__ import annotations

import itertools

from tests.support.expected import assert_expected

from whence.schema.access import Access, DocumentTags
from whence.store.acl_check import check_rules


def test_every_rule_with_its_reason() -> None:
    """All rules hold exactly when the document is visible; each names what the reader has or lacks."""
    found: dict[str, list[str]] = {}
    for acl, labels, level in itertools.product(
        ((), ("hr",), ("hr", "it")), ((), ("a", "b")), (0, 2)
    ):
        for given, held, clearance in itertools.product(
            (set[str](), {"it", "hr"}, {"x"}), (set[str](), {"b"}, {"a", "b", "c"}), (0, 2)
        ):
            tags = DocumentTags(acl=acl, labels=labels, clearance=level)
            access = Access(given, held, clearance)
            rules = check_rules(tags, access)
            assert all(one.holds for one in rules) == access.allows(tags)
            found[f"{acl} {labels} {level}, {sorted(given)} {sorted(held)} {clearance}"] = [
                f"{one.rule} {one.holds}: {one.reason}" for one in rules
            ]

    assert_expected("access_rules.json", found)
