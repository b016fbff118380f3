"""The second line of defence: the rows of a result are checked once more before they leave the store.

The first line is SQL: a reader's rights are resolved to classes, and rows of other classes are excluded before
ranking. The second line shares only the tags with it. The statement that joins the rows of a result with their
documents selects the tags of each *document*, not the class that was copied to its chunk, vector or node, and
`Access.allows`, the definition of visibility, is applied with the reader's own rights. Rows that do not pass
are dropped and logged as a fault of the first line.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import msgspec

from whence.schema.access import Access, DocumentTags

logger = logging.getLogger(__name__)

#: Columns that `allowed_rows` reads, of a document `d` and its tags `g`.
DOCUMENT_TAGS = (
    "d.id AS own_document, g.id AS own_class, g.acl AS own_acl, g.labels AS own_labels,"
    " g.clearance AS own_clearance"
)
#: Joins the tags of a document `d`.
TAGS_JOIN = " JOIN sec_class g ON g.id = d.class_id"


class AccessRule(msgspec.Struct, frozen=True, kw_only=True):
    """One of the three conditions under which a reader sees a document."""

    rule: str
    """`acl`, `labels` or `clearance`."""
    holds: bool
    reason: str
    """A sentence with the tags of both."""


def check_rules(tags: DocumentTags, access: Access) -> tuple[AccessRule, ...]:
    """Return each condition of `Access.allows` by itself; a document is visible when all hold."""
    acl, labels, level = tags.acl, tags.labels, tags.clearance
    shared, missing = sorted(access.acl_tags & set(acl)), sorted(set(labels) - access.labels)
    reasons = {
        "acl": (
            f"the reader has {_listed(shared)}" if acl else "the document has no ACL",
            f"the reader has none of {_listed(acl)}",
        ),
        "labels": (
            f"the reader has {_listed(labels)}" if labels else "the document has no labels",
            f"the reader lacks {_listed(missing)}",
        ),
        "clearance": (
            f"the reader's {access.clearance} is at least {level}",
            f"the reader's {access.clearance} is below {level}",
        ),
    }
    alone = {
        "acl": DocumentTags(acl=acl),
        "labels": DocumentTags(labels=labels),
        "clearance": DocumentTags(clearance=level),
    }
    holds = {rule: access.allows(only) for rule, only in alone.items()}
    return tuple(
        AccessRule(rule=rule, holds=holds[rule], reason=reasons[rule][0 if holds[rule] else 1])
        for rule in alone
    )


def _listed(tags: Iterable[str]) -> str:
    return ", ".join(map(repr, tags))


def allowed_rows(rows: Iterable[Any], access: Access, what: str) -> list[Any]:
    """Return the rows whose documents a reader may see, in order. Cost: linear in the rows.

    Dropped rows are logged as an error, by internal numbers: the name of a hidden document may itself be a
    secret, and the user of a command reads its log.

    Args:
        rows: Rows with the columns of `DOCUMENT_TAGS`.
        access: Rights of the reader.
        what: The read that found them, for the log.
    """
    of_class: dict[int, bool] = {}
    kept: list[Any] = []
    withheld: list[int] = []
    for row in rows:
        number = row["own_class"]
        if number not in of_class:
            tags = DocumentTags(row["own_acl"], row["own_labels"], row["own_clearance"])
            of_class[number] = access.allows(tags)
        if of_class[number]:
            kept.append(row)
        else:
            withheld.append(row["own_document"])
    if withheld:
        logger.error(
            "rights: the first check of the %s read let %d rows pass that the second withheld,"
            " of the documents numbered %s",
            what,
            len(withheld),
            sorted(set(withheld)),
            extra={"action": "withhold", "read": what},
        )
    return kept
