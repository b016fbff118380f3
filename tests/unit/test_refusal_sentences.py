"""Sentences that say that the documents do not answer, in the languages that models write."""

# ruff: noqa: RUF001
from __future__ import annotations

import pytest

from whence.text.claims import says_nothing

#: Of each language what models write when documents do not answer, and negated sentences that are answers.
SENTENCES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "english": (
        ("Based on the documents provided, there is no information about parking.", "I couldn't find anything about this in the context.",
         "The passages don't mention who signs.", "The answer cannot be determined from the given text.", "None of the sources addresses this."),
        ("The shop is not open on Sunday.", "The documents must not be copied.", "Employees never pay for the card.", "No dogs are allowed in the hall.", "The text field cannot be empty."),
    ),
    "german": (
        ("Auf Grundlage der Dokumente gibt es keine Informationen zum Parken.", "Die Unterlagen beantworten diese Frage nicht.",
         "In den bereitgestellten Texten wird das nicht erwähnt.", "Aus dem Kontext geht das nicht hervor.", "Dazu konnte ich in den Dokumenten nichts finden."),
        ("Der Laden ist sonntags nicht geöffnet.", "Die Dokumente dürfen nicht kopiert werden.", "Hunde sind nicht erlaubt.", "Es wird keine Gebühr erhoben.", "Die Quelle darf nicht versiegen."),
    ),
    "french": (
        ("Les documents ne répondent pas à cette question.", "D'après les documents fournis, il n'y a aucune information sur le parking.",
         "Je n'ai pas trouvé cette information dans le contexte.", "Les passages ne mentionnent pas qui signe.", "Le texte ne précise pas la date."),
        ("Le magasin n'est pas ouvert le dimanche.", "Les documents ne doivent pas être copiés.", "Les chiens ne sont pas admis.", "Aucun frais n'est perçu.", "La source ne doit pas tarir."),
    ),
    "spanish": (
        ("Los documentos no responden a esta pregunta.", "Según los documentos proporcionados, no hay información sobre el aparcamiento.",
         "No encuentro esa información en el contexto.", "El texto no menciona quién firma.", "No se especifica en los pasajes."),
        ("La tienda no abre los domingos.", "Los documentos no deben copiarse.", "No se admiten perros.", "Nunca se cobra la tarjeta.", "La fuente no debe secarse."),
    ),
    "italian": (
        ("Le informazioni non si trovano nei documenti.", "In base ai documenti forniti, non ci sono informazioni sul parcheggio.",
         "Il testo non menziona chi firma.", "Non ho trovato nulla su questo nel contesto.", "I documenti non specificano la data."),
        ("Il negozio non è aperto la domenica.", "I documenti non devono essere copiati.", "I cani non sono ammessi.", "Nessuna tassa è dovuta.", "La fonte non deve esaurirsi."),
    ),
    "portuguese": (
        ("Os documentos não respondem a esta pergunta.", "Com base nos documentos fornecidos, não há informações sobre estacionamento.",
         "O texto não menciona quem assina.", "Não encontrei isso no contexto.", "Os trechos não especificam a data."),
        ("A loja não abre aos domingos.", "Os documentos não devem ser copiados.", "Cães não são permitidos.", "Nenhuma taxa é cobrada.", "A fonte não deve secar."),
    ),
    "dutch": (
        ("De documenten beantwoorden deze vraag niet.", "Op basis van de documenten is er geen informatie over parkeren.",
         "De tekst vermeldt niet wie tekent.", "Ik kan dit niet vinden in de context.", "In de bronnen staat hierover niets."),
        ("De winkel is zondag niet open.", "De documenten mogen niet worden gekopieerd.", "Honden zijn niet toegestaan.", "Er worden geen kosten gerekend.", "De bron mag niet opdrogen."),
    ),
    "polish": (
        ("Dokumenty nie odpowiadają na to pytanie.", "Na podstawie podanych dokumentów nie ma informacji o parkingu.",
         "Tekst nie wspomina, kto podpisuje.", "Nie znalazłem tego w kontekście.", "Źródła nie zawierają tej daty."),
        ("Sklep nie jest otwarty w niedzielę.", "Dokumentów nie wolno kopiować.", "Psy nie są dozwolone.", "Nie pobiera się opłat.", "Źródło nie może wyschnąć."),
    ),
    "russian": (
        ("Документы не отвечают на этот вопрос.", "В предоставленных документах нет информации о парковке.",
         "В тексте не указано, кто подписывает.", "Я не нашёл этого в контексте.", "Источники не содержат этих данных."),
        ("Магазин не работает в воскресенье.", "Документы нельзя копировать.", "Собаки не допускаются.", "Плата не взимается.", "Источник не должен иссякнуть."),
    ),
    "ukrainian": (
        ("Документи не відповідають на це питання.", "У наданих документах немає інформації про паркування.",
         "У тексті не вказано, хто підписує.", "Я не знайшов цього в контексті.", "Джерела не містять цих даних."),
        ("Магазин не працює в неділю.", "Документи не можна копіювати.", "Собаки не допускаються.", "Плата не стягується.", "Джерело не повинно вичерпатися."),
    ),
    "swedish": (
        ("Dokumenten besvarar inte frågan.", "Enligt dokumenten finns ingen information om parkering.",
         "Texten nämner inte vem som skriver under.", "Jag hittar inte detta i sammanhanget.", "Källorna anger inte datumet."),
        ("Butiken är inte öppen på söndagar.", "Dokumenten får inte kopieras.", "Hundar är inte tillåtna.", "Ingen avgift tas ut.", "Källan får inte sina."),
    ),
    "danish": (
        ("Dokumenterne besvarer ikke spørgsmålet.", "Ifølge dokumenterne er der ingen oplysninger om parkering.",
         "Teksten nævner ikke, hvem der underskriver.", "Jeg kan ikke finde det i konteksten.", "Kilderne angiver ikke datoen."),
        ("Butikken har ikke åbent om søndagen.", "Dokumenterne må ikke kopieres.", "Hunde er ikke tilladt.", "Der opkræves intet gebyr.", "Kilden må ikke tørre ud."),
    ),
    "norwegian": (
        ("Dokumentene svarer ikke på spørsmålet.", "Ifølge dokumentene finnes det ingen informasjon om parkering.",
         "Teksten nevner ikke hvem som signerer.", "Jeg finner ikke dette i konteksten.", "Kildene oppgir ikke datoen."),
        ("Butikken er ikke åpen på søndager.", "Dokumentene må ikke kopieres.", "Hunder er ikke tillatt.", "Det tas ingen avgift.", "Kilden må ikke tørke ut."),
    ),
    "finnish": (
        ("Asiakirjat eivät vastaa tähän kysymykseen.", "Asiakirjoissa ei ole tietoa pysäköinnistä.",
         "Tekstissä ei mainita, kuka allekirjoittaa.", "En löytänyt tätä kontekstista.", "Lähteet eivät kerro päivämäärää."),
        ("Kauppa ei ole auki sunnuntaina.", "Asiakirjoja ei saa kopioida.", "Koirat eivät ole sallittuja.", "Maksua ei peritä.", "Lähde ei saa kuivua."),
    ),
    "czech": (
        ("Dokumenty na tuto otázku neodpovídají.", "V poskytnutých dokumentech nejsou žádné informace o parkování.",
         "Text neuvádí, kdo podepisuje.", "V kontextu jsem to nenašel.", "Zdroje neobsahují toto datum."),
        ("Obchod není v neděli otevřen.", "Dokumenty se nesmějí kopírovat.", "Psi nejsou povoleni.", "Poplatek se neplatí.", "Zdroj nesmí vyschnout."),
    ),
    "greek": (
        ("Τα έγγραφα δεν απαντούν σε αυτή την ερώτηση.", "Δεν υπάρχουν πληροφορίες για τη στάθμευση στα έγγραφα.",
         "Το κείμενο δεν αναφέρει ποιος υπογράφει.", "Δεν βρήκα κάτι σχετικό στα έγγραφα.", "Οι πηγές δεν περιέχουν την ημερομηνία."),
        ("Το κατάστημα δεν είναι ανοιχτό την Κυριακή.", "Τα έγγραφα δεν πρέπει να αντιγράφονται.", "Δεν επιτρέπονται σκύλοι.", "Δεν χρεώνεται τέλος.", "Η πηγή δεν πρέπει να στερέψει."),
    ),
    "turkish": (
        ("Belgeler bu soruyu yanıtlamıyor.", "Sağlanan belgelerde park hakkında bilgi yok.",
         "Metinde kimin imzaladığı belirtilmemiştir.", "Bağlamda bu bilgiyi bulamadım.", "Kaynaklar tarihi içermiyor."),
        ("Mağaza pazar günü açık değil.", "Belgeler kopyalanmamalıdır.", "Köpeklere izin verilmez.", "Ücret alınmaz.", "Kaynak kurumamalıdır."),
    ),
    "hungarian": (
        ("A dokumentumok nem válaszolnak erre a kérdésre.", "A megadott dokumentumokban nincs információ a parkolásról.",
         "A szöveg nem említi, ki írja alá.", "Nem találtam ezt a kontextusban.", "A források nem tartalmazzák a dátumot."),
        ("Az üzlet vasárnap nincs nyitva.", "A dokumentumokat nem szabad másolni.", "Kutyák nem léphetnek be.", "Díjat nem számítanak fel.", "A forrás nem apadhat ki."),
    ),
    "romanian": (
        ("Documentele nu răspund la această întrebare.", "În documentele furnizate nu există informații despre parcare.",
         "Textul nu menționează cine semnează.", "Nu am găsit acest lucru în context.", "Sursele nu conțin data."),
        ("Magazinul nu este deschis duminica.", "Documentele nu trebuie copiate.", "Câinii nu sunt permiși.", "Nu se percepe nicio taxă.", "Sursa nu trebuie să sece."),
    ),
    "japanese": (
        ("文書にはこの質問に対する答えが記載されていません。", "提供された資料には駐車場に関する情報がありません。",
         "本文では誰が署名するか言及されていません。", "コンテキストからは見つかりませんでした。", "ドキュメントには日付が含まれていません。"),
        ("店は日曜日には開いていません。", "文書をコピーしてはいけません。", "犬は入れません。", "料金はかかりません。", "資料は貸し出しません。"),
    ),
    "chinese": (
        ("文档中没有回答这个问题。", "根据提供的资料，没有关于停车的信息。", "文中未提及由谁签署。", "在上下文中找不到相关内容。", "所提供的文件不包含日期。"),
        ("商店星期日不营业。", "文件不得复印。", "不允许带狗。", "不收取费用。", "资料不外借。"),
    ),
    "korean": (
        ("문서에는 이 질문에 대한 답이 없습니다.", "제공된 문서에는 주차에 대한 정보가 없습니다.", "본문에 누가 서명하는지 언급되어 있지 않습니다.", "문맥에서 찾을 수 없습니다.", "자료에 날짜가 포함되어 있지 않습니다."),
        ("가게는 일요일에 열지 않습니다.", "문서를 복사해서는 안 됩니다.", "개는 허용되지 않습니다.", "요금이 없습니다.", "자료는 대출되지 않습니다."),
    ),
    "thai": (
        ("เอกสารไม่ได้ตอบคำถามนี้", "ไม่มีข้อมูลเกี่ยวกับที่จอดรถในเอกสารที่ให้มา", "เนื้อหาไม่ได้ระบุว่าใครเป็นผู้ลงนาม", "ไม่พบข้อมูลนี้ในบริบท", "แหล่งข้อมูลไม่ได้กล่าวถึงวันที่"),
        ("ร้านไม่เปิดวันอาทิตย์", "ห้ามคัดลอกเอกสาร", "ไม่อนุญาตให้นำสุนัขเข้า", "ไม่มีค่าธรรมเนียม", "ไม่ควรถ่ายสำเนาเอกสาร"),
    ),
    "arabic": (
        ("المستندات لا تجيب عن هذا السؤال.", "لا توجد معلومات عن مواقف السيارات في الوثائق المقدمة.", "النص لا يذكر من يوقع.", "لم أجد هذا في السياق.", "المصادر لا تحتوي على التاريخ."),
        ("المتجر لا يفتح يوم الأحد.", "يجب عدم نسخ المستندات.", "الكلاب غير مسموح بها.", "لا توجد رسوم.", "المصدر لا يجب أن يجف."),
    ),
    "hebrew": (
        ("המסמכים אינם עונים על השאלה הזו.", "אין מידע על חניה במסמכים שסופקו.", "הטקסט לא מציין מי חותם.", "לא מצאתי זאת בהקשר.", "המקורות לא מכילים את התאריך."),
        ("החנות לא פתוחה ביום ראשון.", "אין להעתיק את המסמכים.", "כלבים אינם מורשים.", "אין תשלום.", "המקור לא אמור להתייבש."),
    ),
    "hindi": (
        ("दस्तावेज़ इस प्रश्न का उत्तर नहीं देते।", "दिए गए दस्तावेज़ों में पार्किंग के बारे में कोई जानकारी नहीं है।", "पाठ में यह उल्लेख नहीं है कि कौन हस्ताक्षर करता है।", "संदर्भ में यह नहीं मिला।", "स्रोतों में तारीख शामिल नहीं है।"),
        ("दुकान रविवार को खुली नहीं है।", "दस्तावेज़ों की नकल नहीं करनी चाहिए।", "कुत्तों की अनुमति नहीं है।", "कोई शुल्क नहीं लिया जाता।", "स्रोत सूखना नहीं चाहिए।"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("language", SENTENCES)
def test_refusals_are_known_in_a_language(language: str) -> None:
    """What a model writes when the documents do not answer is a refusal; a negated answer is none."""
    refusals, answers = SENTENCES[language]

    assert [one for one in refusals if not says_nothing(one)] == []
    assert [one for one in answers if says_nothing(one)] == []
