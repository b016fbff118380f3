"""A real browser that finds elements as people do: by their role and name."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.by import By

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

T = TypeVar("T")
#: Elements that may have a role.
_CANDIDATES = {
    "textbox": "input, textarea",
    "button": "button",
    "link": "a[href]",
    "list": "ol, ul",
    "region": "section",
    "heading": "h1, h2, h3",
    "dialog": "dialog",
    "alert": "[role=alert]",
}
_FLAGS = (
    "headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync", "lang=en-US",
    "disable-background-networking", "disable-component-update", "disable-dev-shm-usage",
)  # fmt: skip


class Page:
    """A page of a gateway in a browser."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        """Open an address and wait until the page listens."""
        self.driver.get(url)
        self.wait(lambda: self.all("body[data-ready]"))

    def all(self, selector: str) -> list[WebElement]:
        """Return the elements of a selector that are shown."""
        found = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return [one for one in found if one.is_displayed()]

    def find(self, role: str, name: str | None = None, within: WebElement | None = None) -> Any:
        """Wait for the first element that is shown with a role and a name, and return it."""

        def search() -> WebElement | None:
            found = (within or self.driver).find_elements(By.CSS_SELECTOR, _CANDIDATES[role])
            for one in found:
                named = name is None or one.accessible_name == name
                if named and one.is_displayed() and one.aria_role == role:
                    return one
            return None

        return self.wait(search, f"{role} {name!r}")

    def wait(self, condition: Callable[[], T], what: str = "", seconds: float = 30) -> T:
        """Wait until a condition holds, and return its value."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                if value := condition():
                    return value
            except (NoSuchElementException, StaleElementReferenceException, IndexError):
                pass
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds} s: {what or condition}")

    def ask(self, question: str) -> Any:
        """Ask a question and return the article with its whole answer."""
        known = len(self.all("article[data-answer]"))
        self.find("textbox", "Question").send_keys(question)
        self.find("button", "Ask").click()
        return self.wait(lambda: self.all("article[data-answer]")[known], question)

    def sign_in(self, token: str) -> None:
        """Sign in with a token and wait until it is done."""
        field = self.find("textbox", "Token")
        field.clear()
        field.send_keys(token)
        self.find("button", "Sign in").click()
        self.find("button", "Sign out")

    def marked(self) -> str:
        """Return the marked words of the source."""
        return " ".join(
            one.text for one in self.wait(lambda: self.all("#source mark"), "marked words")
        )

    def resize(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Give the page another size, and a theme."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})

    def complaints(self) -> list[str]:
        """Return complaints of scripts and the content policy since the last call, without failed requests."""
        log = [line["message"] for line in self.driver.get_log("browser")]
        return [one for one in log if "Failed to load resource" not in one]


@contextmanager
def running_browser(language: str = "en-US") -> Iterator[Page]:
    """Run a browser; skips the test where there is none."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not program or not driver:
        pytest.skip("no chromium and chromedriver on this machine")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in _FLAGS:
        options.add_argument(f"--{flag}")
    options.add_experimental_option("prefs", {"intl.accept_languages": language})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        page = Page(running)
        page.resize(1280)
        yield page
    finally:
        running.quit()
