"""The core of the fake enterprise: C# nodes and SQL objects from CSV tables, and their access tags."""

from __future__ import annotations

import csv
from pathlib import Path

import msgspec


class CoreNode(msgspec.Struct, frozen=True):
    """A C# node, a row of `fake_core_nodes.csv`."""

    release: str
    """The release that adds it."""
    local_id: str
    file: str
    symbol: str
    """`Class.Member`"""
    depends_on: str
    """Local ids, separated by spaces."""
    depends_on_1_1: str
    """Further ones in release 1.1."""
    remark: str
    body: str


class CoreObject(msgspec.Struct, frozen=True):
    """An SQL object in the schema `dbo`, a row of `fake_core_objects.csv`."""

    release: str
    name: str
    kind: str
    text: str
    edges: str
    r"""Relation and name of each target, separated by commas."""


def core_nodes(release: str) -> list[CoreNode]:
    """Return the nodes of a release."""
    rows = _rows("fake_core_nodes.csv", release)
    return [CoreNode(**row | {"body": row["body"] or "return Next(input);"}) for row in rows]


def core_objects(release: str) -> list[CoreObject]:
    """Return the SQL objects of a release."""
    rows = _rows("fake_core_objects.csv", release)
    return [CoreObject(**row | {"text": row["text"].replace("\\n", "\n")}) for row in rows]


def _rows(name: str, release: str) -> list[dict[str, str]]:
    with (Path(__file__).parent / name).open(newline="") as stream:
        return [row for row in csv.DictReader(stream) if row["release"] <= release]


#: Rights of the core in releases 1.0 and 1.1, as `acl / labels`; what is not here has none.
CORE_RIGHTS = {
    "C0002": ("hr /", "support / secret"),
    "C0003": ("architecture / restricted secret", "architecture /"),
    "C0004": ("/", "/ public restricted"),
    "C0005": ("/", "/ internal"),
    "C0006": ("finance support /", "/"),
    "C0009": ("support /", "/"),
    "C0013": ("hr legal /", "/"),
    "C0014": ("legal /", "ops /"),
    "C0016": ("/ public", "/ restricted"),
    "C0017": ("architecture hr /", "support /"),
    "C0019": ("support / secret", "/"),
    "C0020": ("support /", "finance /"),
    "C0021": ("/ confidential public", "/"),
    "C0022": ("architecture /", "/"),
    "C0023": ("/", "/ restricted secret"),
    "C0024": ("/", "security /"),
    "C0026": ("/", "/ internal secret"),
    "C0027": ("hr integration / public", "ops /"),
    "C0029": ("ops /", "ops / confidential public"),
    "C0030": ("hr security / secret", "/"),
    "C0202": ("/", "ops /"),
    "SQL:dbo.table_Shipments": ("finance support /", "/"),
    "SQL:dbo.table_Payments": ("/", "support /"),
    "SQL:dbo.table_Invoices": ("/", "security /"),
    "SQL:dbo.proc_SearchShipments_Semantic": ("/", "/ confidential"),
    "SQL:dbo.proc_SearchShipments_Hybrid": ("/", "integration ops /"),
    "SQL:dbo.proc_GetShipmentByTracking": ("/ internal", "support / public restricted"),
    "SQL:dbo.proc_GenerateInvoice": ("/ restricted", "support /"),
    "SQL:dbo.proc_ComputeFraudRisk": ("/", "/ internal public"),
    "SQL:dbo.proc_SearchShipments_VectorFallback": ("/", "architecture / secret"),
}
