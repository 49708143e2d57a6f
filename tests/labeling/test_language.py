from __future__ import annotations

import pytest

from laplacianshot import label_source
from laplacianshot.labeling.language import language_note, mostly_foreign
from laplacianshot.labeling.sources import open_source

ENGLISH = [
    "I lost my card, what can I do?",
    "The transfer has not arrived yet.",
    "why was my payment declined",
    "add Cita Romántica to the playlist",
    "book a table for two in São Paulo",
    "so happy for you!",
]
FOREIGN = {
    "German": ["Ich habe meine Karte verloren", "die Überweisung ist noch nicht da", "Wo ist mein Geld?"],
    "German without umlauts": [
        "ICH HABE MEINE KARTE VERLOREN",
        "warum wurde die zahlung abgelehnt",
        "und wie geht das",
    ],
    "French": ["J'ai perdu ma carte", "le virement n'est pas arrivé", "pourquoi mon paiement est refusé ?"],
    "Spanish": ["perdí mi tarjeta", "la transferencia no ha llegado", "¿por qué se rechazó el pago?"],
    "Portuguese": ["perdi meu cartão", "a transferência não chegou", "por que o pagamento foi recusado?"],
    "Italian": ["ho perso la mia carta", "il bonifico non è arrivato", "perché il pagamento è stato rifiutato?"],
    "Dutch": ["ik heb mijn kaart verloren", "de overboeking is er nog niet", "waarom is mijn betaling geweigerd"],
    "Polish": ["zgubiłem moją kartę, co mam zrobić", "przelew jeszcze nie dotarł", "dlaczego płatność się nie udała"],
    "Turkish": ["kartımı kaybettim, ne yapmalıyım bu durumda", "para için çok bekledim", "ödeme neden bu kadar geç"],
    "Russian": ["я потерял карту", "перевод ещё не пришёл", "почему платёж отклонён"],
    "Greek": ["έχασα την κάρτα μου", "η μεταφορά δεν έφτασε", "γιατί απορρίφθηκε η πληρωμή"],
    "Arabic": ["فقدت بطاقتي", "لم يصل التحويل", "لماذا رفضت الدفعة"],
    "Hindi": ["मेरा कार्ड खो गया", "पैसे नहीं आए", "भुगतान क्यों रुका"],
    "Chinese": ["我的卡丢了", "转账还没到", "为什么付款被拒绝"],
    "Japanese": ["カードをなくしました", "振込がまだ届きません", "支払いが拒否されたのはなぜですか"],
}


@pytest.mark.parametrize("language", FOREIGN)
def test_other_languages_are_noticed(language):
    assert mostly_foreign(FOREIGN[language])
    assert language_note(open_source(FOREIGN[language]), None).startswith("The texts are mostly not in English")


@pytest.mark.parametrize(
    "texts",
    [
        ENGLISH,
        ENGLISH[:1],
        ENGLISH * 3 + FOREIGN["German"] + FOREIGN["Chinese"],
        ["iPhone 12 case", "USB cable", "laptop sleeve", "Café de Paris", "El Niño", "Los Angeles"],
        ["SKU-1234", "42", "???", "🙂🙂", ""],
        ["thx :)", "ok", "lol", "la la land", "Rio de Janeiro", "no"],
    ],
)
def test_english_names_and_numbers_are_not(texts):
    assert not mostly_foreign(texts)


def test_more_than_half_counts():
    assert mostly_foreign(ENGLISH[:4] + 2 * FOREIGN["German"])
    assert not mostly_foreign(ENGLISH + FOREIGN["German"] + FOREIGN["French"][:2])


def test_only_the_default_encoder_is_warned_about():
    german = open_source(FOREIGN["German"])
    assert language_note(german, "minilm-l6")
    assert language_note(german, "hf:some/model") == ""


def test_a_run_says_so_in_one_line(tmp_path):
    result = label_source(FOREIGN["German"], {0: "card", 1: "transfer"}, cache=False)
    assert sum("mostly not in English" in note for note in result.notes) == 1


# The recipe of docs/guide/encoders.md, with a model that is made here.

GERMAN = {
    "karte": ["meine karte ist weg", "wo ist meine karte", "die karte wurde gestohlen", "ich habe die karte verloren"],
    "überweisung": [
        "die überweisung fehlt",
        "meine überweisung kam nie an",
        "überweisung bitte stornieren",
        "wann kommt die überweisung",
    ],
}


@pytest.fixture
def multilingual(tmp_path):
    """A folder as save_pretrained writes it: a tokenizer of German words and a small network."""
    tokenizers = pytest.importorskip("tokenizers")
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    words = {word for texts in GERMAN.values() for text in texts for word in text.split()}
    names = ["[PAD]", "[UNK]", *sorted(words)]
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(names)}, "[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    folder = tmp_path / "multilingual"
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]")
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    transformers.BertModel(transformers.BertConfig(vocab_size=len(names), **size)).save_pretrained(folder)
    return folder


def test_another_language_is_labeled_with_an_encoder_of_its_own(multilingual):
    texts = [text for group in GERMAN.values() for text in group]
    result = label_source(texts, {0: "karte", 4: "überweisung"}, encoder=f"hf:{multilingual}", cache=False)
    assert result.settings["encoder"] == f"hf:{multilingual}"
    assert result.vectors.shape == (8, 32)
    assert result.labels == ("karte",) * 4 + ("überweisung",) * 4
    assert not any("English" in note for note in result.notes)
