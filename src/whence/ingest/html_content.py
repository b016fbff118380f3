"""Find the main content of an HTML page, without scripts, navigation and other boilerplate."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from whence.ingest.html_forms import is_filled
from whence.ingest.html_nodes import ALL_HEADINGS, HEADINGS, outermost
from whence.ingest.text_builder import collapse_spaces
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

#: What may be all of a button: the title of a part that it opens.
_TITLES = f"{ALL_HEADINGS}, dt, [role=heading]"
#: Elements without content; other buttons are no text, what they show is.
_NO_CONTENT = "script:not([type^='math/tex']), style, canvas, button, datalist, dialog:not([open])"
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
#: Boilerplate unless inside an article: the header of an article contains its title. So does the header of a
#: page with its only first heading, unless it leads elsewhere.
_PAGE_BOILERPLATE = "header, footer, [role=banner], [role=contentinfo]"
#: Parts of the section or article that they are in.
_OF_SECTIONS = f"{_PAGE_BOILERPLATE}, aside"
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
#: Elements that may be nothing but a list of links.
_LINK_LISTS = frozenset(["p", "li", "div", "span", "td"])
#: What may introduce a list of links that belongs to a text, and the words of a paragraph of one.
_INTRODUCTIONS, _LEAST_PROSE = frozenset(["p", *HEADINGS]), 8
#: A block with a larger share of its text in links is navigation.
_MAX_LINK_SHARE = 0.6


def main_content(page: LexborHTMLParser, kept: Set[int] = frozenset()) -> LexborNode:
    """Return the element with the main content, without its boilerplate.

    Args:
        page: The page.
        kept: `mem_id`s of elements that are no boilerplate, such as those around notes.
    """
    remove_tools(page)
    root = _main_element(page)
    boilerplate = (
        [*root.css(_BOILERPLATE), *root.css(_PAGE_BOILERPLATE)]
        if root.tag == "body"
        else root.css("nav")
    )
    sections = root.css("article, section")
    inside = {below.mem_id for node in sections for below in node.css(_OF_SECTIONS)}
    inside |= {node.mem_id for node in root.css("header") if _is_title_block(node, page)}
    whole = len(collapse_spaces(root.text()))
    left = [
        node
        for node in boilerplate
        if node.mem_id not in kept | inside
        and not (node.tag == "form" and _is_content(node, whole))
    ]
    for node in outermost(left):
        node.decompose()
    if root.tag == "body":
        _remove_unmarked_boilerplate(root, kept)
    return root


def _is_title_block(header: LexborNode, page: LexborHTMLParser) -> bool:
    """Return whether a header has the title of the page, and neither links in it nor tools beside it."""
    titles = header.css("h1")
    others = header.css("nav, form, h1 a, [role=navigation], [role=search]")
    return len(titles) == 1 and len(page.css("h1")) == 1 and not others


def _is_content(form: LexborNode, whole: int) -> bool:
    """Return whether a form is the page itself, or was filled in."""
    return 2 * len(collapse_spaces(form.text())) > whole or is_filled(form)


def remove_tools(page: LexborHTMLParser) -> None:
    """Remove what is no text on any page. A page that is hidden as a whole, until a script shows it, stays."""
    for title in page.css(_TITLES):
        words = collapse_spaces(title.text())
        for button in title.css("button"):
            if words and collapse_spaces(button.text()) == words:
                button.unwrap()
    for selector in (_NO_CONTENT, _TOOLS):
        found = [node for node in page.css(selector) if node.tag not in ("html", "body")]
        for node in outermost(found):
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
    for node in outermost(found.values()):
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


def _remove_unmarked_boilerplate(body: LexborNode, kept: Set[int]) -> None:
    """Remove what looks like navigation, unless it is most of the page."""
    candidates = [
        node
        for node in body.css("div, section, ul, ol, table, p")
        if node.mem_id not in kept and _looks_like_boilerplate(node)
    ]
    whole = len(collapse_spaces(body.text()))
    outer = outermost(candidates)
    if 2 * sum(len(collapse_spaces(node.text())) for node in outer) < whole:
        for node in outer:
            node.decompose()


def _is_introduced(node: LexborNode) -> bool:
    """Return whether a list of links follows a paragraph or a heading of the text in which it stands."""
    before = node.prev
    while before is not None and (before.tag == "-comment" or not collapse_spaces(before.text())):
        before = before.prev
    if before is None or before.tag not in _INTRODUCTIONS or node.parent is None:
        return False
    texts = (each for each in node.parent.iter() if each.tag == "p" and each.css_first("a") is None)
    return any(len(each.text().split()) >= _LEAST_PROSE for each in texts)


def _looks_like_boilerplate(node: LexborNode) -> bool:
    names = f"{node.attributes.get('id') or ''} {node.attributes.get('class') or ''}"
    if _BANNER_NAMES.search(names) and node.css_first(ALL_HEADINGS) is None:
        return True
    links = node.css("a")
    if _BOILERPLATE_NAMES.search(names) and (node.tag != "p" or len(links) > 1):
        return True
    if node.tag not in ("ul", "ol", "div") or len(links) < 4:
        return False
    linked = sum(len(collapse_spaces(link.text())) for link in links)
    return not _is_introduced(node) and linked > _MAX_LINK_SHARE * len(collapse_spaces(node.text()))
