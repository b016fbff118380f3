"""Groups of commands and examples for help pages."""

from __future__ import annotations

from collections.abc import Mapping

#: Headings under which `whence --help` lists the commands, in this order.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Documents": ("index", "search", "collections", "erase"),
    "Answers": ("ask", "explain", "why-not", "replay"),
    "Code": ("bundle", "import", "snapshots", "expand", "fetch"),
    "Quality": ("validate", "eval"),
    "Operation": ("run", "serve", "status", "dlq", "doctor", "models", "demo", "help"),
}

#: Valid command lines, given the files and ids they name.
EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "index": (
        "whence index docs/",
        "whence index docs/ --prune",
        "whence index contracts/ --acl legal --clearance 2",
    ),
    "search": (
        'whence search "how many days of leave"',
        'whence search "leave" --mode bm25 --filter lang=en --top-k 20',
        'whence search "process a payment" --snapshot release-1.0 --json',
    ),
    "collections": ("whence collections", "whence collections --json"),
    "erase": ("whence erase people/salaries.md",),
    "ask": (
        'whence ask "How many days of leave do we get?"',
        'whence ask "What did the board decide?" --acl board --stream',
        'whence ask "Who may rent a bike?" --broker pulsar://localhost:6650',
    ),
    "explain": (
        "whence explain ANSWER_ID",
        "whence explain ANSWER_ID --format svg > trace.svg",
        'whence explain ANSWER_ID --sparql "SELECT ?s WHERE { ?s a ?type }"',
    ),
    "why-not": ("whence why-not people/leave.md --answer ANSWER_ID",),
    "replay": ("whence replay ANSWER_ID",),
    "bundle": (
        "whence bundle checkout/ -o release-1.0.zip",
        "whence bundle checkout/ -o shop.zip --repo Shop --acl staff",
    ),
    "import": (
        "whence import release-1.0.zip",
        "whence import release-1.0.zip release-1.1.zip --set releases",
    ),
    "snapshots": ("whence snapshots", "whence snapshots --json"),
    "expand": (
        "whence expand C0005 --snapshot release-1.0",
        "whence expand SQL:dbo.proc_Pay --snapshot release-1.0 --relation ReadsFrom --max-depth 4",
    ),
    "fetch": (
        "whence fetch --snapshot release-1.0 --seed C0005 --max-chars 8000",
        "whence fetch --snapshot release-1.0 --seed C0005 --graph C0006 --budget-tokens 2000",
    ),
    "validate": ("whence validate", "whence validate --suite suite.yaml --report report.json"),
    "eval": (
        "whence eval beir scifact/",
        "whence eval gate --suite suite.json --baseline baseline.json --policy policy.json",
    ),
    "run": (
        "whence run document-rag",
        "whence run document-rag --broker pulsar://localhost:6650 --only search,reranker",
        "whence run my-flow.yaml --check",
    ),
    "serve": (
        "whence serve",
        "whence serve --host 0.0.0.0 --tokens tokens.toml --require-token",
        "whence serve --stdio",
    ),
    "status": ("whence status", "whence status --broker pulsar://localhost:6650"),
    "dlq": ("whence dlq list", "whence dlq replay service.ingest"),
    "doctor": ("whence doctor", "whence doctor --json"),
    "models": ("whence models status", "whence models install"),
    "demo": ("whence demo",),
    "help": ("whence help search",),
}


def group_of(command: str) -> str | None:
    """Return the heading under which a command is listed."""
    return next((name for name, members in GROUPS.items() if command in members), None)


def epilog_of(command: str) -> str | None:
    """Return the examples of a command for its help page, one a paragraph because rich joins lines."""
    examples = EXAMPLES.get(command)
    if not examples:
        return None
    # Brackets are markup.
    lines = ("[dim]Examples[/]", *(line.replace("[", r"\[") for line in examples))
    return "\n\n".join(lines)
