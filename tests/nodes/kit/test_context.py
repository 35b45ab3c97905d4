"""Settings of a call: a prompt's field shows the file, and an unchanged one is the file."""

from __future__ import annotations

import pytest

from hopgraph.methods import METHODS, READERS, context_class
from hopgraph.run import make_context, thread_of
from inference.settings import get_settings
from prompts.loader import load_prompt


@pytest.mark.parametrize("method", [*METHODS, *READERS])
def test_a_form_that_is_sent_as_it_was_shown_changes_no_prompt(method):
    fields = context_class(method).model_json_schema()["properties"]
    shown = {name: fields[name]["default"] for name in context_class(method).prompts()}
    assert all(shown.values())
    assert {fields[name]["type"] for name in shown} == {"string"}
    made = make_context(method, shown)
    assert made.prompt_overrides() == {}
    assert made.model_dump(exclude_unset=True) == context_class(method).embedded
    assert thread_of("run", made, "q") == thread_of("run", make_context(method, {}), "q")


def test_a_field_shows_the_overlay_s_text_and_follows_its_edits(tmp_path, monkeypatch):
    (tmp_path / "prism").mkdir()
    file = tmp_path / "prism" / "answer.md"
    file.write_text("First: {{question}} {{evidence}}")
    monkeypatch.setenv("HOPGRAPH_PROMPTS", str(tmp_path))
    get_settings.cache_clear()

    def shown():
        return context_class("prism").model_json_schema()["properties"]["prompt_answer"].get("default")

    assert shown() == "First: {{question}} {{evidence}}"
    made = make_context("prism", {"prompt_answer": shown()})
    file.write_text("Second: {{question}} {{evidence}}")
    assert shown() == "Second: {{question}} {{evidence}}"
    assert load_prompt("prism/answer", made.prompt_override("prism/answer")).messages[0].content.startswith("Second")
    kept = make_context("prism", {"prompt_answer": "First: {{question}} {{evidence}}"})
    assert kept.prompt_overrides() == {"prism/answer": "First: {{question}} {{evidence}}"}
    file.write_text("{{nothing of the kind}}")
    assert shown() is None  # the form is shown; a run says what is wrong


def test_the_embedded_model_has_defaults_of_its_own_and_the_form_shows_them(monkeypatch):
    def settings(**given):
        made = make_context("hanrag", given)
        return made.top_k, made.revelator

    def shown():
        fields = context_class("hanrag").model_json_schema()["properties"]
        return fields["top_k"]["default"], fields["revelator"]["default"]

    assert settings() == settings(preset="default") == shown() == (3, "encoder")
    assert settings(top_k=5) == (5, "encoder")
    assert settings(revelator="model") == (3, "model")
    assert settings(preset="paper") == (5, "model")
    assert settings(preset="paper", top_k=4) == (4, "model")
    monkeypatch.setenv("HOPGRAPH_LLM_URL", "http://127.0.0.1:1/v1")
    get_settings.cache_clear()
    assert settings() == shown() == (5, "model")
    assert make_context("hanrag", {}).model_dump(exclude_unset=True) == {}


@pytest.mark.parametrize("method", METHODS)
def test_the_defaults_of_the_embedded_model_differ_from_the_usual_ones(method):
    fields = context_class(method).model_fields
    assert [name for name, value in context_class(method).embedded.items() if fields[name].default == value] == []
