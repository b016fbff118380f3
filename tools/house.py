"""Check the rules of the source tree and report its sizes; exit 1 when a rule is broken.

`python tools/house.py` prints each rule with the number of places that break it, and these; then each size,
which nothing limits, beside that of the last release. `--verbose` adds the places that a size counts. Layers
of packages are rules too; import-linter checks them (`pyproject.toml`).

A further rule is a function from modules to the places that break it, and a line in `RULES`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: The last version and its sizes, measured on its tree of 2026-11-28; each release replaces them.
RELEASE = "0.1.0"
SIZES = {
    "lines of Python": 85_496,
    "files": 480,
    "files over 600 lines": 0,
    "classes over 300 lines": 0,
    "functions over 60 lines": 0,
    "circles with imports in functions": 3,
    "files entered by one question": 59,
    "functions entered by one question": 402,
    "calls of one question": 2_542,
    "deepest stack of one question": 16,
}
QUESTION_SIZES = [name for name in SIZES if name.endswith("one question")]
#: Lines of a file, a class and a function from which on the report counts them.
LONG_FILE, LONG_CLASS, LONG_FUNCTION = 600, 300, 60
#: Names with a leading underscore that the standard library documents.
DOCUMENTED = {"_asdict", "_exit", "_fields", "_make", "_missing_", "_replace"}
PRIVATE = re.compile(r"_(?!_)\w+")
#: Packages that nothing else imports.
WALLS = (".code", ".evaluation")
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
    """A number of places that break a rule, or a size."""

    name: str
    measured: int
    findings: tuple[str, ...] = ()
    is_rule: bool = False

    @property
    def ok(self) -> bool:
        """Whether it is a size, or a rule that holds."""
        return not (self.is_rule and self.measured)


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


def long_files(modules: Iterable[Module]) -> list[str]:
    """List the files of more than `LONG_FILE` lines, the longest first."""
    long = sorted((one for one in modules if one.lines > LONG_FILE), key=lambda one: -one.lines)
    return [f"{module.path}: {module.lines} lines" for module in long]


def long_blocks(
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
    """List the uses of names that another module or library, the standard one included, marks as private.

    A name is private when it begins with one underscore. Counted are: an import of a private module or name;
    `x._name` where `x` was imported from outside; `x._name` and
    `getattr(x, "_name")` where no file of the package defines `_name`, so that a foreign class does. Names that
    the standard library documents (`os._exit`, `_replace` of named tuples, ...) are not counted.
    """
    own = {module.name.partition(".")[0] for module in modules}
    defined = set().union(*(defined_names(module.tree) for module in modules))
    found = []
    for module in modules:
        foreign = foreign_names(module.tree, own)
        for node in ast.walk(module.tree):
            for name, root in private_uses(node):
                if name not in DOCUMENTED and (root in foreign or name not in defined):
                    found.append(f"{module.path}:{node.lineno}: {name}")
    return found


def private_uses(node: ast.AST) -> Iterator[tuple[str, str]]:
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
            private = any(PRIVATE.fullmatch(part) for part in path.split("."))
            yield from [(f"import {path}", "")] * private


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

    A string that is the dotted path of a module, alone or before a colon, counts as an import, wherever it
    stands but in the top package, which names there what it loads on first use. Imports under
    `if TYPE_CHECKING` never count, imports inside functions only when asked for. A package counts as imported
    where a name is taken from it, not where Python runs it on the way to one of its modules.
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
        if "." in module.name:
            targets.update(strings(module.tree))
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


def strings(tree: ast.AST) -> set[str]:
    """Return all strings of a file; of `module:name`, the form of an entry point, the module."""
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {value.partition(":")[0] for value in constants if isinstance(value, str)}


def wall_findings(modules: list[Module]) -> list[str]:
    """List the files outside of a package behind a wall that import or name one of its modules.

    Only entry points name these packages (pyproject.toml). Imports inside functions and strings count, imports
    under `if TYPE_CHECKING` do not.
    """
    names = {module.name for module in modules}
    found = []
    for module in modules:
        imported = running_imports(module.tree, in_functions=True)
        paths = {path for node in imported for path in imported_paths(node)}
        targets = paths | {path.rpartition(".")[0] for path in paths} | strings(module.tree)
        for target in sorted(targets & names):
            package = ".".join(target.split(".")[:2])
            if package.endswith(WALLS) and not f"{module.name}.".startswith(f"{package}."):
                found.append(f"{module.path}: {target}")
    return found


def reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    """Return the modules that `start` imports, directly or through others."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        fresh = edges[waiting.pop()] - found
        found |= fresh
        waiting.extend(fresh)
    return found


#: Each rule with the function that lists the places which break it.
RULES: dict[str, Callable[[list[Module]], list[str]]] = {
    "circles of imports": circle_findings,
    "imports past a wall": wall_findings,
    "private names of other modules": private_name_findings,
    "docstrings that begin with Give, Tell or Say": docstring_findings,
}


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
    return list(map(Figure, QUESTION_SIZES, values))


def rule_figures(modules: list[Module]) -> list[Figure]:
    """Check all rules."""
    found = {name: tuple(rule(modules)) for name, rule in RULES.items()}
    return [Figure(name, len(places), places, is_rule=True) for name, places in found.items()]


def size_figures(modules: list[Module]) -> list[Figure]:
    """Measure the source files."""
    largest = sorted(modules, key=lambda one: -one.lines)[:20]
    counted = {
        f"files over {LONG_FILE} lines": long_files(modules),
        f"classes over {LONG_CLASS} lines": long_blocks(modules, (ast.ClassDef,), LONG_CLASS),
        f"functions over {LONG_FUNCTION} lines": long_blocks(modules, FUNCTIONS, LONG_FUNCTION),
        "circles with imports in functions": circle_findings(modules, in_functions=True),
    }
    return [
        Figure(
            "lines of Python",
            sum(one.lines for one in modules),
            tuple(f"{one.path}: {one.lines} lines" for one in largest),
        ),
        Figure("files", len(modules)),
        *(Figure(name, len(places), tuple(places)) for name, places in counted.items()),
    ]


def main(arguments: list[str] | None = None) -> int:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--verbose", action="store_true", help="print the places of sizes too")
    parser.add_argument("--static", action="store_true", help="leave out the measured question")
    parser.add_argument("--root", type=Path, default=ROOT, help="tree to measure; this one")
    options = parser.parse_args(arguments)
    modules = read_modules(options.root / "src")
    figures = [*rule_figures(modules), *size_figures(modules)]
    if not options.static:
        figures += question_figures(options.root)
    ok = all(figure.ok for figure in figures)
    if options.json:
        rows = [
            vars(figure) | {"ok": figure.ok, "released": SIZES.get(figure.name)}
            for figure in figures
        ]
        print(json.dumps({"figures": rows, "ok": ok}, indent=1))
    else:
        print_table(figures, verbose=options.verbose)
    return 0 if ok else 1


def print_table(figures: list[Figure], *, verbose: bool) -> None:
    """Print one line a figure; `!` marks a rule that is broken."""
    for figure in figures:
        released = f"{SIZES[figure.name]:,} in {RELEASE}" if figure.name in SIZES else ""
        beside = f"rule{'' if figure.ok else ' !'}" if figure.is_rule else released
        print(f"{figure.name:<46} | {figure.measured:>7,} | {beside}".rstrip())
        if verbose or not figure.ok:
            for finding in figure.findings:
                print(f"    {finding}")


if __name__ == "__main__":
    raise SystemExit(main())
