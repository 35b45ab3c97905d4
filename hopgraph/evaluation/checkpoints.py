"""Where the checkpoints of a run are: in its folder, or in the Postgres that HOPGRAPH_CHECKPOINTS names.

`run.json` records the Postgres, without user and password. The ids of a run's threads contain its own id, and so do
those of a shard: any number of runs share a database without being mixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hopgraph.evaluation.folder import RunFolder
from hopgraph.evaluation.plan import restore
from hopgraph.evaluation.shards import own_questions
from hopgraph.origins import config_of, thread_of
from inference.errors import InputError
from inference.settings import get_settings
from stores.checkpoint_errors import without_password
from stores.checkpoints import is_postgres, open_checkpoints

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

KEY = "checkpoints"
"""The entry of `run.json`."""


def as_row() -> dict[str, str]:
    """Entries of the `run.json` of a new run; none if its checkpoints are in its folder."""
    url = get_settings().checkpoints
    return {KEY: without_password(url)} if url and is_postgres(url) else {}


def place_of(folder: RunFolder, about: Mapping[str, Any]) -> str:
    """The checkpoints of a run, for `open_checkpoints`.

    Args:
        folder: The run's folder.
        about: Its `run.json`, or the entry of a shard in that of a merged run.

    Raises:
        InputError: They are in Postgres, and HOPGRAPH_CHECKPOINTS names none.
    """
    if (kept := about.get(KEY)) is None:
        return folder.checkpoints
    url = get_settings().checkpoints
    if url is None or not is_postgres(url):
        raise InputError(
            f"{folder.path}: the run's checkpoints are in {kept}", hint="set HOPGRAPH_CHECKPOINTS to its URL"
        )
    return url


async def check_store(folder: RunFolder, about: Mapping[str, Any], saver: BaseCheckpointSaver[str]) -> None:
    """Check that a store at another address than the recorded one has the run's threads: its calls would be repeated.

    Raises:
        InputError: It has not.
    """
    place = getattr(saver, "place", "")
    if about.get(KEY, place) == place:
        return
    finished = next((line["thread"] for line in folder.results if line.get("thread")), None)
    if finished is None or await saver.aget_tuple(config_of(finished)) is None:
        raise InputError(
            f"HOPGRAPH_CHECKPOINTS: no checkpoints of the run in {folder.path} found in {place}; they are in "
            f"{about[KEY]}",
            hint="set the URL that the run was started with",
        )


async def delete_threads(folder: RunFolder, about: Mapping[str, Any]) -> None:
    """Delete a run's threads from Postgres.

    Raises:
        InputError: HOPGRAPH_CHECKPOINTS does not name it.
        StoreError: It can't be used.
    """
    questions = own_questions(about, folder.questions())
    async with open_checkpoints(place_of(folder, about)) as saver:
        for variant in restore(about):
            for question in questions:
                await saver.adelete_thread(thread_of(str(about["run"]), variant.context, question.id))
