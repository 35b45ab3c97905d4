"""Questions in words for the relations of Wikidata, by which 2WikiMultiHopQA and MuSiQue give sub-questions."""

from __future__ import annotations

RELATIONS = {
    "author": "Who wrote {}",
    "award received": "Which award did {} receive",
    "capital of": "What is {} the capital of",
    "cause of death": "What did {} die of",
    "child": "Who is the child of {}",
    "composer": "Who composed the music of {}",
    "conflict": "In which conflict did {} take part",
    "continent": "On which continent is {}",
    "country": "In which country is {}",
    "country of citizenship": "What is the nationality of {}",
    "country of origin": "From which country is {}",
    "date of birth": "When was {} born",
    "date of death": "When did {} die",
    "director": "Who directed {}",
    "educated at": "Where was {} educated",
    "employer": "Who employed {}",
    "father": "Who is the father of {}",
    "follows": "What does {} follow",
    "founded by": "Who founded {}",
    "inception": "When was {} founded",
    "instance of": "What is {} an instance of",
    "licensed to broadcast to": "Where is {} licensed to broadcast to",
    "located in or next to body of water": "In or next to which body of water is {}",
    "located in the administrative territorial entity": "In which administrative area is {} located",
    "location": "Where is {} located",
    "location of formation": "Where was {} formed",
    "member of political party": "Of which political party is {} a member",
    "member of sports team": "Of which sports team is {} a member",
    "mother": "Who is the mother of {}",
    "mouth of the watercourse": "Into what does {} flow",
    "part of": "What is {} part of",
    "performer": "Who performed {}",
    "place of birth": "Where was {} born",
    "place of burial": "Where was {} buried",
    "place of death": "Where did {} die",
    "presenter": "Who presented {}",
    "producer": "Who produced {}",
    "publication date": "When did {} come out",
    "publisher": "Who published {}",
    "shares border with": "What shares a border with {}",
    "sibling": "Who is the sibling of {}",
    "sport": "Which sport does {} belong to",
    "spouse": "Who is the spouse of {}",
}


def in_words(relation: str, subject: str) -> str:
    """The question for a relation of a subject, without a question mark."""
    return RELATIONS.get(relation, f"What is the {relation} of {{}}").replace("{}", subject)
