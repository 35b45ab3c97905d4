"""One evaluation run is a folder: run.json, questions.jsonl, results.jsonl, judgements.jsonl, checkpoints.sqlite.

Checkpoints may be in Postgres instead: see `hopgraph.evaluation.checkpoints`.
`run.json` describes the run and is written once. A line of `results.jsonl` is written when its question ends; on resume
a torn line is dropped, and the question's result is taken from its checkpoint.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from hopgraph.evaluation.data import Question, as_row
from hopgraph.evaluation.datasets import read_questions
from hopgraph.evaluation.scoring import Record, record_of
from inference.errors import InputError, StoreError
from inference.locks import lock

FORMAT = 1


class RunFolder:
    """A run's folder.

    Args:
        path: The folder; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._about = path / "run.json"
        self.results = Lines(path / "results.jsonl", {"id", "variant", "metrics", "cost", "status"})
        self.judgements = Lines(path / "judgements.jsonl", {"id", "variant", "judged", "model", "prompt_hash"})

    @property
    def checkpoints(self) -> str:
        """Path of the file of checkpoints of the questions' threads."""
        return str(self.path / "checkpoints.sqlite")

    @property
    def started(self) -> bool:
        """Whether the folder has a run."""
        return self._about.is_file()

    def create(self, about: Mapping[str, Any], questions: list[Question]) -> None:
        """Start a run.

        Raises:
            InputError: The folder holds something else, or can't be written.
        """
        leftovers = {"questions.jsonl", "questions.jsonl.new", "run.json.new"}
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if others := sorted(item.name for item in self.path.iterdir() if item.name not in leftovers):
                raise InputError(
                    f"--out: {self.path} is not a run's folder and contains {others[0]}", hint="name a new folder"
                )
            rows = (json.dumps(as_row(question), ensure_ascii=False) + "\n" for question in questions)
            _write(self.path / "questions.jsonl", "".join(rows))
            _write(self._about, json.dumps({"format": FORMAT, **about}, ensure_ascii=False, indent=2) + "\n")
        except OSError as error:
            raise InputError(f"--out: {error.filename or self.path}: {error.strerror}") from None

    def about(self) -> dict[str, Any]:
        """The content of `run.json`.

        Raises:
            StoreError: There is none, or it can't be read.
        """
        try:
            about = json.loads(self._about.read_text(encoding="utf-8"))
            found = about["format"]
        except FileNotFoundError:
            raise StoreError(
                f"{self.path}: no evaluation run found", hint="start one with `hopgraph eval --method ... --out DIR`"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self._about}: can't be read ({error})", hint="start a new run") from None
        if found != FORMAT:
            raise StoreError(f"{self._about}: has format {found}, this version reads {FORMAT}", hint="start a new run")
        return dict(about)

    def questions(self) -> list[Question]:
        """The run's questions."""
        return read_questions(self.path / "questions.jsonl")

    def records(self) -> list[Record]:
        """Records of all results, with the judge's verdicts, if any, as the metric `judged`.

        Results that need no judge have their `em` as verdict: an answer to an unanswerable question is wrong, and so is
        a missing answer to an answerable one.

        Raises:
            StoreError: A line is damaged.
        """
        said = {(line["variant"], line["id"]): float(line["judged"]) for line in self.judgements}
        records = []
        for line in self.results:
            record = record_of(line)
            found = record["metrics"]
            verdict = said.get((line["variant"], line["id"])) if needs_judge(line) else found.get("em")
            if said and verdict is not None:
                found["judged"] = verdict
            records.append(record)
        return records

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run against other processes.

        Raises:
            StoreError: Another process holds it.
        """
        with _lockable(self._about) as handle:
            if not lock(handle):
                raise StoreError(
                    f"{self.path}: in use by another `hopgraph eval`", hint="wait for it, or stop it first"
                )
            yield


class Lines:
    """An append-only file of JSON objects, one per line.

    Args:
        path: The file; it need not exist.
        fields: Required keys of every line.
    """

    def __init__(self, path: Path, fields: set[str]) -> None:
        self._path = path
        self._fields = fields

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The lines in file order, without a torn last line.

        Raises:
            StoreError: A line is damaged.
        """
        try:
            with self._path.open("rb") as file:
                for number, raw in enumerate(file, start=1):
                    if not raw.endswith(b"\n"):
                        return
                    yield self._line(raw, number)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"{self._path}: can't be read ({error.strerror})") from None

    def _line(self, raw: bytes, number: int) -> dict[str, Any]:
        try:
            line = json.loads(raw)
            if isinstance(line, dict) and self._fields <= set(line):
                return line
        except ValueError:
            pass
        raise StoreError(
            f"{self._path}, line {number}: malformed",
            hint="delete the line: its result is restored from the checkpoints without asking the question again",
        )

    def keep(self, wanted: Callable[[dict[str, Any]], bool]) -> None:
        """Keep wanted lines only, and drop a torn last line; the file is replaced atomically.

        Raises:
            StoreError: A line is damaged, or the file can't be written.
        """
        if self._path.exists():
            self.replace(line for line in self if wanted(line))

    def replace(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Replace the file atomically by these lines.

        Raises:
            StoreError: The file can't be written.
        """
        new = self._path.with_name(self._path.name + ".new")
        try:
            with new.open("w", encoding="utf-8") as file:
                for line in lines:
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            new.unlink(missing_ok=True)
            raise _unwritable(self._path, error) from None

    @contextmanager
    def appending(self) -> Iterator[Callable[[Mapping[str, Any]], None]]:
        """A function that appends a line, which is in the file when the function returns.

        Raises:
            StoreError: The file can't be written; so does the function, and the file is then as it was before.
        """
        try:
            file = self._path.open("ab", buffering=0)
        except OSError as error:
            raise _unwritable(self._path, error) from None

        def add(line: Mapping[str, Any]) -> None:
            length = os.fstat(file.fileno()).st_size
            try:
                _append(file, line)
            except OSError as error:
                file.truncate(length)
                raise _unwritable(self._path, error) from None

        with file:
            yield add


def needs_judge(line: Mapping[str, Any]) -> bool:
    """Whether a line of `results.jsonl` needs a judge: it has an answer and gold answers."""
    return line["status"] == "answered" and bool(line["answers"])


def differences(old: Any, new: Any, at: str = "") -> list[str]:
    """Differences of two JSON values, a line each: `variants.prunerag.settings.top_k: 5, now 10`."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = list(dict.fromkeys([*old, *new]))
        return [
            line for key in keys for line in differences(old.get(key), new.get(key), f"{at}.{key}" if at else str(key))
        ]
    return [] if old == new else [f"{at}: {_short(old)}, now {_short(new)}"]


def _short(value: Any) -> str:
    text = "none" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _lockable(path: Path) -> IO[bytes]:
    """Open a file to lock it: for writing if possible, since NFS gives exclusive locks on no other files."""
    try:
        return path.open("r+b")
    except OSError:
        return path.open("rb")


def _unwritable(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path}: can't be written ({error.strerror})",
        hint="is the disk full? Nothing is lost: resume with `hopgraph eval --resume DIR`",
    )


def _append(file: IO[bytes], line: Mapping[str, Any]) -> None:
    rest = memoryview(json.dumps(line, ensure_ascii=False).encode() + b"\n")
    while rest:
        rest = rest[file.write(rest) :]


def _write(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
