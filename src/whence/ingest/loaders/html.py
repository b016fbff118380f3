"""Load HTML: the main content, without scripts, navigation and other boilerplate."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from whence.ingest.blocks import ParsedDocument
from whence.ingest.decoding import decode_as, decode_text
from whence.ingest.document_builder import MAX_HEADING, build_document, first_heading, shorten
from whence.ingest.front_matter import FrontMatter
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import TextBuilder, collapse_spaces
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

#: Elements without content.
_NO_CONTENT = (
    "script, style, noscript, template, iframe, object, svg, canvas, audio, video, button, select, input,"
    " textarea, dialog, [hidden], [aria-hidden=true]"
)
#: Boilerplate.
_BOILERPLATE = "nav, aside, form, [role=navigation], [role=search], [role=complementary], [role=menu], [role=menubar]"
#: Boilerplate unless inside an article: the header of an article contains its title.
_PAGE_BOILERPLATE = "header, footer, [role=banner], [role=contentinfo]"
_MAIN = ("main, [role=main]", "article", "body")
#: Ids and classes of boilerplate in pages without the elements above.
_BOILERPLATE_NAMES = re.compile(
    r"(?:^|[\s_-])(?:nav|navbar|navigation|menu|sidebar|breadcrumbs?|cookies?|footer|masthead|advert|ads|"
    r"promo|share|social|skip-?link|pagination|related)(?:$|[\s_-])",
    re.IGNORECASE,
)


def _tags(names: str) -> frozenset[str]:
    return frozenset(names.split())


_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = _tags("ul ol menu dl")
#: Block elements, which begin on a line of their own.
_BLOCKS = _LISTS.union(
    _HEADINGS,
    _tags(
        "address article aside blockquote body caption center dd details div dt fieldset figcaption figure footer"
        " form header hgroup hr html li main nav p pre section summary table tbody td tfoot th thead tr"
    ),
)
_META_CHARSET = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE
)
_CHARSET_WITHIN = 4096
#: A block with a larger share of its text in links is navigation.
_MAX_LINK_SHARE = 0.6
#: Nested elements; browsers allow 512.
_MAX_DEPTH = 256
#: Unclosed elements; the time of the parser is quadratic in them.
_MAX_UNCLOSED = 4096
_TAG = re.compile(r"<(/?)([a-z][a-z0-9-]*)", re.IGNORECASE)
#: Elements that need no closing tag.
_UNCLOSED = _tags(
    "area base br col embed hr img input link meta source track wbr"
    " p li dt dd tr td th thead tbody tfoot option colgroup"
)


def load_html(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a page; its title is `<title>`, else the first heading, and its URL a canonical link."""
    from selectolax.lexbor import LexborHTMLParser

    source, encoding = _decode(data)
    _refuse_unclosed(source)
    page = LexborHTMLParser(source)
    _refuse_deep(page)
    values = {"title": _title(page), "source_url": _canonical_url(page)}
    text = TextBuilder()
    write_html(text, _main_content(page))
    front = FrontMatter({name: value for name, value in values.items() if value})
    title = first_heading(text.blocks)
    return build_document(file, text.text, text.blocks, front=front, title=title, encoding=encoding)


def write_html(text: TextBuilder, root: LexborNode) -> None:
    """Write the content of an element. Cost: linear in the page, times the depth of inline elements."""
    words: list[str] = []
    for child in root.iter(include_text=True):
        tag = child.tag or ""
        if tag not in _BLOCKS and not _holds_block(child):
            words.append(_inline(child))
            continue
        text.add_paragraph("".join(words))
        words = []
        _write_block(text, child, tag)
    text.add_paragraph("".join(words))


def _write_block(text: TextBuilder, node: LexborNode, tag: str) -> None:
    if tag in _HEADINGS:
        text.add_heading(_HEADINGS[tag], _inline(node))
    elif tag == "table":
        _write_table(text, node)
    elif tag == "pre":
        text.add_lines(node.text().expandtabs(4).split("\n"))
    elif tag in _LISTS:
        text.add_lines(list(_items(node, "")))
    else:
        write_html(text, node)


def _write_table(text: TextBuilder, table: LexborNode) -> None:
    """Write a table as rows; a table that contains other blocks is layout."""
    if any(table.css_matches(tag) for tag in ("table table", "h1, h2, h3", "ul, ol", "p + p")):
        write_html(text, table)
        return
    for caption in table.css("caption"):
        text.add_paragraph(_inline(caption))
    rows = [
        [collapse_spaces(_inline(cell)) for cell in row.css("td, th")] for row in table.css("tr")
    ]
    text.add_lines([" | ".join(row) for row in rows if any(row)])


def _items(node: LexborNode, indent: str) -> Iterator[str]:
    """Yield the items of a list as lines, those of nested lists indented."""
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
        line = collapse_spaces("".join(words))
        if line:
            yield f"{indent}{'  ' if item.tag == 'dd' else mark}{line}"
        for each in inner:
            yield from _items(each, indent + "  ")


def _inline(node: LexborNode) -> str:
    """Return the text of an element, with space around blocks and line breaks."""
    if node.tag == "-text":
        return node.text_content or ""
    if node.tag in ("br", "hr"):
        return "\n"
    if node.tag in ("-comment", "_comment", "!--"):
        return ""
    words = "".join(_inline(child) for child in node.iter(include_text=True))
    return f" {words} " if node.tag in _BLOCKS else words


def _holds_block(node: LexborNode) -> bool:
    """Return whether an inline element (`<a>`, an unknown one) contains blocks, which HTML allows."""
    return node.tag != "-text" and any(
        child.tag in _BLOCKS or _holds_block(child) for child in node.iter()
    )


def _main_content(page: LexborHTMLParser) -> LexborNode:
    for node in page.css(_NO_CONTENT):
        node.decompose()
    root = _main_element(page)
    boilerplate = (
        [*root.css(_BOILERPLATE), *root.css(_PAGE_BOILERPLATE)]
        if root.tag == "body"
        else root.css("nav")
    )
    sections = root.css("article, section")
    inside = {below.mem_id for node in sections for below in node.css(_PAGE_BOILERPLATE)}
    for node in boilerplate:
        if node.mem_id not in inside or node.css_matches(_BOILERPLATE):
            node.decompose()
    if root.tag == "body":
        _remove_unmarked_boilerplate(root)
    return root


def _main_element(page: LexborHTMLParser) -> LexborNode:
    for selector in _MAIN:
        found = page.css(selector)
        # Several articles are a list of articles; the content is the whole page.
        if len(found) == 1 and (found[0].tag == "body" or collapse_spaces(found[0].text())):
            return found[0]
    root = page.root
    if root is None:
        raise BadInput("contains no HTML")
    return root


def _remove_unmarked_boilerplate(body: LexborNode) -> None:
    """Remove what looks like navigation, unless it is most of the page."""
    candidates = [
        node for node in body.css("div, section, ul, ol, table") if _looks_like_boilerplate(node)
    ]
    whole = len(collapse_spaces(body.text()))
    ids = {node.mem_id for node in candidates}
    outer = [node for node in candidates if not _has_ancestor(node, ids)]
    if 2 * sum(len(collapse_spaces(node.text())) for node in outer) < whole:
        for node in outer:
            node.decompose()


def _looks_like_boilerplate(node: LexborNode) -> bool:
    names = f"{node.attributes.get('id') or ''} {node.attributes.get('class') or ''}"
    if _BOILERPLATE_NAMES.search(names):
        return True
    links = node.css("a")
    if node.tag not in ("ul", "ol", "div") or len(links) < 4:
        return False
    linked = sum(len(collapse_spaces(link.text())) for link in links)
    return linked > _MAX_LINK_SHARE * len(collapse_spaces(node.text()))


def _has_ancestor(node: LexborNode, ids: set[int]) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.mem_id in ids:
            return True
        parent = parent.parent
    return False


def _title(page: LexborHTMLParser) -> str:
    found = page.css_first("head > title")
    return shorten(collapse_spaces(found.text()), MAX_HEADING) if found else ""


def _canonical_url(page: LexborHTMLParser) -> str:
    link = page.css_first("head > link[rel=canonical]")
    url = collapse_spaces((link.attributes.get("href") or "") if link else "")
    try:
        return url if urlsplit(url).scheme in ("http", "https") else ""
    except ValueError:
        return ""


def _decode(data: bytes) -> tuple[str, str]:
    """Return the text and its encoding: a byte order mark and UTF-8 take precedence over a declaration."""
    try:
        data.decode()
    except UnicodeDecodeError:
        found = _META_CHARSET.search(data, 0, _CHARSET_WITHIN)
        with suppress(LookupError, BadInput):
            name = codecs.lookup(found[1].decode()).name if found else "utf-8"
            # The bytes are not UTF-8, whatever is declared; browsers read Latin 1 as cp1252.
            if not name.startswith("utf"):
                name = "cp1252" if name in ("iso8859-1", "ascii") else name
                return decode_as(data, name), name
    return decode_text(data)


def _refuse_unclosed(source: str) -> None:
    opened = 0
    for found in _TAG.finditer(source):
        if found[2].lower() not in _UNCLOSED:
            opened = max(0, opened - 1) if found[1] else opened + 1
            if opened > _MAX_UNCLOSED:
                raise BadInput(f"leaves more than {_MAX_UNCLOSED:,} elements open")


def _refuse_deep(page: LexborHTMLParser) -> None:
    node, depth = page.root, 0
    while node is not None:
        below = node.child
        if below is not None:
            node, depth = below, depth + 1
            if depth > _MAX_DEPTH:
                raise BadInput(f"has elements nested deeper than {_MAX_DEPTH}")
            continue
        while node is not None and node.next is None:
            node, depth = node.parent, depth - 1
        node = node.next if node is not None else None


LOADERS = (Loader(name="HTML", suffixes=(".html", ".htm", ".xhtml"), parse_file=load_html),)
