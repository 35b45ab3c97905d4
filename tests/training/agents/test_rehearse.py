from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.training.agents.test_accuracy import ANSWERS, REFINER, SCHEMA
from training.agents.rehearse import main
from training.lora.chats import Chat, read_chats
from training.rows import write_rows


def run(folder: Path, *more: str, chats: tuple[Chat, ...] = (REFINER, *ANSWERS)) -> int:
    write_rows(folder / "train.jsonl", chats)
    return main(["--examples", str(folder / "train.jsonl"), "--to", str(folder / "out"), *more])


def replies(folder: Path) -> dict[str, str]:
    return {chat["id"]: chat["completion"][0]["content"] for chat in read_chats(folder / "out/train.jsonl")}


def test_taught_roles_keep_the_perfect_replies_and_others_get_the_models_own(tmp_path, model, capsys):
    server = model(lambda request: {"question": "Who made Alpha?"})
    assert run(tmp_path, "--teach", "standard_rag/generator") == 0
    assert replies(tmp_path) == {
        **{chat["id"]: '{"answer": "Oslo"}' for chat in ANSWERS},
        REFINER["id"]: '{"question": "Who made Alpha?"}',
    }
    (request,) = server.requests
    assert request.body["messages"] == REFINER["prompt"]
    assert request.body["response_format"]["json_schema"] == {**SCHEMA, "strict": True}
    text = capsys.readouterr().out
    assert "| standard_rag/generator | 6 | taught |" in text
    assert "| hanrag/refiner | 1 | 0 |" in text


def test_examples_of_a_role_are_limited(tmp_path, model):
    server = model(lambda request: {"answer": "Rome"})
    assert run(tmp_path, "--teach", "hanrag/refiner", "--kept", "4") == 0
    assert len(server.requests) == 4
    assert sorted(replies(tmp_path).values()) == ['{"answer": "Rome"}'] * 4 + ['{"question": "Who directed Alpha?"}']
    assert run(tmp_path, "--teach", "standard_rag/generator", "--taught", "2") == 0
    assert len(replies(tmp_path)) == 3


def test_a_reply_that_was_cut_is_left_out(tmp_path, model, capsys):
    model(lambda request: '{"answer": "Ro')
    assert run(tmp_path, "--teach", "hanrag/refiner") == 0
    assert list(replies(tmp_path)) == [REFINER["id"]]
    assert "| standard_rag/generator | 0 | 6 |" in capsys.readouterr().out


def test_an_unknown_role_is_an_error(tmp_path, capsys):
    assert run(tmp_path, "--teach", "hanrag/refner") == 2
    assert "--teach: " in (error := capsys.readouterr().err)
    assert "has no examples of 'hanrag/refner'" in error
    assert "did you mean 'hanrag/refiner'?" in error


@pytest.mark.parametrize("changed", [True, False])
def test_the_prompts_are_those_of_now(tmp_path, model, changed, capsys):
    model(lambda request: {"answer": "Rome"})
    built = {"prompts": {"hanrag/refiner": "another"}} if changed else {}
    (tmp_path / "build.json").write_text(json.dumps(built))
    assert run(tmp_path, "--teach", "hanrag/refiner") == (2 if changed else 0)
    assert changed == ("built with other prompts than those of now: hanrag/refiner" in capsys.readouterr().err)
    if not changed:
        assert "hanrag/refiner" in json.loads((tmp_path / "out/build.json").read_text())["prompts"]
