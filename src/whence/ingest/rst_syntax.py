"""Parse reStructuredText to docutils' tree with all roles and directives, those of Sphinx and unknown ones too.

In: a text. Out: a tree without transforms. Roles become `literal` or `inline` nodes; directives that contain
text become lists of definitions, code or their content, and `Lead` nodes for words that come before it; those
that contain none, or text of other files, become nothing. No file is read, nothing is run and no error is
raised: text that cannot be parsed stays text. Importing this module imports docutils.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.parsers.rst import Parser, directives, states
from docutils.statemachine import StringList
from docutils.utils import new_document

from whence.ingest.roles import (
    CODE_DIRECTIVES,
    VERSION_WORDS,
    WITHOUT_LANGUAGE,
    WITHOUT_TEXT,
    has_title,
    shown_role,
    unescape,
)

#: Characters of a paragraph in which markup is read; it takes half a second at most.
_MAX_INLINE = 10_000
_SETTINGS = {
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "report_level": 5,
    "halt_level": 5,
    "warning_stream": False,
    "line_length_limit": 2**31,
    "tab_width": 8,
    "pep_references": False,
    "rfc_references": False,
    "character_level_inline_markup": False,
    "smart_quotes": False,
}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Lead(nodes.Element):  # type: ignore[misc]
    """Words before a note or the like; `words` holds them."""


# --- directives ------------------------------------------------------------------------------------

#: What docutils' own directives make is text; others of its own are handled like those of Sphinx.
_NATIVE = _names("replace unicode table list-table csv-table")
_ADMONITIONS = {
    "note": "Note", "warning": "Warning", "tip": "Tip", "important": "Important", "caution": "Caution",
    "danger": "Danger", "error": "Error", "hint": "Hint", "attention": "Attention", "seealso": "See also",
    "legacy": "Legacy",
}  # fmt: skip
#: Options of notes that say how a note looks.
_LOOKS = _names("class name collapsible open icon color animate")
#: The directive's argument is no text; its body is.
_BODY_ONLY = _names(
    """automodule only ifconfig container cssclass rst-class hlist figure glossary tab-set tabs grid acks columns column
    div"""
)
#: Formats of Sphinx whose text no page shows.
_OTHER_FORMATS = _names("latex latexpdf pdf man text texinfo xml gettext draft")
#: All of it is text.
_TEXT_ONLY = _names("compound epigraph highlights pull-quote line-block")
#: The argument is a title above the body.
_TITLED = _names(
    """admonition sidebar topic rubric centered tab tab-item group-tab dropdown card grid-item-card details collapse
    grid-item toggle step question faq"""
)
#: Their title leads to the body, and is nothing without one.
_TABS = _names("tab tab-item group-tab")
#: They describe an object even without a body; others without one are marks for references.
_OBJECTS = _names(
    """function class method staticmethod classmethod attribute data exception decorator decoratormethod property
    option cmdoption envvar confval describe object macro type var struct union member enum enumerator cfunction
    cmember cmacro ctype cvar directive opcode pdbcommand"""
)
_DOMAIN = re.compile(
    r"(?:py|c|cpp|js|rst|std|http|php|rb|go|java|dotnet|cmake|django|sphinx|click):"
)
#: Options of objects that tell something about them.
_FACTS = ("type", "default", "value", "required", "choices", "deprecated", "since")
_OPTION = re.compile(r":([\w-]+):(?:[ \t]++(.*))?$")
#: `first-page`, `run-in narrow`: no class of a programming language has such a name.
_STYLES = re.compile(r"[a-z](?:\w*+-[\w-]++|[\w-]*+(?: [a-z][\w-]*+)+)")
#: Arguments that are the first words of a text, not a name.
_PROSE = re.compile(r"""(?:["'(*`]*[A-Za-z]+["')*`,;:]*\s+){3}""")
#: What sets SQL that is printed apart from the code that prints it, in `pycon+sql`.
_OUTPUT_MARKS = re.compile(r"\{(?:(?:exec|print|open)?sql|stop)\}")
_CODE_ARGUMENT = re.compile(r"\S+$|.*[()\[\]{}=_<>$]|-|/")


class _State:
    """Directives and nested parsing of every state of the parser."""

    nested_sm_cache: list[Any] = []
    # Attributes of docutils' states.
    state_machine: Any
    inliner: Any
    parent: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.nested_sm_kwargs = {"state_classes": _STATES, "initial_state": "Body"}

    def directive(self, match: re.Match[str], **presets: Any) -> tuple[list[nodes.Node], bool]:
        """Return the nodes of a directive, and whether a blank line ends it."""
        name = _DOMAIN.sub("", match[1].lower())
        if name in _NATIVE:
            found, _ = directives.directive(
                name,
                self.memo.language,  # type: ignore[attr-defined]
                self.document,  # type: ignore[attr-defined]
            )
            result: tuple[list[nodes.Node], bool] = self.run_directive(  # type: ignore[attr-defined]
                found, match, name, presets
            )
            return result
        line = self.state_machine.abs_line_number()
        block, _, offset, blank_finish = self.state_machine.get_first_known_indented(
            match.end(), strip_top=0
        )
        made = _Directive(self, name, block, offset, line).run()
        for node in made:
            node.line = getattr(node, "line", None) or line
        return made, blank_finish or self.state_machine.is_next_line_blank()


class _Directive:
    """A directive: its arguments, options and body.

    Args:
        state: State of the parser.
        name: Name in lower case, without a domain.
        block: Its lines from the argument on, without the common indent.
        offset: Offset of the block in the input.
        line: Line of its name.
    """

    def __init__(self, state: Any, name: str, block: StringList, offset: int, line: int) -> None:
        self._state, self._name, self._line = state, name, line
        self._block, self._offset = block, offset
        lines = [str(each) for each in block]
        first = next((at for at, each in enumerate(lines) if each.strip()), len(lines))
        # A body may begin on the line below the name, with an argument only on the line of the name.
        end = first
        while end < len(lines) and lines[end].strip() and not _OPTION.match(lines[end].strip()):
            end += 1
        self.arguments = (
            [each.strip() for each in lines[:end] if each.strip()] if first == 0 else []
        )
        at = end if first == 0 else first
        self.options: dict[str, str] = {}
        last = ""
        while at < len(lines) and lines[at].strip():
            option = _OPTION.match(lines[at].strip())
            if option is None and not (last and lines[at][:1].isspace()):
                break
            if option:
                last = option[1].lower()
                self.options[last] = option[2] or ""
            else:
                self.options[last] += f"\n{lines[at].strip()}"
            at += 1
        self._body_at = at

    def run(self) -> list[nodes.Node]:
        """Return what the directive becomes."""
        name = self._name
        if name in ("image", "figure"):
            return [nodes.image(alt=self.options.get("alt", "")), *self._figure()]
        if name in WITHOUT_TEXT or (name == "only" and self._is_of_other_formats()):
            return []
        if name in _ADMONITIONS:
            has_looks = not self.arguments and self.options and self.options.keys() <= _LOOKS
            return self._led(_ADMONITIONS[name], self._body() if has_looks else self._parsed(0))
        if name in VERSION_WORDS:
            return self._version(VERSION_WORDS[name])
        if name in CODE_DIRECTIVES:
            return self._code()
        own = {
            "parsed-literal": self._parsed_literal,
            "changelog": self._release,
            "change": self._change,
        }
        if name in own:
            return own[name]()
        if name in _TEXT_ONLY:
            return self._parsed(0)
        if name in _BODY_ONLY or (name == "class" and self._is_style()):
            return self._body() if self.arguments or self.options else self._parsed(0)
        if name in _TITLED:
            return self._titled()
        return self._object()

    def _figure(self) -> list[nodes.Node]:
        return self._body() if self._name == "figure" else []

    def _is_of_other_formats(self) -> bool:
        """Return whether the text is for printed pages and the like only, not for HTML."""
        words = re.findall(r"\w+", " ".join(self.arguments).lower())
        names = [word for word in words if word not in ("and", "or", "not")]
        is_negated = words[:1] == ["not"] and len(words) == 2
        return bool(names) and (
            names[0].endswith("html") if is_negated else _OTHER_FORMATS.issuperset(names)
        )

    def _is_style(self) -> bool:
        """Return whether the arguments are names of styles of HTML, which are no text, and no class of code."""
        return all(_STYLES.fullmatch(each) for each in self.arguments)

    def _parsed(self, at: int) -> list[nodes.Node]:
        """Parse the block from a line on."""
        lines = self._block[at:]
        parent = nodes.Element()
        if any(map(str.strip, lines)):
            self._state.nested_parse(lines, self._offset + at, parent)
        return list(parent.children)

    def _body(self) -> list[nodes.Node]:
        return self._parsed(self._body_at)

    def _led(self, words: str, body: list[nodes.Node]) -> list[nodes.Node]:
        return [Lead(words=words), *body] if words and body else body

    def _inline(self, text: str) -> list[nodes.Node]:
        found, _ = self._state.inliner.parse(text, self._line, self._state.memo, nodes.Element())
        return list(found)

    def _paragraph(self, text: str) -> nodes.paragraph:
        paragraph = nodes.paragraph(text, "", *self._inline(text))
        paragraph.line = self._line
        return paragraph

    def _titled(self) -> list[nodes.Node]:
        title = " ".join(self.arguments)
        body = self._body()
        if not title:
            return body
        if self._name in _TABS or (body and self._name in ("admonition", "topic", "sidebar")):
            return self._led("".join(node.astext() for node in self._inline(title)), body)
        return [self._paragraph(title), *body]

    def _version(self, words: str) -> list[nodes.Node]:
        """Return `New in version 1.2: text`, or the version alone with a full stop."""
        version, _, rest = " ".join(self.arguments).partition(" ")
        if self._name == "deprecated-removed":
            removed, _, rest = rest.partition(" ")
            version = f"{version}, removed in version {removed}"
        body = self._body()
        own = [self._paragraph(rest)] if rest else []
        if own or body:
            return [Lead(words=f"{words} {version}".strip()), *own, *body]
        return [self._paragraph(f"{words} {version}.")] if version else []

    def _code(self) -> list[nodes.Node]:
        """Return the body as it stands, which may follow the name at once if there is no argument."""
        first = self.arguments[0] if self.arguments else ""
        is_language = self._name not in WITHOUT_LANGUAGE
        is_language &= self._name != "productionlist" and len(self.arguments) < 2
        at = self._body_at if is_language or not self.arguments else 0
        lines = [str(each) for each in self._block[at:]]
        code = nodes.literal_block("", "\n".join(lines))
        code["language"] = first if is_language and re.fullmatch(r"[\w+#.-]{1,20}", first) else ""
        code.line = self._line + at
        caption = self.options.get("caption", "")
        above: list[nodes.Node] = [self._paragraph(caption)] if caption else []
        return [*above, code] if "".join(lines).strip() else []

    def _parsed_literal(self) -> list[nodes.Node]:
        body = "\n".join(str(each) for each in self._block[self._body_at :])
        code = nodes.literal_block(body, "", *self._inline(body))
        code["language"] = ""
        code.line = self._line + self._body_at
        return [code] if body.strip() else []

    def _release(self) -> list[nodes.Node]:
        """Return the changes of a release as a section, `1.2 (released May 1, 2026)`."""
        body: list[nodes.Node] = []
        for node in self._body():
            if isinstance(node, nodes.bullet_list) and body and isinstance(body[-1], type(node)):
                body[-1] += node.children
            elif not isinstance(node, nodes.comment):
                body.append(node)
        version = self.options.get("version", "")
        if not version:
            return body
        released = " ".join(self.options.get("released", "").split())
        words = f"{version} (released {released})" if released else version
        return [nodes.section("", nodes.title(words, "", nodes.Text(words)), *body)]

    def _change(self) -> list[nodes.Node]:
        """Return a change as an item that begins with its tags and tickets, `bug, orm (#12): Text`."""
        tickets = [
            f"#{each}" if each.isdecimal() else each
            for each in re.split(r"[,\s]+", self.options.get("tickets", ""))
            if each
        ]
        versions = self.options.get("versions", "")
        facts = "; ".join(filter(None, (", ".join(tickets), versions and f"also in {versions}")))
        tags = self.options.get("tags", "")
        lead = f"{tags} ({facts})" if tags and facts else tags or facts
        body = self._body()
        return [nodes.bullet_list("", nodes.list_item("", *self._led(lead, body)))] if body else []

    def _object(self) -> list[nodes.Node]:
        """Return a definition of what the directive documents."""
        if self._name not in _OBJECTS and self._is_prose():
            return self._parsed(0)
        body = self._facts() + self._body()
        terms = [unescape(each.replace("\\", "\x00")) for each in self.arguments]
        if not terms:
            return body
        if not body and self._name not in _OBJECTS:
            return []
        item = nodes.definition_list_item()
        for term in terms:
            node = (
                nodes.literal(term, term)
                if self._name in _OBJECTS or _CODE_ARGUMENT.match(term)
                else nodes.inline("", "", nodes.Text(term))
            )
            item += nodes.term(term, "", node)
            item[-1].line = self._line
        item += nodes.definition("", *body)
        return [nodes.definition_list("", item)]

    def _is_prose(self) -> bool:
        """Return whether the arguments are the beginning of a text: wrapped, or a whole sentence."""
        lines = self.arguments
        return (
            bool(lines)
            and (len(lines) > 1 or lines[0].endswith("."))
            and bool(_PROSE.match(lines[0]))
        )

    def _facts(self) -> list[nodes.Node]:
        """Return the options that tell something, as a paragraph like `Type: int.`."""
        facts = [(name, self.options[name]) for name in _FACTS if self.options.get(name)]
        words = " ".join(
            f"{name.capitalize()}: {' '.join(value.split())}." for name, value in facts
        )
        return [self._paragraph(words)] if words else []


_EXPLICIT = copy.copy(states.Body.explicit)
# Docutils calls the function that stands here, whatever the class of the state.
_EXPLICIT.constructs = [
    (_State.directive if function is states.Body.directive else function, pattern)
    for function, pattern in _EXPLICIT.constructs
]
_STATES = tuple(
    type(each.__name__, (_State, each), {"explicit": _EXPLICIT}) for each in states.state_classes
)


def _interpreted(
    rawsource: str, text: str, role: str | None, _lineno: int
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """Return the node of a text with a role of any name."""
    words, is_code = shown_role(role or "", text)
    if is_code:
        return [nodes.literal(rawsource, words)], []
    node = nodes.inline(rawsource, "", nodes.Text(words))
    node["role"] = (role or "").lower()
    if role in ("ref", "numref", "std:ref") and not has_title(text):
        node["label"] = unescape(text)
    return [node], []


def _parse_inline(
    inliner: states.Inliner, text: str, lineno: int, memo: Any, parent: nodes.Element
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """Parse markup inside a text. Docutils takes quadratic time, so a very long text is taken as it is."""
    if len(text) > _MAX_INLINE:
        return [nodes.Text(unescape(text.replace("\\", "\x00")))], []
    found: tuple[list[nodes.Node], list[nodes.Node]] = states.Inliner.parse(
        inliner, text, lineno, memo, parent
    )
    return found


# --- documents -------------------------------------------------------------------------------------


def parse(text: str) -> nodes.document:
    """Return the tree of a text.

    Raises:
        RecursionError: It is nested too deeply.
    """
    settings = get_default_settings(Parser)
    vars(settings).update(_SETTINGS)
    tree = new_document("document", settings)
    inliner = states.Inliner()
    # Docutils reads the attributes of the very class, so it cannot be a subclass.
    inliner.interpreted = _interpreted
    inliner.parse = partial(_parse_inline, inliner)
    parser = Parser(inliner=inliner)
    parser.state_classes = _STATES
    parser.parse(text, tree)
    return tree


def titles_by_label(tree: nodes.document) -> dict[str, str]:
    """Return the titles of the sections below labels, `.. _label:`, by label."""
    found: dict[str, str] = {}
    for target in tree.findall(nodes.target):
        # A label above a title is the last node of the section before.
        is_block = isinstance(target.parent, nodes.section | nodes.document)
        below = target.next_node(descend=False, siblings=True, ascend=is_block)
        while isinstance(below, nodes.target | nodes.comment):
            below = below.next_node(descend=False, siblings=True, ascend=is_block)
        title = below.next_node(nodes.title) if isinstance(below, nodes.section) else None
        if title is not None:
            found.update(dict.fromkeys(target["names"], title.astext()))
    return found


def lines_of(node: nodes.Node) -> Sequence[str]:
    """Return the lines of a literal block."""
    text = str(node.astext())
    return (_OUTPUT_MARKS.sub("", text) if "sql}" in text else text).split("\n")
