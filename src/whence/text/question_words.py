"""What kind of thing a question asks for, by the words that ask, in the languages served.

A kind is a person, a date, a place, a length of time, an amount, a price, a time of day, a reason or a way. A
question without a word that asks has no kind, and one with `what` alone has the kind `thing`, which any text
may have. The words are data: a new language is a new row here; its function words come from `stopwordsiso`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, Literal

import regex

from whence.text.normalization import clean, fold, function_words
from whence.text.scripts import UNSPACED, language_of_run

AskedKind = Literal[
    "person", "date", "place", "duration", "amount", "reason", "way", "thing", "price", "clock"
]

_KINDS: Final[tuple[AskedKind, ...]] = (
    "person",
    "date",
    "place",
    "duration",
    "amount",
    "reason",
    "way",
    "thing",
    "price",
    "clock",
)
#: Of each language the words of each kind, in the order of `_KINDS`, several separated by commas. In scripts
#: without spaces they are looked for anywhere, else as whole words.
_ROWS: Final[Mapping[str, tuple[str, str, str, str, str, str, str, str]]] = {
    "arabic": (
        "من هو,من هي,من الذي",
        "متى,في أي يوم,في أي سنة,أي عام",
        "أين",
        "كم من الوقت,كم تدوم,كم مدة,ما مدة",
        "كم,كم عدد",
        "لماذا,لم",
        "كيف",
        "ما,ماذا,أي,هل",
    ),
    "chinese": (
        "谁,哪位,何人",
        "什么时候,何时,哪天,哪一年,几号,什么時候,何時,哪一天",
        "哪里,哪儿,在哪,何处,哪裡",
        "多久,多长时间,多少天,几天,几年,几个月,多長時間",
        "多少,几个,多大,多高,多远,幾個",
        "为什么,为何,為什麼",
        "怎么,如何,怎样,怎麼",
        "什么,哪个,哪些,是否,吗,呢,什麼,哪個,嗎,的",
    ),
    "czech": (
        "kdo,komu,koho,kým",
        "kdy,kdy se,kterého roku,od kdy,do kdy",
        "kde,kam,odkud",
        "jak dlouho",
        "kolik,jak mnoho,jak velký",
        "proč",
        "jak,jakým způsobem",
        "co,jaký,jaká,jaké,který,která,které,zda",
    ),
    "danish": (
        "hvem,hvis",
        "hvornår,hvilket år,hvilken dato",
        "hvor,hvorhen,hvorfra",
        "hvor længe,hvor lang tid",
        "hvor mange,hvor meget,hvor stor,hvor høj,hvor ofte",
        "hvorfor",
        "hvordan",
        "hvad,hvilken,hvilket,hvilke",
    ),
    "dutch": (
        "wie,wiens,door wie",
        "wanneer,in welk jaar,op welke datum,sinds wanneer",
        "waar,waarheen,waarvandaan",
        "hoe lang,hoelang",
        "hoeveel,hoe groot,hoe hoog,hoe vaak",
        "waarom",
        "hoe,op welke manier",
        "wat,welke,welk",
    ),
    "english": (
        "who,whom,whose",
        "when,what year,which year,what date,which date,what day,which day,since when",
        "where",
        "how long,how much time,how old",
        (
            "how many,how much,how often,how big,how large,how high,how far,how fast,how tall,how heavy,how deep"
            ",what percentage,what percent,what number,what amount"
        ),
        "why",
        "how",
        "what,which,what is,does,do,did,is,are,can",
    ),
    "finnish": (
        "kuka,kenen,ketkä,kenelle",
        "milloin,koska,minä vuonna,minä päivänä",
        "missä,minne,mistä,mihin",
        "kuinka kauan,miten kauan",
        "kuinka monta,kuinka paljon,montako,paljonko,kuinka suuri,kuinka usein",
        "miksi",
        "miten,kuinka,millä tavalla",
        "mikä,mitä,mitkä,millainen,onko",
    ),
    "french": (
        "qui,à qui,de qui",
        "quand,en quelle année,à quelle date,quel jour,depuis quand,quelle année",
        "où,d'où",
        "combien de temps,combien de jours,quelle durée,quelle est la durée",
        "combien,quel nombre,quel montant,quel pourcentage",
        "pourquoi",
        "comment,de quelle manière",
        "que,quoi,qu'est-ce que,quel,quelle,quels,quelles,lequel,est-ce que",
    ),
    "german": (
        "wer,wem,wen,wessen,von wem",
        "wann,ab wann,bis wann,seit wann,in welchem jahr,an welchem tag,welches datum",
        "wo,wohin,woher",
        "wie lange,wie viel zeit,wie lang,wie alt",
        "wie viel,wie viele,wieviel,wieviele,wie hoch,wie groß,wie oft,wie weit,wie schnell,wie schwer",
        "warum,weshalb,wieso,wozu",
        "wie,auf welche weise",
        "was,welche,welcher,welches,welchen,welchem",
    ),
    "greek": (
        "ποιος,ποια,ποιον,ποιοι",
        "πότε,ποια χρονιά,ποιο έτος",
        "πού",
        "πόσο καιρό,πόση ώρα,πόσο χρόνο",
        "πόσο,πόσα,πόσοι,πόσες,πόση",
        "γιατί",
        "πώς",
        "τι,ποιο,ποιες",
    ),
    "hebrew": (
        "מי,של מי",
        "מתי,באיזו שנה,באיזה תאריך",
        "איפה,היכן,לאן,מאין",
        "כמה זמן",
        "כמה",
        "מדוע,למה",
        "איך,כיצד",
        "מה,איזה,איזו,אילו,האם",
    ),
    "hindi": (
        "कौन,किसने,किसका,किसकी,किसे,किसके",
        "कब,किस वर्ष,किस साल,किस दिन,किस तारीख",
        "कहाँ,कहां,किधर",
        "कितने समय,कितने दिन,कितनी देर,कितने साल",
        "कितना,कितने,कितनी",
        "क्यों",
        "कैसे,किस प्रकार,किस तरह",
        "क्या,कौन सा,कौन सी,कौन से,किस",
    ),
    "hungarian": (
        "ki,kik,kinek,kit",
        "mikor,melyik évben,mióta,meddig",
        "hol,hová,honnan",
        "mennyi ideig,milyen hosszan,mennyi idő",
        "hány,mennyi,mekkora,milyen gyakran",
        "miért",
        "hogyan,miként",
        "mi,mit,mely,melyik,milyen",
    ),
    "indonesian": (
        "siapa",
        "kapan,tahun berapa,tanggal berapa",
        "di mana,dimana,ke mana,dari mana",
        "berapa lama",
        "berapa",
        "mengapa,kenapa",
        "bagaimana",
        "apa,apakah,mana,yang mana",
    ),
    "italian": (
        "chi,di chi,a chi",
        "quando,in che anno,in quale anno,quale data,da quando",
        "dove,da dove",
        "quanto tempo,per quanto,quanto dura,quanti giorni",
        "quanto,quanta,quanti,quante",
        "perché,perche",
        "come,in che modo",
        "che,che cosa,cosa,quale,quali,qual",
    ),
    "japanese": (
        "誰,だれ,どなた",
        "いつ,何年,何月,何日に,何曜日",
        "どこ,何処",
        "どのくらいの期間,どれくらいの期間,何日間,何年間,何か月,何ヶ月,何時間",
        "いくつ,何人,何個,何日,何回,何枚,何冊,何本,何台,何件,何度,何メートル,何平方,何キロ,何グラム,どのくらい,どれくらい,どれだけ,何パーセント",
        "なぜ,何故,どうして",
        "どうやって,どのように,どうすれば",
        "何,なに,なん,どの,どれ,どんな,ですか,ますか,か,は,が,を,に,の,で,です,ます",
    ),
    "korean": (
        "누구,누가",
        "언제,몇 년,몇 월,며칠에",
        "어디",
        "얼마나 오래,얼마 동안,며칠 동안,몇 시간",
        "얼마,몇,얼마나,며칠",
        "왜",
        "어떻게",
        "무엇,뭐,어떤,어느,입니까,인가요,나요,습니까,합니까",
    ),
    "norwegian": (
        "hvem",
        "når,hvilket år,hvilken dato",
        "hvor,hvorfra",
        "hvor lenge,hvor lang tid",
        "hvor mange,hvor mye,hvor stor,hvor høy,hvor ofte",
        "hvorfor",
        "hvordan",
        "hva,hvilken,hvilket,hvilke",
    ),
    "persian": (
        "چه کسی,کی است",
        "چه زمانی,کی,چه سالی",
        "کجا",
        "چه مدت",
        "چند,چقدر",
        "چرا",
        "چگونه,چطور",
        "چه,کدام,آیا",
    ),
    "polish": (
        "kto,komu,kogo,czyj,kim",
        "kiedy,od kiedy,do kiedy,w którym roku,jaka data",
        "gdzie,dokąd,skąd",
        "jak długo,ile czasu,przez ile",
        "ile,ilu,jak dużo,jak duży,jak często",
        "dlaczego,czemu",
        "jak,w jaki sposób",
        "co,czego,jaki,jaka,jakie,który,która,które,czy",
    ),
    "portuguese": (
        "quem,de quem,a quem",
        "quando,em que ano,em que data,desde quando,até quando",
        "onde,aonde,de onde",
        "quanto tempo,por quanto tempo,quantos dias",
        "quanto,quanta,quantos,quantas",
        "por que,por quê,porque,porquê",
        "como,de que forma",
        "que,o que,qual,quais",
    ),
    "romanian": (
        "cine,cui,pe cine",
        "când,în ce an,de când,până când",
        "unde,de unde",
        "cât timp,cât durează,câte zile",
        "cât,câtă,câți,câte",
        "de ce",
        "cum,în ce mod",
        "ce,care",
    ),
    "russian": (
        "кто,кого,кому,чей,кем",
        "когда,в каком году,какого числа,с какого числа,до какого числа",
        "где,куда,откуда",
        "как долго,сколько времени,сколько дней",
        "сколько,насколько,как часто",
        "почему,зачем",
        "как,каким образом",
        "что,какой,какая,какое,какие,который,ли",
    ),
    "spanish": (
        "quién,quiénes,de quién,a quién",
        "cuándo,en qué año,en qué fecha,desde cuándo,hasta cuándo",
        "dónde,adónde,de dónde",
        "cuánto tiempo,por cuánto tiempo,cuántos días,cuánto dura",
        "cuánto,cuánta,cuántos,cuántas",
        "por qué",
        "cómo,de qué manera",
        "qué,cuál,cuáles",
    ),
    "swedish": (
        "vem,vems,vilka personer",
        "när,vilket år,vilket datum",
        "var,vart,varifrån",
        "hur länge,hur lång tid",
        "hur många,hur mycket,hur stor,hur hög,hur ofta",
        "varför",
        "hur",
        "vad,vilken,vilket,vilka",
    ),
    "thai": (
        "ใคร",
        "เมื่อไร,เมื่อไหร่,เมื่อใด,วันไหน,ปีใด,ปีไหน",
        "ที่ไหน,ที่ใด",
        "นานเท่าไร,นานเท่าไหร่,นานแค่ไหน,นานเท่าใด,กี่วัน,กี่ปี,กี่เดือน",
        "เท่าไร,เท่าไหร่,เท่าใด,กี่",
        "ทำไม,เพราะเหตุใด",
        "อย่างไร,ยังไง",
        "อะไร,ใด,ไหน,หรือไม่,คือ",
    ),
    "turkish": (
        "kim,kime,kimin,kimi",
        "ne zaman,hangi yıl,hangi tarih",
        "nerede,nereye,nereden",
        "ne kadar süre,ne kadar sürer,kaç gün",
        "kaç,ne kadar",
        "neden,niçin,niye",
        "nasıl",
        "ne,hangi,hangisi",
    ),
    "ukrainian": (
        "хто,кого,кому,чий",
        "коли,в якому році,якого числа,до якого числа",
        "де,куди,звідки",
        "як довго,скільки часу,скільки днів",
        "скільки,як часто",
        "чому,навіщо",
        "як,яким чином",
        "що,який,яка,яке,які,чи",
    ),
    "vietnamese": (
        "ai,của ai",
        "khi nào,bao giờ,năm nào,ngày nào",
        "ở đâu,đâu",
        "bao lâu",
        "bao nhiêu,mấy",
        "tại sao,vì sao",
        "như thế nào,làm thế nào,ra sao",
        "gì,nào,có phải,cái gì",
    ),
}
#: The same of each language for a price and for a time of day.
_PRICES_AND_CLOCKS: Final[Mapping[str, tuple[str, str]]] = {
    "arabic": (
        "بكم,كم يكلف,كم تكلف,كم سعر,كم ثمن,ما سعر,ما ثمن,كم تبلغ تكلفة",
        "كم الساعة,في أي ساعة,أي ساعة",
    ),
    "chinese": ("多少钱,多少元,什么价格,價格,多少錢", "几点,几时,幾點"),
    "czech": (
        "kolik stojí,kolik stál,kolik stála,jaká je cena,za kolik",
        "v kolik hodin,kolik je hodin",
    ),
    "danish": (
        "hvad koster,hvor meget koster,hvad er prisen",
        "hvad er klokken,hvilket klokkeslæt",
    ),
    "dutch": (
        "wat kost,wat kosten,hoeveel kost,hoeveel kosten,hoe duur,wat is de prijs",
        "hoe laat",
    ),
    "english": (
        "how much does it cost,how much do they cost,what does it cost,how expensive,what price,what is the price",
        "what time,at what time,which hour",
    ),
    "finnish": (
        "paljonko maksaa,mitä maksaa,mikä on hinta,kuinka kallis",
        "mihin aikaan,monelta,paljonko kello",
    ),
    "french": (
        "combien coûte,combien coûtent,combien ça coûte,quel est le prix,quel prix,à quel prix,quel est le tarif",
        "à quelle heure,quelle heure",
    ),
    "german": (
        "was kostet,was kosten,wie viel kostet,wie viel kosten,wie teuer,welcher preis,was ist der preis",
        "um wie viel uhr,wie viel uhr,wie spät,um welche uhrzeit",
    ),
    "greek": ("πόσο κοστίζει,πόσο κάνει,ποια είναι η τιμή", "τι ώρα"),
    "hebrew": ("כמה עולה,כמה עולים,כמה עלה,כמה עלתה,מה המחיר,מה מחיר", "באיזו שעה,מה השעה"),
    "hindi": ("कितने रुपये,कितने रुपए,कितने पैसे,क्या कीमत,कीमत क्या,कितने का", "कितने बजे"),
    "hungarian": ("mennyibe kerül,mennyi az ára,mi az ára", "hány órakor,hány óra"),
    "indonesian": (
        "berapa harga,berapa harganya,berapa biaya,berapa biayanya",
        "jam berapa,pukul berapa",
    ),
    "italian": (
        "quanto costa,quanto costano,quanto è costato,quanto è costata,qual è il prezzo,a che prezzo",
        "a che ora,che ora",
    ),
    "japanese": ("いくら,何円,値段は", "何時に,何時から,何時まで,何時です"),
    "korean": ("얼마예요,얼마입니까,얼마인가요,가격은,몇 원", "몇 시"),
    "norwegian": ("hva koster,hvor mye koster,hva er prisen", "hva er klokken,hvilket klokkeslett"),
    "persian": ("قیمت چند,چند تومان,چقدر هزینه", "چه ساعتی,ساعت چند"),
    "polish": (
        "ile kosztuje,ile kosztują,ile kosztował,ile kosztowała,ile kosztowało,jaka jest cena",
        "o której,o której godzinie,która godzina",
    ),
    "portuguese": (
        "quanto custa,quanto custam,quanto custou,qual é o preço,qual o preço",
        "a que horas,que horas",
    ),
    "romanian": ("cât costă,cât a costat,care este prețul", "la ce oră,ce oră"),
    "russian": (
        "сколько стоит,сколько стоят,сколько стоил,сколько стоила,сколько стоило,какова цена",
        "во сколько,который час,в котором часу",
    ),
    "spanish": (
        "cuánto cuesta,cuánto cuestan,cuánto costó,cuánto vale,qué precio,cuál es el precio",
        "a qué hora,qué hora",
    ),
    "swedish": ("vad kostar,hur mycket kostar,vad är priset", "hur dags,vilken tid,vad är klockan"),
    "thai": ("ราคาเท่าไร,ราคาเท่าไหร่,กี่บาท", "กี่โมง,เวลาใด,เวลาไหน"),
    "turkish": ("kaç lira,kaç para,ne kadar tutar,fiyatı ne", "saat kaçta,saat kaç"),
    "ukrainian": (
        "скільки коштує,скільки коштують,скільки коштував,скільки коштувала,скільки коштувало,яка ціна",
        "о котрій,котра година",
    ),
    "vietnamese": ("bao nhiêu tiền,giá bao nhiêu", "mấy giờ"),
}

_WORD: Final = regex.compile(r"[\p{L}\p{M}]+")
#: Kinds whose words join clauses as well: `when it rains`, `wo es regnet`, `comme`.
_JOINING: Final = frozenset(("date", "place", "way"))
#: What may stand before the first word of a question: a preposition at most.
_BEFORE_FIRST: Final = regex.compile(r"\P{L}*(?:\p{L}{1,4}\s+)?")
#: Least characters of a clause, and what may stand between a comma and the word that asks.
_CLAUSE: Final = 8
_BEHIND_COMMA: Final = " \u00bf"
_COMMAS: Final = (",", "\uff0c", "\u3001", "\u060c")
#: Least share of function words in a question of a language that no document has.
_CLEAR_SHARE: Final = 0.3


@cache
def _patterns(language: str) -> tuple[tuple[AskedKind, regex.Pattern[str]], ...]:
    """Return the pattern of each kind of a language, for folded text."""
    found = []
    rows = (*_ROWS.get(language, ()), *_PRICES_AND_CLOCKS.get(language, ()))
    for kind, row in zip(_KINDS, rows, strict=False):
        words = sorted(
            (fold(clean(one)) for one in row.split(",")), key=lambda one: (-len(one), one)
        )
        joined = "|".join(map(regex.escape, words))
        unspaced = UNSPACED.search(row) is not None
        pattern = (
            joined
            if unspaced
            # `когда-то` and `know-how` ask nothing.
            else rf"(?<![\p{{L}}\p{{M}}\p{{N}}]|\p{{L}}-)(?:{joined})(?![\p{{L}}\p{{M}}\p{{N}}]|-\p{{L}})"
        )
        found.append((kind, regex.compile(pattern)))
    return tuple(found)


def asked_kind(question: str, language: str) -> AskedKind | None:
    """Return the kind of thing that a question asks for; None when no word of it asks.

    The word that begins the question decides, else the longest one, then the first: `how long` asks for a
    length of time. A word for a time, a place or a way also joins clauses and asks nothing there: where another
    one begins the question, or stands behind a comma after it.

    >>> asked_kind("How long is the trial?", "english"), asked_kind("Wer genehmigt Reisen?", "german")
    ('duration', 'person')
    >>> asked_kind("送料はいくらですか", "japanese")
    'price'
    >>> [asked_kind(one, "english") for one in ("What is closed when it rains?", "When it rains, who calls?")]
    ['thing', 'person']
    """
    text = fold(clean(question))
    asking = [
        (match.start(), match.end(), kind)
        for kind, pattern in _patterns(language)
        for match in pattern.finditer(text)
    ]
    asks = [one for one in asking if not _joins(one, asking, text)]
    # Words that any kind of thing answers decide only where no other word asks.
    asks = [one for one in asks if one[2] != "thing"] or asks
    asks = [one for one in asks if _BEFORE_FIRST.fullmatch(text, 0, one[0])] or asks
    return min(asks, key=lambda one: (one[0] - one[1], one[0]))[2] if asks else None


def _joins(
    word: tuple[int, int, AskedKind], asking: Sequence[tuple[int, int, AskedKind]], text: str
) -> bool:
    """Return whether a word that asks for a time, a place or a way joins two clauses of a question."""
    start, end, kind = word
    if kind not in _JOINING:
        return False
    apart = (one for one in asking if one[1] <= start or end <= one[0])
    return any(
        _BEFORE_FIRST.fullmatch(text, 0, other[0]) is not None
        if other[1] <= start
        else other[0] - end >= _CLAUSE and text[: other[0]].rstrip(_BEHIND_COMMA).endswith(_COMMAS)
        for other in apart
        if other[2] not in _JOINING
    )


def without_asking(question: str, language: str) -> str:
    """Return a question without the words that ask for a kind of thing: `how long` names nothing.

    >>> without_asking("How long is annual leave?", "english").split()
    ['is', 'annual', 'leave?']
    """
    text = fold(clean(question))
    if len(text) != len(question):
        return question  # the places of letters are others
    for kind, pattern in _patterns(language):
        for match in pattern.finditer(text) if kind != "thing" else ():
            question = question[: match.start()] + " " * len(match[0]) + question[match.end() :]
    return question


@cache
def question_words(language: str) -> frozenset[str]:
    """Return the folded words of a language that ask, each word of a phrase for itself."""
    asking = [phrase for row in _ROWS.get(language, ()) for phrase in row.split(",")]
    # Of phrases such as `what does it cost` a word carries the topic; in scripts without spaces none is apart.
    further = [phrase for row in _PRICES_AND_CLOCKS.get(language, ()) for phrase in row.split(",")]
    asking += filter(UNSPACED.search, further)
    return frozenset(
        word
        for phrase in asking
        for word in ([fold(phrase)] if UNSPACED.search(phrase) else fold(phrase).split())
    )


#: Languages with words that ask.
ASKING_LANGUAGES: Final = frozenset(_ROWS)


def language_of_question(text: str, languages: Sequence[str]) -> str:
    """Return the language of a question: of some languages, or another one that its words show clearly.

    The language has most of the words among its function words; ties go to the first of the given ones. Another
    language must have one of the words that ask, and half of all words.

    >>> language_of_question("Wie lange ist die Probezeit?", ["english"])
    'german'
    >>> language_of_question("die casting", ["english"])
    'english'
    """
    if UNSPACED.search(text):
        return language_of_run(text)
    words = [fold(one) for one in _WORD.findall(clean(text))]
    best = max(languages, key=lambda one: _function_share(words, one), default="english")
    asking = [
        one
        for one in sorted(ASKING_LANGUAGES)
        if one not in languages and not question_words(one).isdisjoint(words)
    ]
    other = max(asking, key=lambda one: _function_share(words, one), default=best)
    share = _function_share(words, other)
    is_clear = share * len(words) >= min(2, len(words)) and share >= _CLEAR_SHARE
    return other if is_clear and share > _function_share(words, best) else best


def _function_share(words: Sequence[str], language: str) -> float:
    known = function_words(language)
    # One letter is a word in some languages, and a name in all.
    return sum(one in known and len(one) > 1 for one in words) / max(1, len(words))
