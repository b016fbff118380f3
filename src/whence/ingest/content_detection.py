"""Recognize what a file is by its content: its format, or what it is if it is no document."""

from __future__ import annotations

import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Collection
from typing import Final

from whence.ingest.decoding import decode_text, has_controls
from whence.schema.errors import BadInput

#: Suffix of the loader of text whose suffix no loader has.
ANY_TEXT = ""
#: Bytes from which a format is recognized.
HEAD_BYTES = 4096
ARCHIVE = "an archive, unpack it first"
PROTECTED = "protected by a password"
#: No kept library decrypts these.
ODF_PROTECTED = f"is {PROTECTED}; OpenDocument files are not decrypted, save it without a password"
#: Those that OCR reads have a loader.
_PICTURE = "a picture of a kind that is not read, save it as PNG or PDF"
_RECORDING = "a sound or a video"
_FONT = "a font"
#: First bytes of files that are not documents.
_SIGNATURES = {
    "a PNG picture": (b"\x89PNG\r\n\x1a\n",),
    "a JPEG picture": (b"\xff\xd8\xff",),
    "a GIF picture": (b"GIF87a", b"GIF89a"),
    _PICTURE: (b"II*\0", b"MM\0*", b"8BPS", b"\0\0\1\0", b"\0\0\0\x0cjP  "),
    _RECORDING: (b"ID3", b"OggS", b"fLaC", b"\x1a\x45\xdf\xa3", b"FLV\1", b"MThd"),
    _FONT: (b"OTTO\0", b"\0\1\0\0\0", b"wOFF", b"wOF2", b"ttcf"),
    "a program": (b"\x7fELF", b"MZ\x90\0", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe", b"\0asm", b"!<arch>\n"),
    "a database": (b"SQLite format 3\0", b"\0\1\0\0Standard "),
    "a Parquet file, export it as CSV": (b"PAR1",),
    ARCHIVE: (
        b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"\x28\xb5\x2f\xfd"
    ),
}  # fmt: skip
#: Kinds of files whose first four bytes are a length, by bytes 4 to 12, or `RIFF`.
_CONTAINERS = (
    (re.compile(rb"RIFF....WEBP|....ftyp(?:hei|avif|mif1)", re.DOTALL), _PICTURE),
    (re.compile(rb"RIFF....(?:WAVE|AVI )|....ftyp", re.DOTALL), _RECORDING),
    (re.compile(rb"BM....\0\0\0\0", re.DOTALL), _PICTURE),
)
_ARCHIVES = frozenset(
    {".zip", ".tar", ".gz", ".tgz", ".bz2", ".tbz", ".xz", ".txz", ".7z", ".rar", ".zst", ".jar"}
    | {".war"}
)
#: The text of a drawing in SVG is no text of a document.
_PICTURES = frozenset(
    [
        ".png",
        ".jpg",
        ".jpeg",
        ".gif",
        ".bmp",
        ".tif",
        ".tiff",
        ".webp",
        ".heic",
        ".heif",
        ".avif",
        ".ico",
        ".psd",
        ".svg",
    ]
)
#: What the library raises for a zip file that is damaged, or packed in a way that it does not know.
DAMAGED_ZIP = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, KeyError, ValueError),
    *(RuntimeError, NotImplementedError),
)
_ZIP = b"PK\x03\x04"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
#: A PDF may begin with other bytes (PDF 1.7, appendix H.3.4.1, note 13).
PDF_SIGNATURE: Final = b"%PDF-"
_PDF_WITHIN = 1024
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:(?><!--.*?-->)\s*+)*+<(?:!doctype\s+html|html)\b",
    re.IGNORECASE | re.DOTALL,
)
_XML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<\?xml\s", re.IGNORECASE)
_MBOX = re.compile(rb"From \S+ [^\n]{0,60}\d\d:\d\d[^\n]*\n[\w-]+:[ \t]")
_MAIL_FIELD = re.compile(
    rb"(?:From|To|Cc|Date|Subject|Message-ID|Received|Return-Path|Delivered-To|MIME-Version|DKIM-Signature"
    rb"|Content-Type|Reply-To):[ \t]",
    re.IGNORECASE,
)
_FIELD_LINE = re.compile(rb"[!-9;-~]+:|[ \t]")
_LEAST_MAIL_FIELDS = 3
#: Formats in zip files, by the type of their main part whatever its name, or by its usual name.
_TYPES_PART = "[Content_Types].xml"
_MAIN_PARTS = (
    (re.compile(rb"(?:wordprocessingml|ms-word)\.[\w.]*main\+xml"), "word/document.xml", ".docx"),
    (re.compile(rb"(?:spreadsheetml|ms-excel)\.[\w.]*\.main[+\"]"), "xl/workbook.xml", ".xlsx"),
    (
        re.compile(rb"(?:presentationml|ms-powerpoint)\.[\w.]*main\+xml"),
        "ppt/presentation.xml",
        ".pptx",
    ),
)
_MOST_TYPES = 2**20
#: Formats in zip files, by their part `mimetype`.
_ZIP_TYPES = {
    b"application/vnd.oasis.opendocument.text": ".odt",
    b"application/vnd.oasis.opendocument.spreadsheet": ".ods",
    b"application/vnd.oasis.opendocument.presentation": ".odp",
    b"application/epub+zip": ".epub",
}
#: Formats in compound files, by a stream or folder that each has at the top.
_OLE_PARTS = {
    "EncryptedPackage": "",
    "WordDocument": ".doc",
    "PowerPoint Document": ".ppt",
    "Workbook": ".xls",
    "Book": ".xls",
    "__properties_version1.0": ".msg",
}
#: Suffixes of files that many programs write in other formats, too.
_MIXED = frozenset({".doc", ".dot", ".ppt", ".pps", ".pot"})


def foreign_kind(head: bytes) -> str:
    """Return what a file is that is no document, e.g. `a PNG picture`, by its first bytes; else empty."""
    for what, signatures in _SIGNATURES.items():
        if head.startswith(signatures):
            return what
    return next((what for pattern, what in _CONTAINERS if pattern.match(head)), "")


def format_of(data: bytes) -> str:
    """Return the suffix of the format of a file by its content; empty for text and for what is not known.

    Raises:
        BadInput: It is a compound file or an archive that is protected by a password.
    """
    head = data[:HEAD_BYTES]
    if head.startswith(_ZIP):
        return _format_of_zip(data)
    if head.startswith(_OLE):
        return _format_of_compound(data)
    if is_rtf(head):
        return ".rtf"
    if head.startswith(PDF_SIGNATURE):
        return ".pdf"
    if is_html(head):
        return ".html"
    if _XML.match(head):
        return ".xml"
    return ".mbox" if _MBOX.match(head) else ".eml" if _is_mail(head) else ""


def is_html(head: bytes) -> bool:
    """Return whether a file begins like an HTML page."""
    return _HTML.match(head) is not None


def is_rtf(head: bytes) -> bool:
    """Return whether a file is RTF."""
    return head.startswith(b"{\\rtf")


def has_pdf_signature(head: bytes) -> bool:
    """Return whether a file is a PDF, which may begin with other bytes."""
    return PDF_SIGNATURE in head[:_PDF_WITHIN]


def is_packed(head: bytes) -> bool:
    """Return whether a file is a zip file or a compound file, as those of office programs are."""
    return head.startswith((_ZIP, _OLE))


def has_columns(head: bytes) -> bool:
    """Return whether the beginning of a text is rows with tabs or semicolons between cells.

    Two rows at least, each of as many cells; commas stand in prose, too.
    """
    lines = [one for one in decode_text(head).text.split("\n")[:-1] if one.strip()]
    return len(lines) > 1 and any(
        len(counts) == 1 and counts != {0}
        for counts in ({line.count(sign) for line in lines} for sign in "\t;")
    )


def why_not_text(head: bytes, *, is_whole: bool) -> str:
    """Return why the beginning of a file is no text; empty if it is.

    Args:
        head: Its first bytes.
        is_whole: Whether these are all.
    """
    if what := foreign_kind(head):
        return what
    # The last line may be cut inside a character.
    cut = head if is_whole else head[: head.rfind(b"\n") + 1] or head[: len(head) // 4 * 4]
    try:
        text = decode_text(cut).text
    except BadInput:
        return "not text"
    return "not text" if has_controls(text) else ""


def is_by_content(suffix: str, supported: Collection[str]) -> bool:
    """Return whether the format of a file is found by its content and not by its suffix."""
    return suffix == ANY_TEXT or suffix in _MIXED or suffix not in supported


def readable_suffix(
    suffix: str, supported: Collection[str], head: bytes, read: Callable[[], bytes]
) -> str:
    """Return the suffix by which a file is read whose suffix no loader has: that of its content.

    Args:
        suffix: Of its name, in lower case, with the dot.
        supported: Suffixes that loaders have.
        head: Its first `HEAD_BYTES`, or all of it.
        read: Returns all of it; called for archives and compound files.

    Raises:
        BadInput: It is no document, or of a format that no loader reads.
    """
    if suffix in _ARCHIVES:
        raise BadInput(ARCHIVE)
    if suffix in _PICTURES:
        raise BadInput(_PICTURE)
    packed = is_packed(head)
    found = format_of(read() if packed else head)
    if found in supported and found != ANY_TEXT:
        return found
    if found == ".msg":
        raise BadInput("a message of Outlook, save it as .eml")
    if found and packed:
        raise BadInput(f"unknown file format {found}")
    if packed:
        raise BadInput(
            ARCHIVE if head.startswith(_ZIP) else f"unknown file format {suffix}".rstrip()
        )
    if why := why_not_text(head, is_whole=len(head) < HEAD_BYTES):
        raise BadInput(why)
    return ANY_TEXT


def _is_mail(head: bytes) -> bool:
    fields = 0
    for line in head.split(b"\n"):
        if not line.strip() or not _FIELD_LINE.match(line):
            break
        fields += bool(_MAIL_FIELD.match(line))
    return fields >= _LEAST_MAIL_FIELDS


def _format_of_zip(data: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            is_small = _TYPES_PART in names and archive.getinfo(_TYPES_PART).file_size < _MOST_TYPES
            types = archive.read(_TYPES_PART) if is_small else b""
            if "mimetype" in names and archive.getinfo("mimetype").file_size < HEAD_BYTES:
                kind = archive.read("mimetype").strip().removesuffix(b"-template")
                if kind in _ZIP_TYPES:
                    return _ZIP_TYPES[kind]
    except DAMAGED_ZIP:
        return ""
    found = (suffix for kind, _, suffix in _MAIN_PARTS if kind.search(types))
    usual = (suffix for _, name, suffix in _MAIN_PARTS if name in names)
    return next(found, next(usual, ""))


def _format_of_compound(data: bytes) -> str:
    names = _top_names(data)
    found = next((suffix for name, suffix in _OLE_PARTS.items() if name.lower() in names), None)
    if found == "":
        raise BadInput(f"is {PROTECTED}")
    return found or ""


def _top_names(data: bytes) -> set[str]:
    """Return the names at the top of a compound file in lower case; of a damaged one, those in its bytes.

    Embedded files of other formats have their names in folders below the top.
    """
    from xlrd.compdoc import CompDoc

    try:
        parts = CompDoc(data, logfile=io.StringIO()).dirlist
        return {parts[at].name.lower() for at in parts[0].children}
    except MemoryError:
        raise
    # The library does not validate files: any exception means that the file is damaged.
    except Exception:  # noqa: BLE001
        return {name.lower() for name in _OLE_PARTS if name.encode("utf-16-le") in data}
