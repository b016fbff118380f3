"""C# sources: which definitions are nodes, what each calls, and what is not guessed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.code.bundler.code_graph import CodeGraph
from whence.code.bundler.csharp_edges import read_csharp
from whence.code.bundler.source_files import SourceText

LIBRARY = """
using System.Collections.Generic;
namespace Shop.Data
{
    public interface IStore { Item Get(int id); Task<Item> GetAsync(int id); }
    /// <summary>A thing to sell.</summary>
    public class Item
    {
        public List<Item> Parts { get; set; }
        public void Pack() { }
        public void Pack(string paper) { }
        public static Item Make() => new Item();
    }
    public class Box<T> { public T Content { get; set; } public T Open() => Content; }
    public static class Extensions { public static void Print(this Item item) { } }
    public enum Colour { Red, Green }
}
"""


def read(*texts: str, projects: tuple[str, ...] = ()) -> CodeGraph:
    graph = CodeGraph()
    names = projects or ("",) * len(texts)
    read_csharp(
        [
            SourceText(path=f"{number}.cs", language="csharp", text=text, project=project)
            for number, (text, project) in enumerate(zip(texts, names, strict=True))
        ],
        graph,
    )
    return graph


def edges(graph: CodeGraph, source: str, relation: str = "calls") -> set[str]:
    return {e.target for e in graph.edges() if e.source == source and e.relation == relation}


def calls_in(body: str, members: str = "") -> set[str]:
    """Return what a method of a class outside of the namespace calls there."""
    text = f"using Shop.Data;\nclass User {{ {members}\n void Run(IStore store) {{ {body} }} }}"
    return edges(read(LIBRARY, text), "User.Run(IStore)")


def test_types_and_members_are_nodes() -> None:
    """A text includes the comments above; overloads are separate, parts of a partial class joined."""
    graph = read(
        LIBRARY,
        "namespace Shop;\npublic partial class P { void A() { } }",
        "namespace Shop;\npublic partial class P { void B() { } }\nrecord R(int X);",
    )
    found = graph.definitions

    assert {one.symbol_type for one in found.values()} >= {
        "Class", "Interface", "Method", "Property", "Enum", "Record"
    }  # fmt: skip
    assert found["Shop.Data.Item"].text.startswith("    /// <summary>A thing")
    assert found["Shop.Data.Item.Pack(string)"].text == "        public void Pack(string paper) { }"
    assert found["Shop.Data.Item.Pack(string)"].signature == "public void Pack(string paper)"
    assert found["Shop.Data.Item.Pack()"].class_name == "Item"
    assert found["Shop.P"].text == (
        "public partial class P { void A() { } }\n\npublic partial class P { void B() { } }"
    )
    assert {"Shop.P.A()", "Shop.P.B()", "Shop.R", "Shop.Data.Box`1.Open()"} <= found.keys()


@pytest.mark.parametrize(
    ("body", "target"),
    [
        ("store.Get(1);", "Shop.Data.IStore.Get(int)"),
        ("store?.Get(1);", "Shop.Data.IStore.Get(int)"),
        ("store.Get(1).Pack();", "Shop.Data.Item.Pack()"),
        ('store.Get(1).Pack("x");', "Shop.Data.Item.Pack(string)"),
        ("var item = store.Get(1); item.Pack();", "Shop.Data.Item.Pack()"),
        ("Item item = Other(); item.Pack();", "Shop.Data.Item.Pack()"),
        ("(await store.GetAsync(1)).Pack();", "Shop.Data.Item.Pack()"),
        ("var i = await store.GetAsync(1).ConfigureAwait(false); i.Pack();", "Shop.Data.Item.Pack()"),
        ("foreach (var part in store.Get(1).Parts) part.Pack();", "Shop.Data.Item.Pack()"),
        ("store.Get(1).Parts[0].Pack();", "Shop.Data.Item.Pack()"),
        ("if (Any() is Item found) found.Pack();", "Shop.Data.Item.Pack()"),
        ("Item.Make().Pack();", "Shop.Data.Item.Pack()"),
        ("Shop.Data.Item.Make();", "Shop.Data.Item.Make()"),
        ("new Box<Item>().Open().Pack();", "Shop.Data.Item.Pack()"),
        ("new Box<Item>().Content.Pack();", "Shop.Data.Item.Pack()"),
        ("new Item();", "Shop.Data.Item"),
        ("Item item = new();", "Shop.Data.Item"),
        ("store.Get(1).Print();", "Shop.Data.Extensions.Print(Item)"),
        ("Extensions.Print(null);", "Shop.Data.Extensions.Print(Item)"),
        ("((Item)Any()).Pack();", "Shop.Data.Item.Pack()"),
        ("(Any() as Item).Pack();", "Shop.Data.Item.Pack()"),
    ],
)  # fmt: skip
def test_a_call_is_resolved_by_types(body: str, target: str) -> None:
    """Through fields, variables, properties, generic arguments, awaited tasks and extension methods."""
    assert target in calls_in(body)


OVERLOADS = """
public struct Ref { public static implicit operator Ref(Owned owned) => owned.Inner; }
public class Owned { public Ref Inner; }
public class Animal { }
public class Dog : Animal { public void Bark() { } public int Age { get; set; } }
public interface IShape { void Draw(); }
public static class On {
    public static void Ref(Ref r) { }
    public static void Kind(object o) { } public static void Kind(Animal a) { }
    public static void Size(int i) { } public static void Size(long l) { } public static void Size(string s) { }
    public static void Two(Ref r, string s) { } public static void Two(Ref r, Ref s) { }
    public static void Many(string s) { } public static void Many(params string[] s) { } public static void Many() { }
    public static void Some(int a, string b = "", Dog c = null) { } public static void Some(Dog a) { }
    public static bool Find(string name, out Dog found) { found = null; return true; }
    public static void Each(Dog dog, Action<Dog, Animal> action) { }
    public static void Handed(Func<Dog, bool> test) { } public static void Handed(int a) { }
    public static Func<int, int> Made { get; set; }
}
public class Circle : IShape {
    void IShape.Draw() { Draw(); }
    static void Draw() { }
    public int Age; public Dog this[int i] => null;
}
"""


@pytest.mark.parametrize(
    ("body", "target"),
    [
        ("On.Ref(new Owned());", "On.Ref(Ref)"),
        ("On.Kind(new Dog());", "On.Kind(Animal)"),
        ("On.Kind(1);", "On.Kind(object)"),
        ("On.Size(1);", "On.Size(int)"),
        ('On.Size(5 > 3 ? "a" : "b" + 1);', "On.Size(string)"),
        ('On.Two(new Owned(), "a" + unknown);', "On.Two(Ref,string)"),
        ("On.Two(new Owned(), new Owned());", "On.Two(Ref,Ref)"),
        ('On.Many("a");', "On.Many(string)"),
        ("On.Many();", "On.Many()"),
        ('On.Many("a", "b");', "On.Many(string[])"),
        ("On.Some(1, c: null);", "On.Some(int,string,Dog)"),
        ('On.Some(a: unknown, b: "x");', "On.Some(int,string,Dog)"),
        ('if (On.Find("a", out var dog)) dog.Bark();', "Dog.Bark()"),
        ("On.Each(null, (d, a) => d.Bark());", "Dog.Bark()"),
        ("On.Handed(d => d.Age > 1);", "On.Handed(Func<Dog, bool>)"),
        ("List<Dog> l = null; l.Where(d => d.Age > 1).ForEach(d => d.Bark());", "Dog.Bark()"),
        ("IEnumerable<Dog> l = null; l.OrderBy(d => d.Age).First().Bark();", "Dog.Bark()"),
        ("DbSet<Dog> l = null; (await l.Where(x => true).FirstAsync()).Bark();", "Dog.Bark()"),
        ("Dog[] l = null; var q = from d in l select d; foreach (var d in l) d.Bark();", "Dog.Bark()"),
        ("new Circle()[1].Bark();", "Dog.Bark()"),
        ("var d = unknown ? new Dog() : null; d.Bark();", "Dog.Bark()"),
        ("var d = unknown switch { 1 => new Dog(), _ => throw null }; d.Bark();", "Dog.Bark()"),
        ("if (unknown is Dog { Age: 1 } d) d.Bark();", "Dog.Bark()"),
        ("On.Made(1);", "On.Made"),
    ],
)  # fmt: skip
def test_arguments_choose_the_overload(body: str, target: str) -> None:
    """By inheritance, conversions, argument names and counts; variables have the types of initializers."""
    graph = read(OVERLOADS, f"class User {{ void Run() {{ {body} }} }}")
    called = edges(graph, "User.Run()") - {"Dog", "Owned", "Circle", "On.Find(string,Dog)"}

    assert {
        one for one in called if one == target or one.partition("(")[0] == target.partition("(")[0]
    } == {target}


@pytest.mark.parametrize(
    "body",
    [
        "On.Kind(unknown);",
        "On.Two(unknown, unknown);",
        "Task<Dog> l = null; l.ContinueWith(d => d.Bark());",
        "On.Size(unknown + 1);",
    ],
)
def test_ambiguous_overloads_make_no_edge(body: str) -> None:
    """Neither the first nor the nearest by name is chosen."""
    graph = read(OVERLOADS, f"class User {{ void Run() {{ {body} }} }}")

    assert not edges(graph, "User.Run()")


def test_explicit_interface_members_are_not_called_by_name() -> None:
    """`void IShape.Draw()` is reached through the interface; the plain name means another method."""
    graph = read(OVERLOADS)

    assert edges(graph, "Circle.IShape.Draw()") == {"Circle.Draw()"}


GENERIC = """
public class Cat { public void Call() { } public void Purr() { } } public class Cow { public void Call() { } }
public interface IStore<T> { T Find(int id); Task<List<T>> AllAsync(); void Save(T one, int[] ids); }
public abstract class Base<T> {
    protected readonly IStore<T> Store; protected T Kept { get; set; }
    public virtual T Load(int id) => Store.Find(id);
    protected abstract void Check(T one);
    public U Make<U>() => default;
}
public class Cats : Base<Cat> { protected override void Check(Cat one) { } }
public class Named : IStore<Cat> {
    public Cat Find(int id) => null; public void Save(Cat one, int[] ids) { } public void Save(Cow one, int[] ids) { }
    Task<List<Cat>> IStore<Cat>.AllAsync() => null;
}
public class Hidden : IStore<Cow> { Cow Find(int id) => null; Cow IOther.Find(int id) => null; }
"""


@pytest.mark.parametrize(
    ("body", "targets"),
    [
        ("Load(1).Purr();", {"Base`1.Load(int)", "Cat.Purr()"}),
        ("Kept.Purr();", {"Cat.Purr()"}),
        ("Make<Cow>().Call();", {"Base`1.Make`1()", "Cow.Call()"}),
        ("foreach (var c in await Store.AllAsync()) c.Purr();", {"IStore`1.AllAsync()", "Cat.Purr()"}),
        ("var m = new Dictionary<int, Cat>(); if (m.TryGetValue(1, out var c)) c.Purr();", {"Cat.Purr()"}),
        ("Dictionary<int, Cat> m = null; foreach (var p in m) p.Value.Purr();", {"Cat.Purr()"}),
        ("Dictionary<int, Cat> m = null; foreach (var c in m.Values) c.Purr();", {"Cat.Purr()"}),
        ("foreach (var x in new Cat[1]) { } foreach (var x in new Cow[1]) x.Call();", {"Cow.Call()"}),
        ("List<Cat> a; List<Cow> b; a.Any(x => x.Purr()); b.Any(x => x.Call());", {"Cat.Purr()", "Cow.Call()"}),
        ("{ Cat x = null; x.Call(); } { Cow x = null; x.Call(); }", {"Cat.Call()", "Cow.Call()"}),
    ],
)  # fmt: skip
def test_types_follow_generic_parents_and_the_scope_of_a_name(body: str, targets: set[str]) -> None:
    """Type arguments are known in subclasses, and a local name hides an outer one."""
    graph = read(GENERIC, f"class User : Base<Cat> {{ async void Run() {{ {body} }} }}")

    assert edges(graph, "User.Run()") == targets


def test_members_inherit_from_overridden_ones() -> None:
    """A member of an interface or base class is one step back from what runs in its place."""
    graph = read(GENERIC)
    found = {
        (e.source, e.target) for e in graph.edges() if e.relation == "inherits" and "(" in e.source
    }

    assert found == {
        ("Cats.Check(Cat)", "Base`1.Check(T)"),
        ("Named.Find(int)", "IStore`1.Find(int)"),
        ("Named.Save(Cat,int[])", "IStore`1.Save(T,int[])"),
        ("Named.IStore<Cat>.AllAsync()", "IStore`1.AllAsync()"),
    }


def test_circles_of_inheritance_end() -> None:
    """Code that does not compile is read as well."""
    graph = read(
        "class A : B { public void M() { P.Go(); } } class B : A, Y { } interface Y { Y P { get; } void Go(); }"
    )

    assert graph.failures == []
    assert edges(graph, "A.M()") == {"Y.Go()"}


def test_constructors_and_destructors_are_separate() -> None:
    """Instance constructor, class constructor and destructor are three nodes."""
    graph = read("class A { static A() { } A() { } ~A() { } void M() { new A(); } }")

    assert {"A.static A()", "A.A()", "A.~A()"} <= graph.definitions.keys()
    assert graph.definitions["A.A()"].text == "A() { }"
    assert edges(graph, "A.M()") == {"A.A()"}


def test_names_in_initializers_belong_to_the_created_type() -> None:
    """A member of the enclosing code with the same name is not used, nor in patterns."""
    graph = read(
        OVERLOADS,
        "record R(int Age); class User { int Age { get; set; } void Run(R r) { var a = new Dog { Age = 1 };"
        " var b = r with { Age = 2 }; if (a is { Age: 3 }) { } } }",
    )

    assert "Dog.Age" in edges(graph, "User.Run(R)", "uses")
    assert "User.Age" not in edges(graph, "User.Run(R)", "uses")


def test_directives_inside_statements_drop_one_branch() -> None:
    """Code that does not parse with `#if` is read with its first branch, which is reported."""
    graph = read(
        "class A {\n void Run(int a) {\n  Go(\n   a\n#if DEBUG\n   , 1\n#else\n   , Lost()\n#endif\n  );\n }\n"
        " void Go(int a, int b) { }\n int Lost() => 1;\n}\nclass B { void Run() { } }\n"
    )

    assert {"A.Run(int)", "A.Go(int,int)", "A.Lost()", "B.Run()"} <= graph.definitions.keys()
    assert edges(graph, "A.Run(int)") == {"A.Go(int,int)"}
    assert "#if DEBUG" in graph.definitions["A.Run(int)"].text
    assert [reason.split(":")[0] for _, reason in graph.failures] == [
        "is read without the code after #else and #elif"
    ]


def test_unqualified_names_are_members_of_enclosing_types() -> None:
    """The nearest member counts, inherited ones included; `base` skips the own."""
    graph = read(
        """
        class Top { protected virtual void A() { } protected void B() { } public Top(int x) { } }
        class Low : Top {
            Low() : base(1) { A(); B(); base.A(); this.C(); Helper.D(); }
            protected override void A() { }
            void C() { }
            static class Helper { public static void D() { C2(); } }
            static void C2() { }
        }
        """
    )

    assert edges(graph, "Low.Low()") == {
        "Low.A()", "Top.A()", "Top.B()", "Low.C()", "Low.Helper.D()", "Top.Top(int)"
    }  # fmt: skip
    assert edges(graph, "Low.Helper.D()") == {"Low.C2()"}
    assert edges(graph, "Low", "inherits") == {"Top"}


def test_type_names_follow_the_language_rules() -> None:
    """Inner namespaces before outer ones, then usings and aliases; two matching usings are ambiguous."""
    one = "namespace A { public class T { public static void M() { } } }"
    two = "namespace B { public class T { public static void M() { } } }"
    inside = "namespace B.Deep { class X { void R() { T.M(); } } }"
    using = "using A;\nclass Y { void R() { T.M(); } }"
    alias = "using Q = B.T;\nclass Z { void R() { Q.M(); } }"
    both = "using A;\nusing B;\nclass W { void R() { T.M(); } }"
    static = "using static A.T;\nclass V { void R() { M(); } }"
    graph = read(one, two, inside, using, alias, both, static)

    assert edges(graph, "B.Deep.X.R()") == {"B.T.M()"}
    assert edges(graph, "Y.R()") == {"A.T.M()"}
    assert edges(graph, "Z.R()") == {"B.T.M()"}
    assert edges(graph, "W.R()") == set()
    assert edges(graph, "V.R()") == {"A.T.M()"}
    assert graph.calls["ambiguous"] == 1


def test_types_of_two_projects_are_separate() -> None:
    """Each project uses its own type of a common name."""
    program = "class Program { static void Main() { Run(); } static void Run() { } }"
    graph = read(program, program, projects=("App", "Tool"))

    assert "Program" in graph.definitions
    assert "Program@1.cs" in graph.definitions
    assert edges(graph, "Program.Main()") == {"Program.Run()"}
    assert edges(graph, "Program@1.cs.Main()") == {"Program@1.cs.Run()"}


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("unknown.Pack();", "ambiguous"),
        ("unknown.Get(1);", "unresolved"),
        ("Console.WriteLine(1);", "external"),
        ("var item = store.Get(1); item.Missing();", "unresolved"),
        ("void Inner() { } Inner();", "resolved"),
        ("new StringBuilder();", "external"),
        ("store.Get(1).Pack(unknown, 1);", "unresolved"),
    ],
)
def test_uncertain_calls_are_counted(body: str, outcome: str) -> None:
    """A call on an unknown receiver is not resolved by the method name."""
    text = f"using Shop.Data;\nclass User {{ void Run(IStore store) {{ {body} }} }}"
    graph = read(LIBRARY, text)
    wrong = {each for each in edges(graph, "User.Run(IStore)") if "Pack" in each}

    assert graph.calls[outcome] >= 1
    assert not wrong


def test_uses_are_references_without_a_call() -> None:
    """Types, properties and method references are uses; a parameter named like a type is not."""
    graph = read(
        LIBRARY,
        "using Shop.Data;\nclass Item2 { [Mark] void A(Item Colour) { var c = Shop.Data.Colour.Red; "
        "var p = Colour.Parts; Each(Handler); } void Handler(Item i) { } }\nclass MarkAttribute { }",
    )

    assert edges(graph, "Item2.A(Item)", "uses") == {
        "Shop.Data.Item", "Shop.Data.Colour", "Shop.Data.Item.Parts", "Item2.Handler(Item)",
        "MarkAttribute",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ('"dbo.Pay"', "dbo.Pay"),
        ('@"SELECT 1 -- ""one""\n FROM T"', 'SELECT 1 -- "one"\n FROM T'),
        ('$"SELECT {id} FROM T"', "SELECT   FROM T"),
        ('"SELECT * " + "FROM T " + where + "x"', "SELECT * FROM T  x"),
        ("Names.Pay", "dbo.Pay"),
        ("Own", "Own.Pay"),
        ('"EXEC " + Names.Pay', "EXEC dbo.Pay"),
        ('"EXEC " + (id + 1)', "EXEC  "),
    ],
)
def test_strings_are_concatenated(argument: str, text: str) -> None:
    """Concatenations are one string, constants have their values, and run-time values are a space."""
    graph = read(
        'static class Names { public const string Pay = "dbo.Pay"; }',
        'class User { const string Own = "Own.Pay"; string other = "x.y";'
        f" void Run(int id, string where) {{ Call({argument}); Call(other); }} }}",
    )
    found = [each for each in graph.strings if each.source == "User.Run(int,string)"]

    assert (found[0].text, found[0].recipient) == (text, "Call")
    assert all(each.text != "x.y" for each in found)


def test_operands_between_strings_are_visited() -> None:
    """A sum is one string, and the calls inside it are calls."""
    graph = read(
        "class User { int F() => 1; string G() => null; bool H(bool a) => a;"
        ' void Run() { var s = "a" + F() + $"b {G()}"; var b = H(F() > 1) && H(false); } }'
    )

    assert edges(graph, "User.Run()") == {"User.F()", "User.G()", "User.H(bool)"}


def test_a_program_without_a_class_is_a_node() -> None:
    """Top-level statements are the main method."""
    graph = read(LIBRARY, "using Shop.Data;\nvar item = Item.Make();\nitem.Pack();\n")

    assert graph.definitions["1.cs"].symbol_type == "Program"
    assert edges(graph, "1.cs") == {"Shop.Data.Item.Make()", "Shop.Data.Item.Pack()"}


def test_unparsable_code_does_not_affect_other_code() -> None:
    """One broken method is reported; the others are read."""
    graph = read("class A { void Good() { } void Bad( { } }")

    assert "A.Good()" in graph.definitions
    assert graph.failures == [("0.cs", "contains code that cannot be parsed; it is left out")]


CODE = (
    LIBRARY
    + """
class User : Base<int>, IOther {
    Item field = new(), other; public int this[int i] => i; event Handler E;
    User(int a) : this() { }
    async void Run(IStore store, params int[] rest) {
        var x = store?.Get(1)?.Parts[0] ?? Item.Make(); foreach (var y in x.Parts) y.Pack($"a {x} b");
        await (x as Item).Print(); using var z = new Box<Item> { Content = x }; int F(int q) => q; F(1);
        list.Where(i => i.Open()).Select((i, j) => base.Run(i)); if (o is Item w) w.Pack(@"c"); nameof(x);
    }
}
"""
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(CODE)), st.integers(0, 40)), max_size=6),
    st.text(max_size=5),
)
def test_code_with_parts_missing_is_read(cuts: list[tuple[int, int]], instead: str) -> None:
    """Damaged code is read without errors, and edges connect definitions."""
    text = CODE
    for start, length in cuts:
        text = text[:start] + instead + text[start + length :]
    graph = read(text)

    assert all(
        edge.source in graph.definitions and edge.target in graph.definitions
        for edge in graph.edges()
    )


def test_long_chains_are_read_and_deep_nesting_is_reported() -> None:
    """Long concatenations and call chains are read; deeper nesting is reported, and other code is read."""
    total = " + ".join(['"x"'] * 1000)
    deep = "(" * 3000 + "1" + ")" * 3000
    graph = read(
        f"class A {{ void G() {{ }} void Sum() {{ var s = {total}; G(); }} }}",
        f"class B {{ B G() => this; void Chain() {{ this{'.G()' * 30}; }} }}",
        f"class C {{ void G() {{ }} void Deep() {{ F({'F(' * 400}1{')' * 400}); }} void Good() {{ G(); }} }}",
        f"class D {{ int x = {deep}; }}",
    )

    assert edges(graph, "A.Sum()") == {"A.G()"}
    assert edges(graph, "B.Chain()") == {"B.G()"}
    assert edges(graph, "C.Good()") == {"C.G()"}
