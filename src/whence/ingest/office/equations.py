r"""Write equations of Office (OMML) and of MathML as one line of text.

>>> from xml.etree.ElementTree import fromstring
>>> linear(fromstring("<math><mfrac><mn>1</mn><mrow><mi>n</mi><mo>+</mo><mn>1</mn></mrow></mfrac></math>"))
'1/(n+1)'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from xml.etree.ElementTree import Element

#: Signs of sums, products and integrals that are left out because they are the default.
_INTEGRAL = "\u222b"
_PROPERTIES = frozenset(
    ("rPr", "ctrlPr", "fPr", "radPr", "naryPr", "dPr", "sSupPr", "sSubPr", "sSubSupPr", "sPrePr",
     "funcPr", "limLowPr", "limUppPr", "mPr", "accPr", "barPr", "eqArrPr", "boxPr", "borderBoxPr",
     "phantPr", "groupChrPr", "oMathParaPr", "argPr", "annotation", "annotation-xml", "mphantom")
)  # fmt: skip
#: Accents that stand above their letter, and the combining characters of others.
_ACCENTS = {
    "\u00af": "\u0304",
    "^": "\u0302",
    "~": "\u0303",
    "\u2192": "\u20d7",
    "\u02d9": "\u0307",
}


def linear(node: Element) -> str:
    """Return an equation as text: `x^2`, `(a+b)/c`, `sqrt` as its sign, sums with their limits."""
    name = _name(node)
    if name in _PROPERTIES:
        return ""
    form = _FORMS.get(name)
    if form is not None:
        return form(node)
    own = node.text or "" if name in _WORDS else ""
    return (own.strip() if name != "t" else own) + _joined(node)


def _name(node: Element) -> str:
    return node.tag.rpartition("}")[2]


def _joined(nodes: Iterable[Element]) -> str:
    """Return parts one after another; a letter or digit after a raised or lowered part is apart from it."""
    written = ""
    was_form = False
    for node in nodes:
        piece = linear(node)
        if was_form and piece[:1].isalnum() and written[-1:].isalnum():
            written += " "
        written += piece
        was_form = _name(node) in _APART
    return written


def _part(node: Element, name: str) -> str:
    """Return the text of a named part of an OMML element."""
    return next((_joined(each) for each in node if _name(each) == name), "")


def _property(node: Element, group: str, name: str, default: str) -> str:
    for each in node:
        if _name(each) == group:
            for value in each:
                if _name(value) == name:
                    return next(iter(value.attrib.values()), "")
    return default


def _grouped(text: str) -> str:
    """Return a text in brackets unless it is one number, name or group."""
    words = text.strip()
    is_one = words.replace(".", "").replace(",", "").isalnum() or len(words) < 2
    return words if is_one or _is_bracketed(words) else f"({words})"


def _is_bracketed(text: str) -> bool:
    if not text.startswith("(") or not text.endswith(")"):
        return False
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return at == len(text) - 1
    return False


def _with(base: str, below: str = "", above: str = "") -> str:
    low = f"_{_grouped(below)}" if below else ""
    high = f"^{_grouped(above)}" if above else ""
    return f"{base}{low}{high}"


def _base(node: Element) -> str:
    return _grouped(_part(node, "e"))


def _fraction(over: str, under: str) -> str:
    return f"{_grouped(over)}/{_grouped(under)}"


def _omml_fraction(node: Element) -> str:
    over, under = _part(node, "num"), _part(node, "den")
    # Without a bar it is a binomial coefficient.
    if _property(node, "fPr", "type", "bar") == "noBar":
        return f"{_grouped(over)}\u00a6{_grouped(under)}"
    return _fraction(over, under)


def _root(radicand: str, degree: str = "") -> str:
    return f"{degree.strip()}\u221a{_grouped(radicand)}"


def _nary(node: Element) -> str:
    sign = _property(node, "naryPr", "chr", _INTEGRAL)
    return f"{_with(sign, _part(node, 'sub'), _part(node, 'sup'))} {_part(node, 'e')}"


def _delimited(node: Element) -> str:
    begin = _property(node, "dPr", "begChr", "(")
    end = _property(node, "dPr", "endChr", ")")
    between = _property(node, "dPr", "sepChr", "|")
    return begin + between.join(_joined(each) for each in node if _name(each) == "e") + end


def _function(node: Element) -> str:
    words = _part(node, "e").strip()
    return f"{_part(node, 'fName').strip()}{words if _is_bracketed(words) else f' {words}'}"


def _rows(rows: Iterable[Iterable[Element]]) -> str:
    return "; ".join(", ".join(_joined(cell).strip() for cell in row) for row in rows)


def _children(node: Element) -> list[str]:
    return [linear(each) for each in node] + [""] * 3


def _accent(base: str, accent: str) -> str:
    sign = _ACCENTS.get(accent, accent)
    return base + sign if len(base) == 1 else f"{_grouped(base)}{sign}"


def _over(node: Element) -> str:
    base, above, *_ = _children(node)
    return _accent(base, above) if above in _ACCENTS else _with(base, above=above)


def _mathml(join: Callable[..., str]) -> Callable[[Element], str]:
    def form(node: Element) -> str:
        return join(*_children(node))

    return form


_APART = frozenset(("sSup", "sSub", "sSubSup", "f", "msup", "msub", "msubsup", "mfrac"))
#: Elements whose own text is shown.
_WORDS = frozenset(("t", "mi", "mn", "mo", "mtext", "ms"))
_FORMS: Mapping[str, Callable[[Element], str]] = {
    "f": _omml_fraction,
    "sSup": lambda node: _with(_base(node), above=_part(node, "sup")),
    "sSub": lambda node: _with(_base(node), _part(node, "sub")),
    "sSubSup": lambda node: _with(_base(node), _part(node, "sub"), _part(node, "sup")),
    "sPre": lambda node: _with("", _part(node, "sub"), _part(node, "sup")) + _part(node, "e"),
    "rad": lambda node: _root(_part(node, "e"), _part(node, "deg")),
    "nary": _nary,
    "d": _delimited,
    "func": _function,
    "limLow": lambda node: _with(_part(node, "e"), _part(node, "lim")),
    "limUpp": lambda node: _with(_part(node, "e"), above=_part(node, "lim")),
    "acc": lambda node: _accent(_part(node, "e"), _property(node, "accPr", "chr", "^")),
    "bar": lambda node: _accent(_part(node, "e"), "\u00af"),
    "eqArr": lambda node: "; ".join(_joined(each) for each in node if _name(each) == "e"),
    "m": lambda node: _rows(
        [cell for cell in row if _name(cell) == "e"] for row in node if _name(row) == "mr"
    ),
    "mfrac": _mathml(lambda over, under, *_: _fraction(over, under)),
    "msup": _mathml(lambda base, above, *_: _with(_grouped(base), above=above)),
    "msub": _mathml(lambda base, below, *_: _with(_grouped(base), below)),
    "msubsup": _mathml(lambda base, below, above, *_: _with(_grouped(base), below, above)),
    "munder": _mathml(lambda base, below, *_: f"{_with(base, below)} "),
    "munderover": _mathml(lambda base, below, above, *_: f"{_with(base, below, above)} "),
    "mover": _over,
    "msqrt": lambda node: _root(_joined(node)),
    "mroot": _mathml(lambda radicand, degree, *_: _root(radicand, degree)),
    "mfenced": lambda node: f"({', '.join(linear(each).strip() for each in node)})",
    "mtable": lambda node: _rows([list(row) for row in node]),
}
