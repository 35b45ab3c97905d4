"""Merges the shards of a run into one run: its results are those of a single process, question by question."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hopgraph.evaluation import checkpoints
from hopgraph.evaluation.data import Question
from hopgraph.evaluation.folder import Lines, RunFolder, differences
from hopgraph.evaluation.identity import hash_of_questions, surroundings, versions
from hopgraph.evaluation.shards import Shard, shard_folders
from inference.errors import InputError, StoreError

_OWN = frozenset({"run", "created", "file", "shard", "versions", "surroundings", "format", checkpoints.KEY})
"""Fields of `run.json` that may differ between shards; the hash of the questions stands for their file."""


@dataclass(frozen=True)
class _Part:
    """A shard's run."""

    folder: RunFolder
    about: dict[str, Any]
    shard: Shard

    @property
    def plan(self) -> dict[str, Any]:
        """What all shards of a run have in common."""
        return {key: value for key, value in self.about.items() if key not in _OWN}


def merge(out: RunFolder, folders: Sequence[Path]) -> list[str]:
    """Write the results and verdicts of all shards of a run into a new folder; returns notes for the user.

    The folder appears when it is complete. Checkpoints stay where they are; `run.json` names the shards' folders.

    Args:
        out: The folder to write; it must not exist, or be empty.
        folders: The shards' folders, in any order.

    Raises:
        InputError: The folders are not all shards of one run, a question has no result yet, or `out` exists.
        StoreError: A folder is damaged, or used by another process.
    """
    parts = _parts(folders)
    first = parts[0]
    questions = first.folder.questions()
    if hash_of_questions(questions) != first.about["identity"]["questions"]["hash"]:
        raise StoreError(f"{first.folder.path}: questions.jsonl has changed since the run started")
    with ExitStack() as held:
        for part in parts:
            held.enter_context(part.folder.locked())
        for part in parts:
            _check_complete(part, questions)
        _write(out, parts, questions)
    return _notes(parts)


def shard_of_thread(folder: RunFolder, thread: str) -> Path | None:
    """The folder of the shard whose checkpoints have a thread of a run; None if there is none.

    Raises:
        StoreError: The run is damaged.
    """
    shards = shard_folders(folder.path, folder.about())
    found = next((line["id"] for line in folder.results if line.get("thread") == thread), None) if shards else None
    if found is None:
        return None
    number = next(at for at, question in enumerate(folder.questions()) if question.id == found)
    return shards[number % len(shards)]


def _parts(folders: Sequence[Path]) -> list[_Part]:
    """The shards by number."""
    parts = []
    for path in folders:
        about = RunFolder(path).about()
        shard = Shard.of_run(about)
        if shard is None:
            raise InputError(
                f"--merge: {path} is not a shard of a run", hint="shards are runs of `hopgraph eval --shard`"
            )
        parts.append(_Part(RunFolder(path), about, shard))
    if not parts:
        raise InputError(
            "--merge: no folders given", hint="such as `hopgraph eval --merge runs/part-* --out runs/whole`"
        )
    known: dict[Shard, Path] = {}
    for part in parts:
        if changed := differences(parts[0].plan, part.plan):
            more = f"; and {len(changed) - 5} more" if len(changed) > 5 else ""
            raise InputError(
                f"--merge: {part.folder.path} is of another run than {parts[0].folder.path}: "
                f"{'; '.join(changed[:5])}{more}",
                hint="shards of one run differ in nothing but --shard and --out",
            )
        if part.shard.of != parts[0].shard.of:
            raise InputError(
                f"--merge: {part.folder.path} is shard {part.shard}, {parts[0].folder.path} is {parts[0].shard}",
                hint="all shards have the same count",
            )
        if part.shard in known:
            raise InputError(f"--merge: {known[part.shard]} and {part.folder.path} are both shard {part.shard}")
        known[part.shard] = part.folder.path
    count = parts[0].shard.of
    if missing := [str(shard) for number in range(1, count + 1) if (shard := Shard(number, count)) not in known]:
        raise InputError(
            f"--merge: {len(missing)} of {count} shards are missing: {', '.join(missing[:10])}",
            hint="name the folders of all shards",
        )
    return sorted(parts, key=lambda part: part.shard)


def _check_complete(part: _Part, questions: Sequence[Question]) -> None:
    names = [str(row["name"]) for row in part.about["variants"]]
    wanted = {(name, question.id) for question in part.shard.part(questions) for name in names}
    done = {(line["variant"], line["id"]) for line in part.folder.results}
    if foreign := next(iter(done - wanted), None):
        raise StoreError(f"{part.folder.path}: results.jsonl has a result of another run: {foreign[0]}, {foreign[1]}")
    if left := len(wanted - done):
        raise InputError(
            f"--merge: shard {part.shard} in {part.folder.path} has {len(done):,} of {len(wanted):,} results, "
            f"{left:,} to do",
            hint=f"finish it with `hopgraph eval --resume {part.folder.path}`",
        )


def _write(out: RunFolder, parts: Sequence[_Part], questions: list[Question]) -> None:
    """Write the folder beside its place, and move it there when it is complete."""
    rows = [
        {"folder": str(part.folder.path.resolve()), "run": part.about["run"], "shard": str(part.shard)}
        | ({checkpoints.KEY: part.about[checkpoints.KEY]} if checkpoints.KEY in part.about else {})
        for part in parts
    ]
    about = {
        "run": str(uuid.uuid4()),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "file": parts[0].about["file"],
        **parts[0].plan,
        "merged": rows,
        "versions": versions(),
        "surroundings": surroundings(),
    }
    new: Path | None = None
    try:
        if out.path.exists() and (not out.path.is_dir() or any(out.path.iterdir())):
            raise InputError(f"--out: {out.path} exists", hint="name a new folder")
        out.path.parent.mkdir(parents=True, exist_ok=True)
        new = out.path.with_name(f".{out.path.name}-{about['run']}")
        folder = RunFolder(new)
        folder.create(about, questions)
        _copy(folder.results, _unique(parts, lambda part: part.folder.results))
        _check_one_judge(parts)
        _copy(folder.judgements, _unique(parts, lambda part: part.folder.judgements))
        new.replace(out.path)
    except OSError as error:
        raise InputError(f"--out: {error.filename or out.path}: {error.strerror}") from None
    finally:
        if new is not None:
            with suppress(OSError):
                shutil.rmtree(new)


def _unique(parts: Sequence[_Part], lines: Callable[[_Part], Lines]) -> Iterator[Mapping[str, Any]]:
    """Lines of all shards, the first one of each variant and question."""
    for part in parts:
        seen: set[tuple[str, str]] = set()
        for line in lines(part):
            if (key := (line["variant"], line["id"])) not in seen:
                seen.add(key)
                yield line


def _copy(target: Lines, lines: Iterator[Mapping[str, Any]]) -> None:
    if (first := next(lines, None)) is not None:
        with target.appending() as append:
            append(first)
            for line in lines:
                append(line)


def _check_one_judge(parts: Sequence[_Part]) -> None:
    judges: dict[tuple[str, str], Path] = {}
    for part in parts:
        for line in part.folder.judgements:
            judges.setdefault((line["model"], line["prompt_hash"]), part.folder.path)
    if len(judges) > 1:
        (one, there), (other, here) = list(judges.items())[:2]
        what = f"models {one[0]} and {other[0]}" if one[0] != other[0] else f"prompts {one[1]} and {other[1]}"
        raise InputError(
            f"--merge: the verdicts in {there} and {here} are by two judges: {what}",
            hint="move one's judgements.jsonl away, and judge after merging: --merge ... --judge",
        )


def _notes(parts: Sequence[_Part]) -> list[str]:
    first = parts[0]
    changed = {
        name
        for part in parts
        for name in {*part.about["versions"], *first.about["versions"]}
        if part.about["versions"].get(name) != first.about["versions"].get(name)
    }
    return [f"the shards ran with different versions of {', '.join(sorted(changed))}"] if changed else []
