"""Remove preprocessor directives from C# sources that cannot be parsed with them."""

from __future__ import annotations

import re

_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(\w+)")


def without_directives(text: str) -> tuple[str, bool]:
    r"""Replace directives, and all branches of an `#if` except the first, by spaces.

    Byte offsets do not change: a character becomes as many spaces as it has bytes in UTF-8. Cost is linear.

    >>> without_directives("a(1\n#if X\n, 2\n#else\n, 3\n#endif\n)")
    ('a(1\n     \n, 2\n     \n   \n      \n)', True)
    """
    # For each open `#if`, whether its first branch has ended.
    ended: list[bool] = []
    lines: list[str] = []
    has_removed_code = False
    for line in text.split("\n"):
        found = _DIRECTIVE.match(line)
        word = found[1] if found else ""
        if word == "if":
            ended.append(False)
        elif word in ("else", "elif") and ended:
            ended[-1] = True
        elif word == "endif" and ended:
            ended.pop()
        is_removed = any(ended)
        has_removed_code = has_removed_code or (is_removed and not found and bool(line.strip()))
        lines.append(" " * len(line.encode()) if found or is_removed else line)
    return "\n".join(lines), has_removed_code
