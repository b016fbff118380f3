"""C# sources without the directives of the preprocessor, for code that cannot be parsed with them."""

from __future__ import annotations

import re

__all__ = ("without_directives",)

_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(\w+)")


def without_directives(text: str) -> tuple[str, bool]:
    r"""Blank the directives, and of each `#if` all branches but the first.

    Places stay: every character becomes as many spaces as it has bytes in UTF-8. Cost is linear.

    Returns:
        The text, and whether code was blanked.

    >>> without_directives("a(1\n#if X\n, 2\n#else\n, 3\n#endif\n)")
    ('a(1\n     \n, 2\n     \n   \n      \n)', True)
    """
    # For each open `#if`, whether its first branch is over.
    over: list[bool] = []
    lines: list[str] = []
    is_cut = False
    for line in text.split("\n"):
        found = _DIRECTIVE.match(line)
        word = found[1] if found else ""
        if word == "if":
            over.append(False)
        elif word in ("else", "elif") and over:
            over[-1] = True
        elif word == "endif" and over:
            over.pop()
        is_out = any(over)
        is_cut = is_cut or (is_out and not found and bool(line.strip()))
        lines.append(" " * len(line.encode()) if found or is_out else line)
    return "\n".join(lines), is_cut
