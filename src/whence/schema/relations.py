"""Names of the relations between code nodes, as stored and as asked for.

A dependency of a C# node is stored as `cs_dep`, as `cs_R` where the bundle names its relation R; a row of an
SQL graph with relation R as `sql_R`. An edge that was concluded and not read ends in `(inferred)`. Whoever
asks may leave the prefix and that mark out and need not mind the case; `dep` is any dependency of a C# node.
"""

from __future__ import annotations

from collections.abc import Iterable

from whence.schema.code_ids import CodeKind

__all__ = (
    "CS_DEPENDENCY",
    "RELATIONS",
    "RelationFilter",
    "inferred_relation",
    "normalize_relation",
    "stored_relation",
    "strip_relation_prefix",
)

#: Relation of a dependency between C# nodes.
CS_DEPENDENCY = "cs_dep"
#: Relations that bundles are known to have; others may occur.
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
_INFERRED = "(inferred)"


def stored_relation(source: CodeKind, name: str) -> str:
    """Give the name under which a relation is stored.

    Args:
        source: Which of a bundle's two graphs the edge comes from.
        name: Relation as written there.

    >>> stored_relation("sql", "ReferencedBy(C#)")
    'sql_ReferencedBy(C#)'
    """
    return f"{source}_{name}"


def inferred_relation(name: str) -> str:
    """Mark the name of a relation: the edge was concluded from a string or from equal names.

    >>> inferred_relation("Executes")
    'Executes(inferred)'
    """
    return name + _INFERRED


def strip_relation_prefix(stored: str) -> str:
    """Give a stored relation without its prefix; at most one is cut.

    >>> strip_relation_prefix("sql_ReadsFrom"), strip_relation_prefix("cs_dep"), strip_relation_prefix("Calls")
    ('ReadsFrom', 'dep', 'Calls')
    """
    for prefix in _PREFIXES:
        if stored.lower().startswith(prefix):
            return stored[len(prefix) :]
    return stored


def normalize_relation(name: str) -> str:
    """Give the form in which relations are compared."""
    return name.strip().lower()


class RelationFilter:
    """The relations that a reader follows.

    Args:
        allowed: Names with or without prefix, in any case. None, an empty list or one with `*` is all.

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
        """Tell whether an edge of this stored relation is followed."""
        if self.names is None:
            return True
        return not self.names.isdisjoint(_asked_as(stored))

    def unknown(self, stored: Iterable[str] = ()) -> list[str]:
        """Give the names asked for that are neither known nor among those of a snapshot, sorted.

        Args:
            stored: Relations of the snapshot.

        >>> RelationFilter(["calls", "SQL_ReadsFrom", "ReadsForm"]).unknown()
        ['readsform']
        """
        known: set[str] = set()
        for relation in (*stored, *(prefix + name for prefix in _PREFIXES for name in RELATIONS)):
            known |= _asked_as(relation) | _asked_as(inferred_relation(relation))
        return sorted((self.names or frozenset()) - known)


def _asked_as(stored: str) -> set[str]:
    """Give all that may be asked for to get a stored relation, in the form of `normalize_relation`."""
    forms = {normalize_relation(stored), normalize_relation(strip_relation_prefix(stored))}
    forms |= {form.removesuffix(_INFERRED) for form in forms}
    if normalize_relation(stored).startswith("cs_"):
        forms |= {CS_DEPENDENCY, strip_relation_prefix(CS_DEPENDENCY)}
    return forms
