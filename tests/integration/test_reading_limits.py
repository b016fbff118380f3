"""Documents are read in a process with limits: beyond them a document fails, and the others go on."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.support.document_bombs import BOMBS
from tests.support.documents import make_docx, make_pdf

from whence.ingest.chunking import Chunker
from whence.ingest.documents import load_documents
from whence.ingest.limited_process import Limits
from whence.ingest.load_results import LoadedDocument, LoadFailure, LoadResult
from whence.ingest.reader import DocumentReader, ReaderPool, ReaderStopped
from whence.ingest.sources import SourceFile

CHUNKER = Chunker(lambda texts: [len(text.split()) for text in texts])
#: A loader of another package that does what the first word of its file says.
PLUGIN = """
    import os, signal, time
    from whence.ingest.document_builder import build_document
    from whence.ingest.loaders.base import Loader
    from whence.ingest.text_builder import TextBuilder

    def load(file, data):
        what = data.split()[0].decode()
        words = what
        if what == "sleep":
            time.sleep(600)
        elif what == "spin":
            while True:
                pass
        elif what == "allocate":
            kept = [b"x" * 2**20 for _ in range(2**20)]
        elif what == "wrap":
            try:
                bytearray(2**40)
            except MemoryError as error:
                raise ValueError("could not be parsed") from error
        elif what == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif what == "leave":
            os._exit(3)
        elif what == "long":
            words = "word " * 300_000
        elif what == "strange":
            words = "\\ud800"
        elif what == "print":
            print("on standard output")
        elif what == "pid":
            words = f"pid {os.getpid()}"
        text = TextBuilder()
        text.add_paragraph(words)
        return None if what == "none" else build_document(file, text.text, text.blocks)

    ODD = Loader(name="odd", suffixes=(".odd",), parse_file=load)
"""


@pytest.fixture(scope="module", autouse=True)
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Install the loader, as a distribution with an entry point on the path of modules."""
    from whence.ingest.loader_registry import loaders_by_suffix

    site = tmp_path_factory.mktemp("site")
    (site / "odd_loader.py").write_text(textwrap.dedent(PLUGIN))
    about = site / "odd_loader-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-loader\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[whence.loaders]\nodd = odd_loader:ODD\n")
    sys.path.append(str(site))
    loaders_by_suffix.cache_clear()
    yield
    sys.path.remove(str(site))
    loaders_by_suffix.cache_clear()


@pytest.fixture(scope="module")
def readers() -> Iterator[ReaderPool]:
    """Readers with little memory, and more time than any document needs on a busy machine."""
    pool = ReaderPool(Limits(seconds=60.0, memory=2**28, output=2**20))
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def brief_readers() -> Iterator[ReaderPool]:
    """Readers with little memory and little time."""
    pool = ReaderPool(Limits(seconds=2.0, memory=2**28, output=2**20))
    yield pool
    pool.close()


def read(readers: ReaderPool, folder: Path, files: dict[str, str | bytes]) -> dict[str, LoadResult]:
    """Return the results of some files by name."""
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
    with readers.reader() as reader:
        results = list(load_documents([folder], chunker=CHUNKER, reader=reader))
    return dict(zip(sorted(files), results, strict=True))


def content_of(result: LoadResult) -> object:
    """Return what was read; the time of a file is kept only when it is old enough, which may come between."""
    return result.draft if isinstance(result, LoadedDocument) else result


def reason(result: LoadResult) -> str:
    assert isinstance(result, LoadFailure)
    return result.reason


def test_a_document_that_takes_too_long_fails_and_the_next_ones_are_read(
    brief_readers: ReaderPool, tmp_path: Path
) -> None:
    """A document that waits or computes for ever fails with a reason that names the limit and its setting."""
    files: dict[str, str | bytes] = {"1.odd": "sleep", "2.html": "<p>good"}
    found = read(brief_readers, tmp_path, files | {"3.odd": "spin", "4.html": "<p>good"})

    slow = "reading took longer than 2 s (WHENCE_DOCUMENT_TIMEOUT); it was not indexed"
    assert (reason(found["1.odd"]), reason(found["3.odd"])) == (slow, slow)
    assert all(isinstance(found[name], LoadedDocument) for name in ("2.html", "4.html"))


def test_a_document_beyond_another_limit_fails_and_the_next_ones_are_read(
    readers: ReaderPool, tmp_path: Path
) -> None:
    """The reason of each names the limit and its setting; a crash is a failure of its document alone."""
    words = ["allocate", "wrap", "crash", "leave", "long", "none", "print"]
    files: dict[str, str | bytes] = {f"{at}-{word}.odd": word for at, word in enumerate(words)}
    found = read(readers, tmp_path, files | {f"{at}-z.html": "<p>good" for at in range(len(words))})

    failed = {name: reason(one) for name, one in found.items() if isinstance(one, LoadFailure)}
    memory = "reading took more than 256 MB of memory (WHENCE_DOCUMENT_MEMORY); it was not indexed"
    assert failed == {
        "0-allocate.odd": memory,
        "1-wrap.odd": memory,
        "2-crash.odd": "reading ended with SIGSEGV: the file is damaged, or needs more than 256 MB of"
        " memory (WHENCE_DOCUMENT_MEMORY); it was not indexed",
        "3-leave.odd": "reading ended with exit code 3: the file is damaged, or needs more than 256 MB"
        " of memory (WHENCE_DOCUMENT_MEMORY); it was not indexed",
        "4-long.odd": "its text is larger than 1 MB (WHENCE_DOCUMENT_OUTPUT); it was not indexed",
        "5-none.odd": "cannot be read: TypeError: the loader of odd returned a NoneType",
    }
    good = [one for one in found.values() if isinstance(one, LoadedDocument)]
    assert len(good) == len(words) + 1


def test_small_files_that_take_much_fail_alone(brief_readers: ReaderPool, tmp_path: Path) -> None:
    """Libraries that take too long, or too much memory, do so within the limits; neighbours are read."""
    shares = {
        "csharp-less": 1.0,
        "java-less": 1.0,
        "pdf-deflated-twice": 0.25,
        "rst-different-sections": 4.0,
    }
    files: dict[str, str | bytes] = {}
    for name, share in shares.items():
        files[f"{name}{BOMBS[name].suffix}"] = BOMBS[name].data(share)
        files[f"{name}.z.html"] = "<p>good"
    assert max(map(len, files.values())) < 2**22
    found = read(brief_readers, tmp_path, files)

    bad = {name: reason(one) for name, one in found.items() if not name.endswith(".z.html")}
    assert len(bad) == len(shares)
    assert all("(WHENCE_DOCUMENT_" in one for one in bad.values()), bad
    assert all(isinstance(found[f"{name}.z.html"], LoadedDocument) for name in shares)


def test_the_text_is_that_of_reading_in_this_process(readers: ReaderPool, tmp_path: Path) -> None:
    """All formats have the same drafts, to the last place, in either process; also when they are long."""
    files: dict[str, str | bytes] = {
        "a.html": "<h1>Title</h1><p id=x>Words &amp; <code>code</code></p>",
        "b.pdf": make_pdf([[(10, 700, "Words on a page.")], [(10, 700, "More words.")]]),
        "c.docx": make_docx(("Heading1", "Title"), ("", "Words.")),
        "d.py": "def f():\n    return 1\n" * 2_000,
        "e.rst": "Title\n=====\n\nWords.\n" * 500,
        "f \u00fc.md": "# Title\n\n" + "A sentence of some words. " * 2_000,
        "g.html": "<p></p>",
        "h.pdf": "%PDF-1.4 broken",
    }
    here = tmp_path / "files"
    here.mkdir()
    there = read(readers, here, files).values()
    found = list(load_documents([here], chunker=CHUNKER))
    assert list(map(content_of, there)) == list(map(content_of, found))


def test_one_process_reads_many_documents(readers: ReaderPool, tmp_path: Path) -> None:
    """The process stays for the next documents, and for the next run."""
    first = read(readers, tmp_path, {f"{at}.odd": "pid" for at in range(30)})
    (tmp_path / "31.odd").write_text("pid")
    second = read(readers, tmp_path, {"31.odd": "pid"} | {f"{at}.odd": "pid" for at in range(30)})
    texts = {
        one.text for one in (*first.values(), *second.values()) if isinstance(one, LoadedDocument)
    }
    assert len(texts) == 1
    assert texts != {f"pid {os.getpid()}"}


def test_closing_ends_a_reader_that_waits(tmp_path: Path) -> None:
    """Any thread may close a reader: the waiting one gets an error at once, and no process stays."""
    others = reading_processes(os.getpid())
    reader = DocumentReader(Limits(seconds=60))
    reader.submit(SourceFile(path="a.odd", document_id="a.odd", suffix=".odd"), b"spin")
    closing = threading.Timer(0.5, reader.close)
    closing.start()
    begun = time.monotonic()
    with pytest.raises(ReaderStopped):
        reader.result()
    assert time.monotonic() - begun < 30
    closing.join()
    assert reading_processes(os.getpid()) == others


def test_the_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    """A killed parent leaves no process behind, whatever that is reading."""
    program = textwrap.dedent("""
        import os, sys
        from whence.ingest.reader import DocumentReader
        from whence.ingest.limited_process import Limits
        from whence.ingest.sources import SourceFile
        reader = DocumentReader(Limits(seconds=600))
        reader.submit(SourceFile(path="a", document_id="a", suffix=".odd"), b"pid")
        print(reader.result().text, flush=True)
        reader.submit(SourceFile(path="a", document_id="a", suffix=".odd"), b"spin")
        sys.stdin.read()
    """)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline().split()[1]))
        assert child.is_running()
        parent.kill()
    gone, _ = psutil.wait_procs([child], timeout=20)
    assert gone


def reading_processes(parent: int) -> list[psutil.Process]:
    found = psutil.Process(parent).children()
    return [one for one in found if "whence.ingest.reading_process" in one.cmdline()]
