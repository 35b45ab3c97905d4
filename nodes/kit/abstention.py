"""Abstentions: how models, and the datasets' own labels, say that there is no answer."""

from __future__ import annotations

import re

GUESS = "give the most likely answer all the same"
"""What prompts say instead of `Not Answerable` where abstaining is off (the variable `no_answer`)."""

_NOTHING = frozenset({"", "?", "n/a"})
_MARKS = ".,;:-–—…"
"""Marks that are no answer without a word; others may be one (`$`, `+`)."""
_WORDS = frozenset({"none", "null", "unknown", "unclear", "undetermined", "unspecified", "inconclusive"})
"""Words that abstain as a rule and may be a true answer: `Unknown`, a film; `None`, a count."""


def _any_of(words: str) -> str:
    return f"(?:{'|'.join(words.split())})"


_SOURCE = _any_of(
    "passages? documents? contexts? evidence texts? sources? articles? excerpts? snippets? paragraphs? steps? pairs? "
    "information info details? data facts? results? materials? content question"
)
_FIND = _any_of(
    r"determin\w+ answer\w* infer\w* establish\w* find found tell told say said know\w* identif\w+ ascertain\w* "
    r"confirm\w* verif\w+ deduced? derived? conclude\w* provided? locate\w*"
)
_TELL = _any_of(
    "address allow answer clarify contain cover describe determine disclose discuss establish explain give have help "
    "identify include indicate list mention name offer provide record refer reveal say show specify state suggest "
    "support tell"
)
_STATED = _any_of(
    "mentioned provided specified stated given available known found determined determinable clear listed disclosed "
    "indicated included described identified addressed applicable supported present answered answerable covered"
)
_MISSING = _any_of("unknown unclear unavailable missing undetermined unspecified insufficient none inconclusive")
_THE = r"(?:(?:the|these|this|any|all|of|our|my|an?|either|available|provided|given|retrieved|above) )*"
_PLACE = rf"(?:{_THE}{_SOURCE}\b|here\b|it\b)"
_CANT = r"(?:cannot|can not|can't|could not|couldn't)"
_THERE = r"(?:there (?:is|are|was|were) |there's )?"
_ANSWER = rf"(?:it|this|that|(?:the )?(?:answer|{_SOURCE}))"
# How an abstention may continue; after anything else it is a title or a fact.
_MORE = _any_of(
    "from in within by about on for regarding because since as with given that whether which who whom when where if "
    "this here anywhere explicitly directly and is was were are can could exists? available provided found present "
    "stated"
)
_TAIL = (
    rf"(?:[,:;.]? (?:{_MORE}|(?:based|relying) (?:up)?on|due to|according to|to (?:{_FIND}|support|make)|the answer|"
    r"the question|at all|(?:has|have) been)\b.*)?"
)
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"(?:(?:it|this|that|(?:the )?question) (?:is|was) )?(?:un-?|not )answerable{_TAIL}|notanswerable",
        # No answer, no information, not enough of it
        rf"{_THERE}no (?:\w+ )?(?:answer|information|info|data|details?|mention|indication)(?: of [^.]*)?{_TAIL}",
        rf"{_THERE}no (?:relevant|supporting|such|direct|clear|sufficient) {_SOURCE}{_TAIL}",
        rf"(?:{_THERE}|there isn't |(?:i|we) have )(?:not )?(?:enough|sufficient) {_SOURCE}{_TAIL}",
        rf"{_THERE}(?:an? )?(?:insufficient|inadequate|lack of) (?:\w+ )?{_SOURCE}{_TAIL}",
        # I don't know, it can't be told
        rf"(?:i|we) (?:do not|don't) know{_TAIL}|do(?: not|n't) know",
        rf"(?:i have )?no idea|(?:(?:i'm|i am) )?not sure{_TAIL}",
        rf"(?:(?:i|we|one) )?(?:{_CANT}|(?:(?:am|are|is) )?(?:unable to|not able to)) (?:be )?{_FIND}{_TAIL}",
        rf"(?:{_ANSWER}|the exact answer|this question|which|what|who)(?: \w+){{0,6}}? {_CANT} be {_FIND}{_TAIL}",
        rf"(?:(?:it|this) )?(?:(?:is|was) )?(?:impossible|not possible) to {_FIND}{_TAIL}",
        rf"(?:(?:i|we) )?(?:did not|didn't|do not|don't) find {_THE}(?:\w+ )?(?:answer|{_SOURCE}){_TAIL}",
        # The passages do not say it; it is not mentioned
        rf"{_THE}(?:\w+ )?{_SOURCE}(?: \w+)? (?:(?:(?:do|does|did)(?: not|n't)|cannot|can't|fails? to)"
        rf"(?: \w+ly)? (?:(?:seem|appear) to )?{_TELL}|lacks?|(?:contains?|gives?|has|have|provides?) no)\b.*",
        rf"{_THE}(?:\w+ )?{_SOURCE}(?: \w+)? (?:is|are|was|were)(?: not|n't) "
        r"(?:enough|sufficient|clear|relevant|helpful|about|available|provided|given)\b.*",
        rf"(?:none of|neither) {_THE}{_SOURCE}\b.*",
        rf"(?:{_ANSWER} )?(?:(?:is|are|was|were|has been) )?not (?:(?:\w+ly|yet|been) )?{_STATED}{_TAIL}",
        rf".{{1,160}} (?:is|are|was|were|has|have)(?: not|n't)(?: been)?(?: \w+ly)? {_STATED} (?:in|by|from|within) "
        rf"{_PLACE}.*",
        rf"(?:the )?(?:answer|{_SOURCE})(?: provided| given| available| to [^.]*?)?(?: is| was| remains|:)? "
        rf"{_MISSING}{_TAIL}",
        rf"(?:it (?:is|remains|was) |it's )(?:unknown|unclear|undetermined){_TAIL}",
        rf"(?:it (?:is|remains|was) |it's )?(?:unknown|unclear|undetermined|unspecified|inconclusive) "
        rf"(?:based on|from|in|given|according to|within|due to) {_PLACE}.*",
    )
)
_EXCUSE = re.compile(
    r"(?:(?:(?:i'm|i am) )?sorry|unfortunately|apologies|i apologi[sz]e|therefore|thus|so|hence)[,.:;]? (?:but )?|"
    r"(?:final )?answer: ?"
)
_SENTENCES = re.compile(r"(?<=[a-z0-9)\"'][a-z0-9)\"'][.!?]) +(?=[A-Z])")
_ABOUT_SOURCES = re.compile(rf"{_THE}(?:\w+ )?{_SOURCE}\b")
_OFFERS = re.compile(r"\b(?:but|however|although|though|probably|likely|presumably|perhaps|maybe|possibly)\b")
_TITLE = re.compile(r"[A-Z][\w'’]*(?:\W+(?:(?:a|an|and|as|at|by|for|from|in|is|of|on|or|the|to|with)\b|[A-Z][\w'’]*))*")
_QUOTES = "\"'“”«»„`*‘’"
_LONGEST_TITLE, _SHORTEST_TITLE = 12, 5
_LONGEST = 1600


def is_abstention(text: str, *, words: bool = True) -> bool:
    """Whether an answer says that there is none.

    Prompts ask for `Not Answerable` (PRISM, App. B.4); models also write `None`, `I don't know.` or `The passages do
    not mention it`, and datasets have wordings of their own, such as MultiHop-RAG's `Insufficient information.`. A
    title is an answer (`I Don't Know How to Love Him`), and so is a text that offers one (`..., but probably Oslo`).

    Args:
        text: The answer.
        words: Whether single words such as `Unknown` and `None`, which may be true answers, count as abstentions; in
            quotation marks they never do. Where such a word was the right answer, scoring finds it by the gold.
    """
    bare = " ".join(text[:_LONGEST].replace("’", "'").replace("_", " ").split()).strip(" *`")
    quoted = len(bare) > 1 and bare[0] in _QUOTES and bare[-1] in _QUOTES
    said = bare.casefold().strip(_QUOTES + " ()[]<>")
    if said.strip(_MARKS) in _NOTHING:
        return True
    said = said.rstrip(".!" + _QUOTES)
    if _spoken(said) in _WORDS:
        return words and not quoted
    if _is_title(bare) or _OFFERS.search(_spoken(said)):
        return False
    first, *others = (row.casefold().strip(_QUOTES + " .!") for row in _SENTENCES.split(bare))
    # After "I don't know." comes the reason; after "The passages do not mention it." there may be what they do mention.
    explained = not _ABOUT_SOURCES.match(_spoken(first))
    return _says_none(first) and (explained or all(map(_says_none, others)))


def _spoken(sentence: str) -> str:
    return sentence[excuse.end() :] if (excuse := _EXCUSE.match(sentence)) else sentence


def _says_none(sentence: str) -> bool:
    said = _spoken(sentence)
    return said in _WORDS or any(form.fullmatch(said) for form in _FORMS)


def _is_title(text: str) -> bool:
    """Whether a text has its words in capitals; one as short as `Not Answerable` may still be an abstention."""
    words = text.strip(_QUOTES + " .!?").split()
    return _SHORTEST_TITLE <= len(words) <= _LONGEST_TITLE and _TITLE.fullmatch(" ".join(words)) is not None
