"""Load mail: a message (`.eml`) with its attachments, or a file of messages (`.mbox`), each a document.

The first lines of a message are its sender, receivers, date and subject. What it quotes of other messages is
below the heading `Quoted`, or after `Quoted:` where the answer follows, so that the facts of a reply are not
those of what it answers. Attachments are documents of their own, with the id `mail.eml/report.pdf`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from email.errors import HeaderParseError, MessageError
from email.header import decode_header
from email.message import Message
from email.parser import BytesHeaderParser, BytesParser
from email.utils import collapse_rfc2231_value, parsedate_to_datetime
from mimetypes import guess_extension
from typing import Any

from whence.ingest.blocks import Member, ParsedDocument
from whence.ingest.decoding import UNDECODABLE, decode_text
from whence.ingest.document_builder import build_document
from whence.ingest.front_matter import FrontMatter
from whence.ingest.load_results import LoadFailure
from whence.ingest.loaders.base import Loader, Record
from whence.ingest.mail_quotes import cut_html_quotes, parted_quotes
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import TextBuilder, collapse_spaces
from whence.schema.errors import BadInput

#: Fields that a reader sees, in this order.
_SHOWN = ("From", "To", "Cc", "Date", "Subject")
#: Most parts of a message, and most attachments that become documents.
_MAX_PARTS, _MAX_MEMBERS = 1000, 200
_MAX_DEPTH = 30
_MAX_NAME = 120
#: Characters of a field that are read: the library takes their square to decode it.
_MAX_FIELD = 20_000
_UNSAFE = re.compile(r"[^\w.@+= ()\[\]-]")
_ENCRYPTED = "is encrypted ({}), decrypt it first"
_PGP = b"-----BEGIN PGP MESSAGE-----"
_SIGNATURES = frozenset(
    {"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"}
)
_SMIME = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime"})
#: A line that begins a message, and one that was changed because it looks like that.
_FROM_LINE, _ESCAPED_FROM = b"From ", re.compile(rb"^>(>*From )", re.MULTILINE)
_HEAD_BYTES = 2**16
#: Largest message of a file of messages, in bytes: most of it is attachments.
_MAX_MESSAGE_BYTES = 64 * 2**20


def load_mail(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a message; its title is its subject, and its date that which it was sent."""
    try:
        message = BytesParser().parsebytes(data)
        if not message.keys():
            raise BadInput("is not a mail: it has no fields")
        return _Reader(file, message).document()
    except (MessageError, RecursionError, LookupError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"is not a readable mail: {type(error).__name__}") from error


class _Reader:
    def __init__(self, file: SourceFile, message: Message) -> None:
        self._file, self._message = file, message
        self._text = TextBuilder()
        self._left_out: Counter[str] = Counter()
        self._members: dict[str, bytes] = {}
        self._encoding = ""
        self._parts = 0

    def document(self) -> ParsedDocument:
        fields = {name: _field(self._message, name) for name in _SHOWN}
        date = _date(fields["Date"])
        self._text.message = date[:10]
        shown = (f"{name}: {value}" for name, value in fields.items() if value)
        self._text.add_lines([*shown])
        self._read(self._message, 0)
        return build_document(
            self._file,
            self._text.text,
            self._text.blocks,
            front=FrontMatter(self._metadata(fields)),
            encoding=self._encoding,
            places=self._text.places,
            date=date,
            left_out=self._left_out + self._text.left_out,
            members=tuple(Member(name, data) for name, data in self._members.items()),
        )

    def _metadata(self, fields: dict[str, str]) -> dict[str, Any]:
        """Return what others may filter by: people, and the thread, which is its first message."""
        own = _ids(_field(self._message, "Message-ID"))
        above = _ids(_field(self._message, "References")) or _ids(
            _field(self._message, "In-Reply-To")
        )
        values = {
            "title": fields["Subject"],
            "from": fields["From"],
            "to": fields["To"],
            "cc": fields["Cc"],
            "message_id": own[0] if own else "",
            "in_reply_to": above[-1] if above else "",
            "thread": (above or own or [""])[0],
        }
        return {name: value for name, value in values.items() if value}

    def _read(self, part: Message, depth: int) -> None:
        self._parts += 1
        if self._parts > _MAX_PARTS or depth > _MAX_DEPTH:
            raise BadInput(f"has more than {_MAX_PARTS} parts, or parts nested {_MAX_DEPTH} deep")
        kind = part.get_content_type()
        if kind == "multipart/encrypted":
            raise BadInput(_ENCRYPTED.format("PGP"))
        if kind in _SMIME:
            raise BadInput(_ENCRYPTED.format("S/MIME"))
        name = _file_name(part)
        if kind == "message/rfc822":
            data = _inner_message(part)
            subject = _field(BytesHeaderParser().parsebytes(data), "Subject")
            self._add_member(name or f"{subject}.eml", data, ".eml")
        elif part.is_multipart():
            self._read_multipart(part, kind, depth)
        elif kind in _SIGNATURES:
            return
        elif kind.startswith("text/") and not name and not _is_attachment(part):
            self._write(part, kind)
        elif kind.startswith("image/") and part.get("Content-ID") and not _is_attachment(part):
            self._left_out["pictures"] += 1
        else:
            suffix = guess_extension(kind) or ""
            self._add_member(name or f"attachment{suffix}", _payload(part), suffix)

    def _read_multipart(self, part: Message, kind: str, depth: int) -> None:
        parts = [each for each in part.get_payload() if isinstance(each, Message)]
        if kind == "multipart/alternative":
            parts = [_preferred(parts)] if parts else []
        for each in parts:
            self._read(each, depth + 1)

    def _write(self, part: Message, kind: str) -> None:
        payload = _payload(part)
        if _PGP in payload:
            raise BadInput(_ENCRYPTED.format("PGP"))
        decoded = decode_text(
            payload, self._file.encoding, declared=str(part.get_param("charset") or "")
        )
        if decoded.encoding.endswith("?") or decoded.undecodable:
            self._encoding = decoded.encoding
        self._left_out[UNDECODABLE] += decoded.undecodable
        if kind == "text/html":
            self._write_html(decoded.text)
        else:
            is_flowed = part.get_param("format") == "flowed"
            self._write_plain(_unflowed(decoded.text) if is_flowed else decoded.text)

    def _write_plain(self, source: str) -> None:
        from whence.ingest.loaders.plain_text import write_text_into

        pieces = parted_quotes(source)
        while pieces and not pieces[-1].text.strip():
            pieces.pop()
        for at, piece in enumerate(pieces):
            if not piece.is_quoted:
                write_text_into(self._text, piece.text)
            elif at == len(pieces) - 1:
                self._text.add_heading(1, "Quoted")
                write_text_into(self._text, piece.text)
            else:
                self._text.lead_in("Quoted")
                self._text.add_paragraph(piece.text)

    def _write_html(self, source: str) -> None:
        from whence.ingest.loaders.html import write_fragment

        own, quoted = cut_html_quotes(source)
        write_fragment(self._text, own)
        if quoted:
            self._text.add_heading(1, "Quoted")
            write_fragment(self._text, quoted)

    def _add_member(self, name: str, data: bytes, suffix: str) -> None:
        """Keep an attachment under a name that is a file name and its own."""
        if len(self._members) == _MAX_MEMBERS:
            self._left_out["attachments"] += 1
            return
        safe = _safe(name.replace("\\", "/").rpartition("/")[2])[-_MAX_NAME:].strip(". ")
        stem, dot, ending = (safe or f"attachment{suffix}").rpartition(".")
        count, unique = 1, safe or f"attachment{suffix}"
        while unique in self._members:
            count += 1
            unique = f"{stem}-{count}.{ending}" if dot else f"{ending}-{count}"
        self._members[unique] = data


def _preferred(parts: list[Message]) -> Message:
    """Return the plain text of some alternatives, unless it is empty; else the last one, which is the best."""
    for part in parts:
        if part.get_content_type() == "text/plain" and _payload(part).strip():
            return part
    readable = [part for part in parts if part.get_content_type() != "text/calendar"]
    return (readable or parts)[-1]


def _payload(part: Message) -> bytes:
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _inner_message(part: Message) -> bytes:
    """Return an attached message; some programs encode it, although the standard forbids that."""
    inner = [each for each in part.get_payload() if isinstance(each, Message)]
    data = b"".join(each.as_bytes() for each in inner)
    if any(each.keys() for each in inner):
        return data
    encoded = Message()
    encoded["Content-Transfer-Encoding"] = str(part.get("Content-Transfer-Encoding", ""))
    encoded.set_payload(data.decode("ascii", "replace"))
    return _payload(encoded)


def _is_attachment(part: Message) -> bool:
    return part.get_content_disposition() == "attachment"


def _file_name(part: Message) -> str:
    for field, parameter in (("Content-Disposition", "filename"), ("Content-Type", "name")):
        with suppress(LookupError, ValueError, TypeError):
            value = part.get_param(parameter, header=field.lower())
            if value:
                return _decoded(collapse_rfc2231_value(value))
    return ""


def _field(message: Message, name: str) -> str:
    """Return a field of a message, decoded, as one line."""
    for key, value in message.raw_items():
        if key.lower() == name.lower():
            return collapse_spaces(_decoded(str(value)[:_MAX_FIELD]))
    return ""


def _decoded(value: str) -> str:
    """Return a field without the encodings of RFC 2047; bytes beyond ASCII as their text."""
    raw = value.encode("utf-8", "surrogateescape")
    if not value.isascii():
        return decode_text(raw).text
    try:
        pieces = decode_header(value)
    except (HeaderParseError, ValueError):
        return value
    words = (
        decode_text(piece, declared=charset or "").text if isinstance(piece, bytes) else piece
        for piece, charset in pieces
    )
    return "".join(words) or value


def _date(value: str) -> str:
    try:
        return parsedate_to_datetime(value).isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        return ""


def _ids(value: str) -> list[str]:
    return [each[:250] for each in re.findall(r"<([^<>\s]+)>", value)]


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", collapse_spaces(name))


def _unflowed(text: str) -> str:
    """Return text of `format=flowed` (RFC 3676) with its paragraphs as lines."""
    return re.sub(r"(?m)(?<!^--) \n(?!>|\n)", " ", text)


def read_messages(file: SourceFile, max_bytes: int) -> Iterator[Record | LoadFailure]:
    """Read the messages of a file one by one; memory holds one message at a time.

    The id of a message is made of its `Message-ID`, or its content: it stays when others come or go.
    """
    limit = max(max_bytes, _MAX_MESSAGE_BYTES)
    counts: Counter[str] = Counter()
    for number, data in enumerate(_messages(file.path, limit), 1):
        name = _message_name(data)
        counts[name] += 1
        name = name if counts[name] == 1 else f"{name}-{counts[name]}"
        document_id, path = f"{file.document_id}/{name}", f"{file.display_path}/{name}"
        if len(data) > limit:
            reason = f"is larger than {limit:,} bytes, the limit for one message"
            yield LoadFailure(path=path, reason=reason, document_id=document_id)
            continue
        inner = SourceFile(
            path=file.path, document_id=document_id, suffix=".eml", encoding=file.encoding
        )
        yield Record(inner, path, document_id, data, {}, number)


def _messages(path: str, limit: int) -> Iterator[bytes]:
    """Yield the messages, those beyond the limit cut after it."""
    lines: list[bytes] = []
    size = 0
    is_blank = True
    with open(path, "rb") as stream:  # noqa: PTH123 - paths are strings here, see `sources`
        while line := stream.readline(2**20):
            if is_blank and line.startswith(_FROM_LINE):
                if lines:
                    yield _joined(lines)
                lines, size = [], 0
            elif size <= limit:
                lines.append(line)
                size += len(line)
            is_blank = not line.strip()
    if any(line.strip() for line in lines):
        yield _joined(lines)


def _joined(lines: list[bytes]) -> bytes:
    """Return a message without the blank line that parts it from the next one, which the last has not."""
    return _ESCAPED_FROM.sub(rb"\1", b"".join(lines)).rstrip(b"\r\n")


def _message_name(data: bytes) -> str:
    head = BytesHeaderParser().parsebytes(data[:_HEAD_BYTES].partition(b"\n\n")[0])
    stated = _ids(_field(head, "Message-ID"))
    if stated and (name := _safe(stated[0]).strip(". ")):
        return name[:_MAX_NAME]
    return f"message-{hashlib.sha256(data).hexdigest()[:16]}"


LOADERS = (
    Loader(name="mail", suffixes=(".eml",), parse_file=load_mail, is_binary=True, version="3"),
    Loader(name="mailbox", suffixes=(".mbox", ".mbx"), records=read_messages),
)
