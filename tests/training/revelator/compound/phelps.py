"""Three passages about one entity, and what a model asks about each."""

from __future__ import annotations

from stores.passages import Passage
from training.revelator.compound.checks import Part
from training.revelator.compound.entities import Entity

PHELPS = [
    Passage("p1", "Phelps", "Phelps was born in 1985."),
    Passage("p2", "Phelps", "Phelps retired in 2016."),
    Passage("p3", "Bowman", "The coach of Phelps was Bowman."),
]
ENTITY = Entity("Phelps", tuple(PHELPS))
ASKED = {
    "p1": {"question": "When was Phelps born?", "answer": "1985"},
    "p2": {"question": "When did Phelps retire?", "answer": "2016"},
    "p3": {"question": "Who coached Phelps?", "answer": "Bowman"},
}
BORN, RETIRED, _ = (Part(ASKED[p.id]["question"], ASKED[p.id]["answer"], p) for p in PHELPS)
