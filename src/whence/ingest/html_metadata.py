"""Read the title, the address and the date of a page from its head and its microdata."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from whence.ingest.document_builder import MAX_HEADING, shorten
from whence.ingest.document_dates import iso_date
from whence.ingest.html_nodes import attribute, words_of
from whence.ingest.text_builder import collapse_spaces

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

#: Names of the date of a page, the one that says most of how new it is first.
_DATE_NAMES = """article:modified_time og:updated_time datemodified last-modified last_modified dcterms.modified
    dc.date.modified revised date dcterms.date dc.date dc.date.issued dcterms.issued dcterms.created
    dc.date.created article:published_time datepublished pubdate publish-date publication_date citation_date
    citation_publication_date sailthru.date created"""
_DATES = {name: rank for rank, name in enumerate(_DATE_NAMES.split())}
_JSON_DATE = re.compile(r'"date(Modified|Published)"\s*:\s*("[^"\\]{4,40}")')
_MAX_JSON = 2**18


def page_title(page: LexborHTMLParser) -> str:
    """Return the title in the head of a page; empty if it has none."""
    found = page.css_first("head > title")
    return shorten(collapse_spaces(found.text()), MAX_HEADING) if found else ""


def canonical_url(page: LexborHTMLParser) -> str:
    """Return the address that a page states as its own; empty if it states none."""
    link = page.css_first("head > link[rel=canonical]")
    return web_address(attribute(link, "href") if link is not None else "")


def web_address(stated: str) -> str:
    """Return an address of the web as it is stated; empty if it is none."""
    url = collapse_spaces(stated)
    try:
        return url if urlsplit(url).scheme in ("http", "https") else ""
    except ValueError:
        return ""


def page_date(page: LexborHTMLParser) -> str:
    """Return the date of a page, ISO 8601: that of its `meta` elements, of its data, or of its `time`."""
    found: list[tuple[int, str]] = []
    for meta in page.css("meta[content]"):
        names = (
            attribute(meta, key).lower() for key in ("name", "property", "itemprop", "http-equiv")
        )
        rank = min((_DATES[name] for name in names if name in _DATES), default=-1)
        date = iso_date(attribute(meta, "content")) if rank >= 0 else ""
        if date:
            found.append((rank, date))
    if found:
        return min(found)[1]
    return _data_date(page) or _time_date(page)


def _data_date(page: LexborHTMLParser) -> str:
    dates: dict[str, str] = {}
    for script in page.css("script[type='application/ld+json']"):
        for kind, value in _JSON_DATE.findall(script.text()[:_MAX_JSON]):
            written: Any = json.loads(value)
            dates.setdefault(kind, iso_date(written))
    return dates.get("Modified") or dates.get("Published", "")


def _time_date(page: LexborHTMLParser) -> str:
    selector = "time[pubdate], time[itemprop=dateModified], time[itemprop=datePublished], time.published, time.updated"
    marked = page.css(selector)
    # A lone time in the header of an article is its date; others are dates in the text.
    lone = page.css("article header time[datetime]")
    for each in (*marked, *(lone if len(lone) == 1 else ())):
        date = iso_date(attribute(each, "datetime") or words_of(each))
        if date:
            return date
    return ""
