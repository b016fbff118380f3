"""Rewrite blocks of Markdown's dialects as plain Markdown, line by line, so that lines keep their numbers.

Read are admonitions and tabs of MkDocs (`!!! note`, `??? tip`, `=== "Tab"`), containers (`:::note`), and fences
and directives of MyST (three backticks or colons and `{name}`). Their words come before what is in them, marked
as `LEAD + words + LEAD`. Of tags of site generators, such as `{% link a.md %}` of Liquid and
`{{< figure src="a.png" >}}` of Hugo, the words for readers stay, such as a caption; those around code become
fences; comments are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from whence.ingest.roles import (
    CODE_DIRECTIVES,
    VERSION_WORDS,
    WITHOUT_LANGUAGE,
    WITHOUT_TEXT,
)

#: Stands around the words before a note, which no text contains.
LEAD = "\x1a"
#: The language of fences whose content is reStructuredText.
RST = "eval-rst"
_INDENTED = re.compile(
    r"( *)(?:!!!|\?\?\?\+?|===[!+]?)(?: +([\w-]+(?: +[\w-]+)*))?(?: +\"(.*)\")? *$"
)
_FENCE = re.compile(r"( *+)(```++|~~~++|:::++)[ \t]*+((?:[ \t]*+[^ \t\n])*+)[ \t]*+$")
_DIRECTIVE = re.compile(r"\{([\w:+-]+)\}[ \t]*+(.*)$")
_CONTAINER = re.compile(r"([A-Za-z][\w-]*+)[ \t]*+(?:\[(.*)\]|\"(.*)\"|(.*))$")
_OPTION = re.compile(r"[ \t]*:[\w-]+:(?:[ \t]|$)|[ \t]*---[ \t]*$")
#: A target of references.
_TARGET = re.compile(r"\([^\s()]+\)=[ \t]*$")
#: The target of a link, or of a reference, with a tag of a site generator.
_TAGGED_LINK = re.compile(
    r"(\]\(|^ {0,3}\[[^\]\n]+\]:[ \t]*+)[^\s(){]*+(?:\{%[^%\n]*+%\}|\{\{[^{}\n]*+\}\})[^\s()]*+"
)
#: A tag of a site generator that ends on its line, one that does not, and the first word of one.
_SITE_TAG = re.compile(r"\{(?:\{[<%]|%)[^{}\n]*+\}\}?")
_OPEN_SITE_TAG = re.compile(r"\{(?:\{[<%]|%)[^{}\n]*+$")
_SITE_TAG_NAME = re.compile(r"\{\{?[<%][-\s]*+(/?)[ \t]*+([\w-]+)[ \t]*+([\w+-]*+)")
_TAG_LINES = 30
#: A quoted value of a tag, with its name; names are those under which HTML has words for readers.
_TAG_VALUE = re.compile(r"""(?:(?<![\w-])([\w-]++)[ ]*+[=:][ ]*+)?(?:"([^"]*+)"|'([^']*+)')""")
_WORDED = frozenset(
    ["title", "caption", "alt", "label", "summary", "text", "heading", "subtitle", "description"]
)
#: Tags around code: of Jekyll and Hugo, and of Hexo.
_CODE_SITE_TAGS = frozenset(["highlight", "codeblock", "code"])
_COMMENT = re.compile(r"\{%-?[ \t]*(end)?comment\b[^%\n]*+%\}")
#: Directives of MyST with code, beside those of reStructuredText.
_CODE = frozenset(["code-cell", "parsed-literal"])
#: Other directives whose content is code, such as `pip-cli` and `code-tab`.
_CODE_NAME = re.compile(r"(?:^|-)(?:code|cli|console|shell|terminal)(?:-|$)")
#: Directives of MyST and of MkDocs' plugins without text; a module without a body is a mark for references.
_EMPTY = frozenset(["tableofcontents", "figure-md", "iframe", "module"])
_ADMONITIONS_TEXT = """note warning tip important caution danger error hint attention seealso info abstract success
    question failure bug example quote admonition"""
_ADMONITIONS = frozenset(_ADMONITIONS_TEXT.split())
_WORDS = {"seealso": "See also", "admonition": ""}


def plain_markdown(text: str) -> str:
    r"""Return the text with blocks of dialects rewritten; as many lines, `\n` as line end. Cost: linear."""
    if not any(sign in text for sign in ("!!!", "???", "===", ":::", "{", ")=")):
        return text
    return "\n".join(_rewritten(text.split("\n")))


def _rewritten(lines: list[str]) -> Iterator[str]:
    # Margins of the indented blocks that are open, and marks of the fences around other blocks.
    margins: list[int] = []
    fences: list[str] = []
    code: _Code | None = None
    has_options = in_comment = False
    for number, each in enumerate(lines):
        bare = each.strip()
        if code is not None:
            yield code.line(_dedented(each, 4 * len(margins)))
            code = None if _closes(bare, code.mark) else code
            continue
        whole = _with_whole_tags(lines, number) if "{" in each and not in_comment else each
        shown, in_comment = _without_tags(whole, in_comment=in_comment)
        indent = len(shown) - len(shown.lstrip(" "))
        while margins and shown.strip() and indent < margins[-1] + 4:
            margins.pop()
        line = _dedented(shown, 4 * len(margins))
        marked, fence = _INDENTED.match(line), _FENCE.match(line)
        has_options = has_options and bool(_OPTION.match(line))
        if marked and (marked[2] or marked[3]):
            below = next(filter(str.strip, lines[number + 1 :]), "")
            is_empty = len(below) - len(below.lstrip(" ")) < indent + 4
            margins.append(indent)
            yield f"{marked[1]}{_lead(marked[2] or '', marked[3] or '', is_empty=is_empty)}"
        elif fences and _closes(bare, fences[-1]):
            fences.pop()
            yield ""
        elif fence is None:
            yield "" if has_options or _TARGET.match(line) else line
        else:
            below = next(filter(str.strip, lines[number + 1 :]), fence[2]).strip()
            is_empty = _closes(below, fence[2])
            written, is_code, is_kept = _opened(fence[2], fence[3], is_empty=is_empty)
            has_options = fence[3].startswith("{")
            if is_code:
                code = _Code(fence[2], is_kept, has_options)
            else:
                fences.append(fence[2])
            yield f"{fence[1]}{written}" if written else ""


def _without_tags(line: str, *, in_comment: bool) -> tuple[str, bool]:
    """Return a line without tags in targets and without comments, and whether a comment is open at its end."""
    if "{" not in line and not in_comment:
        return line, False
    kept, start = "", 0
    for found in _COMMENT.finditer(line):
        kept += "" if in_comment else line[start : found.start()]
        in_comment, start = not found[1], found.end()
    kept += "" if in_comment else line[start:]
    return _SITE_TAG.sub(_tag_words, _TAGGED_LINK.sub(_plain_link, kept)), in_comment


def _plain_link(found: re.Match[str]) -> str:
    return found[0] if _is_in_code(found) else f"{found[1]}#"


def _is_in_code(found: re.Match[str]) -> bool:
    return found.string.count("`", 0, found.start()) % 2 == 1


def _tag_words(found: re.Match[str]) -> str:
    """Return the words that a tag of a site generator has for readers; itself in code."""
    tag = found[0]
    opening = "{%" if tag.startswith("{%") else tag[:3]
    closing = {"{%": "%}", "{{%": "%}}", "{{<": ">}}"}[opening]
    if _is_in_code(found) or not tag.endswith(closing):
        return tag
    inside = tag[len(opening) : -len(closing)].strip()
    if inside.startswith("/*"):
        # Hugo shows a tag that stands in a comment.
        return f"`{opening} {inside.strip('/*').strip()} {closing}`"
    words = [
        (value or other).strip()
        for name, value, other in _TAG_VALUE.findall(inside)
        if name.lower() in _WORDED or (not name and " " in (value or other).strip())
    ]
    return " ".join(words)


def _with_whole_tags(lines: list[str], number: int) -> str:
    """Return a line after tags that go on below it are joined, and those around code are fences."""
    _join_tag(lines, number)
    _fence_code(lines, number)
    return lines[number]


def _join_tag(lines: list[str], number: int) -> None:
    """Write a tag that begins on a line and ends on a later one on the first; the others are blank then."""
    if not _OPEN_SITE_TAG.search(lines[number]):
        return
    for at in range(number + 1, min(number + _TAG_LINES, len(lines))):
        if not lines[at].strip():
            return
        if "}" in lines[at]:
            lines[number] = " ".join(lines[number : at + 1])
            lines[number + 1 : at + 1] = [""] * (at - number)
            return


def _fence_code(lines: list[str], number: int) -> None:
    """Write the tags around code as fences, if they stand on lines of their own."""
    bare = lines[number].strip()
    found = _SITE_TAG.fullmatch(bare)
    name = _SITE_TAG_NAME.match(bare) if found else None
    if name is None or name[1] or name[2] not in _CODE_SITE_TAGS:
        return
    for at in range(number + 1, len(lines)):
        other = _SITE_TAG_NAME.match(lines[at].strip())
        if other is None or other[2] not in (name[2], f"end{name[2]}"):
            continue
        if other[1] or other[2] != name[2]:
            fence = "`" * 5
            lines[number], lines[at] = f"{fence}{name[3]}", fence
        return


class _Code:
    """A fence around code: its mark, whether it is kept, and whether options stand at its top."""

    def __init__(self, mark: str, is_kept: bool, has_options: bool) -> None:
        self.mark, self._is_kept, self._has_options = mark, is_kept, has_options

    def line(self, line: str) -> str:
        """Return what a line of it, or the one that closes it, becomes."""
        self._has_options = self._has_options and bool(_OPTION.match(line))
        if not self._is_kept or self._has_options:
            return ""
        bare = line.strip()
        return line.replace(bare, _fence(self.mark)) if _closes(bare, self.mark) else line


def _fence(mark: str) -> str:
    """Return a mark of CommonMark for one of any dialect."""
    return mark.replace(":", "`")


def _opened(mark: str, info: str, *, is_empty: bool) -> tuple[str, bool, bool]:
    """Return what the line that opens a fence becomes, whether its body is code, and whether that is kept."""
    directive = _DIRECTIVE.match(info)
    if directive:
        name = directive[1].lower().rpartition(":")[2]
        if _has_code(name):
            language = "" if name in WITHOUT_LANGUAGE else directive[2]
            return f"{_fence(mark)}{language}", True, True
        if name in _EMPTY or name in WITHOUT_TEXT:
            return "", True, False
        if name == RST:
            return f"{_fence(mark)}{RST}", True, True
        words = directive[2]
        if name in _ADMONITIONS and name != "admonition":
            return f"{_lead(name, '', is_empty=is_empty and not words)}{words}", False, True
        if name in VERSION_WORDS:
            version, _, rest = words.partition(" ")
            said = f"{VERSION_WORDS[name]} {version}"
            return f"{_lead('', said, is_empty=is_empty and not rest)}{rest}", False, True
        return (_lead("", words, is_empty=is_empty) if words else ""), False, True
    if not mark.startswith(":"):
        return f"{mark}{info}", True, True
    container = _CONTAINER.match(info)
    if container is None:
        return "", False, True
    title = next(filter(None, container.groups()[1:]), "")
    kind = container[1] if container[1].lower() in _ADMONITIONS else ""
    return _lead(kind, title, is_empty=is_empty), False, True


def _has_code(name: str) -> bool:
    """Return whether the body of a directive of MyST is code; `example` is a note there."""
    known = name in _CODE or (name in CODE_DIRECTIVES and name not in _ADMONITIONS)
    return known or _CODE_NAME.search(name) is not None


def _lead(kind: str, title: str, *, is_empty: bool) -> str:
    """Return the words before a block, marked as such; its title alone if nothing is in it."""
    if is_empty:
        return title and f"{title.rstrip('.')}."
    name = kind.split(maxsplit=1)[0].lower() if kind else ""
    words = title or _WORDS.get(name, name.replace("-", " ").capitalize())
    return f"{LEAD}{words}{LEAD}" if words else ""


def _closes(bare: str, mark: str) -> bool:
    return len(bare) >= len(mark) and bare.strip(mark[0]) == "" and bare != ""


def _dedented(line: str, margin: int) -> str:
    lead = len(line) - len(line.lstrip(" "))
    return line[min(margin, lead) :]
