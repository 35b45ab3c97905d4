from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.conftest import write

FILMS = {"Alpha": "Ann Lee", "Beta": "Bob Ray", "Gamma": "Cy Fox", "Delta": "Di Orr"}
BORN = {"Ann Lee": "Oslo", "Bob Ray": "Rome", "Cy Fox": "Bern", "Di Orr": "Riga"}
TWO_WIKI = "2wikimultihopqa-train (supporting facts + evidences)"


def film(name: str, *, gold: bool = True) -> dict:
    return {"title": f"{name} (film)", "text": f"{name} is a film directed by {FILMS[name]}.", "supporting": gold}


def person(name: str, *, gold: bool = True) -> dict:
    return {"title": name, "text": f"{name} is a director. The family lived in {BORN[name]}.", "supporting": gold}


def bridge(name: str) -> str:
    return f"Where was the director of film {name} born?"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of a few training questions of each kind, and a dev set."""
    folder = tmp_path_factory.mktemp("data")
    train = folder / "train"
    decompositions = [
        {
            "question": bridge(name),
            "subquestions": [
                {"question": f"{name} (film) >> director", "answer": director},
                {"question": f"{director} >> place of birth", "answer": BORN[director]},
            ],
            "source": TWO_WIKI,
        }
        for name, director in FILMS.items()
    ]
    linked = {
        "question": "Which river flows through the home of Ann Lee?",
        "subquestions": [
            {"question": "What is the home of Ann Lee?", "answer": "Oslo"},
            {"question": "Which river flows through Oslo?", "answer": "Akerselva"},
        ],
        "source": "hotpotqa-train (Ning-Guo/hotpotqa-agent)",
    }
    write(train / "decomposition.train.jsonl.gz", decompositions[:2])
    write(train / "decomposition_more.train.jsonl.gz", [*decompositions[2:], linked])
    river = {"title": "Akerselva", "text": "The river Akerselva flows through Oslo.", "supporting": True}
    write(
        train / "multihop_context.train.jsonl.gz",
        [
            {
                "question": bridge(name),
                "answers": [BORN[director]],
                "hops": 2,
                "source": TWO_WIKI,
                "paragraphs": [film(name), person(director), film("Delta", gold=False), person("Di Orr", gold=False)],
            }
            for name, director in list(FILMS.items())[:3]
        ],
    )
    write(
        train / "multihop_context_more.train.jsonl.gz",
        [
            {
                "question": bridge("Delta"),  # asked in the dev set
                "answers": ["Riga"],
                "hops": 2,
                "source": TWO_WIKI,
                "paragraphs": [film("Delta"), person("Di Orr")],
            },
            {
                "question": linked["question"],
                "answers": ["Akerselva"],
                "hops": 2,
                "source": "hotpotqa-train (supporting facts)",
                "paragraphs": [person("Ann Lee"), river],
            },
            {
                "question": "Which director's family lived in Rome before Beta?",
                "answers": ["Bob Ray"],
                "hops": 2,
                "source": "hotpotqa-train (supporting facts)",
                "paragraphs": [film("Beta"), person("Bob Ray"), person("Cy Fox", gold=False)],
            },
            {
                "question": "Which films are alike?",
                "answers": ["Beta"],
                "hops": 2,
                "source": "hotpotqa-train (supporting unlabelled)",
                "paragraphs": [{"title": "Beta", "text": "Beta.", "supporting": None}],
            },
        ],
    )
    write(
        train / "single_hop_qed.train.jsonl.gz",
        [
            {
                "question": "which river flows through oslo in the east",
                "answers": ["Akerselva"],
                "hops": 1,
                "source": "nq-train (QED)",
                "paragraphs": [river],
            }
        ],
    )
    write(
        folder / "2wikimultihopqa/questions.jsonl.gz",
        [
            {
                "question": "When did the director of Delta die?",
                "decomposition": [{"question": "Delta (film) >> director"}],
            }
        ],
    )
    return folder
