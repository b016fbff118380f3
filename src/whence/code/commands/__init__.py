"""Commands of code, which the entry-point group `whence.commands` names."""

from __future__ import annotations

from whence.surfaces.cli.commands import Command

_PANEL = "Code"

BUNDLE = Command(
    "whence.code.commands.bundle:bundle",
    _PANEL,
    (
        "whence bundle checkout/ -o release-1.0.zip",
        "whence bundle checkout/ -o shop.zip --repo Shop --acl staff",
    ),
    after="traces",
)
IMPORT = Command(
    "whence.code.commands.snapshots:import_bundles",
    _PANEL,
    (
        "whence import release-1.0.zip",
        "whence import release-1.0.zip release-1.1.zip --set releases",
    ),
    after="bundle",
)
EXPAND = Command(
    "whence.code.commands.nodes:expand",
    _PANEL,
    (
        "whence expand C0005 --snapshot release-1.0",
        "whence expand SQL:dbo.proc_Pay --snapshot release-1.0 --relation ReadsFrom --max-depth 4",
    ),
    after="import",
)
FETCH = Command(
    "whence.code.commands.nodes:fetch",
    _PANEL,
    (
        "whence fetch --snapshot release-1.0 --seed C0005 --max-chars 8000",
        "whence fetch --snapshot release-1.0 --seed C0005 --graph C0006 --budget-tokens 2000",
    ),
    after="expand",
)
SNAPSHOTS = Command(
    "whence.code.commands.snapshots:snapshots",
    _PANEL,
    ("whence snapshots", "whence snapshots --json"),
    {
        "activate": "whence.code.commands.snapshots:activate",
        "deactivate": "whence.code.commands.snapshots:deactivate",
        "purge": "whence.code.commands.snapshots:purge",
        "remove": "whence.code.commands.snapshots:remove",
        "set": "whence.code.commands.snapshots:make_set",
    },
    after="help",
)
