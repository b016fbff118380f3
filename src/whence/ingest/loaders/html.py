"""HTML to text and blocks: the main content, without scripts, navigation and what else surrounds it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from whence.ingest.blocks import ParsedDocument
from whence.ingest.decoding import decode_as, decode_text
from whence.ingest.document_builder import MAX_HEADING, file_document, shortened
from whence.ingest.loaders.front_matter import FrontMatter
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import ExtractedText, one_line
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

__all__ = ("load_html", "write_html")

#: Never content.
_NO_CONTENT = (
    "script, style, noscript, template, iframe, object, svg, canvas, audio, video, button, select, input,"
    " textarea, dialog, [hidden], [aria-hidden=true]"
)
#: Around the content, whatever it is.
_AROUND = "nav, aside, form, [role=navigation], [role=search], [role=complementary], [role=menu], [role=menubar]"
#: Around the content as long as it is not in it: an article's own header has its title.
_AROUND_PAGE = "header, footer, [role=banner], [role=contentinfo]"
_MAIN = ("main, [role=main]", "article", "body")
#: Words in ids and classes by which pages without the elements above mark what they surround content with.
_AROUND_NAMES = re.compile(
    r"(?:^|[\s_-])(?:nav|navbar|navigation|menu|sidebar|breadcrumbs?|cookies?|footer|masthead|advert|ads|"
    r"promo|share|social|skip-?link|pagination|related)(?:$|[\s_-])",
    re.IGNORECASE,
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = frozenset({"ul", "ol", "menu", "dl"})
#: Elements that stand on lines of their own.
_BLOCKS = frozenset(
    {
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "body",
            "caption",
            "center",
            "dd",
            "details",
            "div",
        ),
        *(
            "dt",
            "fieldset",
            "figcaption",
            "figure",
            "footer",
            "form",
            "header",
            "hgroup",
            "hr",
            "html",
            "li",
        ),
        *("main", "nav", "p", "section", "summary", "tbody", "td", "tfoot", "th", "thead", "tr"),
        *("pre", "table", *_LISTS, *_HEADINGS),
    }
)
_META_CHARSET = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE
)
_DECLARED_WITHIN = 4096
#: A block with more of its text in links is a list of links and no content.
_LINK_SHARE = 0.6
#: Elements inside one another; browsers stop at 512.
_DEEPEST = 256
#: Elements opened and not closed again before the parser is asked, whose time grows with the square of them.
_MOST_UNCLOSED = 4096
_TAG = re.compile(r"<(/?)([a-z][a-z0-9-]*)", re.IGNORECASE)
#: Elements that need no closing tag.
_UNCLOSED = frozenset(
    {
        *(
            "area",
            "base",
            "br",
            "col",
            "embed",
            "hr",
            "img",
            "input",
            "link",
            "meta",
            "source",
            "track",
            "wbr",
        ),
        *("p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option", "colgroup"),
    }
)


def load_html(file: SourceFile, data: bytes) -> ParsedDocument:
    """Read one page. The title is `<title>`, else the first heading; a canonical link is its address.

    Raises:
        BadInput: The bytes are no text, or elements are nested deeper than 256.
    """
    from selectolax.lexbor import LexborHTMLParser

    source, encoding = _decoded(data)
    _refuse_unclosed(source)
    page = LexborHTMLParser(source)
    _refuse_deep(page)
    values: dict[str, object] = {"title": _title(page), "source_url": _address(page)}
    text = ExtractedText()
    write_html(text, _main_content(page))
    front = FrontMatter({name: value for name, value in values.items() if value})
    tops = (block.path[0] for block in text.blocks if block.kind == "heading")
    title = next(tops, "")
    return file_document(file, text.text, front, text.blocks, title=title, encoding=encoding)


def write_html(text: ExtractedText, root: LexborNode) -> None:
    """Write what stands below an element. Cost: linear in the page, times the depth of inline elements."""
    words: list[str] = []
    for child in root.iter(include_text=True):
        tag = child.tag or ""
        if tag not in _BLOCKS and not _holds_block(child):
            words.append(_inline(child))
            continue
        text.prose("".join(words))
        words = []
        _write_block(text, child, tag)
    text.prose("".join(words))


def _write_block(text: ExtractedText, node: LexborNode, tag: str) -> None:
    if tag in _HEADINGS:
        text.heading(_HEADINGS[tag], _inline(node))
    elif tag == "table":
        _write_table(text, node)
    elif tag == "pre":
        text.whole(node.text().expandtabs(4).split("\n"))
    elif tag in _LISTS:
        text.whole(list(_items(node, "")))
    else:
        write_html(text, node)


def _write_table(text: ExtractedText, table: LexborNode) -> None:
    """Write a table as rows; one that holds other blocks only lays them out."""
    if any(table.css_matches(tag) for tag in ("table table", "h1, h2, h3", "ul, ol", "p + p")):
        write_html(text, table)
        return
    for caption in table.css("caption"):
        text.prose(_inline(caption))
    rows = [[one_line(_inline(cell)) for cell in row.css("td, th")] for row in table.css("tr")]
    text.whole([" | ".join(row) for row in rows if any(row)])


def _items(node: LexborNode, indent: str) -> Iterator[str]:
    """Yield the items of a list as lines, those of lists inside it indented."""
    number = 0
    for item in node.iter():
        if item.tag in _LISTS:
            yield from _items(item, indent + "  ")
            continue
        number += 1
        mark = {"ol": f"{number}. ", "dl": ""}.get(node.tag or "", "- ")
        words: list[str] = []
        inner: list[LexborNode] = []
        for child in item.iter(include_text=True):
            if child.tag in _LISTS:
                inner.append(child)
            else:
                words.append(_inline(child) + (" " if child.tag in _BLOCKS else ""))
        line = one_line("".join(words))
        if line:
            yield f"{indent}{'  ' if item.tag == 'dd' else mark}{line}"
        for each in inner:
            yield from _items(each, indent + "  ")


def _inline(node: LexborNode) -> str:
    """Return the words of an element; blocks and line breaks inside it keep words apart."""
    if node.tag == "-text":
        return node.text_content or ""
    if node.tag in ("br", "hr"):
        return "\n"
    if node.tag in ("-comment", "_comment", "!--"):
        return ""
    words = "".join(_inline(child) for child in node.iter(include_text=True))
    return f" {words} " if node.tag in _BLOCKS else words


def _holds_block(node: LexborNode) -> bool:
    """Return whether an inline element (`<a>`, an unknown one) has blocks in it, which HTML allows."""
    return node.tag != "-text" and any(
        child.tag in _BLOCKS or _holds_block(child) for child in node.iter()
    )


def _main_content(page: LexborHTMLParser) -> LexborNode:
    """Return the element that holds the content, less what only surrounds it."""
    for node in page.css(_NO_CONTENT):
        node.decompose()
    root = _main_element(page)
    around = (
        [*root.css(_AROUND), *root.css(_AROUND_PAGE)] if root.tag == "body" else root.css("nav")
    )
    inside = {id_ for node in root.css("article, section") for id_ in _ids_below(node)}
    for node in around:
        if node.mem_id not in inside or node.css_matches(_AROUND):
            node.decompose()
    if root.tag == "body":
        _drop_unmarked(root)
    return root


def _main_element(page: LexborHTMLParser) -> LexborNode:
    for selector in _MAIN:
        found = page.css(selector)
        # Several articles are a list of them: what they share is the page.
        if len(found) == 1 and (found[0].tag == "body" or one_line(found[0].text())):
            return found[0]
    root = page.root
    if root is None:
        raise BadInput("holds no HTML")
    return root


def _ids_below(node: LexborNode) -> Iterator[int]:
    return (below.mem_id for below in node.css(_AROUND_PAGE))


def _drop_unmarked(body: LexborNode) -> None:
    """Drop what looks like navigation; nothing when that would be most of the page."""
    doomed = [node for node in body.css("div, section, ul, ol, table") if _looks_around(node)]
    whole = len(one_line(body.text()))
    outer = [node for node in doomed if not _any_parent(node, {each.mem_id for each in doomed})]
    if 2 * sum(len(one_line(node.text())) for node in outer) < whole:
        for node in outer:
            node.decompose()


def _looks_around(node: LexborNode) -> bool:
    names = f"{node.attributes.get('id') or ''} {node.attributes.get('class') or ''}"
    if _AROUND_NAMES.search(names):
        return True
    links = node.css("a")
    if node.tag not in ("ul", "ol", "div") or len(links) < 4:
        return False
    linked = sum(len(one_line(link.text())) for link in links)
    return linked > _LINK_SHARE * len(one_line(node.text()))


def _any_parent(node: LexborNode, ids: set[int]) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.mem_id in ids:
            return True
        parent = parent.parent
    return False


def _title(page: LexborHTMLParser) -> str:
    found = page.css_first("head > title")
    return shortened(one_line(found.text()), MAX_HEADING) if found else ""


def _address(page: LexborHTMLParser) -> str:
    """Return the canonical address of a page, when it names one in full."""
    link = page.css_first("head > link[rel=canonical]")
    address = one_line((link.attributes.get("href") or "") if link else "")
    try:
        return address if urlsplit(address).scheme in ("http", "https") else ""
    except ValueError:
        return ""


def _decoded(data: bytes) -> tuple[str, str]:
    """Return the text and its encoding: a byte order mark and UTF-8 go before what the page declares."""
    try:
        return decode_text(data) if _is_utf8(data) else _declared(data)
    except LookupError:
        return decode_text(data)


def _declared(data: bytes) -> tuple[str, str]:
    found = _META_CHARSET.search(data, 0, _DECLARED_WITHIN)
    name = codecs.lookup(found[1].decode()).name if found else ""
    # What is no UTF-8 says so in vain; Latin 1 means Western European to every browser.
    if not name or name.startswith("utf"):
        return decode_text(data)
    name = "cp1252" if name in ("iso8859-1", "ascii") else name
    try:
        return decode_as(data, name), name
    except BadInput:
        return decode_text(data)


def _refuse_unclosed(source: str) -> None:
    """Refuse a page that would keep the parser busy for hours.

    Raises:
        BadInput: More than 4,096 elements are open at once.
    """
    opened = 0
    for found in _TAG.finditer(source):
        if found[2].lower() not in _UNCLOSED:
            opened = max(0, opened - 1) if found[1] else opened + 1
            if opened > _MOST_UNCLOSED:
                raise BadInput(f"leaves more than {_MOST_UNCLOSED:,} elements open")


def _refuse_deep(page: LexborHTMLParser) -> None:
    """Refuse a page nested deeper than any that was written: whatever looks at it walks down and up.

    Raises:
        BadInput: It is.
    """
    node, depth = page.root, 0
    while node is not None:
        below = node.child
        if below is not None:
            node, depth = below, depth + 1
            if depth > _DEEPEST:
                raise BadInput(f"has elements nested deeper than {_DEEPEST}")
            continue
        while node is not None and node.next is None:
            node, depth = node.parent, depth - 1
        node = node.next if node is not None else None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
