"""Measure how large and how tangled the source tree is; exit 1 when a figure passes its limit.

`python tools/house.py` prints `figure | measured | limit`; `--verbose` adds the worst offenders by
`file:line`. Only a commit that adds a feature may raise a limit, by what the feature needs.
Each function below that ends in `findings` states the rule of its figure.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 85_500
MAX_FILE_LINES = 600
MAX_CLASS_LINES = 300
MAX_FUNCTION_LINES = 60
QUESTION_LIMITS = {
    "files entered by one question": 59,
    "functions entered by one question": 403,
    "calls of one question": 2_600,
    "deepest stack of one question": 17,
}
#: Names with a leading underscore that the standard library documents.
DOCUMENTED = {"_asdict", "_exit", "_fields", "_make", "_missing_", "_replace"}
PRIVATE = re.compile(r"_(?!_)\w+")
VERBS = re.compile(r"(?:Give|Tell|Say)s?\b")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Module:
    """A parsed source file; `name` is the dotted module name."""

    name: str
    path: str
    lines: int
    tree: ast.Module
    is_package: bool


@dataclass(frozen=True)
class Figure:
    """A measured number; a limit of None means that the number is only reported."""

    name: str
    measured: int
    limit: int | None
    findings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the number is within its limit."""
        return self.limit is None or self.measured <= self.limit


def read_modules(source: Path) -> list[Module]:
    """Parse every Python file below `source`, which holds the top-level packages."""
    modules = []
    for path in sorted(source.rglob("*.py")):
        relative = path.relative_to(source)
        parts = relative.with_suffix("").parts
        is_package = parts[-1] == "__init__"
        text = path.read_text(encoding="utf-8")
        name = ".".join(parts[:-1] if is_package else parts)
        modules.append(
            Module(name, str(relative), len(text.splitlines()), ast.parse(text), is_package)
        )
    return modules


def file_findings(modules: Iterable[Module]) -> list[str]:
    """List the files of more than 600 lines."""
    long = (module for module in modules if module.lines > MAX_FILE_LINES)
    return [
        f"{module.path}: {module.lines} lines"
        for module in sorted(long, key=lambda one: -one.lines)
    ]


def block_findings(
    modules: Iterable[Module], kinds: tuple[type[ast.stmt], ...], limit: int
) -> list[str]:
    """List the classes or functions of more than `limit` lines, from the first decorator to the last line."""
    found = []
    for module in modules:
        for node in ast.walk(module.tree):
            if not isinstance(node, kinds):
                continue
            decorators = [one.lineno for one in getattr(node, "decorator_list", ())]
            first = min([node.lineno, *decorators])
            lines = (node.end_lineno or first) - first + 1
            if lines > limit:
                name = getattr(node, "name", "")
                found.append((lines, f"{module.path}:{first}: {name}: {lines} lines"))
    return [text for _, text in sorted(found, key=lambda one: -one[0])]


def docstring_findings(modules: Iterable[Module]) -> list[str]:
    """List the docstrings, also of attributes, that begin with Give, Tell or Say."""
    return [
        f"{module.path}:{node.lineno}: {node.value.value.split(chr(10))[0].strip()}"
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and VERBS.match(node.value.value.strip())
    ]


def private_name_findings(modules: list[Module]) -> list[str]:
    """List the uses of names that another library, the standard one included, marks as private.

    A name is private when it begins with one underscore. Counted are: an import of a private module or name
    from outside the package; `x._name` where `x` was imported from outside; `x._name` and
    `getattr(x, "_name")` where no file of the package defines `_name`, so that a foreign class does. Names that
    the standard library documents (`os._exit`, `_replace` of named tuples, ...) are not counted.
    """
    own = {module.name.partition(".")[0] for module in modules}
    defined = set().union(*(defined_names(module.tree) for module in modules))
    found = []
    for module in modules:
        foreign = foreign_names(module.tree, own)
        for node in ast.walk(module.tree):
            for name, root in private_uses(node, own):
                if name not in DOCUMENTED and (root in foreign or name not in defined):
                    found.append(f"{module.path}:{node.lineno}: {name}")
    return found


def private_uses(node: ast.AST, own: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the private names that a node uses, each with the name at the root of the expression."""
    if isinstance(node, ast.Attribute) and PRIVATE.fullmatch(node.attr):
        root: ast.expr = node.value
        while isinstance(root, ast.Attribute):
            root = root.value
        yield node.attr, root.id if isinstance(root, ast.Name) else ""
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"getattr", "setattr"}:
        name = node.args[1].value if isinstance(node.args[1], ast.Constant) else ""
        if PRIVATE.fullmatch(str(name)):
            yield str(name), getattr(node.args[0], "id", "")
    elif isinstance(node, ast.Import | ast.ImportFrom):
        for path in imported_paths(node):
            parts = path.split(".")
            if parts[0] not in own and parts[0]:
                yield from ((f"import {path}", "") for part in parts if PRIVATE.fullmatch(part))


def imported_paths(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the dotted paths that an import names; empty for `__future__` and relative imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if node.level or node.module == "__future__":
        return []
    return [f"{node.module}.{alias.name}" for alias in node.names]


def foreign_names(tree: ast.AST, own: set[str]) -> set[str]:
    """Return the names that a file binds by importing from outside the package."""
    return {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias, path in zip(node.names, imported_paths(node), strict=False)
        if path.partition(".")[0] not in own
    }


def defined_names(tree: ast.AST) -> set[str]:
    """Return the private names that a file defines: functions, classes, variables, attributes, slots."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}:
                names.add(node.attr)
        elif isinstance(node, ast.Assign) and "__slots__" in map(ast.unparse, node.targets):
            names.update(one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
    return {str(name) for name in names if PRIVATE.fullmatch(str(name))}


def circle_findings(modules: list[Module], *, in_functions: bool = False) -> list[str]:
    """List the circles of imports: the largest sets of modules in which each one imports each other one.

    Imports under `if TYPE_CHECKING` never count, imports inside functions only when asked for. A package counts
    as imported where a name is taken from it, not where Python runs it on the way to one of its modules.
    """
    names = {module.name for module in modules}
    edges: dict[str, set[str]] = {}
    for module in modules:
        paths = [
            path
            for node in running_imports(module.tree, in_functions=in_functions)
            for path in imported_paths(node)
        ]
        targets = {path if path in names else path.rpartition(".")[0] for path in paths}
        edges[module.name] = (targets & names) - {module.name}
    reach = {name: reachable(name, edges) for name in edges}
    circles = {
        frozenset(other for other in reach[name] if name in reach[other])
        for name in edges
        if name in reach[name]
    }
    return [" <-> ".join(sorted(circle)) for circle in sorted(circles, key=sorted)]


def running_imports(node: ast.AST, *, in_functions: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that run: not those for types, and those in functions only when asked for."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from running_imports(other, in_functions=in_functions)
        elif in_functions or not isinstance(child, FUNCTIONS):
            yield from running_imports(child, in_functions=in_functions)


def reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    """Return the modules that `start` imports, directly or through others."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        fresh = edges[waiting.pop()] - found
        found |= fresh
        waiting.extend(fresh)
    return found


def question_figures(root: Path) -> list[Figure]:
    """Measure one question on the tree at `root`, in a process of its own."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WHENCE_")}
    environment["PYTHONPATH"] = str(root / "src")
    probe = Path(__file__).with_name("question_calls.py")
    command = [sys.executable, str(probe), str(root / "src" / "whence")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the question could not be measured:\n{done.stderr}")
    values = json.loads(done.stdout.splitlines()[-1])
    return [
        Figure(name, value, limit)
        for (name, limit), value in zip(QUESTION_LIMITS.items(), values, strict=True)
    ]


def source_figures(root: Path) -> list[Figure]:
    """Measure the source files of the tree at `root`."""
    modules = read_modules(root / "src")
    sizes = sorted(modules, key=lambda one: -one.lines)[:20]
    rules = {
        f"files over {MAX_FILE_LINES} lines": file_findings(modules),
        f"classes over {MAX_CLASS_LINES} lines": block_findings(
            modules, (ast.ClassDef,), MAX_CLASS_LINES
        ),
        f"functions over {MAX_FUNCTION_LINES} lines": block_findings(
            modules, FUNCTIONS, MAX_FUNCTION_LINES
        ),
        "circles of imports": circle_findings(modules),
        "private names of other libraries": private_name_findings(modules),
        "docstrings that begin with Give, Tell or Say": docstring_findings(modules),
    }
    delayed = circle_findings(modules, in_functions=True)
    return [
        Figure(
            "lines of Python",
            sum(one.lines for one in modules),
            MAX_LINES,
            tuple(f"{one.path}: {one.lines} lines" for one in sizes),
        ),
        *(Figure(name, len(findings), 0, tuple(findings)) for name, findings in rules.items()),
        Figure(
            "circles with imports in functions", len(delayed), limit=None, findings=tuple(delayed)
        ),
    ]


def main(arguments: list[str] | None = None) -> int:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--verbose", action="store_true", help="print the offending places too")
    parser.add_argument("--static", action="store_true", help="leave out the measured question")
    parser.add_argument("--root", type=Path, default=ROOT, help="tree to measure; this one")
    options = parser.parse_args(arguments)
    figures = source_figures(options.root)
    if not options.static:
        figures[1:1] = question_figures(options.root)
    if options.json:
        rows = [vars(figure) | {"ok": figure.ok} for figure in figures]
        print(json.dumps({"figures": rows, "ok": all(figure.ok for figure in figures)}, indent=1))
    else:
        print_table(figures, verbose=options.verbose)
    return 0 if all(figure.ok for figure in figures) else 1


def print_table(figures: list[Figure], *, verbose: bool) -> None:
    """Print one line a figure; `!` marks a figure past its limit."""
    for figure in figures:
        limit = "-" if figure.limit is None else f"{figure.limit:,}"
        mark = "" if figure.ok else " !"
        print(f"{figure.name:<46} | {figure.measured:>7,} | {limit:>6}{mark}")
        if verbose:
            for finding in figure.findings:
                print(f"    {finding}")


if __name__ == "__main__":
    raise SystemExit(main())
