"""Settings from the environment: what is read, what is refused, and how the message names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import inference.settings
from inference.errors import InputError
from inference.settings import Settings, get_settings, overridden


def test_defaults_hold_without_any_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    settings = get_settings()
    assert (settings.cache, settings.llm_url, settings.llm_api_key, settings.llm_extra) == ("off", None, None, {})
    if inference.settings.sys.platform != "darwin":
        assert settings.home == tmp_path / "hopgraph"


def test_variables_are_read_once(monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "3")
    assert get_settings().llm_concurrency == 3
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "4")
    assert get_settings().llm_concurrency == 3
    get_settings.cache_clear()
    assert get_settings().llm_concurrency == 4


def test_further_fields_are_a_json_object(monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_EXTRA", '{"chat_template_kwargs": {"enable_thinking": false}}')
    assert get_settings().llm_extra == {"chat_template_kwargs": {"enable_thinking": False}}


def test_blanks_around_a_value_and_a_tilde_are_understood(monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_URL", " http://host/v1 ")
    monkeypatch.setenv("HOPGRAPH_HOME", "~/hops")
    monkeypatch.setenv("HOPGRAPH_PROMPTS", "~/prompts")
    settings = get_settings()
    assert settings.llm_url == "http://host/v1"
    assert (settings.home, settings.prompts) == (Path.home() / "hops", Path.home() / "prompts")


def test_an_empty_variable_is_an_unset_one(monkeypatch):
    for name in ("LLM_URL", "LLM_TIMEOUT", "LLM_EXTRA", "PROMPTS"):
        monkeypatch.setenv(f"HOPGRAPH_{name}", "")
    settings = get_settings()
    assert (settings.llm_url, settings.llm_timeout, settings.llm_extra, settings.prompts) == (None, 300.0, {}, None)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("HOPGRAPH_LLM_TIMEOUT", "soon", "valid number"),
        ("HOPGRAPH_LLM_TIMEOUT", "0", "greater than 0"),
        ("HOPGRAPH_LLM_TIMEOUT", "inf", "less than or equal to"),
        ("HOPGRAPH_LLM_TIMEOUT", "nan", "less than or equal to"),
        ("HOPGRAPH_LLM_CONCURRENCY", "0", "greater than or equal to 1"),
        ("HOPGRAPH_LLM_CONTEXT", "12", "greater than or equal to 256"),
        ("HOPGRAPH_LLM_CONTEXT", "8k", "valid integer"),
        ("HOPGRAPH_LLM_RETRIES", "-1", "greater than or equal to 0"),
        ("HOPGRAPH_CACHE", "yes", "'on' or 'off'"),
        ("HOPGRAPH_LLM_EXTRA", '{"a": ', "not JSON"),
        ("HOPGRAPH_LLM_EXTRA", "repetition_penalty=1.1", "not JSON"),
        ("HOPGRAPH_LLM_EXTRA", "[1]", "valid dictionary"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_variable(monkeypatch, name, value, problem):
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=f"environment variable {name}: .*{problem}") as caught:
        get_settings()
    assert caught.value.hint
    assert caught.value.exit_code == 2


def test_keys_are_not_shown():
    settings = Settings(llm_api_key="sk-secret", embed_api_key="sk-other")  # type: ignore[arg-type]
    for text in (repr(settings), str(settings), settings.model_dump_json()):
        assert "sk-" not in text


def test_every_variable_says_what_it_is():
    """The file is where variables are documented: each field is followed by its docstring."""
    source = Path(inference.settings.__file__).read_text(encoding="utf-8")
    for name in Settings.model_fields:
        assert re.search(rf'^    {name}: .*(\n(?!    \w+:).*)*?\n    """\S', source, re.MULTILINE), name


def test_an_override_comes_before_the_environment_and_ends_with_its_block(monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_URL", "http://host/v1")
    with overridden(llm_url=None, cache="on"):
        assert (get_settings().llm_url, get_settings().cache) == (None, "on")
        with overridden(cache="off"):
            assert (get_settings().llm_url, get_settings().cache) == (None, "off")
        assert get_settings().cache == "on"
    assert (get_settings().llm_url, get_settings().cache) == ("http://host/v1", "off")
