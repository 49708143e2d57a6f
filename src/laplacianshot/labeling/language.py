"""Whether texts are mostly in another language than English, which the default encoder was trained on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from laplacianshot.embedding.encoders import DEFAULTS
from laplacianshot.labeling.sources import Source

# Texts that are looked at, evenly over all.
_SAMPLE = 1000
# Texts must speak for another language this often before we say so.
_MIN_TEXTS = 5
# Letters of a text that are looked at.
_LENGTH = 2000

_ENCODER = DEFAULTS["texts"]

_LATIN = re.compile(r"[A-Za-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff]")
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")

# Frequent words that say little. Words of English and another language ("die", "no", "on", "a") are in no list. Most
# other languages share some of these words, so that they are noticed as well.
_ENGLISH = (
    "the and of to is that it for was are with have has had this not but what my you your how can does did an "
    "be been at from or we they he she his her will would there which when why who please if all about get got just "
    "like am by up out us our more only some any than then them him its were one two now here"
)
_OTHERS = {
    "German": (
        "der das und ist nicht ich ein eine einen einem mit auf für von zu den dem sich auch wie mein meine habe "
        "haben kann wird wurde bei oder aber wir sie mir mich bitte noch nur wenn warum wo keine kein"
    ),
    "French": (
        "le les des est une un dans que qui pour pas je vous nous il elle ce cette mon ma mes sur avec au aux du et "
        "sont été être ai avez fait plus où comment pourquoi mais ou votre leur"
    ),
    "Spanish": (
        "el la los las de en un ha una que es por con para del se su al lo como más pero sus le ya o este sí porque "
        "esta entre cuando muy sin sobre también mi hay donde quien desde todo nos cómo qué dónde está tengo y"
    ),
    "Portuguese": (
        "os um uma que é não com para por mais dos das foi ele ela se na em ao como mas sua seu meu minha você está "
        "ser tem à também só pelo pela até isso quando onde e eu nao"
    ),
    "Italian": (
        "il lo gli un una che è di non per con del della sono mi si ho ha al alla dei delle nel come ma più anche "
        "questo questa perché dove quando mio mia cosa e io posso"
    ),
    "Dutch": (
        "het een en niet van ik je dat op te zijn voor met maar er ook aan heb heeft kan mijn hoe wat waarom deze "
        "dit naar bij nog geen wel wordt worden zou uit hij"
    ),
    "Swedish": (
        "och att det som en på är av för med till den har inte om ett jag han men var sig från vi så kan när min "
        "mitt hur vad varför ska"
    ),
    "Danish or Norwegian": (
        "og det en er på til som med ikke av af har jeg den et han de vi kan men om min mitt hvordan hva hvad "
        "hvorfor fra blir bliver skal var være"
    ),
    "Finnish": (
        "ja ei se että oli hän mutta kun niin ovat ole joka myös tai minun minä miten miksi mitä voi olen ollut sen "
        "tämä"
    ),
    "Polish": (
        "w nie na się że z jest co jak o po ale tak mam mi czy za od przez dla moja mój dlaczego gdzie kiedy może są "
        "był"
    ),
    "Czech": ("se na je že v z jsem ale jak co pro tak za si po mi kde kdy proč není jsou byl moje můj který"),
    "Turkish": (
        "bir ve bu da de için ne çok ben ile var mı mi gibi daha ama o benim nasıl neden kadar değil olarak kartım "
        "şu ki"
    ),
    "Indonesian": (
        "yang dan di ini itu dengan untuk tidak dari dalam akan pada saya ke ada bisa juga sudah apa bagaimana "
        "kenapa anda kami mereka atau"
    ),
    "Romanian": ("și în este nu pe cu la o să din un care că mai pentru sunt de ce cum unde meu mea dar fost"),
    "Hungarian": ("az és hogy nem egy ez de meg csak van volt ha már mint még el miért hogyan mi kell nekem"),
    "Vietnamese": ("và là của không có cho tôi được một những các trong này với đã bị làm sao thế nào người"),
}
_ENGLISH_WORDS = frozenset(_ENGLISH.split())
_OTHER_WORDS = {name: frozenset(words.split()) for name, words in _OTHERS.items()}


def mostly_foreign(texts: Sequence[str]) -> bool:
    """Whether more of the texts speak for another language than for English.

    A text speaks for another language if more than half of its letters are not Latin, or if more of its words are among
    the frequent ones of a language than among those of English; for English if it has such words and no language has
    more. Texts that speak for neither, such as names and numbers, do not count.

    >>> mostly_foreign(["wo ist meine Karte?", "die Überweisung ist nicht da", "ich habe kein Geld"])
    True
    >>> mostly_foreign(["where is my card?", "the transfer is late", "Rio de Janeiro"])
    False
    """
    found = Counter(_is_foreign(text[:_LENGTH]) for text in texts)
    return found[True] > found[False] and found[True] >= min(_MIN_TEXTS, len(texts) // 2 + 1)


def _is_foreign(text: str) -> bool | None:
    """Whether a text speaks for another language; None if it says nothing."""
    letters = len(_LETTER.findall(text))
    if letters and len(_LATIN.findall(text)) < letters / 2:
        return True
    words = _WORD.findall(text.lower())
    english = sum(word in _ENGLISH_WORDS for word in words)
    other = max(sum(word in known for word in words) for known in _OTHER_WORDS.values())
    return None if english == other == 0 else other > english


def language_note(source: Source, encoder: str | None) -> str:
    """Return a line for the user if the texts are mostly not English and the encoder is for English, else nothing."""
    if source.kind != "texts" or encoder not in (None, _ENCODER):
        return ""
    step = max(1, len(source) // _SAMPLE)
    if not mostly_foreign([str(source.load(i)) for i in range(0, len(source), step)]):
        return ""
    return (
        f"The texts are mostly not in English, and {_ENCODER} reads English alone: expect poor labels. Choose an "
        "encoder for their language with --encoder hf:NAME (encoder= in Python); docs/guide/encoders.md has a recipe."
    )
