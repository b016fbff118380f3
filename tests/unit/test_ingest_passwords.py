"""Encrypted PDF and Office files, and the file of their passwords."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pytest
from msoffcrypto.format.ooxml import OOXMLFile
from tests.support.documents import make_docx

from whence.flow.settings import Settings
from whence.ingest.chunking import Chunker
from whence.ingest.documents import load_documents
from whence.ingest.load_results import LoadedDocument, LoadFailure, Skipped
from whence.ingest.passwords import Passwords, read_passwords
from whence.schema.errors import BadInput
from whence.surfaces.cli.serve import _watch_of

SECRET = "Zwölf Äpfel "
OTHERS = ("wrong one", "12 apples")


CHUNKER = Chunker(lambda texts: [len(text.split()) for text in texts])
#: What the standard security handler of PDF fills passwords up with.
_FILL = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")


def rc4(key: bytes, data: bytes) -> bytes:
    """Encrypt as PDF does."""
    state, at = list(range(256)), 0
    for place in range(256):
        at = (at + state[place] + key[place % len(key)]) % 256
        state[place], state[at] = state[at], state[place]
    out, one, at = bytearray(), 0, 0
    for byte in data:
        one = (one + 1) % 256
        at = (at + state[one]) % 256
        state[one], state[at] = state[at], state[one]
        out.append(byte ^ state[(state[one] + state[at]) % 256])
    return bytes(out)


def rounds(key: bytes, data: bytes) -> bytes:
    """Encrypt twenty times, each time by the key mixed with the number of the round."""
    for number in range(20):
        data = rc4(bytes(byte ^ number for byte in key), data)
    return data


def md5(data: bytes, times: int = 1) -> bytes:
    """Return the digest, of the digest, and so on."""
    for _ in range(times):
        data = hashlib.md5(data, usedforsecurity=False).digest()
    return data


def pdf(text: str) -> bytes:
    """Return a PDF of one line that SECRET opens: 128 bits, revision 3 of the standard handler."""
    name, rights = b"0123456789abcdef", (-4).to_bytes(4, "little", signed=True)
    filled = (SECRET.encode("latin-1") + _FILL)[:32]
    owner = rounds(md5(filled, 51), filled)
    key = md5(md5(filled + owner + rights + name), 50)
    user = rounds(key, md5(_FILL + name)) + bytes(16)
    line = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    content = rc4(md5(key + b"\4\0\0" + b"\0\0"), line)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
            b" /Resources << /Font << /F1 5 0 R >> >> >>"
        ),
        b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Filter /Standard /V 2 /R 3 /Length 128 /P -4 /O <%b> /U <%b> >>"
        % (owner.hex().encode(), user.hex().encode()),
    ]
    out, places = b"%PDF-1.6\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer << /Size 7 /Root 1 0 R /Encrypt 6 0 R /ID [<%b> <%b>] >>" % (
        name.hex().encode(), name.hex().encode(),
    )  # fmt: skip
    start = len(out)
    return out + b"xref\n0 7\n0000000000 65535 f \n%b%b\nstartxref\n%d\n%%%%EOF\n" % (
        table,
        trailer,
        start,
    )


def office(plain: io.BytesIO) -> bytes:
    """Return an Office file that SECRET opens."""
    # The library writes none that it reads again of fewer than 4,096 bytes.
    with zipfile.ZipFile(plain, "a", zipfile.ZIP_STORED) as archive:
        archive.writestr("docProps/filling.bin", bytes(8192))
    plain.seek(0)
    locked = io.BytesIO()
    OOXMLFile(plain).encrypt(SECRET, locked)
    return locked.getvalue()


def word(text: str) -> bytes:
    """Return a Word file of one paragraph that SECRET opens."""
    return office(io.BytesIO(make_docx(("", text))))


def workbook(text: str) -> bytes:
    """Return a workbook of one cell that SECRET opens."""
    book, plain = openpyxl.Workbook(), io.BytesIO()
    book.active["A1"] = text
    book.save(plain)
    return office(plain)


FORMATS = [("a.pdf", pdf), ("a.docx", word), ("a.xlsx", workbook)]


@pytest.mark.parametrize(("name", "make"), FORMATS)
def test_an_encrypted_file_is_read_with_its_password(
    tmp_path: Path, name: str, make: Callable[[str], bytes]
) -> None:
    """Any line of the file of passwords may be the one, with the spaces at its end."""
    (tmp_path / name).write_bytes(make("The vault is below the old mill."))
    (tmp_path / "keys.txt").write_text("\n".join((*OTHERS, "", SECRET)) + "\n")
    passwords = read_passwords(tmp_path / "keys.txt")
    found = list(load_documents([tmp_path], chunker=CHUNKER, passwords=passwords))

    (read,) = [one for one in found if isinstance(one, LoadedDocument)]
    assert "below the old mill" in read.text
    (keys,) = [one for one in found if isinstance(one, Skipped)]
    assert (keys.file, keys.reason) == ("keys.txt", "the file of passwords")


@pytest.mark.parametrize(("name", "make"), FORMATS)
@pytest.mark.parametrize("given", [(), OTHERS, (SECRET.strip(),)])
def test_without_its_password_a_file_keeps_its_own_reason(
    tmp_path: Path, name: str, make: Callable[[str], bytes], given: tuple[str, ...]
) -> None:
    """The reason names no password."""
    (tmp_path / name).write_bytes(make("The vault."))
    (found,) = load_documents([tmp_path], chunker=CHUNKER, passwords=Passwords(given))

    assert isinstance(found, LoadFailure)
    assert "protected by a password" in found.reason
    assert ("none of those given" in found.reason) == bool(given)
    assert not any(one in found.reason for one in (SECRET, *OTHERS))


def test_passwords_are_not_tried_on_other_files(tmp_path: Path) -> None:
    """A file without encryption is read as it is, also a damaged one that claims to have some."""
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\n/Encrypt 5 0 R\nno more")
    (tmp_path / "b.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2000))
    (tmp_path / "c.md").write_text("Plain words.")
    found = load_documents([tmp_path], chunker=CHUNKER, passwords=Passwords((SECRET,)))
    a, b, c = found

    assert isinstance(a, LoadFailure)
    assert "PDF" in a.reason
    assert isinstance(b, LoadFailure)
    assert "password" not in b.reason
    assert isinstance(c, LoadedDocument)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "1 to 100"),
        (b"\n \n", "1 to 100"),
        (b"x\n" * 101, "1 to 100"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_file_of_no_passwords_is_refused(tmp_path: Path, content: bytes, what: str) -> None:
    """The error names the file, and nothing in it."""
    (tmp_path / "keys").write_bytes(content)

    with pytest.raises(BadInput, match=what) as error:
        read_passwords(tmp_path / "keys")
    assert "keys" in error.value.message
    assert error.value.__cause__ is None
    with pytest.raises(BadInput, match="cannot be read"):
        read_passwords(tmp_path / "none")


def test_passwords_are_not_printed() -> None:
    """Whatever prints the values around them prints their number."""
    assert SECRET not in f"{Passwords((SECRET,))!r} {Passwords((SECRET,))}"


def test_a_served_folder_takes_passwords(tmp_path: Path) -> None:
    """They are checked before the server starts; without a folder to watch they open nothing."""
    (tmp_path / "keys.txt").write_text(f"{SECRET}\n")
    settings = Settings({"collection": "default"})

    watch = _watch_of(settings, [tmp_path], None, tmp_path / "keys.txt")
    assert watch is not None
    assert watch.passwords == tmp_path / "keys.txt"
    with pytest.raises(BadInput, match="no folder is watched"):
        _watch_of(settings, None, None, tmp_path / "keys.txt")
    with pytest.raises(BadInput, match="cannot be read"):
        _watch_of(settings, [tmp_path], None, tmp_path / "absent.txt")


@pytest.mark.parametrize("kind", ["text", "spreadsheet"])
def test_an_encrypted_opendocument_file_says_that_none_are_opened(
    tmp_path: Path, kind: str
) -> None:
    """The reason says what to do, also beside passwords."""
    suffix = {"text": "odt", "spreadsheet": "ods"}[kind]
    with zipfile.ZipFile(tmp_path / f"a.{suffix}", "w") as archive:
        archive.writestr("mimetype", f"application/vnd.oasis.opendocument.{kind}")
        archive.writestr(
            "META-INF/manifest.xml", "<m:manifest xmlns:m='x'><m:encryption-data/></m:manifest>"
        )
        archive.writestr("content.xml", bytes(range(256)))
    (found,) = load_documents([tmp_path], chunker=CHUNKER, passwords=Passwords(OTHERS))

    assert isinstance(found, LoadFailure)
    assert "save it without a password" in found.reason
