"""Security matrices: one matching ACL tag suffices, all labels are required, hidden nodes appear nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from whence.schema.access import Access
from whence.schema.errors import NotFound

GROUPS = ("finance", "security")
ACL_ONLY = Access(set(GROUPS))
CLASSES = Access(set(GROUPS), {"public", "internal", "secret"})
QUESTION = "ACL filter before rank"
BOTH = pytest.mark.parametrize("source", ["primary", "secondary"])
MODES = ("semantic", "bm25", "hybrid")


def tagged(retrieval: Any, acl: tuple[str, ...], labels: tuple[str, ...], source: str) -> list[str]:
    """Return the nodes with exactly these rights; skips where a bundle of somebody else has none."""
    nodes = retrieval.bundle(source).nodes.values()
    found = [
        node.local_id
        for node in nodes
        if set(node.acl) == set(acl) and set(node.labels) == set(labels) and not node.level
    ]
    if not found:
        pytest.skip(f"the bundle has no document with ACL {acl} and labels {labels}")
    return found


def everything_found(retrieval: Any, access: Access, source: str) -> set[str]:
    """Return all nodes that a dense search without threshold finds."""
    report = retrieval.search(QUESTION, "semantic", access, source=source, top_k=1000)
    return {hit.document_id.split("::", 3)[3] for hit in report.results}


def check(retrieval: Any, node: str, access: Access, source: str, *, visible: bool) -> None:
    """Compare search, expansion and fetch for one node."""
    assert (node in everything_found(retrieval, access, source)) == visible
    if visible:
        reply = retrieval.expand([node], access, source=source, max_depth=1)
        assert reply.nodes[0].local_id == node
        report = retrieval.fetch([node], tokens=5000, access=access, source=source)
        assert [one.local_id for one in report.node_texts] == [node]
        return
    with pytest.raises(NotFound):
        retrieval.expand([node], access, source=source, max_depth=1)
    with pytest.raises(NotFound):
        retrieval.fetch([node], tokens=5000, access=access, source=source)
    # As a graph node it is left out, in the words of one that does not exist.
    seed = next(iter(sorted(retrieval.visible(access, source))))
    report = retrieval.fetch([seed], [node, "C9999"], tokens=5000, access=access, source=source)
    reasons = {one.id.split("::", 3)[3]: one.reason for one in report.decisions}
    assert reasons[node] == reasons["C9999"] == "not_found"
    assert [one.local_id for one in report.node_texts] == [seed]


@BOTH
@pytest.mark.parametrize(
    ("acl", "visible"),
    [(("finance",), True), (("security",), True), (("finance", "hr"), True), (("hr",), False)],
    ids=["finance", "security", "finance-or-hr", "hr"],
)
def test_acl_row(retrieval: Any, acl: tuple[str, ...], visible: bool, source: str) -> None:
    """One shared tag opens a document; none keeps it closed."""
    node = tagged(retrieval, acl, (), source)[0]
    check(retrieval, node, ACL_ONLY, source, visible=visible)


@BOTH
@pytest.mark.parametrize(
    ("acl", "labels", "visible"),
    [
        ((), (), True),
        ((), ("public",), True),
        ((), ("secret",), True),
        ((), ("internal", "secret"), True),
        (("finance",), ("sensitive",), False),
        ((), ("restricted",), False),
    ],
    ids=["none", "public", "secret", "internal-secret", "sensitive", "restricted"],
)
def test_classification_row(
    retrieval: Any, acl: tuple[str, ...], labels: tuple[str, ...], visible: bool, source: str
) -> None:
    """A reader needs all labels of a document; a document without labels is visible."""
    node = tagged(retrieval, acl, labels, source)[0]
    check(retrieval, node, CLASSES, source, visible=visible)


@BOTH
@pytest.mark.parametrize(
    ("acl", "labels", "visible"),
    [
        (("finance",), ("internal",), True),
        (("security",), (), True),
        (("hr",), ("internal",), False),
        (("finance",), ("sensitive",), False),
    ],
    ids=["finance-internal", "security", "hr-internal", "finance-sensitive"],
)
def test_acl_and_classification_row(
    retrieval: Any, acl: tuple[str, ...], labels: tuple[str, ...], visible: bool, source: str
) -> None:
    """Both rules must hold at once."""
    node = tagged(retrieval, acl, labels, source)[0]
    check(retrieval, node, CLASSES, source, visible=visible)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("case", "access"),
    [
        ("security_acl_only", ACL_ONLY),
        ("security_classification", Access(frozenset(), CLASSES.labels)),
        ("security_acl_and_classification", CLASSES),
    ],
    ids=["acl", "classification", "acl-and-classification"],
)
def test_what_is_found_is_allowed(retrieval: Any, case: str, access: Access, mode: str) -> None:
    """Every mode finds visible documents only; the trace names the rights that were applied."""
    report = retrieval.search(QUESTION, mode, access, top_k=1000)
    found = {hit.document_id.split("::", 3)[3] for hit in report.results}
    visible = retrieval.visible(access)
    if mode == "hybrid":
        ten = retrieval.search(QUESTION, mode, access)
        retrieval.log_search(case, ten)
        assert ten.results == report.results[:10]

    assert found
    assert found <= visible
    # By meaning every visible document has a place.
    assert mode == "bm25" or found == visible


@BOTH
@pytest.mark.parametrize("access", [Access(), ACL_ONLY, CLASSES], ids=["public", "acl", "both"])
def test_exactly_the_visible_is_found(retrieval: Any, access: Access, source: str) -> None:
    """A dense search without threshold finds exactly the nodes that the written rule makes visible."""
    assert everything_found(retrieval, access, source) == retrieval.visible(access, source)
