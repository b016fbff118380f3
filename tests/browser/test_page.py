"""The page in a real browser: what readers do with it, found by role and name as CONTRACT fixes them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from tests.browser.conftest import TOKENS, write_tokens
from tests.support.axe import axe_script, serious_findings
from tests.support.browser import Page, running_browser
from tests.support.issuer import AUDIENCE, running_issuer
from tests.support.mixed_folder import write_mixed_folder
from tests.support.serving import Gateway, serving

pytestmark = pytest.mark.browser
QUESTION = "How many days of annual leave do employees get?"
#: A question that one row of a table answers.
OF_A_TABLE = "What is the daily allowance in Poland?"
UNANSWERABLE = "Who is the king of Denmark?"
#: A question that only finance may have answered.
HIDDEN = "What are the salary bands for engineers?"
HOSTILE = "<img src=x onerror=document.title='hit'> <b id=bold>"


def quote_of(gateway: Gateway, url: str) -> str:
    """Return the first quote of the answer with an address, its words only."""
    answer = gateway.http.get(f"/v1/answers/{url.rpartition('/')[2]}/answer").json()
    return words_of(answer["citations"][0]["quote"])


def words_of(text: str) -> str:
    return " ".join(re.findall(r"[^\s|]+", text))


def press(page: Page, *keys: str, shift: bool = False) -> None:
    """Press keys wherever the focus is."""
    chain = ActionChains(page.driver)
    if shift:
        chain.key_down(Keys.SHIFT).send_keys(*keys).key_up(Keys.SHIFT).perform()
    else:
        chain.send_keys(*keys).perform()


@pytest.mark.parametrize("question", [QUESTION, OF_A_TABLE])
def test_a_marker_opens_the_cited_words(page: Page, gateway: Gateway, question: str) -> None:
    """The source has the document's name as heading and exactly the quote in `mark`, in view."""
    article = page.ask(question)
    page.wait(lambda: "/a/" in page.driver.current_url)
    link = next(one for one in article.find_elements(By.CSS_SELECTOR, ".answer a"))
    assert re.fullmatch(r"\[\d+\]", link.accessible_name)
    link.click()
    source = page.find("region", "Source")
    assert words_of(page.marked()) == quote_of(gateway, page.driver.current_url)
    answer = gateway.http.get(
        f"/v1/answers/{page.driver.current_url.rpartition('/')[2]}/answer"
    ).json()
    assert answer["citations"][0]["title"] in page.find("heading", None, source).text
    assert (
        answer["citations"][0]["heading"]
        in article.find_element(By.CLASS_NAME, "source-cards").text
    )
    top = page.driver.execute_script(
        "return document.querySelector('#source mark').getBoundingClientRect().top"
    )
    assert 0 < top < 900
    assert page.complaints() == []


def test_a_table_is_no_text_with_bars(page: Page) -> None:
    """An answer from a table is shown as a table."""
    article = page.ask(OF_A_TABLE)
    assert article.find_elements(By.CSS_SELECTOR, ".answer td")
    assert "|" not in article.find_element(By.CSS_SELECTOR, ".answer").text


def test_the_pane_of_a_source_is_whole(page: Page) -> None:
    """Wherever the page is scrolled to, the pane's heading, its button and its lower end are in the window."""
    page.ask(OF_A_TABLE)
    article = page.ask(QUESTION)
    article.find_element(By.CSS_SELECTOR, ".answer a").click()
    assert page.marked()
    for place in (0, 1e6):
        page.driver.execute_script("scrollTo(0, arguments[0])", place)
        for selector in ("#source", "#source .close", "#source h2"):
            top, bottom, height = page.driver.execute_script(
                "const { top, bottom } = document.querySelector(arguments[0]).getBoundingClientRect();"
                "return [top, bottom, innerHeight]",
                selector,
            )
            assert 0 <= top < bottom <= height, (place, selector)


def test_an_export_keeps_its_table(page: Page) -> None:
    """In the exported Markdown a table ends with an empty line, so that the marker is no row of it."""
    article = page.ask(OF_A_TABLE)
    page.driver.execute_script(
        "const make = URL.createObjectURL;"
        "URL.createObjectURL = (blob) => { blob.text().then((one) => { window.saved = one; }); return make(blob); }"
    )
    page.find("button", "Markdown", article).click()
    lines = page.wait(lambda: page.driver.execute_script("return window.saved")).split("\n")
    marker = lines.index("[1]")
    assert lines[marker - 1] == ""
    assert lines[marker - 2].startswith("|")


def test_texts_from_right_to_left(page: Page, gateway: Gateway) -> None:
    """Tables, lists and quotes of a text that is written from the right begin at the right."""
    text = (
        "# رسوم النقل\n\n"
        "| المنطقة | الرسم |\n|---|---|\n| الشمال | 40 |\n| الجنوب | 55 |\n\n- الشمال: Halden\n- الجنوب: Moss\n"
    )
    writer = {"Authorization": "Bearer editor"}
    path = "/v1/collections/page/documents"
    gateway.http.post(path, files={"file": ("rtl.md", text)}, headers=writer).raise_for_status()
    try:
        page.open(f"{gateway.url}/#search=رسوم النقل المنطقة")
        item = page.wait(lambda: page.all(".sources > li:has(table)"))[0]
        for selector in ("table", "ul", "blockquote"):
            found = item.find_element(By.CSS_SELECTOR, selector)
            assert found.value_of_css_property("direction") == "rtl", selector
        page.open(f"{gateway.url}/#search={QUESTION}")
        quote = page.wait(lambda: page.all(".sources blockquote"))[0]
        assert quote.value_of_css_property("direction") == "ltr"
    finally:
        gateway.http.delete(f"{path}/rtl.md", headers=writer)


def test_what_is_not_there_is_said_in_words(page: Page, gateway: Gateway) -> None:
    """An unknown collection or answer is said in words of the page, without a command of the shell."""
    for address in ("#ask=Who?&in=nowhere", "a/0123456789", "#inspect=0123456789"):
        page.open(f"{gateway.url}/{address}")
        told = page.find("alert").text
        assert "you may" in told
        assert "whence" not in told


def test_a_refusal_shows_the_nearest_passages(page: Page) -> None:
    """A refusal has its reason in words, and passages whose documents open; it does not speak of quotes."""
    article = page.ask(UNANSWERABLE)
    assert "made of quotes" not in article.text
    page.find("heading", "Nearest passages", article)
    passages = article.find_elements(By.CSS_SELECTOR, ".sources > li")
    assert 1 <= len(passages) <= 3
    passages[0].find_element(By.TAG_NAME, "button").click()
    assert page.marked()


def test_candidates_are_walked_by_keys(page: Page) -> None:
    """Arrows move along the candidates; a click shows the text and why it is not in the answer."""
    page.ask(QUESTION)
    page.find("link", "Inspect").click()
    region = page.find("region", "Inspect")
    candidates = page.find("list", "Candidates", region)
    rows = page.wait(lambda: candidates.find_elements(By.TAG_NAME, "button"))
    assert len(rows) > 3
    rows[0].click()
    press(page, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP)
    assert page.driver.switch_to.active_element == rows[1]
    rows[-1].click()
    why = page.wait(lambda: page.all("#detail .why p[lang=en]"))
    assert re.search(r"\d", why[0].text)
    assert page.wait(lambda: page.all("#detail .text p"))[0].text
    assert page.complaints() == []


def test_another_setting_runs_the_retrieval_again(page: Page, gateway: Gateway) -> None:
    """A changed setting moves candidates; nothing is recorded."""
    page.ask(QUESTION)
    page.find("link", "Inspect").click()
    page.wait(lambda: page.all(".candidate"))
    page.all("details summary")[0].click()
    before = [one.text for one in page.all(".candidate .what b")]
    slider = page.all(".try input[type=range]")[-1]
    slider.send_keys(Keys.HOME)
    told = page.wait(lambda: re.search(r"\d+ moved", page.all(".try [role=status]")[0].text))
    assert told
    assert page.wait(lambda: page.all(".candidate.dropped"))
    assert before
    page.find("link", "History").click()
    assert len(page.wait(lambda: page.all("#view-history li"))) == 1


def test_candidates_of_several_collections_open(page: Page, gateway: Gateway) -> None:
    """Where several collections were asked, each candidate has its text and opens, and settings act."""
    writer = {"Authorization": "Bearer editor"}
    text = "# Canteen\n\nThe canteen of Orlu serves trout on Fridays.\n"
    path = "/v1/collections/other/documents"
    gateway.http.post(path, files={"file": ("orlu.md", text)}, headers=writer).raise_for_status()
    try:
        page.open(
            f"{gateway.url}/#ask=What does the canteen of Orlu serve on Fridays?&in=page,other"
        )
        page.wait(lambda: page.all("article[data-answer]"))
        page.find("link", "Inspect").click()
        for name in ("Canteen", "leave"):
            wanted = f"//button[contains(@class, 'candidate')][contains(., '{name}')]"
            page.wait(lambda xpath=wanted: page.driver.find_element(By.XPATH, xpath)).click()
            page.wait(lambda: page.all("#detail .text p"), name)
            page.find("button", "Open the document here").click()
            assert page.marked()
            page.find("button", "Close the pane").click()
        page.driver.find_element(By.XPATH, "//summary[.='Try other settings']").click()
        for slider in page.all(".try input[type=range]"):
            page.driver.execute_script(
                "document.querySelector('.try [role=status]').textContent = ''"
            )
            slider.send_keys(Keys.ARROW_RIGHT)
            told = page.wait(
                lambda: re.search(r"\d+ moved|dense", page.all(".try [role=status]")[0].text)
            )
            assert "moved" in told[0]
    finally:
        gateway.http.delete(f"{path}/orlu.md", headers=writer)


def test_files_of_all_formats_are_added_and_removed(
    page: Page, gateway: Gateway, tmp_path: Path
) -> None:
    """Chosen files are stored at once, each with its state and reason; `Delete` asks, then removes."""
    page.sign_in("editor")
    page.find("link", "Library").click()
    library = page.find("region", "Library")
    facts = write_mixed_folder(tmp_path, 20)
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7\nnothing")
    files = [*(tmp_path / one.path for one in facts), broken]
    library.find_element(By.CSS_SELECTOR, "input[type=file]").send_keys("\n".join(map(str, files)))
    page.wait(
        lambda: "21 of 21" in page.all(".drop [role=status]")[0].text, "all are stored", seconds=90
    )
    states = {
        one.find_element(By.CSS_SELECTOR, ".name").text: one.text for one in page.all(".uploads li")
    }
    assert len(states) == 21
    failed = [name for name, text in states.items() if "\nread" not in text]
    assert failed == ["broken.pdf"], states
    assert len(states["broken.pdf"].splitlines()) > 2
    documents = page.find("list", "Documents")
    assert (
        len(page.wait(lambda: documents.find_elements(By.XPATH, "./li[.//button[.='Delete']]")))
        >= 57
    )
    name = Path(facts[0].path).name
    row = documents.find_element(By.XPATH, f"./li[contains(., '{name}')]")
    page.find("button", "Delete", row).click()
    dialog = page.find("dialog")
    assert name in dialog.text
    page.find("button", "Delete", dialog).click()
    page.wait(lambda: not page.all("dialog"))
    assert not documents.find_elements(By.XPATH, f"./li[contains(., '{name}')]")
    listed = gateway.http.get(
        "/v1/collections/page/documents?limit=1000", headers={"Authorization": "Bearer editor"}
    ).json()["documents"]
    assert name not in {one["document_id"] for one in listed}
    for one in listed:
        if one["root"] != "handbook" and one["chunks"]:
            path = f"/v1/collections/page/documents/{one['document_id']}"
            gateway.http.delete(path, headers={"Authorization": "Bearer editor"})
    assert page.complaints() == []


def test_a_folder_without_its_hidden_files(page: Page, gateway: Gateway, tmp_path: Path) -> None:
    """Of a chosen folder hidden files are counted and not sent; an upload cannot be read again, but deleted."""
    for name in ("notes.md", ".git/config", "node_modules/lib.md", "sub/~$plan.md"):
        file = tmp_path / "folder" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("# Lockers\n\nThe lockers of Orlu are on the second floor.\n")
    page.sign_in("editor")
    page.find("link", "Library").click()
    field = page.find("region", "Library").find_elements(By.CSS_SELECTOR, "input[type=file]")[1]
    field.send_keys(str(tmp_path / "folder"))
    told = page.wait(lambda: re.search("1 of 1 file.*", page.all(".drop [role=status]")[0].text))
    assert "3 hidden" in told[0]
    assert [one.text.split("\n")[0] for one in page.all(".uploads li")] == ["folder/notes.md"]
    rows = page.find("list", "Documents")
    row = page.wait(lambda: rows.find_element(By.XPATH, "./li[contains(., 'folder/notes.md')]"))
    assert [one.text for one in row.find_elements(By.CSS_SELECTOR, ".acts button")] == ["Delete"]
    gateway.http.delete(
        "/v1/collections/page/documents/folder/notes.md",
        headers={"Authorization": "Bearer editor"},
    ).raise_for_status()


def drop(page: Page, file: Path, x: float, y: float) -> None:
    """Drop a file on a point of the page, as a desktop does."""
    data = {"items": [], "files": [str(file)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        event = {"type": kind, "x": x, "y": y, "data": data}
        page.driver.execute_cdp_cmd("Input.dispatchDragEvent", event)


def test_a_dropped_folder_is_stored(page: Page, gateway: Gateway, tmp_path: Path) -> None:
    """A folder that is dropped is stored with its paths; a file that misses the place is not opened instead."""
    folder = tmp_path / "desk" / "deep"
    folder.mkdir(parents=True)
    (folder / "lamp.md").write_text("# Lamp\n\nThe lamp of Orlu is green.\n")
    page.sign_in("editor")
    page.find("link", "Library").click()
    place = page.wait(lambda: page.all(".drop"))[0].rect
    drop(page, tmp_path / "desk", place["x"] + 60, place["y"] + 60)
    page.wait(lambda: page.all(".uploads .state.good"))
    assert page.all(".uploads .name")[0].text == "desk/deep/lamp.md"
    is_refused = page.driver.execute_script(
        "const dataTransfer = new DataTransfer(); dataTransfer.items.add(new File(['x'], 'x.md'));"
        "const missed = new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true });"
        "document.body.dispatchEvent(missed); return missed.defaultPrevented"
    )
    assert is_refused
    gateway.http.delete(
        "/v1/collections/page/documents/desk/deep/lamp.md",
        headers={"Authorization": "Bearer editor"},
    ).raise_for_status()


def test_an_empty_home_begins_with_the_handbook(browser: Page, own: Any, tokens: Path) -> None:
    """In an empty home, who may write loads the example handbook by one click, and may ask it."""
    with serving(own, "--tokens", tokens, collection="default") as empty:
        browser.open(empty.url)
        browser.driver.delete_all_cookies()
        browser.open(empty.url)
        browser.find("heading", "Nothing is here yet")
        browser.find("textbox", "Question").send_keys("Is anything here?")
        browser.find("button", "Ask").click()
        told = browser.wait(lambda: browser.all(".problem"))[0].text
        assert "Sign in" in told
        assert "whence" not in told
        browser.find("button", "New thread").click()
        browser.sign_in("editor")
        browser.find("button", "Load the example handbook").click()
        browser.wait(lambda: browser.all(".cards li"), "the handbook is there", seconds=90)
        assert browser.ask(QUESTION).find_elements(By.CSS_SELECTOR, ".source-cards li")


def test_a_follow_up_is_completed(page: Page) -> None:
    """A follow-up is answered in the thread; the question as completed can be edited and asked."""
    page.ask(OF_A_TABLE)
    article = page.ask("And in Germany?")
    understood = article.find_element(By.CSS_SELECTOR, ".understood q").text
    assert "allowance" in understood
    assert "Germany" in understood
    page.find("button", "Edit", article).click()
    field = page.find("textbox", "Completed wording", article)
    assert field.get_property("value") == understood
    field.send_keys(Keys.RETURN)
    assert page.wait(lambda: len(page.all("article[data-answer]")) == 3)


def test_history_outlives_the_server(
    browser: Page, indexed: Any, tokens: Path, tmp_path: Path
) -> None:
    """After a restart `History` still has the question, and its link shows the answer with its sources."""
    question = "How is a flat tyre repaired on the road?"
    with serving(indexed, "--tokens", tokens, collection="page") as first:
        browser.open(first.url)
        browser.ask(question)
    with serving(indexed, "--tokens", tokens, collection="page") as second:
        browser.open(f"{second.url}/#history")
        history = browser.find("list", "History")
        browser.find("link", question, history).click()
        article = browser.wait(lambda: browser.all("article[data-answer]")[0])
        address = browser.driver.current_url
        text = article.find_element(By.CSS_SELECTOR, ".answer").text
        browser.open(address)
        again = browser.wait(lambda: browser.all("article[data-answer]")[0])
        assert again.find_element(By.CSS_SELECTOR, ".answer").text == text
        again.find_element(By.CSS_SELECTOR, ".answer a").click()
        assert browser.marked()


def test_a_wrong_token_is_refused(page: Page) -> None:
    """A wrong token is an error in words; the right one shows restricted documents, until sign-out."""
    field = page.find("textbox", "Token")
    field.send_keys("wrong")
    page.find("button", "Sign in").click()
    assert "unknown" in page.find("alert").text
    page.sign_in("desk")
    assert "finance" in page.all("#rights")[0].text
    assert not page.driver.execute_script("return document.cookie")
    assert page.ask(HIDDEN).find_elements(By.CSS_SELECTOR, ".source-cards li")
    page.find("button", "Sign out").click()
    page.find("button", "Sign in")
    page.wait(lambda: page.all("body[data-ready]"))
    assert page.ask(HIDDEN).find_elements(By.CSS_SELECTOR, "h3")[0].text == "Nearest passages"


def test_a_reader_signs_in_with_an_identity_provider(browser: Page, indexed: Any) -> None:
    """The link of single sign-on gives the rights of the reader's groups, until sign-out."""
    with running_issuer() as issuer:
        issuer.about |= {
            "authorization_endpoint": f"{issuer.url}/authorize",
            "token_endpoint": f"{issuer.url}/token",
        }
        issuer.exchange = lambda form, _: (
            200,
            {"access_token": issuer.token(groups=["finance"]), "token_type": "Bearer"},
        )
        options = ("--oidc-issuer", issuer.url, "--oidc-audience", AUDIENCE)
        client = ("--oidc-client-id", "page")
        with serving(indexed, *options, *client, collection="page") as running:
            browser.open(running.url)
            browser.find("link", "Single sign-on").click()
            browser.find("button", "Sign out")
            assert "finance" in browser.all("#rights")[0].text
            assert not browser.driver.execute_script("return document.cookie")
            assert browser.ask(HIDDEN).find_elements(By.CSS_SELECTOR, ".source-cards li")
            browser.find("button", "Sign out").click()
            browser.find("link", "Single sign-on")


def test_an_ended_session_says_so(page: Page, tokens: Path) -> None:
    """When the session ends, the page says so, asks for a token, and keeps what was typed."""
    page.sign_in("desk")
    try:
        write_tokens(tokens, "editor")
        page.wait(lambda: _is_refused(page))
        page.find("textbox", "Question").send_keys("half a question")
        page.find("link", "History").click()
        page.wait(lambda: "has ended" in page.find("alert").text)
        page.find("button", "Sign in")
        page.find("link", "Ask").click()
        assert page.find("textbox", "Question").get_property("value") == "half a question"
    finally:
        write_tokens(tokens, *TOKENS)


def _is_refused(page: Page) -> bool:
    script = "const done = arguments[0]; fetch('/v1/reader').then((one) => one.json()).then((one) => done(!one.signed_in))"
    return bool(page.driver.execute_async_script(script))


def test_feedback_is_stored(page: Page, indexed: Any) -> None:
    """A verdict and its note become a case of an evaluation suite."""
    article = page.ask(QUESTION)
    page.find("button", "Wrong", article).click()
    note = page.find("textbox", "Note for the maintainers", article)
    note.send_keys("it is 28 days")
    page.find("button", "Send", article).click()
    page.wait(lambda: "Stored" in article.find_element(By.CSS_SELECTOR, ".feedback").text)
    exported = indexed("eval", "cases", "export", "--collection", "page")
    assert "it is 28 days" in exported.out, exported.err


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_screen(page: Page, width: int) -> None:
    """No view has to be moved sideways, at 360 px and at 1,280."""
    page.resize(width)
    page.ask(OF_A_TABLE)
    for view in ("", "#inspect", "#library", "#history"):
        if view:
            page.find("link", view[1:].capitalize()).click()
            page.wait(lambda: page.all("main h1"))
        # Not compared with `innerWidth`, which grows with what is too wide.
        assert page.driver.execute_script("return document.documentElement.scrollWidth") <= width, (
            view
        )


def test_all_is_done_by_keyboard(page: Page) -> None:
    """Without a mouse: `/`, question, Enter, the marker, Escape back to the marker, `?` and Escape."""
    page.driver.execute_script("document.activeElement.blur()")
    press(page, "/")
    assert page.driver.switch_to.active_element.accessible_name == "Question"
    press(page, "first line")
    press(page, Keys.ENTER, shift=True)
    assert page.find("textbox", "Question").get_property("value") == "first line\n"
    # Clearing takes the focus away.
    page.find("textbox", "Question").clear()
    press(page, "/")
    press(page, QUESTION, Keys.ENTER)
    article = page.wait(lambda: page.all("article[data-answer]")[0])
    marker = article.find_element(By.CSS_SELECTOR, ".answer a")
    for _ in range(30):
        if page.driver.switch_to.active_element == marker:
            break
        press(page, Keys.TAB, shift=True)
    assert page.driver.switch_to.active_element == marker
    press(page, Keys.ENTER)
    assert page.marked()
    press(page, Keys.ESCAPE)
    assert not page.all("#source")
    assert page.driver.switch_to.active_element == marker
    press(page, "?")
    page.find("dialog", "Keys")
    press(page, Keys.ESCAPE)
    page.wait(lambda: not page.all("dialog"))


def test_markup_of_others_stays_text(page: Page, gateway: Gateway) -> None:
    """Titles, texts and questions with markup are shown as they are written, in all views."""
    text = f"# Gate {HOSTILE}\n\nThe gate {HOSTILE} of Orlu opens at seven. <script>document.title='hit'</script>\n"
    files = {"file": ("gate<b>.txt", text)}
    gateway.http.post(
        "/v1/collections/page/documents", files=files, headers={"Authorization": "Bearer editor"}
    ).raise_for_status()
    try:
        page.sign_in("editor")
        page.ask(f"When does the gate of Orlu open? {HOSTILE}")
        for address in ("#search=gate of Orlu", "#inspect", "#library", "#history"):
            page.open(f"{gateway.url}/{address}")
            page.wait(lambda: page.all("main :is(ol, ul) > li"))
            assert page.all("img[src=x], #bold, main script, .rows b, .sources b") == []
            assert "hit" not in page.driver.title
    finally:
        gateway.http.delete(
            "/v1/collections/page/documents/gate<b>.txt",
            headers={"Authorization": "Bearer editor"},
        )
    assert page.complaints() == []


def test_the_page_speaks_german(gateway: Gateway) -> None:
    """A browser that prefers German gets the page in German, no wider than a narrow screen."""
    with running_browser("de-DE,de") as page:
        page.open(gateway.url)
        page.find("button", "Fragen")
        page.find("textbox", "Frage")
        assert page.driver.execute_script("return document.documentElement.lang") == "de"
        page.resize(360)
        for view in ("ask", "inspect", "library", "history"):
            page.open(f"{gateway.url}/#{view}")
            page.wait(lambda: page.all("main h1, #form"))
            width = page.driver.execute_script("return document.documentElement.scrollWidth")
            assert width <= 360, view


def test_the_checker_sees_a_missing_label(page: Page) -> None:
    """A field without a name and grey words on grey are serious findings: the test of all views can fail."""
    script = axe_script()
    page.driver.execute_script(
        "for (const name of ['aria-label', 'placeholder']) document.getElementById('words').removeAttribute(name);"
        "document.getElementById('rights').style.color = '#888'"
    )
    found = {one.partition(":")[0] for one in serious_findings(page, script)}
    assert {"label", "color-contrast"} <= found


def test_no_view_has_serious_faults(page: Page, gateway: Gateway) -> None:
    """The checker axe finds nothing serious in any view, wide, narrow and dark."""
    script = axe_script()
    page.find("textbox", "Token").send_keys("wrong")
    page.find("button", "Sign in").click()
    page.find("alert")
    assert serious_findings(page, script) == []
    page.sign_in("editor")
    assert serious_findings(page, script) == []
    press(page, "?")
    page.find("dialog", "Keys")
    assert serious_findings(page, script) == []
    press(page, Keys.ESCAPE)
    page.open(f"{gateway.url}/#search=annual leave")
    page.wait(lambda: page.all(".sources > li"))
    assert serious_findings(page, script) == []
    page.find("button", "New thread").click()
    page.ask(OF_A_TABLE).find_element(By.CSS_SELECTOR, ".answer a").click()
    page.marked()
    assert serious_findings(page, script) == []
    page.ask(UNANSWERABLE)
    assert serious_findings(page, script) == []
    page.find("link", "Inspect").click()
    page.wait(lambda: page.all(".candidate"))[0].click()
    page.wait(lambda: page.all("#detail .text p"))
    for one in page.all("summary"):
        one.click()
    others = "#view-inspect select[aria-label='Other answer']:has(option + option)"
    (choice,) = page.wait(lambda: page.all(others))
    choice.send_keys(Keys.ARROW_DOWN)
    page.wait(lambda: page.all(".pair article"))
    assert serious_findings(page, script) == []
    page.find("link", "Library").click()
    page.wait(lambda: page.all("#view-library .rows li"))
    assert serious_findings(page, script) == []
    page.find("button", "Delete").click()
    page.find("dialog")
    assert serious_findings(page, script) == []
    press(page, Keys.ESCAPE)
    page.find("link", "History").click()
    page.wait(lambda: page.all("#view-history li"))
    assert serious_findings(page, script) == []


def test_the_page_is_small(page: Page, gateway: Gateway) -> None:
    """All that the page loads has less than 150 kB, and comes from this server."""
    loaded = page.driver.execute_script(
        "return performance.getEntriesByType('resource').map((one) => one.name)"
    )
    assert all(one.startswith(gateway.url) for one in loaded)
    files = [one for one in loaded if "/page/" in one]
    with httpx.Client() as http:
        assert sum(len(http.get(one).content) for one in [gateway.url, *set(files)]) < 150_000
