"""Load HTML: the main content, without scripts, navigation and other boilerplate."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from whence.ingest.blocks import ParsedDocument
from whence.ingest.decoding import DecodedText, decode_text
from whence.ingest.document_builder import MAX_HEADING, build_document, lone_heading, shorten
from whence.ingest.front_matter import FrontMatter
from whence.ingest.html_limits import refuse_costly, refuse_deep
from whence.ingest.line_breaks import add_run
from whence.ingest.loaders.base import Loader
from whence.ingest.roles import without_left_over_roles
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import BREAK, TextBuilder, code_span, collapse_spaces
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

#: Elements without content.
_NO_CONTENT = (
    "script, style, noscript, template, iframe, object, svg, canvas, audio, video, button, select, input,"
    " textarea, dialog, [hidden], [aria-hidden=true]"
)
#: Parts of generated pages that are no text: links to headings and sources, line numbers, contents, buttons.
_TOOLS = (
    "a.headerlink, a.anchor-link, a.hash-link, a.header-anchor, a.anchorjs-link, a.heading-anchor, .viewcode-link,"
    " .viewcode-back, .linenos, .lineno, .gutter, .toctree-wrapper, nav.contents, div.contents, .toc, #toc,"
    " .table-of-contents, .edit-this-page, .rst-footer-buttons, .rst-breadcrumbs, .wy-breadcrumbs, .breadcrumbs,"
    " .prev-next-area, .prev-next-bottom, .related, .sphinxsidebar, .sphinx-tabs-tab, .copybtn, .skip-link,"
    " .tabbed-labels, .md-source-file, .md-content__button, .md-feedback, .theme-edit-this-page, .mw-editsection,"
    " .navfooter, .navheader, .cookie-banner, .cookie-consent, #cookie-banner, #cookie-consent, .sr-only,"
    " .visually-hidden, .screen-reader-text, .noprint"
)
#: Never shown, unless it is a block, which a script may show: the panel of a tab.
_INVISIBLE = "[style*='display:none' i], [style*='display: none' i]"
#: Links of one letter that are an index.
_LEAST_LETTERS = 10
#: All that a link to a heading shows, beside words in brackets.
_LINK_SIGNS = frozenset(["¶", "#", "§", "🔗", "⚓", "↑", "^"])
_EDIT_LINK = re.compile(
    r"\[(?:source|src|edit|docs)\]|(?:edit|improve) this page.*|edit (?:this )?(?:page )?on (?:github|gitlab|bitbucket).*|view (?:page )?source"
    r"|skip to (?:main )?content|back to top",
    re.IGNORECASE,
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


#: Those of banners, which have no heading.
_BANNER_NAMES = re.compile(
    r"(?:^|[\s_-])(?:page|site|top)[\s_-]?(?:header|banner)(?:$|[\s_-])", re.IGNORECASE
)


def _tags(names: str) -> frozenset[str]:
    return frozenset(names.split())


_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_ALL_HEADINGS = ", ".join(_HEADINGS)
_LISTS = _tags("ul ol menu dl")
#: Block elements, which begin on a line of their own.
_BLOCKS = _LISTS.union(
    _HEADINGS,
    _tags(
        "address article aside blockquote body caption center dd details div dt fieldset figcaption figure footer"
        " form header hgroup hr html li main nav p pre section summary table tbody td tfoot th thead tr"
    ),
)
_CODE = _tags("code tt kbd samp")
#: Classes of terms that are signatures, as Sphinx writes them.
_SIGNATURES = _tags("sig sig-object")
_LANGUAGE = re.compile(r"(?:^|\s)(?:highlight|language|lang|brush)[-:]\s?([\w+#.-]{1,20})")
_NO_LANGUAGE = _tags("default none text plain plaintext output notranslate source")
#: Level of a title that is a bold paragraph: below all headings.
_TITLE_LEVEL = 6
#: A cell with a property of what the first cell names, `Default: 20`; such a row heads the text below it.
_FACT = re.compile(r"[A-Z]\w*+(?: \w++)?: \S")
_MOST_TITLE_WORDS = 24
#: Terms that are marks of a list.
_MARKS = _tags("- * \u2022 \u2013")
#: Most rows or columns that a cell spans.
_MAX_SPAN = 100
#: Elements that may be nothing but a list of links.
_LINK_LISTS = _tags("p li div span td")
#: Classes of boxes whose heading leads to their text and heads nothing else.
_BOXES = _tags(
    "note warning tip important caution danger hint attention admonition callout example"
)
#: Quotes as TeX and manual pages write them.
_TEX_QUOTES = re.compile(r"``([^`\n]{1,80}?)''")
_META_CHARSET = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*+=\s*+["']?\s*+([\w.:-]{1,40})""", re.IGNORECASE
)
_CHARSET_WITHIN = 4096
#: A block with a larger share of its text in links is navigation.
_MAX_LINK_SHARE = 0.6


def load_html(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a page; its title is `<title>`, else the only top heading, and its URL a canonical link."""
    from selectolax.lexbor import LexborHTMLParser

    decoded = _decode(data, file.encoding)
    source = decoded.text
    refuse_costly(source)
    page = LexborHTMLParser(source)
    refuse_deep(page)
    values = {"title": _title(page), "source_url": _canonical_url(page)}
    text = TextBuilder()
    write_html(text, _main_content(page))
    front = FrontMatter({name: value for name, value in values.items() if value})
    title = lone_heading(text.blocks)
    return build_document(
        file,
        text.text,
        text.blocks,
        front=front,
        title=title,
        encoding=decoded.encoding,
        places=text.places,
        left_out=decoded.left_out,
    )


def write_fragment(text: TextBuilder, source: str) -> None:
    """Write HTML that stands inside another format."""
    from selectolax.lexbor import LexborHTMLParser

    refuse_costly(source)
    page = LexborHTMLParser(source)
    refuse_deep(page)
    _remove_tools(page)
    if page.body is not None:
        write_html(text, page.body)


def write_html(text: TextBuilder, root: LexborNode) -> None:
    """Write the content of an element. Cost: linear in the page, times the depth of inline elements."""
    run: list[LexborNode] = []
    for child in root.iter(include_text=True):
        tag = child.tag or ""
        if tag not in _BLOCKS and not _holds_block(child):
            run.append(child)
            continue
        add_run(text, _quoted(_joined(run)))
        run = []
        anchor, own = text.anchor, _anchor(child)
        text.anchor = own or anchor
        _write_block(text, child, tag)
        # What follows a heading belongs to it; what follows any other element does not.
        if own and tag not in _HEADINGS:
            text.anchor = anchor
    add_run(text, _quoted(_joined(run)))


def _quoted(words: str) -> str:
    return _TEX_QUOTES.sub("\u201c\\1\u201d", words)


def _anchor(node: LexborNode) -> str:
    """Return the id of an element, or for a heading that of the anchor inside it."""
    found = (node.attributes.get("id") or "").strip()
    if not found and node.tag in _HEADINGS:
        inner = node.css_first("[id], a[name]")
        if inner is not None:
            found = inner.attributes.get("id") or inner.attributes.get("name") or ""
    return "" if found.isspace() else found


def _write_block(text: TextBuilder, node: LexborNode, tag: str) -> None:
    if tag in _HEADINGS and _heads_box(node):
        text.lead_in(_inline(node, has_code=False))
    elif tag in _HEADINGS:
        text.add_heading(_HEADINGS[tag], _inline(node, has_code=False))
    elif tag == "table":
        _write_table(text, node)
    elif tag == "pre":
        text.add_code(node.text().split("\n"), language=_language(node))
    elif tag == "dl":
        _write_definitions(text, node)
    elif tag in _LISTS:
        _write_list(text, node, tag)
    elif "admonition-title" in _classes(node):
        text.lead_in(_inline(node))
    elif tag == "p" and _is_title(node):
        text.add_heading(_TITLE_LEVEL, _inline(node, has_code=False))
    else:
        write_html(text, node)


def _heads_box(heading: LexborNode) -> bool:
    """Return whether a heading is the title of a note or the like, the only one in it."""
    box = heading.parent
    if box is None or _BOXES.isdisjoint(_classes(box)):
        return False
    first = next(box.iter(), None)
    return first is not None and first.mem_id == heading.mem_id and len(box.css(_ALL_HEADINGS)) == 1


def _write_list(text: TextBuilder, node: LexborNode, tag: str) -> None:
    start = node.attributes.get("start") or ""
    number = int(start) if tag == "ol" and start.isdecimal() and len(start) < 6 else 1
    with text.block():
        for child in node.iter():
            if child.tag != "li":
                _write_block(text, child, child.tag or "")
                continue
            anchor = text.anchor
            text.anchor = _anchor(child) or anchor
            with text.item(f"{number}. " if tag == "ol" else "- "):
                write_html(text, child)
            text.anchor = anchor
            number += 1


def _write_definitions(text: TextBuilder, node: LexborNode) -> None:
    """Write a list of definitions; those of one term may be several elements."""
    with text.block():
        terms: list[LexborNode] = []
        bodies: list[LexborNode] = []
        for child in (*_definition_parts(node), None):
            if terms and (child is None or (child.tag == "dt" and bodies)):
                _write_definition(text, terms, bodies)
                terms, bodies = [], []
            if child is not None and child.tag == "dt":
                terms.append(child)
            elif child is not None and terms:
                bodies.append(child)
            elif child is not None:
                write_html(text, child)


def _definition_parts(node: LexborNode) -> Iterator[LexborNode]:
    """Yield the terms and descriptions of a list, which may be grouped in `<div>`s."""
    for child in node.iter():
        if child.tag == "div":
            yield from _definition_parts(child)
        elif child.tag in ("dt", "dd"):
            yield child


def _write_definition(
    text: TextBuilder, terms: Sequence[LexborNode], bodies: Sequence[LexborNode]
) -> None:
    anchor = text.anchor
    text.anchor = next(filter(None, map(_anchor, terms)), anchor)
    shown = [line for node in terms for line in _term(node).split(BREAK)]
    is_item = all(collapse_spaces(term).strip("`") in _MARKS for term in shown)
    with text.item() if is_item else text.definition(shown):
        for node in bodies:
            write_html(text, node)
    text.anchor = anchor


def _term(node: LexborNode) -> str:
    """Return a term; the signature of a function is code."""
    if _SIGNATURES.isdisjoint(_classes(node)):
        return _quoted(_inline(node))
    return code_span(collapse_spaces(_inline(node, has_code=False)))


def _write_table(text: TextBuilder, table: LexborNode) -> None:
    """Write a table as rows; a table that contains other blocks is layout."""
    icon, content = table.css_first("td.icon"), table.css_first("td.content")
    if icon is not None and content is not None:
        text.lead_in(_inline(icon) or "Note")
        write_html(text, content)
        return
    has_header = table.css_first("th") is not None
    layout = ("h1, h2, h3", *(() if has_header else ("ul, ol", "p + p")), "pre")
    is_nested = len(table.css("table")) > 1
    if is_nested or any(table.css_matches(selector) for selector in layout):
        write_html(text, table)
        return
    for caption in table.css("caption"):
        text.add_paragraph(_inline(caption))
    rows = [row.css("td, th") for row in table.css("tr")]
    only = rows[0] if len(rows) == 1 else []
    name, *facts = [collapse_spaces(cell.text()) for cell in only] or [""]
    if facts and len(name.split()) == 1 and all(map(_FACT.match, facts)):
        text.add_heading(_TITLE_LEVEL, f"{name} ({', '.join(facts)})")
        return
    is_head = bool(rows) and all(cell.tag == "th" or _is_bold(cell) for cell in rows[0])
    text.add_table(_records(rows), header_rows=int(is_head and len(rows) > 1))


def _records(rows: Sequence[Sequence[LexborNode]]) -> list[list[str]]:
    """Return the texts of the rows of a table.

    Two rows are one where each is followed by a cell that is as wide as the row, such as a description.
    """
    grid = _grid(rows)
    first = 1 if rows and all(cell.tag == "th" for cell in rows[0]) else 0
    above, below = range(first, len(rows), 2), range(first + 1, len(rows), 2)
    if not len(above) == len(below) > 1 or not all(
        map(_is_below, rows[first::2], rows[first + 1 :: 2])
    ):
        return grid
    return grid[:first] + [[*grid[at], grid[at + 1][0]] for at in above]


def _is_below(above: Sequence[LexborNode], below: Sequence[LexborNode]) -> bool:
    width = sum(_span(cell, "colspan") for cell in above)
    spans = [_span(cell, "colspan") for cell in below if cell.tag == "td"]
    return len(above) > 1 and len(below) == 1 and spans >= [width]


def _is_title(paragraph: LexborNode) -> bool:
    """Return whether a paragraph is a title that is not marked as such, like a question of a list of them."""
    words = collapse_spaces(paragraph.text())
    is_short = 1 < len(words.split()) <= _MOST_TITLE_WORDS and not words.endswith((".", ":", "!"))
    return is_short and _is_bold(paragraph)


def _is_bold(cell: LexborNode) -> bool:
    """Return whether all words of an element are bold."""
    bold = cell.css_first("strong, b")
    words = collapse_spaces(cell.text())
    return bold is not None and bool(words) and collapse_spaces(bold.text()) == words


def _grid(rows: Sequence[Sequence[LexborNode]]) -> list[list[str]]:
    """Return the texts of cells; a cell that spans rows stands in each, one that spans columns in the first."""
    grid: list[list[str]] = []
    spanning: dict[int, tuple[int, str]] = {}
    for row in rows:
        cells: list[str] = []
        pending = list(row)[::-1]
        while pending or len(cells) in spanning:
            column = len(cells)
            if column in spanning:
                left, words = spanning.pop(column)
                cells.append(words)
                if left > 1:
                    spanning[column] = (left - 1, words)
                continue
            node = pending.pop()
            words = collapse_spaces(_inline(node))
            down = _span(node, "rowspan")
            for offset in range(_span(node, "colspan")):
                cells.append("" if offset else words)
                if down > 1:
                    spanning[column + offset] = (down - 1, cells[-1])
        grid.append(cells)
    return grid


def _span(node: LexborNode, name: str) -> int:
    stated = (node.attributes.get(name) or "").strip()
    return min(max(1, int(stated)), _MAX_SPAN) if stated.isdecimal() and len(stated) < 6 else 1


def _language(node: LexborNode) -> str:
    """Return the language of code, as classes of the element or of one around or in it name it."""
    around = [node, *filter(None, (node.css_first("code"), node.parent))]
    if node.parent is not None and node.parent.parent is not None:
        around.append(node.parent.parent)
    for each in around:
        found = _LANGUAGE.search(each.attributes.get("class") or "")
        if found and found[1].lower() not in _NO_LANGUAGE:
            return found[1].lower()
    return ""


def _classes(node: LexborNode) -> frozenset[str]:
    return frozenset((node.attributes.get("class") or "").split())


def _inline(node: LexborNode, *, has_code: bool = True) -> str:
    """Return the text of an element, with space around blocks and line breaks, and code in backticks."""
    if node.tag == "-text":
        words = node.text_content or ""
        return without_left_over_roles(words) if has_code else words
    if node.tag in ("br", "hr"):
        return f"{BREAK} "
    if node.tag in ("-comment", "_comment", "!--"):
        return ""
    if has_code and node.tag in _CODE:
        inner = "".join(_inline(n, has_code=False) for n in _nodes(node))
        return BREAK.join(_around(code_span, each) for each in inner.split(BREAK))
    words = _joined(_nodes(node), has_code=has_code)
    return f" {words} " if node.tag in _BLOCKS else words


def _joined(nodes: Iterable[LexborNode], *, has_code: bool = True) -> str:
    """Return the text of elements; code beside code (`<code>a=</code><i><code>b</code></i>`) is one span."""
    pieces = [""]
    after_code = False
    for node in nodes:
        piece, is_text = _inline(node, has_code=has_code), node.tag == "-text"
        if after_code and not is_text and piece.startswith("`"):
            pieces[-1], piece = pieces[-1][:-1], piece[1:]
        pieces.append(piece)
        after_code = not is_text and piece.endswith("`")
    return "".join(pieces)


def _nodes(node: LexborNode) -> Iterator[LexborNode]:
    return node.iter(include_text=True)


def _around(change: Callable[[str], str], words: str) -> str:
    """Change a text without the space around it."""
    bare = words.strip()
    lead = words[: len(words) - len(words.lstrip())]
    return f"{lead}{change(collapse_spaces(bare))}{words[len(words.rstrip()) :]}" if bare else words


def _holds_block(node: LexborNode) -> bool:
    """Return whether an inline element (`<a>`, an unknown one) contains blocks, which HTML allows."""
    return node.tag != "-text" and any(
        child.tag in _BLOCKS or _holds_block(child) for child in node.iter()
    )


def _main_content(page: LexborHTMLParser) -> LexborNode:
    _remove_tools(page)
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


def _remove_tools(page: LexborHTMLParser) -> None:
    """Remove what is no text on any page. A page that is hidden as a whole, until a script shows it, stays."""
    for selector in (_NO_CONTENT, _TOOLS):
        found = [node for node in page.css(selector) if node.tag not in ("html", "body")]
        ids = {node.mem_id for node in found}
        # A removed node must not be touched again.
        for node in [each for each in found if not _has_ancestor(each, ids)]:
            node.decompose()
    for node in page.css(_INVISIBLE):
        if node.tag not in _BLOCKS and node.tag != "body":
            node.decompose()
    _remove_link_lists(page.css("a[rel~=alternate][hreflang]"), 1, 2)
    # Beside them are links to the contents and the index.
    _remove_link_lists(page.css("a[rel~=next], a[rel~=prev], a[rel~=up]"), 2, 3)
    letters: list[LexborNode] = []
    for link in page.css("a"):
        words = collapse_spaces(link.text())
        if words in _LINK_SIGNS or _EDIT_LINK.fullmatch(words):
            link.decompose()
        elif len(words) == 1:
            letters.append(link)
    _remove_link_lists(letters, _LEAST_LETTERS, 1)


def _remove_link_lists(links: Sequence[LexborNode], least: int, most: float) -> None:
    """Remove what contains at least so many of some links, and at most so many links to each of them."""
    counts = Counter(link.parent.mem_id for link in links if link.parent is not None)
    boxes = {link.parent.mem_id: link.parent for link in links if link.parent is not None}
    found = {
        at: node
        for at, node in boxes.items()
        if node.tag in _LINK_LISTS
        and counts[at] >= least
        and len(node.css("a")) <= most * counts[at]
    }
    for node in found.values():
        if not _has_ancestor(node, found.keys()):
            node.decompose()


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
        node for node in body.css("div, section, ul, ol, table, p") if _looks_like_boilerplate(node)
    ]
    whole = len(collapse_spaces(body.text()))
    ids = {node.mem_id for node in candidates}
    outer = [node for node in candidates if not _has_ancestor(node, ids)]
    if 2 * sum(len(collapse_spaces(node.text())) for node in outer) < whole:
        for node in outer:
            node.decompose()


def _looks_like_boilerplate(node: LexborNode) -> bool:
    names = f"{node.attributes.get('id') or ''} {node.attributes.get('class') or ''}"
    if _BANNER_NAMES.search(names) and node.css_first(_ALL_HEADINGS) is None:
        return True
    links = node.css("a")
    if _BOILERPLATE_NAMES.search(names) and (node.tag != "p" or len(links) > 1):
        return True
    if node.tag not in ("ul", "ol", "div") or len(links) < 4:
        return False
    linked = sum(len(collapse_spaces(link.text())) for link in links)
    return linked > _MAX_LINK_SHARE * len(collapse_spaces(node.text()))


def _has_ancestor(node: LexborNode, ids: Set[int]) -> bool:
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


def _decode(data: bytes, encoding: str) -> DecodedText:
    """Return the text; a byte order mark and UTF-8 take precedence over what the page declares."""
    found = _META_CHARSET.search(data, 0, _CHARSET_WITHIN)
    return decode_text(data, encoding, declared=found[1].decode() if found else "")


LOADERS = (
    Loader(name="HTML", suffixes=(".html", ".htm", ".xhtml"), parse_file=load_html, version="8"),
)
