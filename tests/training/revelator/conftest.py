from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.conftest import write

AMBIG = "ambignq-train(single-answer)"
TWO_WIKI = "2wikimultihopqa-train(MIGRES)"
SYNTHETIC = "synthetic conjunction of two ambignq-train questions"
BOOKS = ["Emma", "Ulysses", "Dracula", "Walden", "Ivanhoe", "Faust", "Kim", "Utopia", "Candide", "Hamlet", "Persuasion"]
BORN = "Where was the author of {} born?"


def chain(book: str) -> dict:
    return {
        "question": BORN.format(book),
        "subquestions": [
            {"question": f"{book} >> author", "answer": f"Mr {book}"},
            {"question": "where was #1 born", "answer": f"Town of {book}"},
        ],
        "source": "musique-train",
    }


def context(book: str) -> dict:
    return {
        "question": BORN.format(book),
        "source": "musique-train",
        "paragraphs": [
            {"title": book, "text": f"{book} is a book by Mr {book}.", "is_supporting": True},
            {"title": f"Mr {book}", "text": f"He came from the Town of {book}.", "is_supporting": True},
            {"title": "Books", "text": f"Many wrote about {book}.", "is_supporting": False},
            {"title": "Trains", "text": "A train is a row of carriages.", "is_supporting": False},
        ],
    }


COMPARISON = {
    "question": "Which film came out first, Jaws or Alien?",
    "subquestions": [
        {"question": "When did Jaws come out?", "answer": "Jaws came out on June 20, 1975."},
        {"question": "When did Alien come out?", "answer": "Alien came out in 1979."},
    ],
    "evidences": [["Jaws", "publication date", "20 June 1975"], ["Alien", "publication date", "1979"]],
    "source": TWO_WIKI,
}


MORE_CHAINS = [
    {
        "question": f"Who is the spouse of the director of {film}?",
        "subquestions": [
            {"question": f"{film} >> director", "answer": f"Mr {film}"},
            {"question": f"Mr {film} >> spouse", "answer": f"Mrs {film}"},
        ],
        "source": "2wikimultihopqa-train (supporting facts + evidences)",
    }
    for film in ("Alien", "Jaws", "Heat", "Ran", "Brazil")
]
EXTRACTED = ["Who wrote Moby Dick?", "When was Moby Dick printed?", "Which ship sinks in Moby Dick?"]
CONTEXT = "\n\n".join(f"{asked}\nSomething." for asked in EXTRACTED)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder of a few rows, with every file that the builders read."""
    folder = tmp_path / "data"
    train = folder / "train"
    write(
        train / "router.train.jsonl.gz",
        [
            *({"question": f"who wrote {book}?", "label": "single-step", "source": AMBIG} for book in BOOKS),
            *({"question": BORN.format(book), "label": "complex", "source": "musique-train"} for book in BOOKS),
            {"question": "What do you do with a spoon?", "label": "straightforward", "source": "commonsenseqa-train"},
            {"question": COMPARISON["question"], "label": "compound", "source": "2wikimultihopqa-train"},
            {"question": "who wrote emma? Also, who wrote kim?", "label": "compound", "source": SYNTHETIC},
            {"question": "Who wrote Emma and where is Bath?", "label": "compound", "source": SYNTHETIC},
            {"question": "Who wrote Pride and Prejudice and where is Bath?", "label": "compound", "source": SYNTHETIC},
            {"question": "Who wrote Middlemarch?", "label": "single-step", "source": AMBIG},  # a dev sub-question
        ],
    )
    write(train / "decomposition.train.jsonl.gz", [*map(chain, BOOKS), COMPARISON])
    write(train / "multihop_context.train.jsonl.gz", [*map(context, BOOKS)])
    write(
        train / "single_span_qa.train.jsonl.gz",
        [
            {
                "question": "When was Bath founded?",
                "title": "City_of_Bath",
                "context": "Bath was founded in 43 AD.",
                "answer": "43 AD",
                "source": "squad1.1-train",
            },
            {
                "question": "How many live in Bath?",
                "title": "City_of_Bath",
                "context": "In Bath live 90,000.",
                "answer": "90,000",
                "source": "squad1.1-train",
            },
            {
                "question": "Which stone is Bath built of?",
                "title": "City_of_Bath",
                "context": "The houses of Bath, founded in 43 AD, are of limestone.",
                "answer": "limestone",
                "source": "squad1.1-train",
            },
        ],
    )
    write(train / "decomposition_more.train.jsonl.gz", MORE_CHAINS)
    write(train / "extractor.train.jsonl.gz", [{"question": EXTRACTED[0], "context": CONTEXT}])
    write(train / "hop_count.train.jsonl.gz", [{"question": f"When did {b} end?", "hops": 1} for b in BOOKS])
    for name, asked in (
        ("single_hop_qed", "who read {}"),
        ("multihop_context_more", "Who read the book that the writer of {} liked?"),
        ("multihop_gold_sentences", "Where is the town that {} is set in?"),
        ("react_trajectories", "Which other book has the printer of {} made?"),
    ):
        write(train / f"{name}.train.jsonl.gz", [{"question": asked.format(book)} for book in BOOKS])
    write(
        folder / "musique/questions.jsonl.gz",
        [
            {
                "question": "Where was the author of Middlemarch born?",
                "decomposition": [{"question": "who wrote Middlemarch"}],
            }
        ],
    )
    return folder
