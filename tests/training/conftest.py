from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

ONE = ("Who wrote {}?", "When did {} die?", "Where is {}?", "what is {}")
MORE = {
    2: "Where was the author of {} born?",
    3: "Who governed the country where the author of {} was born?",
    4: "When did the party of whoever governed the country where the author of {} was born begin?",
}


def write(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def labelled(names: list[str]) -> list[dict]:
    rows = [{"question": pattern.format(name), "hops": 1, "source": "one"} for name in names for pattern in ONE]
    return rows + [
        {"question": pattern.format(name), "hops": hops, "source": "more"}
        for name in names
        for hops, pattern in MORE.items()
    ]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder of a few questions, with every file that training and evaluation read."""
    folder = tmp_path / "data"
    names = ["Emma", "Ulysses", "Dracula", "Walden", "Ivanhoe", "Faust"]
    write(folder / "train/hop_count.train.jsonl.gz", labelled(names))
    write(folder / "train/hop_count.valid.jsonl.gz", labelled(["Kim", "Utopia"]))
    write(
        folder / "train/extractor.train.jsonl.gz",
        [
            {"question": "Who published Emma?"},
            {"question": "WHO published  emma"},  # the same again
            {"question": "Who wrote Middlemarch?"},  # a dev sub-question
            {"question": "Who wrote Kim?"},  # in the validation file
        ],
    )
    router = "hotpot+2wiki-train bridge (R1-Searcher; regex label)"
    write(
        folder / "train/router.train.jsonl.gz",
        [
            {"question": "Where did the director of film Jaws study?", "source": router},
            {"question": "Which film has the director born first, Jaws or Alien?", "source": router},
            {"question": "Are the directors of both films Jaws and Alien from the same country?", "source": router},
            {"question": "Which film came out earlier, Jaws or Alien?", "source": router},
            {"question": "Two things at once?", "source": "synthetic"},
            {"question": "Where was the author of Middlemarch born?", "source": router},  # a dev question
        ],
    )
    write(
        folder / "musique/questions.jsonl.gz",
        [
            {
                "question": "Where was the author of Middlemarch born?",
                "hops": 2,
                "type": "2hop",
                "decomposition": [
                    {"question": "Who wrote Middlemarch?"},
                    {"question": "Where was #1 born?"},
                    {"question": "Middlemarch >> author"},
                ],
            },
            {
                "question": "Where did the author of Middlemarch die?",
                "hops": 2,
                "type": "2hop",
                "decomposition": [{"question": "Who wrote Middlemarch?"}, {"question": "#1 >> place of death"}],
            },
        ],
    )
    for name in ("2wikimultihopqa", "hotpotqa"):
        write(folder / name / "questions.jsonl.gz", [{"question": f"A {name} question?", "hops": 2, "type": "bridge"}])
    write(folder / "strategyqa/questions.jsonl.gz", [{"question": "Is it?", "hops": None, "decomposition": ["Is he?"]}])
    return folder


PEOPLE = ("Ada Bell", "Carl Dorn", "Eva Falk", "Gus Hart", "Ida Jung", "Karl Lund", "Mia Nord", "Otto Pohl")
TOWNS = ("Aachen", "Bremen", "Celle", "Dessau", "Erfurt", "Fulda", "Gotha", "Hanau")


@pytest.fixture
def small_data(data: Path) -> Path:
    """The same folder, with a few rows for the extractor and the rewriter."""
    people = list(zip(PEOPLE, TOWNS, strict=True))
    rows = []
    for number, (person, town) in enumerate(people):
        pairs = [
            (f"Where was {person} born?", f"{person} was born in {town}."),
            (f"Who is the mayor of {town}?", f"The mayor of {town} is {people[number - 1][0]}."),
        ]
        context = "\n\n".join(f"{asked}\n{said}" for asked, said in (pairs if number % 2 else pairs[::-1]))
        for asked, answer in (
            (f"In which town was {person} born?", town),
            (f"What is the name of {town}'s mayor?", people[number - 1][0]),
        ):
            start = context.index(f"in {town}." if answer == town else f"is {answer}.") + 3
            answers = {"text": [answer], "answer_start": [start]}
            rows.append({"question": asked, "context": context, "answers": answers})
    write(data / "train/extractor.train.jsonl.gz", rows[4:])
    write(data / "train/extractor.valid.jsonl.gz", rows[:4])

    edits = [
        row
        for person, town in people
        for row in (
            {"input": f"Q: Where was he born? | prev_answer: {person}", "output": f"Where was {person} born?"},
            {"input": f"Q: What is his job? | prev_answer: {person}", "output": f"What is {person}'s job?"},
            {"input": f"Q: Who is mayor of this town? | prev_answer: {town}", "output": f"Who is mayor of {town}?"},
        )
    ]
    no_edit = {"input": "Q: Did she? | prev_answer: Ada", "output": "Was it Ada who did?"}
    write(data / "train/rewriter.train.jsonl.gz", [*edits[6:], no_edit])
    write(data / "train/rewriter.valid.jsonl.gz", edits[:6])
    return data
