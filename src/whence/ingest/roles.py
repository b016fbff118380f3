"""What roles of reStructuredText and MyST show, e.g. for `~a.b.c`: names as Sphinx prints them."""

from __future__ import annotations

import re

#: Before an escaped character.
_ESCAPE = "\x00"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: What directives say of versions.
VERSION_WORDS = {
    "versionadded": "New in version", "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version", "versionremoved": "Removed in version",
    "deprecated-removed": "Deprecated since version", "version-added": "New in version",
    "version-changed": "Changed in version", "version-deprecated": "Deprecated since version",
    "soft-deprecated": "Soft deprecated since version", "version-removed": "Removed in version",
}  # fmt: skip
#: Directives without text of the document, or with that of other files.
WITHOUT_TEXT = _names(
    """toctree contents index image include literalinclude meta raw header footer sectnum section-numbering
    target-notes default-role title highlight currentmodule tabularcolumns testsetup testcleanup
    todo todolist youtube video graphviz digraph graph uml plantuml mermaid inheritance-diagram plot date
    autosummary autopackage program default-domain namespace bibliography
    restructuredtext-test-directive"""
)
#: Directives whose body is code, and those of them whose argument is not the language of it.
CODE_DIRECTIVES = _names(
    """code code-block code-tab sourcecode literal-block prompt doctest testcode testoutput ipython console terminal
    productionlist highlight-block shell program-output command-output math jsonschema graphql snippet example run"""
)
WITHOUT_LANGUAGE = _names("prompt doctest testcode testoutput math")
_PLAIN_ROLES = _names(
    """ref doc term numref any dfn abbr abbreviation ac emphasis strong sub sup subscript superscript guilabel
    menuselection title title-reference t download index eq math bolditalic del ins underline kbd-plain cite citet
    citep user author release raw-text text bold"""
)
_CALLS = _names("func meth function method")
_REFERENCES = _names("ref doc numref any download")
_CODE_ROLES = _names(
    """class mod attr data exc const obj type macro member struct union enum enumerator var file command program option
    envvar kbd samp code literal makevar regexp token keyword setting confval mailheader mimetype newsgroup manpage
    module attribute exception property py cpp c js decorator deco rst dir role directive ttag tfilter djadmin lookup
    django-admin signal reqmeta sh bash python console attribute cfunc cdata ctype cmacro opcode pdbcmd variable"""
)
_EXPLICIT_TITLE = re.compile(r"(.(?:\s*+\S)*?)\s*+(?<!\x00)<([^<]*?)>$", re.DOTALL)
_LOOKS_LIKE_CODE = re.compile(
    r"[\w.$]+(?:\(\)?|\.\w++|_(?:[^\W_]++_?|_))|--?\w[\w-]*$|[A-Z][A-Z0-9_]+$"
)
_IDENTIFIER = re.compile(r"[\w.:$]+\Z")
#: An object in any module in the default role of Sphinx, `.URLSpec.name`, and what tells it from `.env`.
_ANY_MODULE = re.compile(r"\.\w++(?:\.\w++)*+(?:\(\))?")
_OF_CLASS = re.compile(r"(?<!\w)[A-Z]\w*+\.|\.[A-Z]|[a-z][A-Z]|[A-Z]{2}[a-z]")
#: Stands for a module in the references of a project, `_engine.Engine`.
_SHORTCUT = re.compile(r"_[a-z]\w*(?=\.\w)")
#: Modules with names of this form.
_PRIVATE_MODULES = frozenset(["_pytest", "_thread", "_tkinter", "_winapi"])
#: Roles, literals and links of reStructuredText that no parser of the text has read.
_LEFT_OVER = re.compile(
    r"(?<![\w`:]):(?P<role>[A-Za-z][\w:+.-]{0,80}):`(?:(?P<text>[^\s`](?:[^`]{0,200}[^\s`])?)`(?!`))?"
    r"|(?<!`)``(?P<literal>[^`\n]{1,200})``(?!`)"
    r"|(?<![\w`])`(?P<words>[^\s`<>][^`<>]{0,200}?)\s*<[^<>\s`]{1,500}>`__?(?!\w)"
)


def without_left_over_roles(text: str) -> str:
    """Return prose without roles, literals and links that its own page shows as they are.

    >>> without_left_over_roles("See :mod:`asyncio`, :ref:`the loop <x>` and :mod:` alone.")
    'See `asyncio`, the loop and  alone.'
    """
    return _LEFT_OVER.sub(_shown_left_over, text) if "`" in text else text


def _shown_left_over(match: re.Match[str]) -> str:
    if not match["role"]:
        return match["words"] or f"`{match['literal']}`"
    shown, is_code = shown_role(match["role"], match["text"] or "")
    return f"`{shown}`" if is_code and shown else shown


def unescape(text: str) -> str:
    """Return a text whose escaped characters were marked by NUL; an escaped space is nothing."""
    for space in " \n":
        text = text.replace(_ESCAPE + space, "")
    return text.replace(_ESCAPE, "")


def has_title(escaped: str) -> bool:
    """Return whether a role states its text, `text <target>`."""
    return bool(_EXPLICIT_TITLE.match(escaped))


def shown_role(role: str, escaped: str) -> tuple[str, bool]:
    """Return the text that a role shows, and whether it is code.

    Args:
        role: Name with its domain; empty for the default role.
        escaped: Text with escaped characters marked by NUL.
    """
    name = role.lower().rpartition(":")[2]
    explicit = _EXPLICIT_TITLE.match(escaped)
    text = unescape(explicit[1] if explicit else escaped)
    if name in ("pep", "rfc", "cve", "cwe"):
        return (text if explicit else f"{name.upper()} {text.partition('#')[0]}"), False
    if name in ("samp", "file"):
        return text.replace("{", "").replace("}", ""), True
    if not role and _ANY_MODULE.fullmatch(text) and _OF_CLASS.search(text, 1):
        return text[1:], True
    if name in ("abbr", "abbreviation", "math") or not role:
        shown = unescape(escaped)
        return shown, not role and bool(_LOOKS_LIKE_CODE.fullmatch(shown))
    if name in ("guilabel", "menuselection"):
        return text.replace("&", "").replace("-->", ">"), False
    if explicit:
        return text, name in _CALLS or name in _CODE_ROLES
    if name in _REFERENCES:
        return _label(text), False
    if name in _PLAIN_ROLES:
        return text, False
    return _object_name(name, text)


def _label(text: str) -> str:
    """Return the words of a label that stands for a title: `intro/first-steps` is `first steps`."""
    last = text.strip().rstrip("/").rpartition("/")[2].rpartition(":")[2]
    return re.sub(r"[-_\s]+", " ", last.removesuffix(".rst")).strip() or text


def _object_name(name: str, text: str) -> tuple[str, bool]:
    """Return what Sphinx shows for the name of an object: the last part after `~`, `()` for a function."""
    if text.isdecimal():
        return (f"#{text}" if name not in _CODE_ROLES else text), False
    shown = text.lstrip("!")
    if shown.startswith("~"):
        shown = re.split(r"[.:]", shown[1:])[-1] or shown[1:]
    shown = shown.removeprefix(".")
    shortcut = _SHORTCUT.match(shown)
    if shortcut and shortcut[0] not in _PRIVATE_MODULES:
        shown = shown[1:]
    if name in _CALLS:
        shown += "" if shown.endswith(")") or not shown else "()"
        return shown, True
    return shown, name in _CODE_ROLES or bool(_IDENTIFIER.match(shown))
