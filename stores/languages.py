"""Languages of an index: stemming and stop words of its words, splitting of its sentences; and a guess at one."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

from inference.errors import InputError, did_you_mean

ENGLISH = "en"
LANGUAGES = {
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nb": "norwegian",
    "nl": "dutch",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "tr": "turkish",
}
"""ISO 639-1 code -> name of its Snowball stemmer. spaCy has a tokenizer and stop words for each."""
SHORT_LISTS = ("da", "de", "es", "fr", "it", "nb", "nl", "pt", "ru", "sv", "tr")
"""Languages whose stop words are NLTK's, as bm25s brings them: function words alone. The others' are spaCy's."""

_WORD = re.compile(r"[^\W\d_]+")
_GUESSED_WORDS = 20_000
"""Words that a guess looks at."""
_SURE = 0.15
"""Least share of stop words for a guess: running text has 0.3 and more, tables less."""


def check_language(code: str) -> str:
    """The code of a language, in lower case.

    Raises:
        InputError: It is unknown; the hint lists all.
    """
    if code.lower() not in LANGUAGES:
        known = ", ".join(f"{code} ({name})" for code, name in LANGUAGES.items())
        raise InputError(f"unknown language {code!r}", hint=f"{did_you_mean(code, LANGUAGES)}languages: {known}")
    return code.lower()


@cache
def stop_words(language: str) -> frozenset[str]:
    """Stop words of a language, case-folded."""
    if language in SHORT_LISTS:
        import bm25s.stopwords

        name = LANGUAGES[language].upper()
        return frozenset(map(str.casefold, getattr(bm25s.stopwords, f"STOPWORDS_{name}")))
    import importlib

    words: Iterable[str] = importlib.import_module(f"spacy.lang.{language}.stop_words").STOP_WORDS
    return frozenset(map(str.casefold, words))


@cache
def stemmer(language: str) -> Any:
    """The Snowball stemmer of a language."""
    import Stemmer

    return Stemmer.Stemmer(LANGUAGES[language])


def guess_language(texts: Iterable[str]) -> str | None:
    """The language that texts seem to be in, by their share of each language's stop words; None if that is unclear.

    Of languages in scripts other than Latin only Greek and Russian are known; `other` stands for the rest.
    """
    words: list[str] = []
    for text in texts:
        words += _WORD.findall(text.casefold())
        if len(words) >= _GUESSED_WORDS:
            break
    if len(words) < 20:
        return None
    counts = Counter(words)
    shares = {code: sum(counts[word] for word in stop_words(code)) / len(words) for code in LANGUAGES}
    best = max(shares, key=lambda code: (shares[code], code == ENGLISH))
    if shares[best] >= _SURE and (best == ENGLISH or shares[best] > 1.5 * shares[ENGLISH]):
        return best
    letters = Counter(unicodedata.name(word[0], "").partition(" ")[0] for word in words)
    return "other" if letters["LATIN"] < len(words) / 2 else None


def language_hint(language: str, guessed: str | None, encoder: str) -> str:
    """Advice on an index whose language does not fit its texts or its encoder; "" if there is none.

    Args:
        language: The index's language.
        guessed: Its texts' language, as `guess_language` gives it.
        encoder: Id of its encoder.
    """
    advice = []
    if guessed is not None and guessed != language and guessed in LANGUAGES:
        advice.append(
            f"its texts look {LANGUAGES[guessed].capitalize()}, and it was indexed as "
            f"{LANGUAGES[language].capitalize()}: `--language {guessed}` stems and splits them rightly"
        )
    if encoder.startswith("all-MiniLM") and (guessed or language) != ENGLISH:
        advice.append(
            "the encoder is English: HOPGRAPH_EMBED_URL can name a server with a multilingual one, such as BAAI/bge-m3"
        )
    return "; ".join(advice)
