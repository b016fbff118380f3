"""Generate a fake enterprise in two releases: C# nodes, SQL objects, edges between them, and access tags.

Names, files and dependencies of the core are those of the test bundles that seed 000 describes, so that its
questions and expected graphs hold. Fillers, nodes with chosen access tags, and irregularities of real bundles
are added: a cycle, a repeated edge, a dangling edge, an edge from SQL to C#, and a node without text.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable

import msgspec
from tests.support.fake_core import (
    CORE_RIGHTS,
    CoreNode,
    CoreObject,
    core_nodes,
    core_objects,
)

RELEASES = ("1.0", "1.1")
#: Shares of nodes with: no tags, an ACL, labels, both.
TAG_MIX = {"none": 0.70, "acl": 0.15, "labels": 0.10, "both": 0.05}
_ACL = ("finance", "security", "ops", "hr", "legal", "architecture", "integration", "support")
_LABELS = ("public", "internal", "restricted", "confidential", "secret")
_OWNERS = ("team-finance", "team-security", "team-platform", "team-integration")
_CS_FILLERS = range(32, 202)
_SQL_FILLERS = range(1, 75)


class FakeRights(msgspec.Struct, frozen=True):
    """Access tags of a node."""

    acl: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    level: int | None = None
    """None omits the attribute."""

    @property
    def category(self) -> str:
        """The part of the tag mix; the level does not matter."""
        if self.acl:
            return "both" if self.labels else "acl"
        return "labels" if self.labels else "none"


class FakeNode(msgspec.Struct, frozen=True, kw_only=True):
    """One C# node or SQL object."""

    local_id: str
    file: str
    group: str
    """Class of a C# member, schema of an SQL object."""
    name: str
    symbol_type: str
    text: str
    rights: FakeRights
    depends_on: tuple[str, ...] = ()
    """Local ids, of a C# node only."""

    @property
    def is_sql(self) -> bool:
        """Whether it is an SQL object."""
        return self.local_id.startswith("SQL:")

    @property
    def owner(self) -> str:
        """Owner of a node with labels; empty for others."""
        return _OWNERS[_number(self.local_id) % len(_OWNERS)] if self.rights.labels else ""


class SqlEdge(msgspec.Struct, frozen=True):
    """One row of the SQL graph."""

    from_local: str
    to_local: str
    relation: str


class FakeRelease(msgspec.Struct, frozen=True, kw_only=True):
    """All of one release."""

    name: str
    cs_nodes: tuple[FakeNode, ...]
    sql_nodes: tuple[FakeNode, ...]
    sql_edges: tuple[SqlEdge, ...]

    @property
    def nodes(self) -> tuple[FakeNode, ...]:
        """All nodes, C# first."""
        return self.cs_nodes + self.sql_nodes


_FOLDERS = {"Table": "tables", "View": "views", "Function": "func", "Procedure": "procs"}

#: Fillers with chosen tags, equal in both releases: every row of the access matrices, a label outside the
#: vocabulary, and levels 0, 10 and 20.
_FIXTURES = {
    "C0182": FakeRights(),
    "C0183": FakeRights(("finance",)),
    "C0184": FakeRights(("security",)),
    "C0185": FakeRights(("finance", "security")),
    "C0186": FakeRights(("hr",)),
    "C0187": FakeRights(("finance", "hr")),
    "C0188": FakeRights((), ("public",)),
    "C0189": FakeRights((), ("internal", "secret")),
    "C0190": FakeRights((), ("internal", "public", "secret")),
    "C0191": FakeRights((), ("restricted",)),
    "C0192": FakeRights((), ("secret",)),
    "C0193": FakeRights(("finance",), ("internal",)),
    "C0194": FakeRights(("hr",), ("internal",)),
    "C0195": FakeRights(("hr",), ("public",)),
    "C0196": FakeRights(("finance",), ("restricted",)),
    "C0197": FakeRights(("finance", "hr"), ("internal", "secret")),
    "C0198": FakeRights(("finance",), ("sensitive",)),
    "C0199": FakeRights(level=0),
    "C0200": FakeRights(level=10),
    "C0201": FakeRights(("finance",), level=20),
}
_WITHOUT_TEXT = "C0181"
#: New in 1.1, and then the third procedure behind the hybrid search.
_FALLBACK = "proc_SearchShipments_VectorFallback"
#: Makes a cycle with the chain of fillers.
_BACK_EDGE = ("C0050", "C0053")

_AREAS = (
    ("Warehouse", "shelves and pallets"),
    ("Calendar", "holidays and shifts"),
    ("Printing", "paper sizes and trays"),
    ("Weather", "wind and rain reports"),
    ("Fleet", "vans and their mileage"),
    ("Training", "courses and certificates"),
    ("Canteen", "menus and allergens"),
    ("Parking", "bays and barriers"),
    ("Garden", "beds and watering"),
    ("Lighting", "lamps and dimmers"),
)
_CHORES = (
    ("Counter", "counts"),
    ("Sorter", "puts in order"),
    ("Formatter", "writes out as lines"),
    ("Cache", "remembers for an hour"),
    ("Importer", "takes in from a sheet of"),
    ("Exporter", "writes to a sheet of"),
    ("Merger", "merges two lists of"),
    ("Sampler", "draws a sample of"),
    ("Checker", "finds mistakes in"),
    ("Rounder", "rounds the figures of"),
)


def fake_release(name: str) -> FakeRelease:
    """Return one release, the same on every call and every machine.

    Args:
        name: `1.0` or `1.1`.
    """
    core, objects = core_nodes(name), core_objects(name)
    fillers = [f"C{number:04}" for number in _CS_FILLERS]
    fillers += [_sql_id(_sql_filler(number)[0]) for number in _SQL_FILLERS]
    core_ids = [node.local_id for node in core] + [_sql_id(item.name) for item in objects]
    rights = _all_rights(name, core_ids, fillers)
    cs_nodes = [_core_node(node, rights[node.local_id], name) for node in core]
    cs_nodes += [_cs_filler_node(number, rights[f"C{number:04}"]) for number in _CS_FILLERS]
    sql_nodes = [_core_object(item, rights[_sql_id(item.name)]) for item in objects]
    sql_nodes += [_sql_filler_node(number, rights) for number in _SQL_FILLERS]
    return FakeRelease(
        name=name,
        cs_nodes=tuple(sorted(cs_nodes, key=lambda node: node.local_id)),
        sql_nodes=tuple(sql_nodes),
        sql_edges=_sql_edges(objects),
    )


def _core_node(core: CoreNode, rights: FakeRights, release: str) -> FakeNode:
    class_name, member = core.symbol.split(".")
    further = core.depends_on_1_1 if release == "1.1" else ""
    return FakeNode(
        local_id=core.local_id,
        file=f"src/FakeEnterprise.{core.file}",
        group=class_name,
        name=member,
        symbol_type="Method",
        text=_cs_text(core.remark, class_name, member, core.body),
        rights=rights,
        depends_on=(*core.depends_on.split(), *further.split()),
    )


def _cs_text(remark: str, class_name: str, member: str, body: str) -> str:
    return f"// {remark}\nclass {class_name} {{ object {member}(input) {{ {body} }} }}\n"


def _cs_filler_node(number: int, rights: FakeRights) -> FakeNode:
    local_id = f"C{number:04}"
    place = number - _CS_FILLERS.start
    area, things = _AREAS[place % len(_AREAS)]
    chore, does = _CHORES[(place // len(_AREAS) + place) % len(_CHORES)]
    class_name = f"{area}{chore}{local_id}"
    text = _cs_text(f"{area} {chore.lower()}: {does} {things}.", class_name, "Run", "return input;")
    return FakeNode(
        local_id=local_id,
        file=f"src/FakeEnterprise.Core/{area}/{class_name}.cs",
        group=class_name,
        name="Run",
        symbol_type="Method",
        text="" if local_id == _WITHOUT_TEXT else text,
        rights=rights,
        depends_on=tuple(_filler_dependencies(number, place)),
    )


def _filler_dependencies(number: int, place: int) -> Iterable[str]:
    if place > 0:
        yield f"C{number - 1:04}"
    if place >= 4 and place % 4 == 0:
        yield f"C{number - 3:04}"
    if place % 7 == 6:
        yield "C0005"
    if f"C{number:04}" == _BACK_EDGE[0]:
        yield _BACK_EDGE[1]


def _core_object(item: CoreObject, rights: FakeRights) -> FakeNode:
    return FakeNode(
        local_id=_sql_id(item.name),
        file=f"db/{_FOLDERS[item.kind]}/{item.name}.sql",
        group="dbo",
        name=item.name,
        symbol_type=item.kind,
        text=f"{item.text}\n",
        rights=rights,
    )


def _sql_filler(number: int) -> tuple[str, str]:
    """Return name and kind of a filler: mostly tables and procedures, one trigger, one synonym."""
    kind = "Procedure" if number % 3 == 0 else "Table"
    kind = {70: "Trigger", 71: "Synonym"}.get(number, kind)
    prefix = {"Procedure": "proc", "Table": "table", "Trigger": "trigger", "Synonym": "synonym"}[
        kind
    ]
    return f"{prefix}_Depot_{number:03}", kind


def _sql_filler_node(number: int, rights: dict[str, FakeRights]) -> FakeNode:
    name, kind = _sql_filler(number)
    area, things = _AREAS[number % len(_AREAS)]
    return FakeNode(
        local_id=_sql_id(name),
        file=f"db/depot/{name}.sql",
        group="dbo",
        name=name,
        symbol_type=kind,
        text=f"-- depot {number}: {things}\nCREATE {kind.upper()} dbo.{name} /* {area.lower()} */;\n",
        rights=rights[_sql_id(name)],
    )


def _sql_edges(objects: Iterable[CoreObject]) -> tuple[SqlEdge, ...]:
    edges = [edge for item in objects for edge in _core_edges(item)]
    if any(item.name == _FALLBACK for item in objects):
        edges.append(_sql_edge("proc_SearchShipments_Hybrid", "Executes", _FALLBACK))
    for number in _SQL_FILLERS:
        edges.extend(_filler_edges(number))
    edges += [
        _sql_edge("proc_Depot_003", "Calls", "proc_Depot_006"),
        _sql_edge("proc_Depot_006", "Calls", "proc_Depot_003"),
        SqlEdge(_sql_id("proc_Depot_009"), "C0030", "ReferencedBy(C#)"),
        _sql_edge("proc_Depot_012", "ReadsFrom", "table_Depot_999"),
    ]
    return (*edges, edges[-2])


def _core_edges(item: CoreObject) -> Iterable[SqlEdge]:
    for edge in filter(None, item.edges.split(", ")):
        relation, target = edge.split()
        yield _sql_edge(item.name, relation, target)


def _filler_edges(number: int) -> Iterable[SqlEdge]:
    name, kind = _sql_filler(number)
    target = "table_Payments" if number % 2 else "table_Shipments"
    if kind == "Table":
        yield _sql_edge(name, "FK", target)
    elif kind == "Trigger":
        yield _sql_edge(name, "On", "table_Depot_067")
    elif kind == "Synonym":
        yield _sql_edge(name, "SynonymFor", "table_Payments")
    else:
        yield _sql_edge(name, "WritesTo" if number % 9 == 0 else "ReadsFrom", target)
    if number % 15 == 0:
        yield _sql_edge(name, "Executes", "proc_SearchShipments_Hybrid")


def _sql_edge(source: str, relation: str, target: str) -> SqlEdge:
    return SqlEdge(_sql_id(source), _sql_id(target), relation)


def _sql_id(name: str) -> str:
    return f"SQL:dbo.{name}"


def _all_rights(release: str, core: list[str], fillers: list[str]) -> dict[str, FakeRights]:
    """Return the access tags of all nodes; those of fillers are drawn by hash to fill the mix."""
    rights = {local: _core_rights(local, release) for local in core}
    rights |= _FIXTURES
    rights[_WITHOUT_TEXT] = FakeRights()
    free = sorted(set(fillers) - rights.keys(), key=lambda local: _number(release + local))
    total = len(core) + len(fillers)
    have = Counter(given.category for given in rights.values())
    for category, share in TAG_MIX.items():
        wanted = max(0, round(total * share) - have[category])
        for local in free[:wanted]:
            rights[local] = _drawn(category, release + local)
        free = free[wanted:]
    return rights | {local: FakeRights() for local in free}


def _core_rights(local: str, release: str) -> FakeRights:
    text = CORE_RIGHTS.get(local, ("/", "/"))[RELEASES.index(release)]
    acl, labels = text.split("/")
    return FakeRights(tuple(sorted(acl.split())), tuple(sorted(labels.split())))


def _drawn(category: str, seed: str) -> FakeRights:
    acl = _pick(_ACL, f"acl {seed}") if category in ("acl", "both") else ()
    labels = _pick(_LABELS, f"labels {seed}") if category in ("labels", "both") else ()
    return FakeRights(acl, labels)


def _pick(vocabulary: tuple[str, ...], seed: str) -> tuple[str, ...]:
    """Return one or two words."""
    number = _number(seed)
    first, second = number % len(vocabulary), number // 101 % len(vocabulary)
    return tuple(sorted({vocabulary[first], vocabulary[second if number // 7 % 2 else first]}))


def _number(seed: str) -> int:
    """Return a number that depends on the seed only."""
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8])
