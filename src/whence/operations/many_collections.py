"""Names of several collections, as a caller writes them."""

from __future__ import annotations

from whence.schema.errors import BadInput

#: Each is searched in full.
_MOST = 32


def collection_names(text: str) -> list[str]:
    """Return the names of collections, separated by commas, each once in the order given.

    >>> collection_names("handbook, minutes,handbook")
    ['handbook', 'minutes']

    Raises:
        BadInput: A name is empty, or there are too many.
    """
    names = list(dict.fromkeys(one.strip() for one in text.split(",")))
    if not all(names) or len(names) > _MOST:
        raise BadInput(
            f"{text[:200]!r} does not name 1 to {_MOST} collections",
            hint="separate their names with commas: handbook,minutes",
        )
    return names
