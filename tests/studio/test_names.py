"""Threads whose ids are not UUIDs, as LangGraph's server knows them."""

from __future__ import annotations

import json

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from hopgraph.origins import config_of
from hopgraph.studio.names import NAMES, Names, is_uuid, served_id
from inference.errors import InputError
from stores.checkpoints import open_checkpoints

UUID = "0b1d2c7e-0000-5000-8000-000000000001"


def test_a_name_has_a_uuid_and_is_remembered_by_the_next_server(tmp_path):
    names = Names(tmp_path)
    key = names.add("my-name")
    assert is_uuid(key)
    assert key == served_id("my-name") != served_id("my-other")
    assert names.stored(key) == Names(tmp_path).stored(key) == "my-name"
    assert (names.add(UUID), names.stored(UUID)) == (UUID, UUID)
    assert [*json.loads((tmp_path / NAMES).read_text())] == [key]
    assert names.stored(served_id("unknown")) == served_id("unknown")


def test_what_is_no_thread_id_is_refused(tmp_path):
    with pytest.raises(InputError, match="not a thread id"):
        Names(tmp_path).add("../x")
    assert not (tmp_path / NAMES).exists()


async def test_the_checkpointer_takes_and_gives_the_server_s_ids(tmp_path):
    names = Names(tmp_path)
    key = names.add("my-name")
    place = str(tmp_path / "checkpoints.sqlite")
    async with open_checkpoints(place) as plain, open_checkpoints(place) as opened:
        saver = names.translating(opened)
        config = config_of(key)
        config["configurable"]["checkpoint_ns"] = ""
        for step in range(2):
            config = await saver.aput(config, empty_checkpoint(), {"source": "loop", "step": step}, {})
            assert config["configurable"]["thread_id"] == key
        await saver.aput_writes(config, [("channel", "value")], "task")
        stored = await plain.aget_tuple(config_of("my-name"))
        assert stored is not None
        assert [row[1:] for row in stored.pending_writes] == [("channel", "value")]
        assert await plain.aget_tuple(config_of(key)) is None
        found = await saver.aget_tuple(config_of(key))
        assert found.config["configurable"]["thread_id"] == found.parent_config["configurable"]["thread_id"] == key
        listed = [row async for row in saver.alist(config_of(key), limit=5)]
        assert [row.config["configurable"]["thread_id"] for row in listed] == [key, key]
        earlier = [row async for row in saver.alist(config_of(key), before=found.config)]
        assert len(earlier) == 1
        await saver.adelete_thread(key)
        assert await plain.aget_tuple(config_of("my-name")) is None
