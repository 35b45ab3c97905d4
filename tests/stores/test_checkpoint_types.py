"""What a checkpoint's bytes may make of themselves: plain values, and nothing that runs."""

from __future__ import annotations

import pickle
import sqlite3

import ormsgpack
import pytest

from hopgraph.run import resume
from inference.errors import StoreError
from stores.checkpoints import open_checkpoints
from tests.hopgraph.test_run import play, start


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5])
async def test_an_object_in_a_checkpoint_is_not_made(model, home, tmp_path, code):
    """Extension types of LangGraph's format name a module, a class and arguments."""
    mark = tmp_path / "ran"
    arguments = {0: f"touch {mark}", 1: [f"touch {mark}"], 2: {"command": f"touch {mark}"}}.get(code, f"touch {mark}")
    packed = ormsgpack.packb(("os", "system", arguments, "system"))
    async with open_checkpoints() as saver:
        value = saver.serde.loads_typed(("msgpack", ormsgpack.packb({"x": ormsgpack.Ext(code, packed)})))
    assert not mark.exists()
    assert isinstance(value["x"], str | list | dict | tuple | bytes | type(None))


async def test_a_pickle_is_not_opened(model, home, tmp_path):
    model(play)
    await start("t")
    mark = tmp_path / "ran"
    with sqlite3.connect(home / "checkpoints.sqlite") as connection:
        row = (pickle.dumps(Touch(mark)),)
        connection.execute("UPDATE checkpoints SET type = 'pickle', checkpoint = ?", row)
    connection.close()
    async with open_checkpoints() as saver:
        with pytest.raises(StoreError):
            await resume("t", saver)
    assert not mark.exists()


async def test_a_constructor_in_json_is_not_called(home, tmp_path):
    mark = tmp_path / "ran"
    text = f'{{"lc": 2, "type": "constructor", "id": ["os", "system"], "args": ["touch {mark}"], "kwargs": {{}}}}'
    async with open_checkpoints() as saver:
        try:
            saver.serde.loads_typed(("json", text.encode()))
        except Exception as error:
            assert "touch" not in str(error) or not mark.exists()  # noqa: PT017  (any refusal is one)
    assert not mark.exists()
