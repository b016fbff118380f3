"""Read the fields of a PDF's forms, with their values, and the notes that readers left on its pages."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from ctypes import c_ushort
from typing import TYPE_CHECKING, Any, NamedTuple

from whence.ingest.pdf_drawing import Box
from whence.ingest.pdf_pieces import DESCENT, Piece

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfFormEnv, PdfPage

_MAX_NOTES = 5_000
_MAX_VALUE = 2**16
#: A field that is higher than so many points has several lines.
_MAX_LINE = 30.0
_SIZE = 10.0
_HIDDEN = 0b10_0010  # Bits 2 and 6: hidden, and not shown on a screen.
_PASSWORD = 1 << 13
_PATH = re.compile(r"\A.*\.(?=.)|\[\d+\]")
#: Kinds of notes that may carry a remark of a reader.
_REMARKS = frozenset({1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
_FREE_TEXT, _STRUCK, _WIDGET = 3, 12, 20


class Notes(NamedTuple):
    """What lies on a page above its text, in the coordinates of the page."""

    pieces: list[Piece]
    """Values of fields and text that was typed on the page."""
    strikes: list[Box]
    """Lines that cross out what is below."""
    remarks: int
    """How many remarks of readers there are."""


def open_form(document: PdfDocument) -> PdfFormEnv | None:
    """Return the form of a document, if it has one."""
    from pypdfium2 import raw

    if document.get_formtype() == raw.FORMTYPE_NONE:
        return None
    # PDFium reads the plain fields of a form of the kind that it does not support; its warning says no more.
    logging.getLogger("pypdfium2").setLevel(logging.ERROR)
    document.init_forms()
    return document.formenv


def read_notes(page: PdfPage, form: PdfFormEnv | None) -> Notes:
    """Return the values of the fields of a page, and what readers noted on it."""
    from pypdfium2 import raw

    found = Notes([], [], 0)
    remarks = 0
    for at in range(min(_MAX_NOTES, max(0, raw.FPDFPage_GetAnnotCount(page.raw)))):
        note = raw.FPDFPage_GetAnnot(page.raw, at)
        if not note:
            continue
        kind = raw.FPDFAnnot_GetSubtype(note)
        hidden = raw.FPDFAnnot_GetFlags(note) & _HIDDEN
        if kind == _WIDGET and form is not None and not hidden:
            found.pieces.extend(_field(raw, form.raw, note))
        elif kind == _FREE_TEXT and not hidden:
            words = " ".join(_string(raw.FPDFAnnot_GetStringValue, note, b"Contents").split())
            if words:
                found.pieces.append(_piece(raw, note, words, ""))
        elif kind in _REMARKS:
            remarks += bool(_string(raw.FPDFAnnot_GetStringValue, note, b"Contents").strip())
        if kind == _STRUCK and not hidden:
            found.strikes.extend(_strikes(raw, note))
        raw.FPDFPage_CloseAnnot(note)
    return found._replace(remarks=remarks)


def _string(read: Any, *arguments: Any) -> str:
    """Return a text that a function of PDFium writes into a buffer."""
    length = min(_MAX_VALUE, read(*arguments, None, 0))
    if length <= 2:
        return ""
    buffer = (c_ushort * (length // 2 + 1))()
    read(*arguments, buffer, length)
    return bytes(buffer)[: length - 2].decode("utf-16-le", "replace")


def _field(raw: Any, form: Any, note: Any) -> Iterator[Piece]:
    """Yield the value of a field, if it has one."""
    kind = raw.FPDFAnnot_GetFormFieldType(form, note)
    if raw.FPDFAnnot_GetFormFieldFlags(form, note) & _PASSWORD and kind == raw.FPDF_FORMFIELD_TEXTFIELD:  # fmt: skip
        return
    if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
        value = "[x]" if raw.FPDFAnnot_IsChecked(form, note) else "[ ]"
    elif kind in (raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX):
        value = ", ".join(_chosen(raw, form, note)) or _string(
            raw.FPDFAnnot_GetFormFieldValue, form, note
        )
    elif kind == raw.FPDF_FORMFIELD_TEXTFIELD:
        value = _string(raw.FPDFAnnot_GetFormFieldValue, form, note)
    else:
        return
    words = " ".join(value.split())
    if words:
        label = _string(raw.FPDFAnnot_GetFormFieldAlternateName, form, note) or _string(
            raw.FPDFAnnot_GetFormFieldName, form, note
        )
        yield _piece(raw, note, words, " ".join(_PATH.sub("", label).split()) or label)


def _chosen(raw: Any, form: Any, note: Any) -> Iterator[str]:
    for at in range(min(_MAX_NOTES, max(0, raw.FPDFAnnot_GetOptionCount(form, note)))):
        if raw.FPDFAnnot_IsOptionSelected(form, note, at):
            yield _string(raw.FPDFAnnot_GetOptionLabel, form, note, at)


def _piece(raw: Any, note: Any, words: str, field: str) -> Piece:
    rect = raw.FS_RECTF()
    raw.FPDFAnnot_GetRect(note, rect)
    bottom, top = sorted((rect.bottom, rect.top))
    left, right = sorted((rect.left, rect.right))
    size = min(_SIZE, max(4.0, top - bottom))
    middle = (bottom + top) / 2 if top - bottom <= _MAX_LINE else top - size
    piece = Piece(words, left, right, middle - (0.5 - DESCENT) * size, size, 1 << 30)
    piece.field = field
    return piece


def _strikes(raw: Any, note: Any) -> Iterator[Box]:
    """Yield the lines in the middle of the areas that a note crosses out."""
    quads = raw.FS_QUADPOINTSF()
    for at in range(min(200, raw.FPDFAnnot_CountAttachmentPoints(note))):
        if raw.FPDFAnnot_GetAttachmentPoints(note, at, quads):
            xs = (quads.x1, quads.x2, quads.x3, quads.x4)
            ys = (quads.y1, quads.y2, quads.y3, quads.y4)
            middle = (min(ys) + max(ys)) / 2
            yield Box(min(xs), middle - 0.5, max(xs), middle + 0.5)
