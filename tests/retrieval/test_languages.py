"""Search in other languages than English: by script and by family, in small corpora of each and in mixed ones."""

from __future__ import annotations

import pytest

from beliefrag.retrieval import RETRIEVERS, Bm25Index, PassageSource, open_retriever
from beliefrag.retrieval.languages import detect_language, query_languages
from beliefrag.types import Passage

# A language, two passages, and a question about the second that has none of its words in the same form.
SPOKEN = [
    ("de", "Der alte Hafen liegt am Fluss und wurde von den Mönchen gebaut, die auch das Kloster leiteten.",
     "Die Brücken der Stadt wurden im Krieg zerstört, aber sie sind nicht alle wieder aufgebaut worden.",
     "Welche Brücke der Städte?"),
    ("es", "El puerto viejo está en el río y fue construido por los monjes que dirigían el monasterio.",
     "Los puentes de la ciudad fueron destruidos en la guerra, pero no todos se han reconstruido.",
     "¿Qué destrucción de un puente?"),
    ("ru", "Старая гавань расположена на реке и была построена монахами монастыря.",
     "Мосты города были разрушены во время войны, но не все были восстановлены.",
     "Каким городом разрушен мост?"),
    ("el", "Το παλιό λιμάνι βρίσκεται στο ποτάμι και χτίστηκε από τους μοναχούς.",
     "Οι γέφυρες της πόλης καταστράφηκαν στον πόλεμο.", "Ποια γεφυρα της πολης;"),
    ("ar", "يقع الميناء القديم على النهر وقد بناه الرهبان.", "دُمّرت جسور المدينة في الحرب ولم يُعَد بناؤها.",
     "ما هو الجسر في مدينة؟"),
    ("hi", "पुराना बंदरगाह नदी पर है और इसे भिक्षुओं ने बनाया था।", "युद्ध में विद्यालयों की इमारतें नष्ट हो गईं।", "विद्यालय कब नष्ट हुआ?"),
    ("zh", "旧港口位于河边，由僧侣建造。", "战争期间，城市的桥梁被毁坏。", "桥梁什么时候毁坏了？"),
    ("ja", "古い港は川沿いにあり、僧侶によって建てられた。",
     "戦争中に町の橋は破壊された。", "橋はいつ破壊されましたか。"),
    ("ko", "오래된 항구는 강가에 있으며 수도사들이 지었다.",
     "전쟁 중에 도시의 다리가 파괴되었다.", "다리는 언제 파괴되었습니까?"),
    ("th", "ท่าเรือเก่าอยู่ริมแม่น้ำและสร้างโดยพระ", "สะพานของเมืองถูกทำลายในช่วงสงคราม", "สะพานถูกทำลายเมื่อไร"),
    ("my", "ဆိပ်ကမ်းဟောင်းသည် မြစ်ကမ်းတွင် ရှိသည်။", "စစ်ပွဲအတွင်း တံတားများ ပျက်စီးခဲ့သည်။", "တံတား ဘယ်တုန်းက ပျက်စီးခဲ့သလဲ"),
    ("vi", "Bến cảng cũ nằm bên sông và được các nhà sư xây dựng.",
     "Những cây cầu của thành phố đã bị phá hủy trong chiến tranh.", "Cây cầu nào bị phá hủy?"),
]  # fmt: skip


@pytest.mark.parametrize(("language", "first", "second", "question"), SPOKEN, ids=[each[0] for each in SPOKEN])
@pytest.mark.parametrize("retriever", ["bm25", "linked"])
def test_a_question_finds_other_forms_of_its_words(
    retriever: str, language: str, first: str, second: str, question: str
) -> None:
    passages = [Passage("first", "", first), Passage("second", "", second)]
    opened = open_retriever(RETRIEVERS.choose(retriever, {}), PassageSource(passages=passages))
    hits = opened.search(question, 2)
    assert hits[0].passage == passages[1]
    assert len(hits) == 1 or hits[0].score > hits[1].score or retriever == "linked"


def test_a_mixed_corpus_finds_the_passage_in_the_language_of_the_question() -> None:
    index = Bm25Index.in_memory(
        Passage(f"{language} {place}", "", text)
        for language, *texts, _ in SPOKEN
        for place, text in enumerate(texts, start=1)
    )
    found = {language: index.search(question, 1)[0].passage.id for language, *_, question in SPOKEN}
    assert found == {language: f"{language} 2" for language, *_ in SPOKEN}


def test_an_english_text_with_foreign_names_stays_english() -> None:
    for text in (
        "Una Cabaña en la pampa is a 1970 Argentine film.",
        "Der Spiegel and Die Zeit are newspapers of Germany.",
        "Tokyo (東京) is the capital of Japan.",
    ):
        assert detect_language(text) in (None, "en")
        assert query_languages(text, {"en": 9})[0] == "en"


def test_accents_that_people_leave_out_do_not_matter() -> None:
    text = "La educación de los niños en la región fue un éxito para el país y para su gobierno."
    index = Bm25Index.in_memory([Passage("a", "", text)])
    assert index.search("educacion de ninos", 1)
