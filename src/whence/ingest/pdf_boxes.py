"""Find where on a page of a PDF the words of a quote stand.

The text of a document differs from its page: lines are joined, hyphens at their ends and running titles
are gone, tables have marks of their own, columns are put in order. So letters and digits are compared, and
nothing else, with those of the page in the order of reading and in that of the file, run by run.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from whence.ingest.pdf_drawing import Box
from whence.ingest.pdf_forms import open_form, read_notes
from whence.ingest.pdf_layout import blocks_of, rows_of, segments_of
from whence.ingest.pdf_pieces import PDFIUM, PageText, Piece, read_page, turn
from whence.ingest.text_builder import collapse_spaces
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from pypdfium2 import PdfPage, PdfTextPage

#: A run of fewer letters counts only beside another one, or if it is the whole quote: it may stand anywhere.
_LEAST = 10
#: So many letters of the page may stand between two runs of a quote that belong together.
_NEAR = 60
#: Words of a line stand in one box up to this space between them, in font sizes.
_SPACE = 1.5
#: Letters of a page and of a quote that are compared; a printed page has at most some 10,000.
_MAX_PAGE, _MAX_QUOTE = 60_000, 6_000


class _Place(NamedTuple):
    """Where a letter of a page stands."""

    text: PageText
    piece: Piece
    at: int
    """Its position in the piece."""


def pdf_boxes(
    data: bytes, page: int, quote: str, before: str = ""
) -> list[tuple[float, float, float, float]]:
    """Return the boxes around the words of a quote on a page, one for each line.

    Args:
        data: The file.
        page: Number of the page, from 1. What the quote has on other pages is not found.
        quote: The words as they stand in the text of the document.
        before: Words that stand before it in that text; they tell which of several equal places is meant.

    Returns:
        `(left, bottom, right, top)` in points, in the coordinates of the page before it is rotated, as in its
        `MediaBox`; in the order of reading. Empty if the page does not have the words or is not there.

    Raises:
        BadInput: `data` is not a PDF that can be read.
    """
    from pypdfium2 import PdfDocument, PdfiumError

    with PDFIUM:
        try:
            with closing(PdfDocument(data)) as document:
                if not 1 <= page <= len(document):
                    return []
                form = open_form(document)
                try:
                    sheet = document[page - 1]
                except PdfiumError:
                    return []
                with closing(sheet):
                    notes = read_notes(sheet, form)
                    texts = read_page(sheet, page, notes.pieces, notes.strikes).texts
                    return _boxes(sheet, _found(texts, quote, before))
        except PdfiumError as error:
            raise BadInput(f"is not a readable PDF: {collapse_spaces(str(error))}") from error


def _found(texts: Sequence[PageText], quote: str, before: str) -> list[_Place]:
    """Return the letters of a page that are those of a quote, in the order of the page."""
    orders = [
        [piece for text in texts for piece in _read_order(text)],
        sorted((piece for text in texts for piece in text.pieces), key=lambda each: each.order),
    ]
    owner = {id(piece): text for text in texts for piece in text.pieces}
    page = _Letters()
    places: list[_Place] = []
    for limit, order in enumerate(orders, 1):
        for piece in order:
            if len(places) > limit * _MAX_PAGE:
                break
            page.add(piece.text, follows=piece.glued)
            places.extend(_Place(owner[id(piece)], piece, at) for at in page.sources[len(places) :])
        page.end()
        places.append(_Place(PageText([], [], [], 0), Piece("", 0, 0, 0, 1), 0))
    wanted = _Letters()
    wanted.add(before[-_LEAST * 20 :])
    start = len(wanted.sources)
    wanted.add(quote[:_MAX_QUOTE])
    wanted.end()
    found = {
        place: places[place]
        for at, first, length in _runs(wanted, start, page)
        for place in range(first + max(0, start - at), first + length)
    }
    return list({(id(each.piece), each.at): each for _, each in sorted(found.items())}.values())


class _Letters:
    """The letters and digits of texts, ligatures as their letters."""

    def __init__(self) -> None:
        self.text = ""
        self.sources: list[int] = []
        """The position of each in its text."""
        self.begins: list[bool] = []
        """Whether a word begins with it."""

    def add(self, text: str, *, follows: bool = False) -> None:
        """Add a text; its first letter begins no word if the text follows what was added."""
        last = follows
        plain = []
        for at, each in enumerate(text):
            own = [letter for letter in unicodedata.normalize("NFKC", each).casefold() if letter.isalnum()]  # fmt: skip
            plain.extend(own)
            self.sources.extend([at] * len(own))
            self.begins.extend(not last and index == 0 for index in range(len(own)))
            last = bool(own)
        self.text += "".join(plain)

    def end(self) -> None:
        """Add the end of a text, which is no letter."""
        self.text += "\0"
        self.sources.append(0)
        self.begins.append(True)

    def is_word(self, at: int, length: int) -> bool:
        """Whether whole words stand at a place."""
        return self.begins[at] and self.begins[at + length]


def _read_order(text: PageText) -> Iterator[Piece]:
    segments = [each for row in rows_of(text.pieces) for each in segments_of(row, text.down)]
    for block in blocks_of(segments):
        for row in block.rows:
            for each in row:
                yield from each.pieces


def _runs(wanted: _Letters, start: int, page: _Letters) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of a quote that a page has: position in the quote and on the page, and length.

    Args:
        wanted: Letters to find.
        start: Where the quote itself begins; what is before only tells places apart.
        page: Letters of the page.
    """
    quote = wanted.text[:-1]
    at, end = 0, 0
    while at < len(quote):
        length = _longest(quote, at, page.text)
        run = quote[at : at + length]
        place = page.text.find(run, end, end + _NEAR + length) if end else -1
        if place < 0:
            place = _first(run, page)
        elif length < _LEAST and not (wanted.is_word(at, length) and page.is_word(place, length)):
            place = -1
        is_long = length >= _LEAST or (at <= start and at + length == len(quote))
        is_near = 0 < end <= place <= end + _NEAR
        if not length or place < 0 or not (is_long or is_near):
            at += 1
            continue
        yield at, place, length
        at, end = at + length, place + length


def _longest(quote: str, at: int, page: str) -> int:
    """Return how many letters of a quote from a position on stand together on a page."""
    low, high = 0, len(quote) - at
    while low < high:
        middle = (low + high + 1) // 2
        if quote[at : at + middle] in page:
            low = middle
        else:
            high = middle - 1
    return low


def _first(run: str, page: _Letters) -> int:
    """Return the first place at which letters are whole words, else their first place."""
    first = place = page.text.find(run)
    while place >= 0 and not page.is_word(place, len(run)):
        place = page.text.find(run, place + 1)
    return place if place >= 0 else first


def _boxes(page: PdfPage, found: Sequence[_Place]) -> list[tuple[float, float, float, float]]:
    """Return boxes around letters, one for those that stand beside one another on a line."""
    boxes: list[tuple[PageText, Box]] = []
    with closing(page.get_textpage()) as text:
        for _, group in groupby(found, key=lambda each: id(each.piece)):
            own = list(group)
            piece, on = own[0].piece, own[0].text
            left, right = _sides(text, piece, on.angle, {each.at for each in own})
            box = Box(left, piece.bottom, right, piece.top)
            if boxes and boxes[-1][0] is on and _is_beside(boxes[-1][1], box, piece.size):
                box = _around(boxes.pop()[1], box)
            boxes.append((on, box))
    turned = (turn(box, (360 - on.angle) % 360) if on.angle > 0 else box for on, box in boxes)
    return [(box.left, box.bottom, box.right, box.top) for box in turned]


def _sides(text: PdfTextPage, piece: Piece, angle: int, found: set[int]) -> tuple[float, float]:
    """Return where the found letters of a piece begin and end, in the direction of reading."""
    from pypdfium2 import raw

    letters = [at for at, each in enumerate(piece.text) if each.isalnum()]
    if found.issuperset(letters):
        return piece.left, piece.right
    spans = []
    rect = raw.FS_RECTF()
    for at in found:
        index = piece.order + at
        is_same = index < 1 << 30 and raw.FPDFText_GetUnicode(text.raw, index) == ord(piece.text[at])  # fmt: skip
        if not is_same or not raw.FPDFText_GetLooseCharBox(text.raw, index, rect):
            # A value of a field, or letters of two units.
            return piece.left, piece.right
        box = turn(Box(rect.left, rect.bottom, rect.right, rect.top), angle)
        spans.append((box.left, box.right))
    return min(left for left, _ in spans), max(right for _, right in spans)


def _is_beside(one: Box, other: Box, size: float) -> bool:
    shared = min(one.top, other.top) - max(one.bottom, other.bottom)
    gap = max(other.left - one.right, one.left - other.right)
    return shared > 0.5 * min(one.top - one.bottom, other.top - other.bottom) and gap < _SPACE * size  # fmt: skip


def _around(one: Box, other: Box) -> Box:
    return Box(
        min(one.left, other.left),
        min(one.bottom, other.bottom),
        max(one.right, other.right),
        max(one.top, other.top),
    )
