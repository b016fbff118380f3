"""Find markup that is left in a text: what only the source of a document should have."""

from __future__ import annotations

import re

#: Parts of a text that may hold anything.
_FENCED = re.compile(r"(?ms)^( *)(```+)[^\n`]*\n.*?^\1\2$")
_CODE = re.compile(r"`[^`\n]+`")
_MARKUP = {
    "role": re.compile(r":[A-Za-z][\w:+.-]*:`|`:[A-Za-z][\w:+-]*:"),
    "directive": re.compile(r"(?m)^\s*\.\. (?:[\w:+-]+::|_\w|\||\[)"),
    "double backticks": re.compile(r"``[^`\s]"),
    "reference": re.compile(r"\w`__?(?!\w)"),
    "substitution": re.compile(r"(?m)^(?!\s*\|.*\|$).*?\|[A-Za-z][\w-]*\|"),
    "literal block": re.compile(r"(?m)\w::$"),
    "underline": re.compile(r"(?m)^\s*([=~^\"*+#-])\1{2,}\s*$"),
    "tag": re.compile(
        r"</?(?:a|b|i|p|div|span|code|pre|br|img|table|tr|td|th|ul|li|ol|em|strong|h[1-6]|sup|sub)\b[^>\n]*>|<!--"
    ),
    "entity": re.compile(r"&(?:[a-zA-Z]{2,8}|#\d+|#x[0-9a-fA-F]+);"),
    "link": re.compile(r"\]\([^)\s]+\)|!\["),
    "bold": re.compile(r"\*\*\w[^*\n]*\*\*"),
    "hashes": re.compile(r"(?m)^#{1,6} \w"),
    "pilcrow": re.compile("\u00b6"),
}


def markup_in(text: str) -> list[tuple[str, str]]:
    """Return kind and surroundings of each piece of markup outside of code."""
    prose = _CODE.sub("`code`", _FENCED.sub("", text))
    return [
        (kind, prose[max(0, found.start() - 20) : found.end() + 20])
        for kind, pattern in _MARKUP.items()
        for found in pattern.finditer(prose)
    ]
