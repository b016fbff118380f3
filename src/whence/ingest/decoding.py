"""Decode files: UTF-8, what is declared or set, else the encoding that the bytes suggest."""

from __future__ import annotations

import codecs
import os
import re
from typing import NamedTuple

from whence.schema.errors import BadInput

#: Byte order marks other than that of UTF-8; UTF-32 first, because its mark begins with that of UTF-16.
_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32", "utf-32"),
    (codecs.BOM_UTF32_BE, "UTF-32", "utf-32"),
    (codecs.BOM_UTF16_LE, "UTF-16", "utf-16"),
    (codecs.BOM_UTF16_BE, "UTF-16", "utf-16"),
)
#: Lines of one document; a text that may be stored has fewer, unless most are blank.
MAX_LINES = 1_000_000
#: Bytes from which an encoding is detected; more take seconds without better results.
_SAMPLE_BYTES = 64 * 2**10
#: Used if detection fails, as in browsers (WHATWG Encoding, 4.2).
_FALLBACK = "cp1252"
#: Encodings of the WHATWG Encoding Standard that undeclared texts are in, by the names of `chardet`. Those of
#: old computers are left out: they win over common ones in short texts.
_ENCODINGS = (
    *(f"cp125{number}" for number in range(9)),
    *("cp866", "cp874", "iso8859-2", "iso8859-5", "iso8859-7", "koi8-r", "koi8-u"),
    *("big5hkscs", "gb18030", "euc_jis_2004", "cp932", "cp949"),
)
#: A guess is uncertain if another encoding, with another text, has this share of its confidence.
_CLOSE = 0.75
#: Largest share of signs beyond ASCII in Latin text, whose letters are these.
_MAX_ACCENT_SHARE = 0.3
_WESTERN = re.compile(
    "[\x00-\x7f\xa0\xc0-\xd6\xd8-\xf6\xf8-\xff\u0152\u0153\u0160\u0161\u017d\u017e\u0178"
    "\u2018\u2019\u201c\u201d\u201a\u201e\u2013\u2014\u2022\u2026\u20ac\u2122\xa3\xa7\xa9\xab\xae\xb0\xb7\xbb\xa1\xbf\xaa\xba]*"
)
#: Programs for the Macintosh still offer it for text and CSV.
_MAC = "mac_roman"
_CAPITAL_IN_WORD = re.compile("[a-z\xdf-\xff][\xc0-\xde\u0152\u0160\u0178\u017d]")
_SIGN_IN_WORD = re.compile(r"[^\W\d_][\xa1\xa3\xa7\xaa\xb0\xb7\xba\xbf\u20ac\u2022][^\W\d_]")
#: The detection leaves these out for texts of one sentence.
_JAPANESE = ("cp932", "euc_jis_2004")
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fc]")
_LEAST_KANA = 0.3
#: What no word has: frames of old screens and other signs between letters, letters of two alphabets.
_ODD = re.compile(
    "[^\\W\\d_][\u2500-\u25ff\xa4\xa6\xa8\xa9\xac\xae\xaf\xb1-\xb3\xb8\xb9\xbc-\xbe\u2020\u2021\u02c6\u2030\u2122][^\\W\\d_]"
    "|[A-Za-z][\u0370-\u05ff]|[\u0370-\u05ff][A-Za-z]"
)
#: Fewer bytes beyond ASCII identify no encoding.
_LEAST_BYTES = 3
#: Encodings of Latin letters, in which a character of UTF-8 is hardly ever a word's.
_LATIN = frozenset({"cp1250", "cp1252", "cp1254", "cp1257", "iso8859-2"})
_LATIN_SIGNS = re.compile("[\xa0-\u024f\u2010-\u2044\u20ac]*")
_MULTIBYTE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
#: ISO 2022 switches character sets by these, in bytes that are ASCII.
_ISO_2022 = re.compile(rb"\x1b(?:\$[@AB]|\$[()][A-D]|\([BIJ])")
#: An XML declaration, or the comment of an editor in one of the first two lines.
_XML_DECLARED = re.compile(rb"""\s*<\?xml[^>]{0,100}?\sencoding\s*=\s*["']([\w.:-]{1,40})""")
_EDITOR_DECLARED = re.compile(
    rb"(?:[^\n]{0,200}\n)?[ \t]*(?:#|//|--|;|/\*|\.\.|<!--|%)[^\n]{0,100}?coding[:=][ \t]*([\w.-]{1,40})"
)
#: Control characters that no text has; terminals' escapes and page breaks stand in some.
_CONTROLS = re.compile("[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffe\uffff]")
_MAX_CONTROL_SHARE = 0.02
#: Larger share of damaged characters of a text that is in another encoding.
_MAX_DAMAGE = 0.2
#: Pairs of bytes that are letters of ASCII, and the share of all from which bytes are not UTF-16.
_ASCII_PAIR = re.compile(rb"[\n -~]{2}")
_MAX_ASCII_PAIRS = 0.6
#: Zero bytes at one parity for each at the other, from which bytes are UTF-16.
_PARITY = 20
#: Share of characters of UTF-32 whose upper two bytes are zero.
_MOSTLY = 0.9
UNDECODABLE = "undecodable bytes"


class DecodedText(NamedTuple):
    r"""A text with `\n` as line ends, without a byte order mark."""

    text: str
    encoding: str = ""
    """Empty for UTF-8; it ends with `?` if it is an uncertain guess."""
    undecodable: int = 0
    """Bytes that the encoding does not have; U+FFFD, or the character of cp1252, stands for each."""

    @property
    def left_out(self) -> dict[str, int]:
        """The undecodable bytes, as `ParsedDocument.left_out` counts them."""
        return {UNDECODABLE: self.undecodable} if self.undecodable else {}


def read_bytes(path: str, limit: int) -> bytes:
    """Return the content of a file of at most `limit` bytes."""
    with open(path, "rb", buffering=0) as stream:  # noqa: PTH123 - paths are strings here
        if os.fstat(stream.fileno()).st_size <= limit:
            data = stream.readall()
            if len(data) <= limit:
                return data
    raise BadInput(f"is larger than {limit:,} bytes, the limit for one document")


def decode_text(data: bytes, encoding: str = "", *, declared: str = "") -> DecodedText:
    r"""Return the text of a file.

    Tried in this order: a byte order mark; UTF-8; UTF-16 and UTF-32 by the places of zero bytes; UTF-8 with
    damaged bytes; what the text declares; `encoding`; and the detection of `chardet` from the first 64 KiB.
    UTF-8 takes precedence: other encodings are hardly ever valid UTF-8, while many files of UTF-8 declare
    another. Line ends become `\n`, so that a checkout on another system has the same offsets and hash.

    Args:
        data: The bytes.
        encoding: Encoding of a text that declares none; empty to detect it.
        declared: Encoding that the format states, as a page or mail does; a name that is unknown is ignored.

    Raises:
        BadInput: The bytes are not text, or have more than a million lines.
    """
    for mark, _, name in _WIDE_MARKS:
        if data.startswith(mark):
            return _finished(decode_as(data, name))
    bare = data.removeprefix(codecs.BOM_UTF8)
    declared = _known_codec(declared) or _declared(bare)
    given = declared or _known_codec(encoding)
    try:
        text = bare.decode()
    except UnicodeDecodeError:
        return _finished(_decode_other(bare, given))
    if "\0" in text:
        return _finished(_decode_wide(bare, given))
    if _ISO_2022.search(bare):
        return _finished(_decode_escaped(bare, given, text))
    return _finished(DecodedText(text))


def decode_as(data: bytes, name: str) -> DecodedText:
    """Return the text of bytes in a known encoding; U+FFFD stands for bytes that it does not have.

    Raises:
        BadInput: It does not have many of them.
    """
    try:
        return DecodedText(data.decode(name).removeprefix("\ufeff"), name)
    except UnicodeDecodeError:
        before = data.decode(name, "ignore").count("\ufffd")
        text = data.decode(name, "replace").removeprefix("\ufeff")
        undecodable = text.count("\ufffd") - before
        if undecodable > _MAX_DAMAGE * len(text):
            raise BadInput(f"is not text: neither UTF-8 nor {name}, save it as UTF-8") from None
        return DecodedText(text, name, undecodable)


def decode_utf8(data: bytes) -> str:
    r"""Return the text of UTF-8 bytes, without a byte order mark and with line ends as `\n`."""
    refuse_wide_encoding(data)
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise BadInput(
            f"is not UTF-8: byte 0x{error.object[error.start]:02x} in line {line}"
        ) from error
    return _finished(DecodedText(text)).text


def refuse_wide_encoding(data: bytes) -> None:
    """Raise `BadInput` if bytes begin with the byte order mark of UTF-16 or UTF-32."""
    for mark, name, _ in _WIDE_MARKS:
        if data.startswith(mark):
            raise BadInput(f"is {name}, save it as UTF-8")


def check_encoding(name: str) -> str:
    """Return the name of an encoding that a user sets, as Python spells it.

    Raises:
        BadInput: There is no such encoding.
    """
    if found := _known_codec(name):
        return found
    raise BadInput(
        f"{name!r} is not an encoding", hint="name one such as utf-8, windows-1252 or shift_jis"
    )


def has_controls(text: str) -> bool:
    """Return whether so many characters are control characters that it is no text."""
    return len(_CONTROLS.findall(text)) > _MAX_CONTROL_SHARE * len(text)


def _declared(data: bytes) -> str:
    found = _XML_DECLARED.match(data) or _EDITOR_DECLARED.match(data)
    name = _known_codec(found[1].decode()) if found else ""
    # The bytes are what they are: a text that can be read up to its declaration has one byte a character.
    return "" if name.startswith(("utf-16", "utf-32")) else name


def _known_codec(name: str) -> str:
    """Return the name of a text encoding as Python spells it; empty if there is none of this name."""
    try:
        "".encode(name or "?")
        found = codecs.lookup(name).name
    except (LookupError, ValueError, UnicodeError):
        return ""
    # Browsers read both as cp1252, which has the signs of Windows in addition.
    return _FALLBACK if found in ("iso8859-1", "ascii") else found


def _decode_other(data: bytes, given: str) -> DecodedText:
    """Return the text of bytes that are not UTF-8."""
    if b"\0" in data:
        return _decode_wide(data, given)
    if _is_damaged_utf8(data):
        return _decode_damaged(data)
    if given and given != "utf-8":
        return decode_as(data, given)
    return _detected(data)


def _is_damaged_utf8(data: bytes) -> bool:
    """Return whether there are as many characters of UTF-8 as other bytes, as no other encoding has."""
    rest, count = _MULTIBYTE.subn(b"", data)
    return count >= len(_BEYOND_ASCII.findall(rest))


def _decode_damaged(data: bytes) -> DecodedText:
    """Return UTF-8 with each byte that is not taken as cp1252, which most such bytes are."""
    undecodable = 0

    def character(error: UnicodeError) -> tuple[str, int]:
        nonlocal undecodable
        assert isinstance(error, UnicodeDecodeError)
        undecodable += 1
        one = error.object[error.start : error.start + 1]
        return one.decode(_FALLBACK, "replace"), error.start + 1

    codecs.register_error("whence.cp1252", character)
    return DecodedText(data.decode("utf-8", "whence.cp1252"), "utf-8", undecodable)


def _decode_wide(data: bytes, given: str) -> DecodedText:
    """Return the text of bytes with zeros: UTF-16 or UTF-32, or it is none."""
    sample = data[: _SAMPLE_BYTES // 4 * 4]
    zeros = [sample[at::4].count(0) for at in range(4)]
    even, odd = zeros[0] + zeros[2], zeros[1] + zeros[3]
    if 2 * len(_ASCII_PAIR.findall(sample)) > _MAX_ASCII_PAIRS * len(sample):
        raise _nul_error(data)
    most = _MOSTLY * len(sample) / 4
    names = [
        given if given.startswith(("utf-16", "utf-32")) else "",
        "utf-32-le" if min(zeros[2:]) >= most and not len(data) % 4 else "",
        "utf-32-be" if min(zeros[:2]) >= most and not len(data) % 4 else "",
        "utf-16-le" if odd > _PARITY * even else "",
        "utf-16-be" if even > _PARITY * odd else "",
    ]
    for name in filter(None, names):
        try:
            found = decode_as(data, name)
        except (BadInput, UnicodeError):
            continue
        few = max(1, len(found.text) // 1000)
        if "\0" not in found.text and found.undecodable <= few and not has_controls(found.text):
            return found
    raise _nul_error(data)


def _nul_error(data: bytes) -> BadInput:
    line = data.count(10, 0, data.find(b"\0")) + 1
    return BadInput(f"is not text: a NUL character in line {line}")


def _decode_escaped(data: bytes, given: str, text: str) -> DecodedText:
    """Return the text of ISO 2022; `text`, which is ASCII, if it only has escapes of a terminal."""
    for name in filter(None, (given, "iso2022_jp_2", "iso2022_kr")):
        found = decode_as(data, name)
        if not found.undecodable and not found.text.isascii():
            return found
    return DecodedText(text)


def _detected(data: bytes) -> DecodedText:
    import chardet

    sample = data[:_SAMPLE_BYTES]
    for name in _JAPANESE:
        if _has_kana(sample, name):
            return decode_as(data, name)
    if _is_mac(sample):
        return decode_as(data, _MAC)
    guesses = chardet.detect_all(
        sample, ignore_threshold=True, include_encodings=_ENCODINGS, compat_names=False
    )
    ranked = [(guess["encoding"] or _FALLBACK, guess["confidence"]) for guess in guesses]
    best, confidence = next(
        (guess for guess in ranked if not _ODD.search(sample.decode(guess[0], "replace"))),
        ranked[0],
    )
    shown = sample.decode(best, "replace")
    western = sample.decode(_FALLBACK, "replace")
    if western == shown or (best not in _LATIN and _is_western(western)):
        best, shown = _FALLBACK, western
    other = next((part for name, part in ranked if sample.decode(name, "replace") != shown), 0.0)
    is_close = other >= _CLOSE * confidence
    is_unsure = is_close or len(_BEYOND_ASCII.findall(sample)) < _LEAST_BYTES
    if best in _LATIN and (some := _MULTIBYTE.findall(data)):
        signs = b"".join(some).decode("utf-8", "replace")
        if _LATIN_SIGNS.fullmatch(signs):
            return _decode_damaged(data)
    found = decode_as(data, best)
    return found._replace(encoding=f"{found.encoding}?") if is_unsure else found


def _has_kana(sample: bytes, name: str) -> bool:
    """Return whether a sample is Japanese, whose syllables no other encoding has by chance in such number."""
    # Its last character may be cut.
    text = sample.decode(name, "replace")[:-1]
    signs = sum(not sign.isascii() for sign in text)
    return "\ufffd" not in text and len(_KANA.findall(text)) > _LEAST_KANA * signs


def _is_mac(sample: bytes) -> bool:
    """Return whether a sample has the line ends of the old Macintosh, and is words in its encoding."""
    if b"\n" in sample or b"\r" not in sample:
        return False
    text = sample.decode(_MAC)
    return _is_western(text) and not _CAPITAL_IN_WORD.search(text)


def _is_western(text: str) -> bool:
    """Return whether a text looks like words of Western Europe."""
    accents = sum(not sign.isascii() for sign in text)
    return (
        accents <= _MAX_ACCENT_SHARE * len(text)
        and bool(_WESTERN.fullmatch(text))
        and not _SIGN_IN_WORD.search(text)
    )


def _finished(found: DecodedText) -> DecodedText:
    text = found.text
    if "\0" in text:
        raise _nul_error(text.encode("utf-8", "replace"))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.count("\n") > MAX_LINES:
        raise BadInput(f"has more than {MAX_LINES:,} lines, the limit for one document")
    return found._replace(text=text)
