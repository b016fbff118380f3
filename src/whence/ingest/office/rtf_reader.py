"""Read the paragraphs and the rows of tables of an RTF file."""

from __future__ import annotations

import codecs
import copy
import re
from collections import Counter
from collections.abc import Callable

from whence.ingest.document_dates import iso_date
from whence.ingest.office.rtf_flow import RtfFlow
from whence.ingest.office.runs import HIDDEN, STRUCK
from whence.ingest.office.symbols import in_font, is_symbol_font
from whence.ingest.text_builder import BREAK
from whence.schema.errors import BadInput

_TOKEN = re.compile(
    r"\\(?:([a-zA-Z]{1,32})(-?\d{1,10})?\ ?|'([0-9a-fA-F]{2})|([^a-zA-Z]))|([{}])|([^\\{}\r\n\0]+)",
    re.DOTALL,
)
#: Code pages of character sets of fonts.
_CHARSETS = {
    0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 134: "cp936", 136: "cp950", 161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874",
    238: "cp1250", 255: "cp437",
}  # fmt: skip
_CHARACTERS = {
    "tab": " ", "emdash": "\u2014", "endash": "\u2013", "lquote": "\u2018", "rquote": "\u2019",
    "ldblquote": "\u201c", "rdblquote": "\u201d", "bullet": "\u2022", "emspace": " ", "enspace": " ",
    "qmspace": " ", "line": BREAK, "lbr": BREAK, "page": " ", "column": " ",
}  # fmt: skip
_SYMBOLS = {"~": " ", "_": "-", "-": "", "\\": "\\", "{": "{", "}": "}", "\n": BREAK, "\r": BREAK}
#: Groups without text of the document.
_SKIPPED = frozenset(
    ("colortbl", "header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr", "footerf",
     "ftnsep", "ftnsepc", "aftnsep", "aftnsepc", "xe", "tc", "tcn", "rxe", "fldinst", "nonesttables",
     "nonshppict", "listtable", "listoverridetable", "revtbl", "bkmkstart", "bkmkend", "themedata", "sn",
     "comment", "shprslt", "operator", "author", "company", "category", "keywords", "subject", "doccomm", "manager",
     "private", "nesttableprops", "generator", "sp", "do", "objdata", "objclass", "objname", "atnid", "atnauthor")
)  # fmt: skip
#: Groups that are marked as ignorable and have text.
_SHOWN = frozenset(("shppict", "shpinst", "shptxt"))
#: Nested groups; word processors write a few dozen.
_MAX_DEPTH = 1000
_SURROGATES = range(0xD800, 0xE000)


class _Group:
    """What holds within a group; an inner one begins with a copy."""

    def __init__(self, flow: RtfFlow) -> None:
        self.flow = flow
        self.destination = ""
        """Where its text goes: empty for the document, `skip` for nowhere, else a name."""
        self.is_begun = self.is_ignorable = False
        self.fallback = 1
        """Characters after a Unicode character that are for readers without Unicode."""
        self.font = -1
        self.style = 0
        self.clear_run()
        self.clear_paragraph()

    def clear_run(self) -> None:
        self.is_hidden = self.is_struck = self.is_raised = self.is_bold = False

    def clear_paragraph(self) -> None:
        self.in_table = False
        self.level = self.heading = self.style = 0


class RtfReader:
    """Reads a file.

    Args:
        data: Its bytes.
    """

    def __init__(self, data: bytes) -> None:
        self.counts: Counter[str] = Counter()
        self.flow = RtfFlow(self.counts)
        self.title = ""
        self.date = ""
        self._source = data.decode("latin-1")
        self._group = _Group(self.flow)
        self._stack: list[_Group] = []
        self._encoding = "cp1252"
        self._fonts: dict[int, str] = {}
        self._signs: dict[int, str] = {}
        self._headings: dict[int, int] = {}
        self._bytes = bytearray()
        self._half = 0
        """First half of a character beyond 16 bits."""
        self._to_skip = 0
        self._layout: list[str] = []
        self._merge = ""
        self._is_header = False
        self._notes = 0
        self._stamp: dict[str, int] = {}
        self._name: list[str] = []
        """Pieces of the title."""
        self._handlers = self._all_handlers()

    def read(self) -> None:
        """Read the whole file.

        Raises:
            BadInput: Its groups are nested deeper than 1,000.
        """
        at, size = 0, len(self._source)
        while at < size:
            found = _TOKEN.match(self._source, at)
            if found is None:
                at += 1
                continue
            at = found.end()
            word, number, code, symbol, brace, words = found.groups()
            if words is not None:
                self._take(words)
            elif code is not None:
                self._take_byte(int(code, 16))
            elif brace == "{":
                self._open()
            elif brace == "}":
                self._close()
            elif symbol is not None:
                self._take_symbol(symbol)
            elif word == "bin":
                at += max(int(number or 0), 0)
            else:
                self._control(word, int(number) if number else None)
        self._flush()
        self.flow.end()

    def _open(self) -> None:
        self._flush()
        if len(self._stack) >= _MAX_DEPTH:
            raise BadInput(f"has groups nested deeper than {_MAX_DEPTH:,}")
        self._stack.append(self._group)
        self._group = copy.copy(self._group)
        self._group.is_begun = self._group.is_ignorable = False

    def _close(self) -> None:
        self._flush()
        self._to_skip = 0
        if not self._stack:
            return
        inner, self._group = self._group, self._stack.pop()
        if inner.flow is not self._group.flow:
            inner.flow.end()
            if inner.flow.blocks:
                self._group.flow.beside.append(inner.flow)
        if inner.destination != self._group.destination:
            self._end_destination(inner.destination)

    def _end_destination(self, name: str) -> None:
        words, self._name = "".join(self._name), []
        if name == "title":
            self.title = words
        elif name in ("creatim", "revtim"):
            stamp = "-".join(
                f"{self._stamp.get(part, 0):0{width}d}"
                for part, width in (("yr", 4), ("mo", 2), ("dy", 2))
            )
            self.date = iso_date(stamp) if name == "revtim" else self.date or iso_date(stamp)
            self._stamp = {}

    def _take(self, words: str) -> None:
        if self._to_skip:
            skipped = min(self._to_skip, len(words))
            self._to_skip -= skipped
            words = words[skipped:]
        if words:
            self._bytes += words.encode("latin-1")

    def _take_byte(self, byte: int) -> None:
        if self._to_skip:
            self._to_skip -= 1
        else:
            self._bytes.append(byte)

    def _take_symbol(self, symbol: str) -> None:
        if symbol == "*":
            # The sign holds for a group only where it is the first; some writers put it before any word.
            self._group.is_ignorable = not self._group.is_begun
        elif symbol in _SYMBOLS:
            self._flush()
            self._add(_SYMBOLS[symbol])

    def _flush(self) -> None:
        """Decode the bytes so far."""
        if not self._bytes:
            return
        data, self._bytes = bytes(self._bytes), bytearray()
        font = self._signs.get(self._group.font, "")
        if is_symbol_font(font):
            self._add(in_font(data.decode("latin-1"), font))
            return
        encoding = self._fonts.get(self._group.font, self._encoding)
        self._add(data.decode(encoding, errors="replace"))

    def _add(self, words: str) -> None:
        group = self._group
        if group.destination == "fonttbl":
            self._define_font(words)
        elif group.destination == "stylesheet":
            self._define_style(words)
        elif group.destination == "title":
            self._name.append(words)
        elif group.destination == "listtext":
            group.flow.list_text += words.replace(BREAK, " ")
        elif group.destination:
            return
        elif group.is_hidden:
            group.flow.runs.omit(words, HIDDEN)
        elif group.is_struck:
            group.flow.runs.omit(words, STRUCK)
        else:
            group.flow.runs.add(words, is_raised=group.is_raised, is_bold=group.is_bold)

    def _define_font(self, words: str) -> None:
        name = words.strip().rstrip(";").strip()
        if is_symbol_font(name):
            self._signs[self._group.font] = name

    def _define_style(self, words: str) -> None:
        found = re.match(r"\s*heading (\d)\b", words, re.IGNORECASE)
        if found:
            self._headings[self._group.style] = int(found[1])
        elif self._group.heading:
            self._headings[self._group.style] = self._group.heading

    def _control(self, word: str, number: int | None) -> None:
        self._group.is_begun = True
        if word == "u":
            self._unicode(number or 0)
            return
        if self._to_skip and word not in ("par", "cell", "row"):
            self._to_skip -= 1
            return
        self._flush()
        if self._group.destination == "skip":
            return
        if word in _CHARACTERS:
            self._add(_CHARACTERS[word])
            return
        handler = self._handlers.get(word)
        if handler is not None:
            handler(1 if number is None else number)
        elif word in _SKIPPED or (self._group.is_ignorable and word not in _SHOWN):
            self._group.destination = "skip"
        self._group.is_ignorable = False

    def _unicode(self, number: int) -> None:
        self._flush()
        code = number & 0xFFFF
        self._to_skip = self._group.fallback
        if code not in _SURROGATES:
            self._add(chr(code))
        elif code < 0xDC00:
            self._half = code
        elif self._half:
            self._add(chr(0x10000 + ((self._half - 0xD800) << 10) + code - 0xDC00))
            self._half = 0

    def _begin(self, name: str) -> Callable[[int], None]:
        def begin(_number: int) -> None:
            self._group.destination = name

        return begin

    def _note(self, _number: int) -> None:
        self._notes += 1
        mark = str(self._notes)
        self._group.flow.runs.add_mark(mark)
        self._inside(RtfFlow(self.counts, mark))

    def _box(self, _number: int) -> None:
        self._inside(RtfFlow(self.counts))

    def _inside(self, flow: RtfFlow) -> None:
        self._group.flow = flow
        self._group.clear_run()
        self._group.clear_paragraph()

    def _comment(self, _number: int) -> None:
        self.counts["comments"] += 1
        self._group.destination = "skip"

    def _picture(self, _number: int) -> None:
        if self._group.destination != "object":
            self.counts["pictures"] += 1
        self._group.destination = "skip"

    def _object(self, _number: int) -> None:
        self.counts["objects"] += 1
        self._group.destination = "object"

    def _equation(self, _number: int) -> None:
        self.counts["equations"] += 1
        self._group.destination = "skip"

    def _code_page(self, number: int) -> None:
        self._encoding = _encoding(number) or self._encoding

    def _charset(self, number: int) -> None:
        if self._group.destination == "fonttbl" and number in _CHARSETS and number:
            self._fonts[self._group.font] = _CHARSETS[number]
        elif self._group.destination == "fonttbl" and number == 2:
            self._fonts[self._group.font] = "latin-1"

    def _font(self, number: int) -> None:
        self._group.font = number

    def _paragraph_style(self, number: int) -> None:
        self._group.style = number
        self._group.heading = self._headings.get(number, 0)

    def _outline(self, number: int) -> None:
        self._group.heading = number + 1 if 0 <= number < 9 else 0

    def _row_layout(self, _number: int) -> None:
        self._layout, self._merge, self._is_header = [], "", False

    def _end_layout(self, _number: int) -> None:
        self._layout.append(self._merge)
        self._merge = ""

    def _end_paragraph(self, _number: int) -> None:
        if not self._group.destination:
            group = self._group
            group.flow.end_paragraph(
                in_table=group.in_table, level=group.level, heading=group.heading
            )

    def _end_cell(self, _number: int) -> None:
        if not self._group.destination:
            self._group.flow.end_cell()

    def _end_row(self, _number: int) -> None:
        if not self._group.destination:
            self._group.flow.end_row(self._layout, is_header=self._is_header)

    def _end_inner_cell(self, _number: int) -> None:
        self._group.flow.runs.add(", ")

    def _head_row(self, number: int) -> None:
        self._is_header = bool(number)

    def _all_handlers(self) -> dict[str, Callable[[int], None]]:
        return {
            "par": self._end_paragraph,
            "sect": self._end_paragraph,
            "cell": self._end_cell,
            "row": self._end_row,
            "nestrow": self._end_paragraph,
            "nestcell": self._end_inner_cell,
            "trowd": self._row_layout,
            "cellx": self._end_layout,
            "trhdr": self._head_row,
            "clmrg": self._merges("-"),
            "clvmrg": self._merges("|"),
            "pard": lambda _: self._group.clear_paragraph(),
            "plain": lambda _: self._group.clear_run(),
            "intbl": self._sets("in_table"),
            "ilvl": self._list_level,
            "outlinelevel": self._outline,
            "s": self._paragraph_style,
            "f": self._font,
            "fcharset": self._charset,
            "ansicpg": self._code_page,
            "mac": lambda _: self._code_page(10000),
            "pc": lambda _: self._code_page(437),
            "uc": self._fallback,
            "v": self._sets("is_hidden"),
            "strike": self._sets("is_struck"),
            "striked": self._sets("is_struck"),
            "deleted": self._sets("is_struck"),
            "super": self._sets("is_raised"),
            "up": self._sets("is_raised"),
            "b": self._sets("is_bold"),
            "sub": lambda _: setattr(self._group, "is_raised", False),
            "nosupersub": lambda _: setattr(self._group, "is_raised", False),
            "footnote": self._note,
            "shptxt": self._box,
            "annotation": self._comment,
            "pict": self._picture,
            "object": self._object,
            "moMath": self._equation,
            "result": self._begin(""),
            "fonttbl": self._begin("fonttbl"),
            "stylesheet": self._begin("stylesheet"),
            "info": self._begin("info"),
            "title": self._begin("title"),
            "creatim": self._begin("creatim"),
            "revtim": self._begin("revtim"),
            "yr": self._stamps("yr"),
            "mo": self._stamps("mo"),
            "dy": self._stamps("dy"),
            "listtext": self._begin("listtext"),
            "pntext": self._begin("listtext"),
        }

    def _sets(self, name: str) -> Callable[[int], None]:
        return lambda number: setattr(self._group, name, bool(number))

    def _stamps(self, part: str) -> Callable[[int], None]:
        return lambda number: self._stamp.update({part: number})

    def _merges(self, sign: str) -> Callable[[int], None]:
        def merge(_number: int) -> None:
            self._merge += sign

        return merge

    def _list_level(self, number: int) -> None:
        self._group.level = min(max(number, 0), 8)

    def _fallback(self, number: int) -> None:
        self._group.fallback = min(max(number, 0), 9)


def _encoding(code_page: int) -> str:
    """Return the encoding of a code page; empty if it is not known."""
    try:
        return codecs.lookup("mac_roman" if code_page == 10000 else f"cp{code_page}").name
    except LookupError:
        return ""
