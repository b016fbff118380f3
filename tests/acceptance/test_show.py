"""`whence show` and the places that citations point to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.test_terminal import lines_of, on_terminal
from tests.support.documents import make_docx, make_pdf

COLLECTION = ("--collection", "shown")
#: A document that tries to clear the screen, to name the window, to set a link and to turn the text around.
HOSTILE = "\x1b[2J\x1b]0;owned\x07\x1b]8;;http://evil.example\x1b\\\x9b31m\u202e"
FILES: dict[str, str | bytes] = {
    "boats.md": "# Boats\n\nBoats are on the pier.\n\n## Rent\n\nA canoe costs 45 euros a day.\n",
    "lamps.rst": "Lamps\n=====\n\nA lantern burns\nfor 17 hours.\n",
    "tents.html": (
        '<html><body><h1 id="top">Tents</h1><h2 id="wash">Washing</h2>'
        "<p>A tent is washed at 30 degrees.</p></body></html>"
    ),
    "maps.pdf": make_pdf(
        [[(11, 700, "Maps are in the hall.")], [(11, 700, "A compass points to the 360 degrees.")]]
    ),
    "flags.docx": make_docx(
        ("Title", "Flags"),
        ("Heading1", "Signals"),
        [["Flag", "Meaning"], ["yellow", "A yellow flag closes the beach for 3 hours."]],
    ),
    "oars.txt": "About oars.\n\nAn oar is made of\n  12 layers of ash.\n",
    "winches.py": 'def pull(rope):\n    """Pull a rope with a winch of 250 kilograms."""\n    return rope\n',
    "ports.sql": "-- Berths of the port.\n\nCREATE TABLE berth (\n    depth int DEFAULT 14 -- depth of a berth in metres\n);\n",
    "records.jsonl": '{"_id": "anchor", "text": "An anchor weighs 85 kilograms."}\n\n'
    '{"_id": "buoy", "title": "Buoys", "text": "A buoy blinks every 6 seconds.\\nIt is red."}\n',
    "hostile.md": f"# Zebra code\n\nThe zebra code is stripe {HOSTILE}seven.\n",
}
QUESTIONS = {
    "boats.md": ("What does a canoe cost a day?", {"line_start": 7, "line_end": 7, "page": None}),
    "lamps.rst": ("How many hours does a lantern burn?", {"line_start": 4, "line_end": 5}),
    "tents.html": ("At how many degrees is a tent washed?", {"anchor": "wash", "page": None}),
    "maps.pdf": ("To how many degrees does a compass point?", {"page": 2, "line_start": None}),
    "flags.docx": (
        "For how many hours does a yellow flag close the beach?",
        {"page": None, "line_start": None, "anchor": None},
    ),
    "oars.txt": ("Of how many layers is an oar made?", {"line_start": 3, "line_end": 4}),
    "winches.py": ("How many kilograms does the winch pull?", {"line_start": 1}),
    "ports.sql": ("What is the default depth of a berth?", {"line_start": 3, "line_end": 5}),
    "buoy": ("How often does a buoy blink?", {"line_start": 3, "line_end": 3}),
}


@pytest.fixture(scope="module")
def folder(cli: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Index one document of each format, and one that only owners see."""
    folder = tmp_path_factory.mktemp("shown")
    for name, content in FILES.items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)
    (folder / "secret.jsonl").write_text('{"_id": "secret", "text": "Hidden.", "acl": ["owner"]}\n')
    result = cli("index", folder, *COLLECTION, "--json")
    assert result.code == 0, result.err
    return folder


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_citation_says_where_its_quote_stands(cli: Any, folder: Path, name: str) -> None:
    """Offsets count in the text that `show` prints; lines, page and anchor are those of the file."""
    question, place = QUESTIONS[name]
    answer = cli("ask", question, *COLLECTION, "--json").json
    citation = next(one for one in answer["citations"] if one["document_id"] == name)
    location = citation["location"]
    shown = cli("show", citation["chunk_id"], *COLLECTION, "--json").json

    assert {key: location[key] for key in place} == place
    assert shown["text"][location["char_start"] : location["char_end"]] == citation["quote"]
    trace = cli("explain", answer["answer_id"], "--json").json
    cited = next(one for one in trace["stages"] if one["stage"] == "synthesis")["citations"]
    assert location in [one["location"] for one in cited]


def test_the_lines_of_records_follow_the_file(cli: Any, folder: Path) -> None:
    """A record that moved in its file is unchanged, nothing is embedded, and its citation has the new line."""
    records = folder / "records.jsonl"
    text = records.read_text()
    records.write_text('{"_id": "mast", "text": "A mast is 20 metres high."}\n' + text)
    try:
        report = cli("index", folder, *COLLECTION, "--json").json
        answer = cli("ask", QUESTIONS["buoy"][0], *COLLECTION, "--json").json
    finally:
        records.write_text(text)

    assert (report["documents"]["added"], report["documents"]["updated"]) == (1, 0)
    assert report["embedded"] == 1
    assert answer["citations"][0]["document_id"] == "buoy"
    assert answer["citations"][0]["location"]["line_start"] == 4
    back = cli("index", folder, *COLLECTION, "--prune", "--json").json
    assert back["documents"]["removed"] == 1


def test_show_prints_the_stored_text_with_its_chunks(cli: Any, folder: Path) -> None:
    """A document and each of its chunks show the same text; every chunk is a slice of it."""
    by_document = cli("show", "boats.md", *COLLECTION, "--json").json
    chunks = by_document["chunks"]
    by_chunk = cli("show", chunks[-1]["id"], *COLLECTION, "--json").json

    assert by_chunk == by_document
    assert (by_document["document_id"], by_document["source_file"]) == ("boats.md", "boats.md")
    assert by_document["text"][chunks[-1]["char_start"] :].endswith("A canoe costs 45 euros a day.")
    assert [one["heading"] for one in chunks] == ["Boats", "Rent"]
    printed = cli("show", "boats.md", *COLLECTION).out
    assert "A canoe costs 45 euros a day." in printed


def test_hidden_and_missing_documents_are_shown_alike(cli: Any, folder: Path) -> None:
    """Exit 3 and the same words; the owner sees it."""
    errors = [cli("show", one, *COLLECTION).assert_error(3).err for one in ("secret", "nosuch")]

    assert errors[0].replace("secret", "nosuch") == errors[1]
    assert cli("show", "secret", *COLLECTION, "--acl", "owner", "--json").json["text"] == "Hidden."


def test_citations_are_links_to_the_line_on_a_terminal(cli: Any, folder: Path) -> None:
    """A citation prints file and line or page, linked to the file that was indexed."""
    for name, label in (("boats.md", "boats.md:7"), ("maps.pdf", "maps.pdf p. 2")):
        words = ["ask", QUESTIONS[name][0], *COLLECTION]
        written = on_terminal(cli, words, 120)

        assert any(label in line for line in lines_of(written)), written
        assert (folder / name).as_uri() in written
        assert label in cli(*words).out
        assert "\x1b" not in cli(*words).out


@pytest.mark.parametrize("command", ["search", "ask", "explain", "show", "stream"])
def test_no_control_character_of_a_document_reaches_a_terminal(
    cli: Any, folder: Path, command: str
) -> None:
    """Escape sequences of a document are printed as replacement characters."""
    question = "Which stripe is the zebra code?"
    words = [command, question]
    if command == "stream":
        words = ["ask", question, "--stream"]
    if command == "show":
        words = ["show", "hostile.md"]
    if command == "explain":
        words = ["explain", cli("ask", question, *COLLECTION, "--json").json["answer_id"]]
    written = on_terminal(cli, [*words, *COLLECTION], 120)

    assert "zebra code" in written.lower()
    for part in ("\x1b[2J", "\x1b]0;", "evil.example\x1b", "\x9b", "\u202e"):
        assert part not in written
