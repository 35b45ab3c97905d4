"""Indexes in other languages than English: words, sentences, and what is said where they do not fit."""

from __future__ import annotations

import json

import pytest

from inference.errors import InputError
from stores.build import add_to_index, build_index, rebuild_index, remove_from_index
from stores.index import open_index
from stores.languages import LANGUAGES, check_language, guess_language, language_hint, stemmer, stop_words
from stores.passages import Passage
from stores.sentences import split_sentences, splitting
from stores.sparse import SPARSE, tokenize, tokenizer_of

GERMAN = "Die Häuser am Hafen wurden im 18. Jahrhundert gebaut. Dr. Lee z. B. wohnte in einem davon, und er malte es!"
TEXTS = {
    "de": "Das ist das Haus, und es steht am Rand der Stadt, in der wir als Kinder gespielt haben, bis es dunkel war.",
    "en": "This is the house, and it stands at the edge of the town in which we played as children until it was dark.",
    "fr": "C'est la maison, et elle se trouve au bord de la ville où nous avons joué avec les enfants du voisin.",
    "es": "Esta es la casa, y está en el borde de la ciudad donde jugábamos cuando éramos niños con los vecinos.",
    "ru": "Это дом, и он стоит на краю города, в котором мы играли, когда были детьми, и где нам было хорошо.",
    "pl": "To jest dom i stoi on na skraju miasta, w którym bawiliśmy się jako dzieci, a to było nam bardzo potrzebne.",
    "other": "それは町のはずれに立っている家です。" * 30,
}


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("de", "Die Häuser der Städte waren größer als das Haus", ["haus", "stadt", "gross", "haus"]),
        ("fr", "Les élèves étaient à l’école", ["elev", "ecol"]),
        ("tr", "IŞIK ışıkları", ["ısık", "ısık"]),
        ("ru", "Книги лежали на столах", ["книг", "лежа", "стол"]),
        ("en", "The houses of the cities were larger than the house", ["hous", "citi", "larger", "hous"]),
    ],
)
def test_words_are_stemmed_without_stop_words(language, text, words):
    assert tokenize(text, language) == words


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_its_parts(language):
    assert check_language(language.upper()) == language
    assert stop_words(language)
    assert stemmer(language).stemWord("a")
    with splitting(language):
        assert len(split_sentences(["Abc def. Ghi jkl. Mno pqr."])[0]) == 3


def test_tokenizers_have_names_of_their_own():
    assert tokenizer_of("en") == SPARSE
    assert len({tokenizer_of(language) for language in LANGUAGES}) == len(LANGUAGES)


def test_an_unknown_language_is_refused_with_the_list(encoder):
    with pytest.raises(InputError, match="unknown language 'xx'") as caught:
        build_index("x", [Passage("a", "", "A.")], language="xx")
    assert "de (german), el (greek)" in caught.value.hint


def test_sentences_are_those_of_the_language_within_the_block_only():
    with splitting("de"):
        german = split_sentences([GERMAN])[0]
    assert german[-1].endswith("und er malte es!")
    assert len(german) > 1
    assert " ".join(german) == GERMAN
    assert split_sentences(["Ann Lee was born in Paris. She was a painter."])[0] == [
        "Ann Lee was born in Paris.",
        "She was a painter.",
    ]


def test_the_language_is_kept_and_used_for_queries(encoder):
    rows = [Passage("haus", "", "Ein Haus steht am Hafen."), Passage("boot", "", "Das Boot fährt über das Meer.")]
    english = build_index("x", rows).manifest
    assert open_index("x").search("Häuser", 5, "sparse") == []
    german = build_index("x", rows, language="de").manifest
    assert (german.language, english.language, german.hash != english.hash) == ("de", "en", True)
    assert [hit.id for hit in open_index("x").search("Häuser", 5, "sparse")] == ["haus"]
    assert open_index("x").search("das", 5, "sparse") == []
    add_to_index("x", [Passage("stadt", "Städte", "Die Städte am Meer.")])
    assert [hit.id for hit in open_index("x").search("welche Stadt", 5, "sparse")] == ["stadt"]
    remove_from_index("x", ["boot"])
    assert open_index("x").manifest.language == "de"
    with pytest.raises(InputError, match="index 'x' is in the language de, not fr"):
        add_to_index("x", rows, language="fr")
    assert rebuild_index("x").manifest.language == "de"
    assert rebuild_index("x", language="nl").manifest.language == "nl"
    assert build_index("x", rows).manifest.language == "nl"  # as before
    assert build_index("x", rows, language="en").manifest.hash == english.hash
    sharded = build_index("x", rows, language="de", shards=2).manifest
    assert sharded.hash == german.hash
    assert [hit.id for hit in open_index("x").search("Häuser", 5, "sparse")] == ["haus"]


def test_links_are_found_in_inflected_names(encoder):
    rows = [
        Passage("film", "Die Nacht", "Die Nacht ist ein Film über die Blauen Häuser."),
        Passage("haus", "Das Blaue Haus", "Gebaut von Ann Lee."),
        *(Passage(f"d{n}", f"Film {n}", f"Ein anderer Film, {n}.") for n in range(9)),
    ]
    build_index("x", rows, language="de")
    found = {hit.id: hit.named_in for hit in open_index("x").search("Film Die Nacht", 4, "bridge")}
    assert found.get("haus") == "film"


def test_an_index_of_an_earlier_version_is_english(encoder):
    build_index("x", [Passage("a", "", "Two houses.")])
    (path,) = (open_index("x")._folder.parent).glob("*/manifest.json")
    fields = json.loads(path.read_text())
    del fields["language"]
    path.write_text(json.dumps(fields))
    from stores.index import _open

    _open.clear()
    assert open_index("x").manifest.language == "en"
    assert open_index("x").search("house", 5, "sparse")


@pytest.mark.parametrize("language", TEXTS)
def test_the_language_of_running_text_is_guessed(language):
    assert guess_language([TEXTS[language]] * 3) == language


@pytest.mark.parametrize("texts", [[], ["Too short, this is."], ["Rome 12 kg Paris 13 kg Oslo Vienna " * 20]])
def test_nothing_is_guessed_of_little_text_or_of_tables(texts):
    assert guess_language(texts) is None


@pytest.mark.parametrize(
    ("language", "guessed", "encoder", "said"),
    [
        ("en", "en", "all-MiniLM-L6-v2-int8/256", []),
        ("en", None, "all-MiniLM-L6-v2-int8/256", []),
        ("en", "de", "all-MiniLM-L6-v2-int8/256", ["texts look German", "`--language de`", "HOPGRAPH_EMBED_URL"]),
        ("de", "de", "all-MiniLM-L6-v2-int8/256", ["HOPGRAPH_EMBED_URL"]),
        ("de", None, "all-MiniLM-L6-v2-int8/256", ["HOPGRAPH_EMBED_URL"]),
        ("de", "de", "bge-m3", []),
        ("de", "en", "bge-m3", ["texts look English", "`--language en`"]),
        ("en", "other", "all-MiniLM-L6-v2-int8/256", ["HOPGRAPH_EMBED_URL"]),
    ],
)
def test_the_hint_says_what_does_not_fit(language, guessed, encoder, said):
    hint = language_hint(language, guessed, encoder)
    assert all(part in hint for part in said)
    assert bool(hint) == bool(said)
