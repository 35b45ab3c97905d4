from __future__ import annotations

import json
from pathlib import Path

import pytest

from hopgraph import load
from inference.errors import InputError
from inference.structured import parse_output
from tests.scripted import Request
from training.lora.chats import read_chats
from training.revelator.build import main
from training.revelator.chat import OUTPUTS, as_chat
from training.revelator.examples import SKILLS, Example, Turn

QUESTION = 'Where was the director of "Alpha" <born>?'
WHO, WHERE = "Who directed Alpha?", "Where was Ann Lee born?"
TITLE, TEXT = "Alpha (film)", "Alpha is a film.</passage> Its director is\nAnn Lee."
KNOWN = (Turn(WHO, "Ann </question>Lee"),)
EXAMPLES = {
    "router": Example("router", "s", QUESTION, QUESTION, "single-step"),
    "decomposer": Example("decomposer", "s", QUESTION, QUESTION, (WHO, WHERE)),
    "refiner": Example("refiner", "s", QUESTION, QUESTION, WHERE, KNOWN),
    "first refiner": Example("refiner", "s", QUESTION, QUESTION, WHO),
    "relevance": Example("relevance", "s", QUESTION, WHO, True, title=TITLE, text=TEXT),
    "ending": Example("ending", "s", QUESTION, QUESTION, False, KNOWN),
}


def node(request: Request) -> str:
    return request.node.removesuffix("_discriminator")


async def sent(model, route: str) -> dict[str, list[dict]]:
    """What HANRAG's nodes send for the question, by skill; of several requests the last, and the refiner's first."""
    seeds = iter([WHO, WHERE])
    replies = {
        "router": lambda: {"route": route},
        "decomposer": lambda: {"thought": "", "subquestions": [WHO]},
        "refiner": lambda: {"question": next(seeds)},
        "relevance": lambda: {"relevant": True},
        "generator": lambda: {"answer": KNOWN[0].answer},
        "ending": lambda: {"sufficient": False},
    }
    server = model(lambda request: replies.get(node(request), lambda: {"answer": "Paris"})())
    await load("hanrag").ainvoke(
        {"question": QUESTION, "contexts": [{"title": TITLE, "text": TEXT}]},
        context={"verdicts": "text", "max_steps": 2},
    )
    found: dict[str, list[dict]] = {}
    for request in server.requests:
        if node(request) == "refiner" and "refiner" not in found:
            found["first refiner"] = request.body["messages"]
        if node(request) not in ("ending", "relevance") or node(request) not in found:
            found[node(request)] = request.body["messages"]
    return found


@pytest.mark.parametrize(("route", "skills"), [("complex", [*EXAMPLES]), ("compound", ["decomposer"])])
async def test_the_nodes_send_the_very_prompts_that_are_trained_on(model, route, skills):
    asked = await sent(model, route)
    for skill in skills:
        if skill != "decomposer" or route == "compound":
            assert as_chat(EXAMPLES[skill])["prompt"] == asked[skill], skill


def test_the_completion_is_the_output_that_the_node_asks_for():
    said = {skill: as_chat(example)["completion"] for skill, example in EXAMPLES.items()}
    assert said["router"] == [{"role": "assistant", "content": '{"route": "single_step"}'}]
    assert json.loads(said["decomposer"][0]["content"])["subquestions"] == [WHO, WHERE]
    assert said["refiner"][0]["content"] == '{"question": "Where was Ann Lee born?"}'
    assert said["relevance"][0]["content"] == '{"relevant": true}'
    assert said["ending"][0]["content"] == '{"sufficient": false}'
    for skill in SKILLS:
        parse_output(said[skill][0]["content"], OUTPUTS[skill])


def built(folder: Path) -> tuple[str, str]:
    return (folder / "train.jsonl").read_text(), (folder / "heldout.jsonl").read_text()


def test_a_build_is_the_same_every_time(data, tmp_path, capsys):
    for name in ("one", "two"):
        assert main(["--data", str(data), "--to", str(tmp_path / name)]) == 0
    assert built(tmp_path / "one") == built(tmp_path / "two")
    assert main(["--data", str(data), "--to", str(tmp_path / "three"), "--seed", "1"]) == 0
    assert built(tmp_path / "three") != built(tmp_path / "one")
    assert capsys.readouterr().out


def test_a_build_has_all_skills_and_no_question_on_both_sides(data, tmp_path):
    main(["--data", str(data), "--to", str(tmp_path)])
    train, held = (list(read_chats(tmp_path / f"{name}.jsonl")) for name in ("train", "heldout"))
    assert {chat["skill"] for chat in train} == set(SKILLS)
    assert held
    sides = [{(chat["skill"], chat["question"]) for chat in chats} for chats in (train, held)]
    assert not sides[0] & sides[1]


def test_the_report_counts_by_skill_label_and_source(data, tmp_path, capsys):
    main(["--data", str(data), "--to", str(tmp_path), "--limit", "4"])
    printed = capsys.readouterr().out
    assert "| **ending** | | | **4** |" in printed
    assert "| ending | ended | musique-train | 2 |" in printed
    assert "Left out: 1 (a dev question)" in printed
    assert (tmp_path / "report.md").read_text() == printed


def test_a_missing_data_folder_is_named(tmp_path, capsys):
    assert main(["--data", str(tmp_path / "nowhere"), "--to", str(tmp_path)]) == 2
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"skill": "juggling"}, "skill"),
        ({"skill": "router", "prompt": "text"}, "prompt"),
        ({"skill": "router", "prompt": [{"role": "nobody", "content": ""}]}, "prompt"),
        ({"skill": "router", "prompt": [{"role": "user", "content": "?"}], "completion": []}, "completion"),
    ],
)
def test_a_malformed_chat_is_named_with_its_line_and_field(tmp_path, row, field):
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(InputError, match=rf"train\.jsonl, line 1: field '{field}'"):
        list(read_chats(path, SKILLS))
