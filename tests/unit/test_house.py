"""`tools/house.py`: every rule and every counter notices a planted fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "house.py"
WALLED = {"code/__init__.py": "", "code/b.py": "import pkg.code\nx = 1\n"}
CIRCLE = {"a.py": "from pkg.b import x\n", "b.py": "import pkg.a\n"}


@pytest.fixture(scope="module")
def house() -> Any:
    """Load the tool as a module."""
    spec = spec_from_file_location("house", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["house"] = module
    spec.loader.exec_module(module)
    return module


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """Write a package `pkg` below `root/src`."""
    for name, text in {"__init__.py": '"""A package."""\n', **files}.items():
        path = root / "src" / "pkg" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def measure(house: Any, root: Path) -> dict[str, Any]:
    modules = house.read_modules(root / "src")
    figures = [*house.rule_figures(modules), *house.size_figures(modules)]
    return {figure.name: figure for figure in figures}


@pytest.mark.parametrize(
    ("figure", "files"),
    [
        ("files over 600 lines", {"a.py": "x = 1\n" * 601}),
        ("classes over 300 lines", {"a.py": "class A:\n" + "    x = 1\n" * 300}),
        ("functions over 60 lines", {"a.py": "@f\ndef g():\n" + "    x = 1\n" * 59}),
        ("functions over 60 lines", {"a.py": "async def g():\n" + "    x = 1\n" * 60}),
        ("circles of imports", CIRCLE),
        ("circles of imports", {**CIRCLE, "b.py": "try:\n    import pkg.a\nfinally:\n    pass\n"}),
        ("circles of imports", {**CIRCLE, "b.py": "def f():\n    load('pkg.a')\n"}),
        ("circles of imports", {**CIRCLE, "b.py": "load('pkg.a:x')\n"}),
        ("imports past a wall", {"a.py": "def f():\n    from pkg.code import x\n", **WALLED}),
        ("imports past a wall", {"a.py": "from pkg import code\n", **WALLED}),
        ("imports past a wall", {"a.py": "X = 'pkg.code.b:x'\n", **WALLED}),
        ("private names of other modules", {"a.py": "from pkg.b import _x\n", "b.py": "_x = 1\n"}),
        ("private names of other modules", {"a.py": "import _thread\n"}),
        ("private names of other modules", {"a.py": "from os import _wrap_close\n"}),
        ("private names of other modules", {"a.py": "from email._policybase import X\n"}),
        ("private names of other modules", {"a.py": "import os\nos.path._joinrealpath('')\n"}),
        ("private names of other modules", {"a.py": "def f(task):\n    task._must_cancel\n"}),
        ("private names of other modules", {"a.py": "def f(x):\n    getattr(x, '_y')\n"}),
        ("docstrings that begin with Give, Tell or Say", {"a.py": 'x = 1\n"""Gives it."""\n'}),
        ("docstrings that begin with Give, Tell or Say", {"a.py": '"""Tell\nit."""\n'}),
        (
            "circles with imports in functions",
            {**CIRCLE, "b.py": "def f():\n    import pkg.a\n"},
        ),
    ],
)
def test_a_planted_fault_is_counted(
    figure: str, files: dict[str, str], house: Any, tmp_path: Path
) -> None:
    """A tree with one fault has the figure 1 and names the file."""
    measured = measure(house, write_tree(tmp_path, files))[figure]
    assert measured.measured == 1
    assert "pkg" in measured.findings[0]
    assert measured.ok == (not measured.is_rule)


def test_what_is_allowed_is_not_counted(house: Any, tmp_path: Path) -> None:
    """Ordinary lengths, imports for types, lazy public names, own private names and documented ones pass."""
    files = {
        "a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pkg.b\n",
        "b.py": "import os\nimport pkg.a\nos._exit(0)\n",
        "c.py": "class A:\n    __slots__ = ('_x',)\n    def f(self, other):\n        other._x\n",
        "d.py": "def f():\n" + "    x = 1\n" * 59,
        "f.py": "from pkg import LAZY\n",
        "__init__.py": '"""A package."""\nLAZY = "pkg.f"\n',
        **WALLED,
        "g.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pkg.code.b\n",
        "e.py": '"""Given names."""\n' + "x = 1\n" * 599,
    }
    figures = measure(house, write_tree(tmp_path, files))
    del figures["lines of Python"], figures["files"]
    assert {name: figure.findings for name, figure in figures.items() if figure.measured} == {}


def test_lines_are_counted(house: Any, tmp_path: Path) -> None:
    """The lines of all Python files are added up."""
    files = {"a.py": "x = 1\n" * 7, "deep/b.py": "x = 1\n"}
    assert measure(house, write_tree(tmp_path, files))["lines of Python"].measured == 9


def test_calls_in_other_threads_are_counted(tmp_path: Path) -> None:
    """A function that calls itself twice in a thread makes three calls on a stack of three."""
    root = write_tree(tmp_path, {"a.py": "def f(n):\n    if n > 1:\n        f(n - 1)\n"})
    code = (
        "import sys, threading, pathlib, question_calls\n"
        "counter = question_calls.CallCounter(pathlib.Path('pkg'))\n"
        "from pkg.a import f\n"
        "counter.install()\n"
        "thread = threading.Thread(target=f, args=(3,))\n"
        "thread.start()\n"
        "thread.join()\n"
        "print(counter.figures())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TOOL.parent), "."])}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=root / "src", env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [1, 1, 3, 3]


def test_one_question_is_counted() -> None:
    """The probe reports files, functions, calls and depth of a question on this tree."""
    folder = TOOL.parents[1] / "src" / "whence"
    command = [sys.executable, str(TOOL.with_name("question_calls.py")), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    files, functions, calls, deepest = json.loads(done.stdout.splitlines()[-1])
    assert 5 < deepest < calls
    assert 5 < files < functions < calls


def test_the_exit_code_says_whether_a_rule_is_broken(
    house: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tree that keeps the rules ends with 0, whatever its size; a fault with 1, a mark and its place."""
    root = write_tree(tmp_path, {"long.py": "x = 1\n" * 601})
    options = ["--static", "--root", str(root)]
    assert house.main(options) == 0
    shown = capsys.readouterr().out
    assert "!" not in shown
    assert "lines of Python                                |     602 | 85,496 in 0.1.0\n" in shown
    write_tree(root, {"a.py": "import _thread\n"})
    assert house.main(options) == 1
    assert "1 | rule !\n    pkg/a.py:1: import _thread" in capsys.readouterr().out
    assert house.main([*options, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False
