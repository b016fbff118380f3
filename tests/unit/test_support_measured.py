"""How many false claims are marked, and how many true sentences: documents as offices have them."""

from __future__ import annotations

import re

import pytest
from benchmarks.support import judge_across

from whence.text.claims import read_claims
from whence.text.support import Check, Source

HANDBOOK = """Employees get 27 days of paid leave a year. Unused days expire on 31 March of the next year.
Notice of leave must be given within 14 days. Contractors do not get paid leave. Parents may take 36 months of parental
leave. The office closes at 18:30 on Fridays. Sick notes are due after three days. Remote work is possible on up to 8
days a month. Team leads approve overtime of at most 20 hours a month. The bonus is 4.5 percent of the yearly salary."""
LIBRARY = """Books are lent for 28 days. Each reader may borrow at most 12 items. The fine for overdue books is 20 cents a
day. Maps and newspapers cannot be borrowed. The library opens at 9:00. A lost card costs 5 euros. Readers under 16 years
pay no fees. The archive is run by Helena Vogt. Reservations are kept for one week. The reading room has 140 seats."""
MANUAL = """The pump runs at 230 volts and draws 1,200 watts. Change the filter every 6 months. The tank holds 45 liters.
Only trained staff may open the housing. The warranty lasts 24 months from the day of purchase. The pump must not run dry.
The hose is 15 meters long. The supplier is Norwick Pumps. The valve opens at 85 °C. All parts are checked before delivery."""
MINUTES = """The budget of the harbour project is 2.4 million euros. The harbour opens on 12 May 2027. The chair is Ines
Kovac. The committee meets every second Tuesday. Residents may comment until 30 September. The north pier is 310 meters
long. The council rejected the toll. Ferries carry up to 90 cars. The dredging takes 18 weeks. No trees are felled."""
DOCUMENTS = {"handbook": HANDBOOK, "library": LIBRARY, "manual": MANUAL, "minutes": MINUTES}

FALSE = {
    "handbook": """Employees do not get 27 days of paid leave a year. Employees get 27 weeks of paid leave a year. Employees
        get thirty-five days of paid leave. Employees get 14 days of paid leave a year. Unused days never expire. Unused days
        expire on 27 March. Only managers get 27 days of paid leave. Contractors get paid leave. Notice of leave must be given
        within 14 weeks. Parents may take 36 weeks of parental leave. Parents may take at least 36 months of parental leave.
        The office closes at 19:30 on Fridays. Sick notes are due after five days. Remote work is possible on at least 8 days a
        month. Team leads approve overtime of at least 20 hours a month. The bonus is 5.4 percent of the yearly salary.
        All contractors get 27 days of paid leave.""",
    "library": """Books are lent for 28 weeks. Books are lent for 12 days. Each reader may borrow at least 12 items. The fine for
        overdue books is 28 cents a day. Maps and newspapers can be borrowed. The library never opens at 9:00. A lost card costs
        12 euros. Readers under 16 years pay fees. The archive is run by Martin Vogt. The archive is run by Petra Lang.
        Reservations are kept for one month. The reading room has 120 seats. Only teachers may borrow books. The library opens
        at 10:00. Books are lent for twenty-one days.""",
    "manual": """The pump runs at 320 volts. Change the filter every 6 weeks. The tank holds 54 liters. Trained staff may not open
        the housing. The warranty lasts 24 days from the day of purchase. The pump may run dry. The hose is 15 centimeters long.
        The supplier is Eastwick Motors. The valve opens at 58 °C. The warranty lasts 6 months. The pump draws 1,300 watts.
        The tank never holds 45 liters. The hose is not 15 meters long.""",
    "minutes": """The budget of the harbour project is 4.2 million euros. The harbour opens on 12 June 2027. The harbour opens on 12
        May 2028. The chair is Ivo Marek. Residents may comment until 13 September. The north pier is 310 kilometers long. The
        council did not reject the toll. Ferries carry at least 90 cars. The dredging takes 18 months. All trees are felled. The
        dredging takes 90 weeks. Only residents may comment until 30 October. Residents may not comment until 30 September.
        The harbour never opens. Trees are felled. The chair is not Ines Kovac.""",
}  # fmt: skip
REWORDED = {
    "handbook": """Each employee receives 27 days of paid leave per year. You get twenty-seven days of paid leave a year. Leave that
        is unused expires on March 31 of the next year. Contractors get no paid leave. You must give notice of leave within 14
        days. The bonus amounts to 4.5% of the yearly salary. Sick notes are due after 3 days. On Fridays the office closes at
        18:30. Remote work is possible up to 8 days a month. Overtime of up to 20 hours a month is approved by team leads.""",
    "library": """You may keep books for 28 days. A reader can borrow at most twelve items. Overdue books cost 20 cents a day. You
        cannot borrow maps and newspapers. The library opens at 9:00 in the morning. If you lose your card, it costs 5 euros.
        Helena Vogt runs the archive. Reservations are kept for 1 week. There are 140 seats in the reading room. No fees are paid
        by readers under 16 years.""",
    "manual": """The pump runs at 230 volts. It draws 1200 watts. The filter must be changed every six months. The tank has a volume
        of 45 liters. Only trained staff may open the housing. The warranty is 24 months from the day of purchase. Do not run the
        pump dry. The hose has a length of 15 meters. Norwick Pumps is the supplier. The valve opens at 85 °C.""",
    "minutes": """The harbour project has a budget of 2.4 million euros. The harbour opens on May 12, 2027. Ines Kovac is the chair.
        The committee meets every second Tuesday. Residents can comment until September 30. The north pier is 310 meters long. The
        toll was rejected by the council. A ferry carries up to 90 cars. Dredging takes eighteen weeks. No trees are felled.""",
}  # fmt: skip
OPENINGS = ("", "According to the document, ", "Yes: ", "In short, ")


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.])\s+(?=[A-Z])", " ".join(text.split()))


def marked(name: str, sentence: str) -> bool:
    claim = read_claims(f"{sentence.rstrip('.')} [1].")[0]
    return not Check(sentence).supports(claim, [Source(DOCUMENTS[name])])


def test_false_claims_are_marked() -> None:
    """Of 61 claims with one thing changed at most three pass, and none with another number."""
    claims = [(name, one) for name, text in FALSE.items() for one in sentences(text)]
    passed = [one for name, one in claims if not marked(name, one)]

    assert len(claims) >= 60
    assert len(passed) <= len(claims) * 3 // 60, passed


def test_true_sentences_are_not_marked() -> None:
    """Of 200 sentences, verbatim, with an opening or in other words, at most six are marked."""
    claims = [
        (
            name,
            opening
            + (
                one
                if not opening
                else one[0].lower() + one[1:]
                if one.split()[0].lower() in _PLAIN
                else one
            ),
        )
        for name, text in DOCUMENTS.items()
        for one in sentences(text)
        for opening in OPENINGS
    ]
    claims += [(name, one) for name, text in REWORDED.items() for one in sentences(text)]
    wrong = [one for name, one in claims if marked(name, one)]

    assert len(claims) >= 200
    assert len(wrong) <= len(claims) * 6 // 200, wrong


def test_sentences_without_a_marker_are_attributed() -> None:
    """To the document that they are about: nine in ten in other words, and at most one in ten false ones."""
    sources = [Source(text) for text in DOCUMENTS.values()]

    def attributed(texts: dict[str, str]) -> list[bool]:
        return [
            (Check(one).attributed(read_claims(one)[0], sources) or (0, ""))[0] == number
            for number, text in enumerate(texts.values(), start=1)
            for one in sentences(text)
        ]

    reworded, false = attributed(REWORDED), attributed(FALSE)
    assert sum(reworded) >= 0.9 * len(reworded)
    assert sum(false) <= 0.1 * len(false)


def test_words_of_the_question_need_no_support() -> None:
    """A model repeats them, in words that no passage has."""
    said = "Bikes on loan usually go back after: books are lent for 28 days."
    claim, sources = read_claims(said)[0], [Source(LIBRARY)]

    assert Check(said).attributed(claim, sources) is None
    question = "When do bikes on loan usually go back?"
    assert Check(said, question).attributed(claim, sources) is not None


_PLAIN = frozenset(
    ("the", "a", "each", "no", "only", "all", "books", "unused", "notice", "readers", "employees")
)

#: Documents, false claims and true ones, in languages other than English.
FOREIGN = {
    "german": (
        """Die Leihfrist für Fahrräder beträgt 14 Tage. Pro Person dürfen höchstens 3 Räder geliehen werden.
        Ein verlorener Schlüssel kostet 25 Euro. Die Werkstatt öffnet um 8:30 Uhr und schließt um 17 Uhr.
        Anhänger werden nicht verliehen. Die Station leitet Jana Kerner. Schäden sind innerhalb von 48
        Stunden zu melden. Kinder unter 12 Jahren müssen einen Helm tragen. Der Verleih beginnt am 1. April
        und endet am 31. Oktober. Jedes Rad wird alle sechs Monate geprüft. Die Kaution beträgt 80 Euro und
        wird am Ende zurückgezahlt.""",
        """Die Leihfrist für Fahrräder beträgt 14 Wochen. Die Leihfrist für Fahrräder beträgt 48 Tage. Pro
        Person dürfen mindestens 3 Räder geliehen werden. Pro Person dürfen zwölf Räder geliehen werden. Ein
        verlorener Schlüssel kostet 80 Euro. Die Werkstatt öffnet um 9:30 Uhr. Die Werkstatt schließt um 18
        Uhr. Anhänger werden verliehen. Auch Anhänger werden kostenlos verliehen. Die Station leitet Peter
        Kerner. Schäden sind innerhalb von 48 Tagen zu melden. Schäden müssen nicht gemeldet werden. Kinder
        unter 12 Jahren müssen keinen Helm tragen. Kinder unter 14 Jahren müssen einen Helm tragen. Der
        Verleih beginnt am 1. Mai. Der Verleih endet am 30. Oktober. Jedes Rad wird alle sechs Wochen
        geprüft. Nur Mitglieder dürfen Räder leihen. Die Kaution beträgt 80 Euro und wird nie zurückgezahlt.
        Die Kaution wird nicht zurückgezahlt.""",
        """Fahrräder werden für 14 Tage verliehen. Man darf bis zu 3 Räder leihen. Ein verlorener Schlüssel
        kostet fünfundzwanzig Euro. Um 8:30 Uhr öffnet die Werkstatt. Anhänger kann man nicht leihen. Jana
        Kerner leitet die Station. Schäden müssen spätestens nach 48 Stunden gemeldet werden. Kinder unter
        zwölf Jahren müssen einen Helm tragen. Der Verleih geht vom 1. April bis zum 31. Oktober. Die
        Kaution von 80 Euro wird zurückgezahlt. Die Räder werden alle 6 Monate geprüft.""",
    ),
    "french": (
        """La durée du prêt des vélos est de 14 jours. Chaque personne peut emprunter au plus 3 vélos. Une clé
        perdue coûte 25 euros. L'atelier ouvre à 8h30 et ferme à 17 heures. Les remorques ne sont pas
        prêtées. La station est dirigée par Jeanne Kerbrat. Les dégâts doivent être signalés dans un délai
        de 48 heures. Les enfants de moins de 12 ans doivent porter un casque. Le prêt commence le 1er avril
        et finit le 31 octobre. Chaque vélo est contrôlé tous les six mois. La caution est de 80 euros et
        elle est rendue à la fin.""",
        """La durée du prêt des vélos est de 14 semaines. La durée du prêt des vélos est de 48 jours. Chaque
        personne peut emprunter au moins 3 vélos. Chaque personne peut emprunter douze vélos. Une clé perdue
        coûte 80 euros. L'atelier ouvre à 9h30. L'atelier ferme à 18 heures. Les remorques sont prêtées. Les
        remorques sont prêtées gratuitement. La station est dirigée par Paul Kerbrat. Les dégâts doivent
        être signalés dans un délai de 48 jours. Les dégâts ne doivent pas être signalés. Les enfants de
        moins de 12 ans ne doivent pas porter de casque. Les enfants de moins de 14 ans doivent porter un
        casque. Le prêt commence le 1er mai. Le prêt finit le 30 octobre. Chaque vélo est contrôlé toutes
        les six semaines. Seuls les membres peuvent emprunter des vélos. La caution est de 80 euros et elle
        n'est jamais rendue. La caution n'est pas rendue.""",
        """Les vélos sont prêtés pour 14 jours. On peut emprunter jusqu'à 3 vélos. Une clé perdue coûte vingt-
        cinq euros. L'atelier ouvre à 8h30. On ne prête pas de remorques. Jeanne Kerbrat dirige la station.
        Les dégâts doivent être signalés en 48 heures. Les enfants de moins de douze ans doivent porter un
        casque. Le prêt va du 1er avril au 31 octobre. La caution de 80 euros est rendue. Les vélos sont
        contrôlés tous les 6 mois.""",
    ),
}  # fmt: skip


@pytest.mark.parametrize("language", FOREIGN)
def test_claims_in_german_and_french(language: str) -> None:
    """Of 20 claims with one thing changed at most one passes; of 11 true ones at most one is marked.

    A claim of a few words takes its numbers and months in the language of its passage, and a small number in
    words counts where the passage counts the same thing.
    """
    document, false, true = (" ".join(one.split()) for one in FOREIGN[language])
    source = Source(document)

    def wrong(text: str, *, supported: bool) -> list[str]:
        found = [read_claims(f"{one.rstrip('.')} [1].")[0] for one in _SENTENCE.split(text)]
        return [one.text for one in found if Check(one.text).supports(one, [source]) is supported]

    assert len(wrong(false, supported=True)) <= 1
    assert len(wrong(true, supported=False)) <= 1


_SENTENCE = re.compile(r"(?<=[a-zé])[.] (?=[A-Z])")


#: Claim, source and whether it is supported, in other languages and across two.
OTHERS = (
    ("Werkstudenten erhalten zwei Tage Urlaub [1].", False),
    ("Der Resturlaub verfällt am 31. März [1].", True),
    ("Der Resturlaub verfällt am 31. Mai [1].", False),
    ("Der Resturlaub verfällt nie [1].", False),
    ("Beschäftigte erhalten 27 Wochen Urlaub im Jahr [1].", False),
    ("Beschäftigte erhalten siebenundzwanzig Tage Urlaub im Jahr [1].", True),
    ("Nur Beschäftigte der Leitung erhalten 27 Tage Urlaub im Jahr [1].", False),
    ("Werkstudenten erhalten bezahlten Urlaub [1].", False),
    ("Werkstudenten erhalten keinen bezahlten Urlaub [1].", True),
    ("Employees get 27 days of leave a year [1].", True),
    ("Employees get 29 days of leave a year [1].", False),
    ("Employees get 27 weeks of leave a year [1].", False),
    ("Les employés ont droit à 27 jours de congé par an [1].", True),
    ("Les employés ont droit à 27 semaines de congé par an [1].", False),
)


@pytest.mark.parametrize(("sentence", "supported"), OTHERS)
def test_other_languages(sentence: str, *, supported: bool) -> None:
    """Words of negation, units and months count in their languages; across two, numbers and units decide."""
    source = Source(
        "Alle Beschäftigten erhalten 27 Tage Urlaub im Jahr. Der Resturlaub verfällt am 31. März des Folgejahres."
        " Werkstudenten erhalten keinen bezahlten Urlaub, Praktikanten nur nach Absprache."
    )
    claim = read_claims(sentence)[0]

    assert Check(sentence).supports(claim, [source]) is supported


@pytest.mark.parametrize("half", ["chosen", "judged", "later"])
def test_claims_in_other_languages_than_their_passages(half: str) -> None:
    """Of false names of persons, products and places nine of ten are marked, of true claims 3 % or one."""
    false, of_false, true, of_true, wrong = judge_across(half)

    assert of_false >= 25
    assert of_true >= 25
    assert false >= 0.9 * of_false, wrong
    assert true <= max(1, 0.03 * of_true), wrong


@pytest.mark.parametrize("half", ["letters chosen", "letters judged"])
def test_claims_in_other_letters_than_their_passages(half: str) -> None:
    """Of false names in Cyrillic and Greek letters six of ten are marked, of true claims one."""
    false, of_false, true, of_true, wrong = judge_across(half)

    assert false >= 0.6 * of_false, wrong
    assert true <= max(1, 0.03 * of_true), wrong


@pytest.mark.parametrize(
    ("passage", "sentence", "supported"),
    [
        ("Tools are kept in room B12.", "Tools are kept in room B12.", True),
        ("Tools are kept in room B-12.", "Tools are kept in room B12.", True),
        ("Tools are kept in room B12.", "Tools are kept in room C14.", False),
        ("Tools are kept in rooms B10 to B14.", "Tools are kept in room B12.", True),
        ("Werkzeug liegt in Raum B12.", "Werkzeug liegt in Raum B13.", False),
        ("The budget is due in Q3.", "Le budget est attendu au T3.", True),
        ("The budget is due in Q3.", "Le budget est attendu au T4.", False),
    ],
)
def test_codes_of_one_letter(passage: str, sentence: str, *, supported: bool) -> None:
    """A code of the form of one in the passage is another one, unless it lies within a series."""
    claim = read_claims(f"{sentence[:-1]} [1].")[0]

    assert Check(sentence).supports(claim, [Source(passage)]) is supported


HOUSE = """The museum is led by Ruth Okafor. It lies in Vienna. Tickets are sold by the program GateKeeper, and the hall
has 40 seats. Dogs are not allowed in all 12 rooms."""


@pytest.mark.parametrize(
    ("sentence", "supported"),
    [
        ("Le musée est dirigé par Ruth Okafor.", True),
        ("Le musée est dirigé par Lise Garnier.", False),
        ("Ruth Okafor leitet das Museum in Wien.", True),
        ("Ruth Lindner leitet das Museum.", False),
        ("Il museo si trova a Vienna.", True),
        ("Il museo si trova a Parigi.", False),
        ("Los billetes se venden con el programa GateKeeper.", True),
        ("Los billetes se venden con el programa TicketBox.", False),
        ("De zaal heeft 40 plaatsen.", True),
        ("De zaal heeft geen 40 plaatsen.", False),
        ("Hunde sind in allen 12 Räumen nicht erlaubt.", True),
        ("Hunde sind in allen 12 Räumen erlaubt.", False),
        ("Muzeum kieruje Ruth Okafor.", True),
        ("美術館の館長は Ruth Okafor です。", True),
        ("美術館の館長は Lise Garnier です。", False),
    ],
)
def test_names_and_denials_across_languages(sentence: str, *, supported: bool) -> None:
    """A claim of a few words in another language stands by its names, and by what it denies of a number."""
    claim = read_claims(f"{sentence} [1]")[0]

    assert Check(sentence).supports(claim, [Source(HOUSE)]) is supported


@pytest.mark.parametrize(
    ("sentence", "supported"),
    [
        ("Jobs are written to jobs_north by the service.", True),
        ("Jobs are written to jobs_south by the service.", False),
        ("The settings are in base.toml.", True),
        ("The settings are in local.toml.", False),
        ("Set maxRetry to 5.", True),
        ("Set maxDelay to 5.", False),
        ("Jobs are started by runner42.", True),
        ("Jobs are started by worker77.", False),
    ],
)
def test_identifiers_in_one_language(sentence: str, *, supported: bool) -> None:
    """A claim has no identifier that its passage lacks; the marks between its parts do not count."""
    passage = (
        "Jobs are written to jobs_north by the service. Jobs are started by runner42. The settings are in base.toml."
        " Set max_retry to 5."
    )
    claim = read_claims(f"{sentence} [1]")[0]

    assert Check(sentence).supports(claim, [Source(passage)]) is supported
