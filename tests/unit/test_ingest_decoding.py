"""Encodings: what a text is written in is found, stated or reported as a guess, and damage stays small."""

# ruff: noqa: RUF001 - sentences of many scripts
from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from whence.ingest.chunking import Chunker
from whence.ingest.decoding import decode_text
from whence.ingest.documents import load_documents
from whence.ingest.load_results import LoadedDocument
from whence.schema.errors import BadInput

CHUNKER = Chunker(lambda texts: [len(text.split()) for text in texts])
_RUSSIAN = [
    "Сотрудник имеет право на ежегодный оплачиваемый отпуск.",
    "Заседание состоится во вторник в десять часов.",
    "Все покупки дороже тысячи рублей согласует директор.",
    "Магазин закрыт по воскресеньям.",
]
_GREEK = [
    "Ο εργαζόμενος δικαιούται ετήσια άδεια είκοσι ημερών.",
    "Η συνεδρίαση θα γίνει την Τρίτη στις δέκα.",
    "Κάθε αγορά άνω των χιλίων χρειάζεται έγκριση.",
    "Το κατάστημα είναι κλειστό τις Κυριακές.",
]
_JAPANESE = [
    "従業員には年二十日の有給休暇があります。",
    "次の会議は火曜日の午前十時に行われます。",
    "千円以上の購入には部長の承認が必要です。",
    "送料は五百円です。",
    "ドアを閉めてください",
]
#: Sentences as people write them, by encoding.
SENTENCES = {
    "cp1255": [
        "עובד זכאי לחופשה שנתית בת שישה עשר ימים.",
        "הישיבה הבאה תתקיים ביום שלישי בשעה עשר.",
        "אישור מנהל נדרש לכל רכישה מעל אלף שקלים.",
        "שלום, אני מצרף את הדוח הרבעוני לעיונך.",
        "החנות סגורה בשבתות ובחגים.",
    ],
    "cp1251": _RUSSIAN,
    "koi8-r": _RUSSIAN,
    "cp866": _RUSSIAN,
    "cp1253": _GREEK,
    "iso8859-7": _GREEK,
    "shift_jis": _JAPANESE,
    "euc-jp": _JAPANESE,
    "iso2022_jp": _JAPANESE,
    "gb18030": [
        "员工每年享有二十天带薪休假。",
        "下一次会议将于星期二上午十点举行。",
        "超过一千元的采购需要经理批准。",
        "运费是五百元。",
        "商店星期日不营业。",
    ],
    "big5": [
        "員工每年享有二十天的帶薪休假。",
        "下一次會議將於星期二上午十點舉行。",
        "超過一千元的採購需要經理批准。",
        "運費是五百元。",
    ],
    "euc-kr": [
        "직원은 매년 이십일의 유급 휴가를 받습니다.",
        "다음 회의는 화요일 오전 열 시에 열립니다.",
        "천 원 이상의 구매는 부장의 승인이 필요합니다.",
        "배송비는 오백 원입니다.",
    ],
    "cp1254": [
        "Çalışanların yıllık yirmi gün ücretli izin hakkı vardır.",
        "Bir sonraki toplantı salı günü saat onda yapılacaktır.",
        "Bin liranın üzerindeki alımlar için müdürün onayı gerekir.",
        "İyi günler, üç aylık raporu gönderiyorum.",
    ],
    "cp1250": [
        "Pracownik ma prawo do dwudziestu dni płatnego urlopu rocznie.",
        "Zakupy powyżej tysiąca złotych wymagają zgody kierownika.",
        "Sklep jest zamknięty w niedzielę.",
        "Zaměstnanec má nárok na dvacet dní dovolené ročně.",
        "Příští schůze se koná v úterý v deset hodin.",
    ],
    "iso8859-2": [
        "Pracownik ma prawo do dwudziestu dni płatnego urlopu, także ósmego dnia.",
        "Następne posiedzenie odbędzie się we wtorek; proszę zabrać ważne wnioski.",
        "Zakupy powyżej tysiąca złotych wymagają zgody kierownika, jeśli są pilne.",
    ],
    "cp1252": [
        "Die Belege sind binnen vier Wochen einzureichen, spätestens zum Monatsende.",
        "Les frais doivent être déclarés avant le début de l\u2019été, même à l\u2019étranger.",
        "El empleado tiene derecho a veinte días de vacaciones al año.",
        "Å være ansatt gir rett til ferie på fem uker, også når du er syk.",
        "Der Preis beträgt 40 € \u2013 inklusive \u201eService\u201c.",
        "Zoë works at the café.",
    ],
    "cp1256": [
        "يحق للموظف إجازة سنوية مدفوعة مدتها عشرون يوما.",
        "ستعقد الجلسة القادمة يوم الثلاثاء في الساعة العاشرة.",
        "المتجر مغلق يوم الجمعة.",
    ],
    "cp874": ["พนักงานมีสิทธิลาพักร้อนปีละยี่สิบวัน", "ร้านปิดทุกวันอาทิตย์"],
}
SAMPLES = [(name, text) for name, texts in SENTENCES.items() for text in texts]


def test_a_sentence_is_enough_to_know_an_encoding() -> None:
    """Nearly every single sentence is read as it was written; one that is not is reported as a guess."""
    read = {sample: decode_text(sample[1].encode(sample[0])) for sample in SAMPLES}
    wrong = [sample for sample, found in read.items() if found.text != sample[1]]

    assert len(SAMPLES) > 60
    assert len(wrong) <= 0.03 * len(SAMPLES), wrong
    assert all(read[sample].encoding.endswith("?") for sample in wrong)
    unsure = [sample for sample, found in read.items() if found.encoding.endswith("?")]
    assert len(unsure) < 0.2 * len(SAMPLES)


@pytest.mark.parametrize("encoding", ["mac_roman", "cp1252"])
@pytest.mark.parametrize(
    "line",
    [
        "Der Präsident wünscht größere Räume.",
        "Le préavis est de trois mois, même à l'été.",
        "El año próximo la compañía tendrá más días.",
        "Ålesund er på vestkysten, ikke sør.",
    ],
)
def test_line_ends_of_the_macintosh_tell_its_encoding(line: str, encoding: str) -> None:
    """Text with its line ends is in its encoding, unless that makes no words."""
    found = decode_text(f"{line}\r{line}\r".encode(encoding))

    assert (found.text, found.encoding.rstrip("?")) == (
        f"{line}\n{line}\n",
        codecs.lookup(encoding).name.replace("-", "_"),
    )


@pytest.mark.parametrize(
    "text", ["Ärzte und Müller tragen Öl.", "送料は五百円です。次は十時です。"]
)
@pytest.mark.parametrize("byte", [b"\xfc", b"\x80", b"\xff"])
def test_a_damaged_byte_spoils_one_character(text: str, byte: bytes) -> None:
    """UTF-8 with a byte of cp1252 is UTF-8 with that character, and the byte is counted."""
    found = decode_text(text.encode() + b" M" + byte + b"ller, " + text.encode())

    assert found.text == f"{text} M{byte.decode('cp1252')}ller, {text}"
    assert (found.encoding, found.left_out) == ("utf-8", {"undecodable bytes": 1})


def test_texts_of_two_encodings_that_were_joined_are_read() -> None:
    """Latin text with one character of UTF-8 and more of cp1252: no character of UTF-8 becomes two."""
    found = decode_text("Ärzte".encode() + " für größere Häuser".encode("cp1252"))

    assert found.text == "Ärzte für größere Häuser"
    assert found.undecodable == 4


@pytest.mark.parametrize("name", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize(
    "text",
    [
        "A plain text\nof two lines.",
        "Сотрудник имеет право на отпуск.",
        "送料は五百円です。\n次は 10 時です。",
    ],
)
def test_wide_encodings_need_no_mark(name: str, text: str) -> None:
    """UTF-16 and UTF-32 are known by the places of their zero bytes."""
    found = decode_text(text.encode(name))

    assert (found.text, found.encoding) == (text, name)


@pytest.mark.parametrize(
    "data",
    [b"fine\nthen \0", b"\0\1\2\3" * 40, bytes(range(256)) * 4, b"\1\0\2\0\3\0" * 50],
    ids=["text", "counted", "all", "numbers"],
)
def test_other_zero_bytes_are_no_text(data: bytes) -> None:
    """A text has no zero bytes, and what has them is not taken as UTF-16 for it."""
    with pytest.raises(BadInput, match="is not text"):
        decode_text(data)


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("# -*- coding: iso-8859-15 -*-\n", "iso8859-15"),
        ("#!/bin/sh\n# vim: set fileencoding=koi8-r :\n", "koi8-r"),
        ('<?xml version="1.0" encoding="ISO-8859-2"?>\n', "iso8859-2"),
    ],
)
def test_a_declared_encoding_is_taken(head: str, name: str) -> None:
    """What a text says of itself takes precedence over the setting and over a guess, but not over UTF-8."""
    # No language has these letters, so that no guess finds the encoding.
    body = bytes(range(0xA1, 0xFF))
    found = decode_text(head.encode() + body, "cp1256")

    assert (found.text, found.encoding) == (head + body.decode(name), name)
    assert decode_text(f"{head}Ärzte".encode()).text == f"{head}Ärzte"


def test_the_encoding_that_is_set_reads_what_declares_none(tmp_path: Path) -> None:
    """`encoding` is that of texts that are not UTF-8; a wrong name is refused before anything is read."""
    (tmp_path / "a.txt").write_bytes("Ľúbeľ ŝi".encode("iso8859-3", "replace"))
    (tmp_path / "b.txt").write_text("Ärzte", encoding="utf-8")
    first, second = load_documents([tmp_path], chunker=CHUNKER, encoding="ISO-8859-3")

    assert isinstance(first, LoadedDocument)
    assert isinstance(second, LoadedDocument)
    assert first.text == "Ľúbeľ ŝi".encode("iso8859-3", "replace").decode("iso8859-3")
    assert second.text == "Ärzte"
    with pytest.raises(BadInput, match="'klingon' is not an encoding"):
        load_documents([tmp_path], chunker=CHUNKER, encoding="klingon")


def test_a_document_says_how_it_was_decoded(tmp_path: Path) -> None:
    """Metadata have the encoding, with `?` for an uncertain guess; damaged bytes are left out by number."""
    (tmp_path / "a.txt").write_bytes("Ärzte".encode("cp1252"))
    (tmp_path / "b.md").write_bytes("Ärzte und Öl".encode() + b" \x81")
    guessed, damaged = load_documents([tmp_path], chunker=CHUNKER)

    assert isinstance(guessed, LoadedDocument)
    assert isinstance(damaged, LoadedDocument)
    assert guessed.draft.metadata["encoding"] == "cp1252?"
    assert damaged.draft.left_out == {"undecodable bytes": 1}
    assert damaged.text == "Ärzte und Öl \ufffd"
