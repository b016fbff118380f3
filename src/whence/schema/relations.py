"""Names of the relations between code nodes, as stored and as requested.

A dependency of a C# node is stored as `cs_dep`, or as `cs_R` when the bundle names its relation R; a row of an
SQL graph with relation R as `sql_R`. An inferred edge ends in `(inferred)`. A request may omit prefix and
suffix and ignores case; `dep` is any dependency of a C# node.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Relation of a dependency between C# nodes.
CS_DEPENDENCY = "cs_dep"
#: Relations of known bundles; others may occur.
RELATIONS = (
    "dep",
    "calls",
    "uses",
    "inherits",
    "ReadsFrom",
    "WritesTo",
    "Executes",
    "FK",
    "On",
    "SynonymFor",
    "ReferencedBy(C#)",
)
_PREFIXES = ("sql_", "cs_")
_ALL = "*"
#: Ends a relation whose edge was inferred from a string or from equal names.
INFERRED = "(inferred)"


def strip_relation_prefix(stored: str) -> str:
    """Return a stored relation without its prefix; at most one is removed.

    >>> strip_relation_prefix("sql_ReadsFrom"), strip_relation_prefix("cs_dep"), strip_relation_prefix("Calls")
    ('ReadsFrom', 'dep', 'Calls')
    """
    for prefix in _PREFIXES:
        if stored.lower().startswith(prefix):
            return stored[len(prefix) :]
    return stored


def normalize_relation(name: str) -> str:
    """Return the form in which relations are compared."""
    return name.strip().lower()


class RelationFilter:
    """The relations that a reader follows.

    Args:
        allowed: Names with or without prefix, in any case; None, an empty list or `*` allows all.

    >>> RelationFilter(["readsfrom"]).allows("sql_ReadsFrom")
    True
    >>> RelationFilter(["cs_dep"]).allows("sql_ReadsFrom")
    False
    >>> RelationFilter(["Executes"]).allows("sql_Executes(inferred)")
    True
    >>> RelationFilter(["dep"]).allows("cs_inherits")
    True
    """

    def __init__(self, allowed: Iterable[str] | None = None) -> None:
        names = frozenset(map(normalize_relation, allowed or ()))
        #: Names in the form of `normalize_relation`; None when all relations are followed.
        self.names: frozenset[str] | None = None if not names or _ALL in names else names

    def allows(self, stored: str) -> bool:
        """Return whether an edge of this stored relation is followed."""
        if self.names is None:
            return True
        return not self.names.isdisjoint(_names_of(stored))

    def unknown(self, stored: Iterable[str] = ()) -> list[str]:
        """Return the requested names that are neither known nor stored in the snapshot, sorted.

        >>> RelationFilter(["calls", "SQL_ReadsFrom", "ReadsForm"]).unknown()
        ['readsform']
        """
        known: set[str] = set()
        for relation in (*stored, *(prefix + name for prefix in _PREFIXES for name in RELATIONS)):
            known |= _names_of(relation) | _names_of(relation + INFERRED)
        return sorted((self.names or frozenset()) - known)


def _names_of(stored: str) -> set[str]:
    """Return all normalized names that select a stored relation."""
    forms = {normalize_relation(stored), normalize_relation(strip_relation_prefix(stored))}
    forms |= {form.removesuffix(INFERRED) for form in forms}
    if normalize_relation(stored).startswith("cs_"):
        forms |= {CS_DEPENDENCY, strip_relation_prefix(CS_DEPENDENCY)}
    return forms
