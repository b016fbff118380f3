"""Python sources: which definitions are nodes, what each calls, and what is not guessed."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import pytest

from whence.code.bundler.code_graph import CodeGraph
from whence.code.bundler.python_edges import read_python
from whence.code.bundler.source_files import SourceText


def read(files: Mapping[str, str], folder: str = "folder") -> CodeGraph:
    graph = CodeGraph()
    sources = [
        SourceText(path=path, language="python", text=textwrap.dedent(text).strip() + "\n")
        for path, text in files.items()
    ]
    read_python(sources, folder, graph)
    return graph


def edges(graph: CodeGraph, relation: str = "calls") -> set[tuple[str, str]]:
    return {(e.source, e.target) for e in graph.edges() if e.relation == relation}


def test_types_members_and_modules_are_nodes() -> None:
    """Each has its lines with decorators; the module has the remaining lines."""
    graph = read(
        {
            "m.py": """
        import os

        LIMIT = 3

        @final
        class A:
            '''About A.'''

            @property
            def size(self):
                return 1

            @size.setter
            def size(self, value):
                pass

            class Inner:
                pass

        async def run(a: int) -> str:
            return ""

        print(LIMIT)
        """
        }
    )
    found = {one.id: one for one in graph.definitions.values()}

    assert {name: one.symbol_type for name, one in found.items()} == {
        "m.py": "Module",
        "m.py:A": "Class",
        "m.py:A.size": "Method",
        "m.py:A.Inner": "Class",
        "m.py:run": "Function",
    }
    assert found["m.py"].text == "import os\n\nLIMIT = 3\n\nprint(LIMIT)"
    assert found["m.py:A"].text.startswith("@final\nclass A:")
    assert found["m.py:A"].text.endswith("class Inner:\n        pass")
    assert "@property" in found["m.py:A.size"].text
    assert "@size.setter" in found["m.py:A.size"].text
    assert found["m.py:run"].signature == "async def run(a: int) -> str"
    assert (found["m.py:A.size"].class_name, found["m.py:A.size"].member) == ("A", "size")


def test_imports_are_followed_through_packages() -> None:
    """Absolute, relative, renamed and star imports, of modules and of re-exported names."""
    graph = read(
        {
            "p/__init__.py": "from .deep.tool import use as passed_on\nfrom .stars import *",
            "p/stars.py": "__all__ = ['shown']\ndef shown(): ...\ndef hidden(): ...",
            "p/deep/__init__.py": "",
            "p/deep/tool.py": "def use(): ...",
            "p/main.py": """
        import p.deep.tool
        import p.deep.tool as renamed
        from p import passed_on, shown
        from .deep import tool
        from .deep.tool import use as other
        from . import hidden

        def a(): p.deep.tool.use()
        def b(): renamed.use()
        def c(): passed_on()
        def d(): tool.use()
        def e(): other()
        def f(): shown()
        def g(): hidden()
        def h():
            from p.deep import tool as inside
            inside.use()
        """,
        }
    )
    use = "p/deep/tool.py:use"

    assert edges(graph) == {
        *((f"p/main.py:{name}", use) for name in "abcdeh"),
        ("p/main.py:f", "p/stars.py:shown"),
    }


def test_methods_are_resolved_by_types() -> None:
    """Types of `self`, parents, annotations, assignments, attributes and return values."""
    graph = read(
        {
            "m.py": """
        from __future__ import annotations

        class Base:
            def shared(self): ...
            def again(self): ...

        class Tool(Base):
            def __enter__(self): return self
            def work(self) -> Tool: ...
            def again(self): super().again()
            @classmethod
            def make(cls): return cls().work()
            @property
            def twin(self) -> Tool: ...
            @twin.setter
            def twin(self, value): ...
            def like(self: T) -> T: ...

        class User:
            spare: Tool | None
            def __init__(self):
                self.tool = Tool()
            def a(self): self.tool.work()
            def b(self): self.spare.shared()
            def c(self): self.a()

        def build() -> Tool: ...
        def d(tool: "Tool"): tool.work().shared()
        def e():
            tool = Tool()
            tool.work()
        def f(): build().twin.shared()
        def g(tools: list[Tool]):
            for tool in tools:
                tool.work()
        def h():
            with Tool() as tool:
                tool.work()
        def j(path):
            tool = Tool()
            for part in path:
                tool = tool.work()
            tool.like().shared()
        def i(tool=None): tool.work()
        """
        }
    )
    found = edges(graph)

    assert {(s.partition(":")[2], t.partition(":")[2]) for s, t in found} == {
        ("Tool.again", "Base.again"),
        ("Tool.make", "Tool"),
        ("Tool.make", "Tool.work"),
        ("User.__init__", "Tool"),
        ("User.a", "Tool.work"),
        ("User.b", "Base.shared"),
        ("User.c", "User.a"),
        ("d", "Tool.work"),
        ("d", "Base.shared"),
        ("e", "Tool"),
        ("e", "Tool.work"),
        ("f", "build"),
        ("f", "Base.shared"),
        ("g", "Tool.work"),
        ("h", "Tool"),
        ("h", "Tool.work"),
        ("j", "Tool"),
        ("j", "Tool.work"),
        ("j", "Tool.like"),
        ("j", "Base.shared"),
    }
    assert edges(graph, "inherits") == {("m.py:Tool", "m.py:Base")}


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("def f(x): x.only_one()", "unresolved"),
        ("def f(x): x.in_two()", "ambiguous"),
        ("def f(x): x()", "unresolved"),
        ("def f(x):\n    x = A() if x else B()\n    x.in_two()", "ambiguous"),
        ("def f(): len('')", "external"),
        ("import os\ndef f(): os.getcwd()", "external"),
        ("def f():\n    def inner(): ...\n    inner()", "resolved"),
        ("def f(A): A()", "unresolved"),
        ("try:\n    from lib import either\nexcept ImportError:\n    def either(): ...\ndef f(): either()", "ambiguous"),
        ("from m import B as either\nif x:\n    from m import A as either\ndef f(): either.missing()", "unresolved"),
    ],
)  # fmt: skip
def test_uncertain_calls_are_counted(code: str, outcome: str) -> None:
    """A method of an unknown object is not resolved by its name, even if the name is unique."""
    known = "class A:\n    def in_two(self): ...\n    def only_one(self): ...\nclass B:\n    def in_two(self): ...\n"
    graph = read({"m.py": known, "n.py": "from m import A, B\n" + code})

    assert graph.calls[outcome] >= 1
    assert not {(s, t) for s, t in edges(graph) if s == "n.py:f" and "." in t.partition(":")[2]}


def test_uses_are_names_that_are_not_called() -> None:
    """Function references, annotations, decorators and constants are uses; a call replaces a use."""
    graph = read(
        {
            "c.py": "LIMIT = 1\nclass Kind: ...\ndef mark(f): return f\ndef key(x): ...",
            "m.py": """
        import c
        from c import LIMIT, Kind, mark, key

        @mark
        def a(kind: Kind): return sorted([], key=key)
        def b(): return LIMIT + c.LIMIT
        def d():
            handed = key
            return key(1)
        """,
        }
    )
    uses = edges(graph, "uses")

    assert {pair for pair in uses if pair[0] != "m.py"} == {
        ("m.py:a", "c.py:mark"),
        ("m.py:a", "c.py:Kind"),
        ("m.py:a", "c.py:key"),
        ("m.py:b", "c.py"),
    }
    assert ("m.py", "c.py:Kind") in uses
    assert edges(graph) == {("m.py:d", "c.py:key")}


def test_a_folder_that_is_a_package_has_its_own_name() -> None:
    """`import tool.a` inside of a folder `tool` with an `__init__.py` finds its module."""
    graph = read(
        {"__init__.py": "", "a.py": "def f(): ...", "b.py": "import tool.a\ndef g(): tool.a.f()"},
        folder="tool",
    )

    assert ("b.py:g", "a.py:f") in edges(graph)


def test_a_file_that_does_not_parse_does_not_affect_others() -> None:
    """The file is reported with its line; the others are read."""
    graph = read({"bad.py": "def f(:\n    pass", "good.py": "def f(): ..."})

    assert list(graph.definitions) == ["good.py:f"]
    assert graph.failures[0][0] == "bad.py"
    assert "line 1" in graph.failures[0][1]


def test_cycles_end() -> None:
    """Circular imports, inheritance and definitions do not recurse forever."""
    graph = read(
        {
            "a.py": "from b import x, y\nclass C(D): ...\nclass D(C): ...\nz = z\ndef f(v): x(); z(); C().q(); v = v.w; v()",
            "b.py": "from a import x\nfrom a import *\nfrom b import *\ny = y",
        }
    )

    assert graph.calls["unresolved"] >= 2


def test_strings_are_concatenated() -> None:
    """Concatenated and adjacent strings are one; run-time values are a space."""
    graph = read(
        {
            "a.py": "def f(c, n):\n    c.run('SELECT * ' 'FROM T')\n    c.run('DELETE ' + 'FROM T ' + n)\n"
            "    c.run('a' + g())\ndef g(): ...\n"
        }
    )
    texts = {each.text for each in graph.strings if each.recipient == "run"}

    assert {"SELECT * FROM T", "DELETE FROM T  "} <= texts
    assert ("a.py:f", "a.py:g") in edges(graph)


def test_long_sums_and_circular_variables_are_read() -> None:
    """Long concatenations are read; variables assigned from one another are unknown."""
    total = " + ".join(['"x"'] * 1000)
    names = [f"v{number}" for number in range(8)]
    tangle = "".join(f"    {a} = {b}.z\n" for a in names for b in names if a != b)
    graph = read(
        {
            "a.py": f"def g(): ...\ndef f():\n    x = {total}\n    g()",
            "b.py": f"class A:\n    def g(self): ...\ndef f():\n{tangle}    v0.g()",
        }
    )

    assert edges(graph) == {("a.py:f", "a.py:g")}
    assert graph.failures == []
