"""Mail: what a message says apart from what it quotes, and attachments and mailboxes as documents."""

from __future__ import annotations

import base64
import io
from email.message import EmailMessage
from email.mime.text import MIMEText
from pathlib import Path

import pytest
from openpyxl import Workbook

from whence.ingest.blocks import ParsedDocument
from whence.ingest.chunking import Chunker
from whence.ingest.documents import KnownSources, load_documents
from whence.ingest.limited_process import Limits
from whence.ingest.load_results import LoadedDocument, LoadFailure, LoadResult, Skipped, Unchanged
from whence.ingest.loaders.mail import load_mail
from whence.ingest.reader import DocumentReader
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput

CHUNKER = Chunker(lambda texts: [len(text.split()) for text in texts])


def message(body: str = "Hello.", subject: str = "Price", **fields: str) -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "Ida M\u00fcller <ida@example.org>"
    mail["To"] = "Ben <ben@example.org>"
    mail["Subject"] = subject
    mail["Date"] = "Tue, 03 Mar 2026 10:15:00 +0100"
    for name, value in fields.items():
        mail[name.replace("_", "-")] = value
    mail.set_content(body)
    return mail


def parsed(data: bytes | EmailMessage) -> ParsedDocument:
    raw = data.as_bytes() if isinstance(data, EmailMessage) else data
    return load_mail(SourceFile(path="a.eml", document_id="a.eml", suffix=".eml"), raw)


def body_of(document: ParsedDocument) -> str:
    """Return the text below the fields."""
    return document.text.partition("\n\n")[2]


def loaded(folder: Path) -> dict[str, LoadResult]:
    """Load a folder, attachments in a process with limits; results by document id, failures by path."""
    reader = DocumentReader(Limits())
    try:
        results = list(load_documents([folder], chunker=CHUNKER, reader=reader))
    finally:
        reader.close()
    return {
        one.draft.document_id if isinstance(one, LoadedDocument) else str(one.document_id): one
        for one in results
    }


def test_a_message_begins_with_its_fields() -> None:
    """Sender, receivers, date and subject are text and metadata; the date is that of document and places."""
    document = parsed(
        message(
            Cc="Gr\u00f6\u00dfe <c@example.org>",
            Message_ID="<3@example.org>",
            References="<1@example.org> <2@example.org>",
        )
    )

    assert document.text == (
        "From: Ida M\u00fcller <ida@example.org>\nTo: Ben <ben@example.org>\n"
        "Cc: Gr\u00f6\u00dfe <c@example.org>\nDate: Tue, 03 Mar 2026 10:15:00 +0100\nSubject: Price\n\nHello."
    )
    assert (document.title, document.date) == ("Price", "2026-03-03T10:15:00+01:00")
    assert [place.message for place in document.places] == ["2026-03-03"]
    assert document.metadata == {
        "from": "Ida M\u00fcller <ida@example.org>",
        "to": "Ben <ben@example.org>",
        "cc": "Gr\u00f6\u00dfe <c@example.org>",
        "message_id": "3@example.org",
        "in_reply_to": "2@example.org",
        "thread": "1@example.org",
    }


@pytest.mark.parametrize(
    "quote",
    [
        "On Mon, 2 Mar 2026, Ben wrote:\n> The price was 40 euro.\n> Is that right?\n",
        "Am Mo., 2. M\u00e4rz 2026 um 10:00 Uhr schrieb Ben\nHuber <ben@example.org>:\n\n> The price was 40 euro.\n",
        "-----Original Message-----\nFrom: Ben\nSent: Monday\nTo: Ida\n\nThe price was 40 euro.\n",
        "________________________________\nVon: Ben <ben@example.org>\nGesendet: Montag\nAn: Ida\n\nThe price was 40 euro.",
        "From: Ben <ben@example.org>\nDate: Monday\nTo: Ida\nSubject: Price\n\nThe price was 40 euro.",
    ],
)
def test_what_is_quoted_is_apart_from_what_is_said(quote: str) -> None:
    """A quote below an answer, however a program marks it, has a heading of its own, so no passage has both."""
    document = parsed(message(f"The price is now 55 euro.\n\nIda\n\n{quote}"))
    chunks = CHUNKER.split(document)

    assert [chunk.heading for chunk in chunks if "40 euro" in chunk.content] == ["Quoted"]
    assert [chunk.heading for chunk in chunks if "55 euro" in chunk.content] == [""] or not any(
        "40 euro" in chunk.content and "55 euro" in chunk.content for chunk in chunks
    )
    assert body_of(document).startswith("The price is now 55 euro.\n\nIda\n\nQuoted\n\n")


def test_answers_between_quotes_keep_their_questions() -> None:
    """A quote above its answer stays there, and says that it is one."""
    document = parsed(
        message("> What is the fee?\n\nIt is 12 euro.\n\n> And when?\n\nOn Monday.\n")
    )

    assert body_of(document) == (
        "Quoted: What is the fee?\n\nIt is 12 euro.\n\nQuoted: And when?\n\nOn Monday."
    )


def test_lines_with_colons_are_no_quote() -> None:
    """A list of fields without an address is what the author says."""
    body = "The order:\n\nItem: Bolt\nColor: red\nPrice: 55 euro\n\nRegards"

    assert "Quoted" not in parsed(message(body)).text


def test_html_is_read_when_there_is_no_plain_text() -> None:
    """The plain alternative is preferred; of HTML its hidden lines go, and its quotes are apart."""
    mail = message("Plain words.")
    mail.add_alternative("<p>Other words.</p>", subtype="html")
    html = MIMEText(
        "<div style='display:none'>teaser</div><p>We meet in <b>room 12</b>.</p>"
        "<div class=gmail_quote><p>On Tue Ida wrote:</p><blockquote>In room 9.</blockquote></div>",
        "html",
    )

    assert body_of(parsed(mail)) == "Plain words."
    assert parsed(html.as_bytes()).text == (
        "We meet in room 12.\n\nQuoted\n\nOn Tue Ida wrote:\n\nIn room 9."
    )


@pytest.mark.parametrize("transfer", ["base64", "quoted-printable", "8bit"])
@pytest.mark.parametrize("charset", ["utf-8", "koi8-r", "windows-1251"])
def test_bodies_are_decoded(transfer: str, charset: str) -> None:
    """The transfer encoding and the character set are those that the part states."""
    mail = EmailMessage()
    words = "\u0421\u043e\u0442\u0440\u0443\u0434\u043d\u0438\u043a \u0438\u043c\u0435\u0435\u0442 \u043f\u0440\u0430\u0432\u043e."
    mail.set_content(words, charset=charset, cte=transfer)

    assert parsed(mail.as_bytes()).text == words


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        (b"=?ISO-8859-1?Q?Gr=F6=DFe?= =?ISO-8859-1?Q?_7?=", "Gr\u00f6\u00dfe 7"),
        (b"=?klingon?B?R3I=?=", "Gr"),
        ("Gr\u00f6\u00dfe 7".encode(), "Gr\u00f6\u00dfe 7"),
        ("Gr\u00f6\u00dfe sieben".encode("cp1252"), "Gr\u00f6\u00dfe sieben"),
        (b"=?utf-8?B?%%%?=", "=?utf-8?B?%%%?="),
    ],
)
def test_fields_are_decoded(field: bytes, shown: str) -> None:
    """Encoded words, bytes without an encoding, and what is damaged."""
    assert f"Subject: {shown}" in parsed(b"Subject: " + field + b"\n\nx").text


def test_attachments_are_documents_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has an id below that of the mail; one that cannot be read fails alone; nested mail is read too."""
    # Without programs that read pictures.
    monkeypatch.setenv("PATH", "")
    book = Workbook()
    assert book.active is not None
    book.active.append(["Bolt", "Price"])
    book.active.append(["B1", 3])
    out = io.BytesIO()
    book.save(out)
    inner = message("Inner words.", subject="Inner one")
    inner.add_attachment("The note.\n", filename="note.txt")
    mail = message()
    mail.add_attachment(
        out.getvalue(), "application", "octet-stream", filename="Preise M\u00e4rz.xlsx"
    )
    mail.add_attachment(b"\x89PNG\r\n\x1a\n", "image", "png", filename="scan.png")
    mail.add_attachment(b"%PDF-broken", "application", "pdf", filename="../../etc/x.pdf")
    mail.add_attachment(b"%PDF-broken", "application", "pdf", filename="x.pdf")
    mail.add_attachment(inner)
    (tmp_path / "mail.eml").write_bytes(mail.as_bytes())
    (tmp_path / "other.md").write_text("Other.", encoding="utf-8")
    found = loaded(tmp_path)

    assert {name: type(one) for name, one in found.items()} == {
        "mail.eml": LoadedDocument,
        "mail.eml/Preise M\u00e4rz.xlsx": LoadedDocument,
        "mail.eml/scan.png": Skipped,
        "mail.eml/x.pdf": LoadFailure,
        "mail.eml/x-2.pdf": LoadFailure,
        "mail.eml/Inner one.eml": LoadedDocument,
        "mail.eml/Inner one.eml/note.txt": LoadedDocument,
        "other.md": LoadedDocument,
    }
    sheet = found["mail.eml/Preise M\u00e4rz.xlsx"]
    assert isinstance(sheet, LoadedDocument)
    assert "| B1 | 3 |" in sheet.text
    assert sheet.draft.source_file == "mail.eml"
    failure = found["mail.eml/x.pdf"]
    assert isinstance(failure, LoadFailure)
    assert failure.path == f"{tmp_path}/mail.eml/x.pdf"


def test_an_attached_message_that_is_encoded_is_read(tmp_path: Path) -> None:
    """The standard forbids to encode it; some mail programs do."""
    inner = message("The kiln, hot =\u00e9.", subject="Inner").as_bytes()
    (tmp_path / "a.eml").write_bytes(
        b"From: a@b.example\nSubject: Outer\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\nOuter words.\n"
        b"--B\nContent-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n"
        + base64.encodebytes(inner)
        + b"\n--B--\n"
    )
    found = loaded(tmp_path)["a.eml/Inner.eml"]

    assert isinstance(found, LoadedDocument)
    assert found.text.endswith("The kiln, hot =\u00e9.")


def test_mail_in_mail_has_an_end(tmp_path: Path) -> None:
    """Beyond some levels the documents inside a document are skipped."""
    mail = message("The core.", subject="m")
    for _ in range(7):
        outer = message("A shell.", subject="m")
        outer.add_attachment(mail)
        mail = outer
    (tmp_path / "a.eml").write_bytes(mail.as_bytes())
    found = loaded(tmp_path)

    assert len(found) == 6
    last = found["a.eml" + "/m.eml" * 5]
    assert isinstance(last, Skipped)
    assert "inside more than" in last.reason


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        ("multipart/encrypted; boundary=b", "--b--", "encrypted .PGP."),
        ("application/pkcs7-mime; smime-type=enveloped-data", "MIAG", "encrypted .S/MIME."),
        ("text/plain", "-----BEGIN PGP MESSAGE-----\n", "encrypted .PGP."),
    ],
)
def test_encrypted_mail_says_so(kind: str, body: str, reason: str) -> None:
    """It is a failure with its reason, not an empty document."""
    with pytest.raises(BadInput, match=reason):
        parsed(f"Subject: x\nContent-Type: {kind}\n\n{body}".encode())


def test_parts_without_end_are_refused() -> None:
    """A message of very many parts is no mail that anybody wrote."""
    data = b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\nx\n" * 2000 + b"--b--"

    with pytest.raises(BadInput, match="more than 1000 parts"):
        parsed(data)


def mailbox(*mails: EmailMessage) -> bytes:
    line = b"From ida@example.org Tue Mar  3 10:15:00 2026\n"
    return b"\n".join(line + mail.as_bytes() for mail in mails)


@pytest.mark.parametrize("name", ["box.mbox", "Inbox"])
def test_a_mailbox_has_a_document_for_each_message(tmp_path: Path, name: str) -> None:
    """Ids are made of the messages' own, so they stay when mail comes or goes; the suffix does not matter."""
    first = message("From here\nFrom there on.", Message_ID="<one/1@example.org>")
    second, third = message("Two."), message("Three.", Message_ID="<three@example.org>")
    (tmp_path / name).write_bytes(
        mailbox(first, second, third).replace(b"\nFrom here", b"\n>From here")
    )
    before = loaded(tmp_path)
    (tmp_path / name).write_bytes(mailbox(second, third, message("Four.")))
    after = loaded(tmp_path)

    one, two, three = before
    assert (one, three) == (f"{name}/one_1@example.org", f"{name}/three@example.org")
    assert list(after)[:2] == [two, three]
    text = before[f"{name}/one_1@example.org"]
    assert isinstance(text, LoadedDocument)
    assert text.text.endswith("From here\nFrom there on.")
    assert text.draft.source_file == name


def test_a_known_mail_is_not_parsed(tmp_path: Path) -> None:
    """Messages of a mailbox are known one by one; a mail that is known yields no attachments."""
    mail = message()
    mail.add_attachment("The note.\n", filename="note.txt")
    (tmp_path / "a.eml").write_bytes(mail.as_bytes())
    (tmp_path / "b.mbox").write_bytes(mailbox(message("One.", Message_ID="<1@x>")))
    stored: dict[str, str] = {}
    known = KnownSources(lookup=lambda _: lambda: dict(stored))
    for one in load_documents([tmp_path], chunker=CHUNKER, known=known):
        assert isinstance(one, LoadedDocument)
        stored[one.draft.document_id] = one.draft.source_digest
    (tmp_path / "b.mbox").write_bytes(
        mailbox(message("One.", Message_ID="<1@x>"), message("Two.", Message_ID="<2@x>"))
    )
    again = list(load_documents([tmp_path], chunker=CHUNKER, known=known))

    assert [type(one) for one in again] == [Unchanged, Unchanged, LoadedDocument]
    assert sorted(stored) == ["a.eml", "a.eml/note.txt", "b.mbox/1@x"]


def test_what_a_message_in_html_strikes_is_counted() -> None:
    """A mail counts what its page leaves out, as the page by itself would."""
    mail = message()
    mail.set_content("<p>Fee <s>40</s> 55.", subtype="html")

    document = parsed(mail)

    assert body_of(document) == "Fee 55."
    assert document.left_out == {"struck passages": 1}
