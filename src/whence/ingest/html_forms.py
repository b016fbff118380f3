"""Write the fields of forms with the values that they show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.ingest.html_nodes import ancestors, attribute, outermost, words_of

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_TYPED = frozenset(
    ["", "text", "number", "date", "datetime-local", "month", "week", "time", "email", "tel", "url"]
)
_MARKED = frozenset(["checkbox", "radio"])
#: Elements in which a field is part of a form; others are tools of the page, such as a choice of its language.
_FORM_PARTS = frozenset(["form", "fieldset", "label", "td", "dd"])


def is_filled(form: LexborNode) -> bool:
    """Return whether somebody typed or chose something in a form."""
    fields = form.css("input, select, textarea")
    if any(attribute(field, "type") in ("search", "password") for field in fields):
        return False
    return any(
        (field.tag == "textarea" and words_of(field))
        or (field.tag == "select" and field.css_first("option[selected]"))
        or (field.tag == "input" and _input(field) not in ("", "[ ]"))
        for field in fields
    )


def write_fields(root: LexborNode) -> None:
    """Replace the fields below an element with their values; those that are tools of the page are removed."""
    for field in outermost(root.css("input, select, textarea, meter, progress")):
        words = _value(field)
        if words:
            field.replace_with(f" {words} ")
        else:
            field.decompose()


def _value(field: LexborNode) -> str:
    if field.tag in ("meter", "progress"):
        return words_of(field) or attribute(field, "value")
    if not any(each.tag in _FORM_PARTS for each in ancestors(field)):
        return ""
    if field.tag == "textarea":
        return field.text()
    if field.tag == "input":
        return _input(field)
    return ", ".join(words_of(option) for option in field.css("option[selected]"))


def _input(field: LexborNode) -> str:
    kind = attribute(field, "type").lower()
    if kind in _MARKED:
        return "[x]" if "checked" in field.attributes else "[ ]"
    return attribute(field, "value") if kind in _TYPED else ""
