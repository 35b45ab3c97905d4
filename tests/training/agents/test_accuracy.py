from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.scripted import Raw
from training.agents.accuracy import main, score
from training.lora.chats import Chat, ChatSchema
from training.rows import write_rows

SCHEMA = ChatSchema(
    name="hanrag__refiner",
    schema={"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]},
)


def example(skill: str, reply: object, number: int = 0, **more: object) -> Chat:
    chat = {
        "id": f"{skill}-{number}",
        "skill": skill,
        "label": "decomposed",
        "source": "musique-train",
        "question": "Where was the director of Alpha born?",
        "prompt": [
            {"role": "system", "content": "Reply with JSON."},
            {"role": "user", "content": f"<question>Q{number}</question>"},
        ],
        "completion": [{"role": "assistant", "content": json.dumps(reply)}],
    }
    return {**chat, **more}  # type: ignore[typeddict-item, return-value]


REFINER = example("hanrag/refiner", {"question": "Who directed Alpha?"}, schema=SCHEMA)
ANSWERS = [example("standard_rag/generator", {"answer": "Oslo"}, number) for number in range(1, 7)]


def run(folder: Path, chats: list[Chat], *more: str) -> int:
    write_rows(folder / "heldout.jsonl", chats)
    return main(["--examples", str(folder / "heldout.jsonl"), "--to", str(folder / "out"), *more])


@pytest.mark.parametrize(
    ("meant", "said", "exact", "f1"),
    [
        ({"answer": "Ann Lee"}, {"answer": "the Ann Lee."}, 1.0, 1.0),
        ({"answer": "Ann Lee"}, {"answer": "Ann Ray"}, 0.0, 0.5),
        ({"thought": "A is before B.", "answer": "A"}, {"thought": "B is before A.", "answer": "A"}, 1.0, 1.0),
        ({"relevant": True}, {"relevant": False}, 0.0, 0.0),
        ({"score": 1.0}, {"score": 1}, 1.0, 1.0),
        ({"score": 1.0}, {"score": 10**400}, 0.0, 0.0),
        ({"score": 1.0}, {"score": float("inf")}, 0.0, 0.0),
        ({"type": "answer", "answer": "yes"}, {"type": "query", "answer": "yes"}, 0.0, 0.5),
        ({"evidence": ["1.0", "2.0"]}, {"evidence": ["1.0"]}, 0.0, 2 / 3),
        ({"evidence": []}, {"evidence": []}, 1.0, 1.0),
        ({"summary": ""}, {"summary": "Alpha is a film."}, 0.0, 0.0),
        (
            {"steps": [{"thought": "x", "question": "Who?", "action": "Retrieve"}]},
            {"steps": [{"thought": "y", "question": "who", "action": "Retrieve"}]},
            1.0,
            1.0,
        ),
        ({"answer": "Oslo"}, {"answer": {"answer": "Oslo"}}, 0.0, 1.0),
    ],
)
def test_what_decides_is_compared_by_its_words(meant, said, exact, f1):
    scored = score(example("a/b", meant), json.dumps(said))
    assert (scored["exact"], scored["f1"], scored["readable"]) == (exact, pytest.approx(f1), True)


@pytest.mark.parametrize("said", ["", "Oslo", '{"answer": "Os', '["Oslo"]', "[" * 100_000])
def test_what_is_no_json_object_is_unreadable_and_wrong(said):
    scored = score(ANSWERS[0], said)
    assert (scored["exact"], scored["f1"], scored["readable"]) == (0.0, 0.0, False)


def test_each_role_is_asked_as_its_node_asks(tmp_path, model, capsys):
    server = model(lambda request: {"question": "Who directed Alpha?"})
    assert run(tmp_path, [REFINER, ANSWERS[0]]) == 0
    text = capsys.readouterr().out
    assert "| hanrag/refiner | 1 | 1.000 | 1.000 | 0 |" in text
    assert "| standard_rag/generator | 1 | 0.000 | 0.000 | 0 |" in text
    assert "| all | 2 | 0.500 | 0.500 | 0 |" in text
    assert "| hanrag/refiner | decomposed | musique-train | 1 | 1.000 |" in text
    sent = {str(request.body["messages"]): request.body for request in server.requests}
    body = sent[str(REFINER["prompt"])]
    assert body["response_format"]["json_schema"] == {**SCHEMA, "strict": True}
    assert "response_format" not in sent[str(ANSWERS[0]["prompt"])]


def test_before_and_after_stand_side_by_side(tmp_path, model, capsys):
    model(lambda request: {"answer": "Rome"})
    run(tmp_path, ANSWERS, "--to", str(tmp_path / "before"))
    model(lambda request: {"answer": "Oslo"})
    assert run(tmp_path, ANSWERS, "--before", str(tmp_path / "before")) == 0
    text = capsys.readouterr().out
    assert "| standard_rag/generator | 6 | 0.000 | 0.000 | 0 | 1.000 | 1.000 | 0 |" in text
    assert "| standard_rag/generator | decomposed | musique-train | 6 | 0.000 | 1.000 |" in text
    assert text.endswith((tmp_path / "out/report.md").read_text())
    assert run(tmp_path, [REFINER], "--before", str(tmp_path / "before")) == 2
    assert "--before: that run is of other examples" in capsys.readouterr().err


def test_a_prompt_that_is_too_long_for_the_model_counts_as_unreadable(tmp_path, model, capsys):
    message = "This model's maximum context length is 8192 tokens. However, your request has 9000 input tokens."
    model(lambda request: Raw(400, json.dumps({"error": {"message": message}})))
    assert run(tmp_path, ANSWERS[:1]) == 0
    assert "| standard_rag/generator | 1 | 0.000 | 0.000 | 1 |" in capsys.readouterr().out


def test_roles_can_be_chosen_and_limited(tmp_path, model, capsys):
    server = model(lambda request: {"answer": "Oslo"})
    assert run(tmp_path, [REFINER, *ANSWERS], "--skill", "standard_rag/generator", "--limit", "4") == 0
    assert len(server.requests) == 4
    assert run(tmp_path, [REFINER, *ANSWERS], "--skill", "hanrag/refner") == 2
    assert "did you mean 'hanrag/refiner'?" in capsys.readouterr().err


def test_files_without_examples_and_malformed_ones_are_errors(tmp_path, capsys):
    assert run(tmp_path, []) == 2
    assert "heldout.jsonl: no examples" in capsys.readouterr().err
    assert run(tmp_path, [ANSWERS[0], {**REFINER, "schema": {"name": "x"}}]) == 2  # type: ignore[typeddict-item]
    assert "line 2: field 'schema' must be an object with a name and a schema" in capsys.readouterr().err
