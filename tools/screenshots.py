"""Draw each view of the page, light and dark, 1,280 and 390 wide, into docs/pictures.

`python tools/screenshots.py [FOLDER]`. It indexes the example handbook into a home of its own, serves it, and
asks as a reader would. Needs chromium and chromedriver.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.browser import Page, running_browser  # noqa: E402

WHENCE = Path(sys.executable).parent / "whence"
SIZES = ((1280, 860), (390, 844))
_TO_MARK = "document.querySelector('#source mark')?.scrollIntoView({ block: 'center' })"
#: Most bytes of a picture, and of all.
LARGEST, LARGEST_ALL = 200_000, 3_000_000


@contextmanager
def serving(home: Path) -> Iterator[tuple[str, str]]:
    """Serve the handbook; yields the address, and a token that may write."""
    environment = os.environ | {"WHENCE_HOME": str(home)}

    def run(*words: str) -> str:
        done = subprocess.run([WHENCE, *words], env=environment, capture_output=True, check=True)
        return done.stdout.decode()

    run("index", str(ROOT / "examples" / "handbook"))
    token = run("tokens", "new", "editor", "--write").split()[-1]
    command = [WHENCE, "serve", "--port", "0"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        ready = next(line for line in process.stderr if line.startswith(b"ready "))
        yield ready.split()[1].decode(), token
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def views(page: Page, url: str, token: str) -> dict[str, Callable[[], object]]:
    """Return what shows each view, in an order that a reader might go."""

    def show_home() -> None:
        page.open(url)
        page.wait(lambda: page.all("#home .cards"))

    def show_refusal() -> None:
        page.ask("Who is the king of Denmark?")

    def show_answer() -> None:
        page.find("button", "New thread").click()
        page.ask("What is the daily allowance in Poland?")
        page.all(".answer a")[-1].click()
        page.marked()

    def show_inspect() -> None:
        page.open(f"{url}/#inspect")
        page.wait(lambda: page.all(".candidate"))[1].click()
        page.wait(lambda: page.all("#detail .text p") and page.all("#detail .why p[lang=en]"))
        page.driver.execute_script("scrollTo(0, 0)")

    def show_library() -> None:
        page.sign_in(token)
        page.find("link", "Library").click()
        page.wait(lambda: page.all("#view-library .rows li"))

    def show_history() -> None:
        page.find("button", "Sign out").click()
        page.find("button", "Sign in")
        page.open(f"{url}/#history")
        page.wait(lambda: page.all("#view-history li"))

    return {
        "home": show_home,
        "refusal": show_refusal,
        "answer": show_answer,
        "inspect": show_inspect,
        "library": show_library,
        "history": show_history,
    }


def draw(folder: Path) -> None:
    """Write the pictures, each named by view, width and theme."""
    with (
        tempfile.TemporaryDirectory(prefix="whence-pictures-") as home,
        serving(Path(home)) as (url, token),
        running_browser() as page,
    ):
        for name, show in views(page, url, token).items():
            page.resize(*SIZES[0])
            show()
            for width, height in SIZES:
                for theme in ("light", "dark"):
                    page.resize(width, height, dark=theme == "dark")
                    # A page of another width has its marked words at another place.
                    page.driver.execute_script(_TO_MARK)
                    page.driver.save_screenshot(str(folder / f"{name}-{width}-{theme}.png"))


def main() -> None:
    """Draw, and check the sizes."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    draw(folder)
    sizes = {one.name: one.stat().st_size for one in sorted(folder.glob("*.png"))}
    for name, size in sizes.items():
        print(f"{size:>9,} {name}")
    large = [name for name, size in sizes.items() if size > LARGEST]
    if large or sum(sizes.values()) > LARGEST_ALL:
        sys.exit(f"too large: {', '.join(large) or f'{sum(sizes.values()):,} bytes in all'}")


if __name__ == "__main__":
    main()
