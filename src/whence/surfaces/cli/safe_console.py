"""A console that prints no control characters of documents, and links to sources."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from whence.schema.places import Location
from whence.text.controls import printable


class SafeConsole(Console):
    """Replaces control characters in everything that is printed; colours and links of our own remain."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of a renderable, their texts without control characters."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)


def source_link(
    name: str, url: str = "", location: Location | None = None, path: Path | None = None
) -> Text:
    """Return the name of a source with the place in it, e.g. `guide.txt:41`, linked where it can be opened.

    Args:
        name: File or document.
        url: Its URL; only `http` and `https` are linked.
        location: Place in it, when known.
        path: The file on this machine, when it is known; used if there is no URL.
    """
    text = Text(printable(name) + (location.label() if location else ""))
    if url.startswith(("http://", "https://")):
        target = url
    elif path is not None:
        target = path.as_uri()
    else:
        return text
    text.stylize(f"link {printable(target).replace(' ', '%20')}{_fragment(location, target)}")
    return text


def _fragment(location: Location | None, target: str) -> str:
    if location is None or "#" in target:
        return ""
    if location.page:
        return f"#page={location.page}"
    return f"#{quote(location.anchor)}" if location.anchor else ""
