"""Characters of fonts whose letters are signs: Symbol and Wingdings."""

from __future__ import annotations

_PRIVATE = 0xF000
_SYMBOL = dict(
    zip(
        "ABGDEZHQIKLMNXOPRSTUFCYWabgdezhqiklmnxoprstufcywVJ",
        "\u0391\u0392\u0393\u0394\u0395\u0396\u0397\u0398\u0399\u039a\u039b\u039c\u039d\u039e\u039f\u03a0\u03a1"
        "\u03a3\u03a4\u03a5\u03a6\u03a7\u03a8\u03a9\u03b1\u03b2\u03b3\u03b4\u03b5\u03b6\u03b7\u03b8\u03b9\u03ba"
        "\u03bb\u03bc\u03bd\u03be\u03bf\u03c0\u03c1\u03c3\u03c4\u03c5\u03c6\u03c7\u03c8\u03c9\u03c2\u03d1",
        strict=True,
    )
) | {
    "\xa3": "\u2264", "\xa5": "\u221e", "\xab": "\u2194", "\xac": "\u2190", "\xad": "\u2191",
    "\xae": "\u2192", "\xaf": "\u2193", "\xb0": "\xb0", "\xb1": "\xb1", "\xb2": "\u2033",
    "\xb3": "\u2265", "\xb4": "\xd7", "\xb5": "\u221d", "\xb6": "\u2202", "\xb7": "\u2022",
    "\xb8": "\xf7", "\xb9": "\u2260", "\xba": "\u2261", "\xbb": "\u2248", "\xbc": "\u2026",
    "\xc5": "\u2295", "\xc6": "\u2205", "\xc7": "\u2229", "\xc8": "\u222a", "\xce": "\u2208",
    "\xcf": "\u2209", "\xd0": "\u2220", "\xd1": "\u2207", "\xd5": "\u220f", "\xd6": "\u221a",
    "\xd7": "\u22c5", "\xd8": "\xac", "\xd9": "\u2227", "\xda": "\u2228", "\xdb": "\u21d4",
    "\xdc": "\u21d0", "\xde": "\u21d2", "\xe5": "\u2211", "\xf2": "\u222b", "\x22": "\u2200",
    "\x24": "\u2203", "\x27": "\u220b", "\x40": "\u2245", "\x5c": "\u2234", "\x5e": "\u22a5",
    "\x7e": "\u223c", "\xd2": "\xae", "\xd3": "\xa9", "\xd4": "\u2122",
}  # fmt: skip
_WINGDINGS = {
    "\xfc": "\u2713", "\xfb": "\u2717", "\xfe": "\u2611", "\xfd": "\u2612", "\xa8": "\u2610",
    "\x6f": "\u2610", "\x78": "\u2612", "\xe0": "\u2192", "\xdf": "\u2190", "\xe1": "\u2191",
    "\xe2": "\u2193", "\xd8": "\u2022", "\xa7": "\u2022", "\x6c": "\u2022", "\x6e": "\u2022",
    "\x71": "\u2610", "\x4a": "\u263a", "\x4c": "\u2639", "\xf0": "\u21d2", "\x28": "\u260e",
    "\x2a": "\u2709",
}  # fmt: skip
_FONTS = {
    "symbol": _SYMBOL,
    "wingdings": _WINGDINGS,
    "wingdings 2": {"P": "\u2713", "O": "\u2717", "R": "\u2611", "\xa3": "\u2610", "T": "\u2612"},
}


def is_symbol_font(font: str) -> bool:
    """Return whether the letters of a font are signs."""
    return font.lower() in _FONTS


def in_font(text: str, font: str) -> str:
    """Return a text as a font of signs shows it; signs that are not known are left out.

    >>> in_font("\uf061b", "Symbol")
    '\u03b1\u03b2'
    """
    signs = _FONTS.get(font.lower())
    if signs is None:
        return text
    written = []
    for each in text:
        bare = chr(ord(each) - _PRIVATE) if _PRIVATE <= ord(each) < _PRIVATE + 0x100 else each
        shown = signs.get(bare)
        is_plain = bare.isspace() or (signs is _SYMBOL and bare.isascii())
        written.append(shown or (bare if is_plain or (bare is each and ord(each) > 0xFF) else ""))
    return "".join(written)
