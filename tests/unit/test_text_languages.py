"""Detection of a document's language by its function words or its script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.text.languages import (
    detect_language,
    language_code,
    language_of_document,
    language_sample,
)
from whence.text.normalization import LANGUAGES

SENTENCES = {
    "danish": "Medarbejdere har ret til ferie, og det er ikke muligt at gemme den til næste år.",
    "dutch": "De werknemers hebben recht op vakantie en dat is niet over te dragen.",
    "english": "Employees have a right to leave and it is not to be carried over to the next year.",
    "finnish": "Työntekijällä on oikeus lomaan, mutta se ei ole siirrettävissä, kun vuosi on ohi.",
    "french": "Les employés ont droit à des congés par an et ne peuvent pas les reporter.",
    "german": "Der Urlaub beträgt 27 Tage und ist bis März des nächsten Jahres zu nehmen.",
    "chinese": "运费是十元，三天内送达。",  # noqa: RUF001
    "greek": "Οι εργαζόμενοι έχουν άδεια.",  # noqa: RUF001
    "hebrew": "המנהל מאשר נסיעות",
    "hindi": "परिणाम कल घोषित होंगे",
    "japanese": "送料は五百円です。",
    "korean": "배송비는 3,000원입니다.",
    "persian": "هزینه ارسال پنجاه تومان است که می‌گیرد",
    "polish": "Umowa jest zawarta na trzy lata i nie może być przedłużona przez strony.",
    "thai": "ค่าส่งห้าสิบบาท",
    "ukrainian": "Договір укладено на три роки і його можна продовжити",  # noqa: RUF001
    "italian": "I dipendenti hanno diritto alle ferie e non possono essere rinviate con il nuovo anno del contratto.",
    "portuguese": "Os dias não podem ser adiados para o ano seguinte, com uma carta do chefe.",
    "russian": "Сотрудники имеют право на отпуск.",
    "spanish": "Los empleados tienen derecho a veinte días y no se pueden pasar al año siguiente por la ley.",
    "swedish": "Anställda har rätt till semester och det är inte möjligt att spara den för nästa år.",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_a_sentence_is_enough(language: str) -> None:
    """One sentence with its function words determines the language of a text."""
    assert detect_language(SENTENCES[language]) == language
    assert detect_language(SENTENCES[language] * 100) == language


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (SENTENCES["german"], "de"),
        (SENTENCES["greek"], "el"),
        (SENTENCES["english"], "en"),
        ("\u56fe\u4e66\u53ef\u4ee5\u501f\u960528\u5929\u3002", "zh"),
        (
            "\u672c\u306f28\u65e5\u9593\u501f\u308a\u308b\u3053\u3068\u304c\u3067\u304d\u307e\u3059\u3002",
            "ja",
        ),
        ("\ucc45\uc740 28\uc77c \ub3d9\uc548 \ube4c\ub9b4 \uc218 \uc788\uc2b5\ub2c8\ub2e4.", "ko"),
        ("\u0e2b\u0e19\u0e31\u0e07\u0e2a\u0e37\u0e2d", "th"),
        ("The word \u56fe\u4e66 is Chinese.", "en"),
        ("", "en"),
    ],
)
def test_a_language_has_a_code(text: str, code: str) -> None:
    """ISO 639-1; scripts without a stemmer have one as well."""
    assert language_code(detect_language(text)) == code


@pytest.mark.parametrize(
    "text",
    [
        "",
        "…!?",
        "42 17 3.5",
        "Annual leave is 27 days.",
        "Manuel da Fonseca e Castro was a Portuguese footballer who played as a forward.",
        "El Cielo en las manos is a 1950 Argentine film.",
        "def chmod(f): os.chmod(f, S_IWRITE)  # windows; except Exception as e: pass",
        "Urlaubsregelung",
    ],
)
def test_unclear_texts_are_english(text: str) -> None:
    """Names, code, single words and other scripts determine no language."""
    assert detect_language(text) == "english"


@given(st.text(max_size=300))
def test_any_text_has_a_language_that_can_be_stemmed(text: str) -> None:
    """For any text the stemmer knows the language."""
    assert detect_language(text) in LANGUAGES


def test_only_the_beginning_is_used() -> None:
    """A sample is short for any number and length of parts, and the beginning of the text."""
    parts = ["x" * 3000, "y" * 3000, *["z"] * 10_000]

    assert len(language_sample(parts)) == 4000
    assert language_sample(["ab", "cd"]) == "ab cd"


def test_a_document_is_examined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a document and storing its words find its language by one examination."""
    seen: list[str] = []

    def examine(text: str) -> str:
        seen.append(text)
        return detect_language(text)

    monkeypatch.setattr("whence.text.languages.detect_language", examine)
    parts = ["Die Zwiebelkuchen sind für die Gäste", "und nicht für den Hund des Nachbarn"]

    assert {language_of_document(parts) for _ in range(3)} == {"german"}
    assert seen == [" ".join(parts)]


LISTS = {
    "german": "Kunde: Bäckerei Holz, Köln\n\n| Artikel | Menge | Preis |\n| Teppiche | 3 | 88,00 |\n\nNettobetrag: 264,00"
    " EUR\nRechnungsbetrag: 314,16 EUR\n\nZahlbar innerhalb von 30 Tagen ohne Abzug. Bearbeiter: Herr Uhl.",
    "polish": "1. Wymiana dachu. Wpłynęły trzy oferty. Wybrano firmę za 184 000 zł, prace ruszą w kwietniu.\n2. Plac"
    " zabaw. Pani Bąk zbierze podpisy rodziców do końca miesiąca.\n3. Stawka rośnie z 2,10 zł do 2,45 zł od roku.",
    "turkish": "Kurul 7 Mayıs'ta Nurcan Erdem başkanlığında toplandı. Kursun eylüle ertelenmesine karar verildi,"  # noqa: RUF001
    " çünkü salonun tavanı onarılıyor. Yeni üniformalar için terzi ile anlaşıldı.",  # noqa: RUF001
    "japanese": "# 加湿器の使い方\n\nタンクには水を入れてください。フィルターは洗います。満タンで運転できます。",
}


@pytest.mark.parametrize("language", LISTS)
def test_letters_show_the_language_of_lists(language: str) -> None:
    """Forms, minutes and lists have few function words; letters show their language then."""
    assert detect_language(LISTS[language]) == language
