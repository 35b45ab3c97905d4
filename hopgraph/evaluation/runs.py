"""Several evaluation runs, read as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hopgraph.evaluation.data import Question
from hopgraph.evaluation.folder import RunFolder
from hopgraph.evaluation.scoring import Record
from hopgraph.evaluation.shards import own_questions
from hopgraph.evaluation.simulated import Simulation, said_of
from inference.errors import InputError


@dataclass(frozen=True)
class Run:
    """One run."""

    folder: RunFolder
    names: dict[str, str]
    """The report's names of its variants."""
    simulation: str
    """Note on its simulation; "" if a model answered."""
    gold: str
    """How it identifies gold passages, from `gold.known_by`."""


@dataclass
class Runs:
    """Several evaluation runs, read as one."""

    runs: list[Run] = field(default_factory=list)
    questions: dict[str, Question] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    methods: dict[str, str] = field(default_factory=dict)
    """The method of each variant, in their order."""
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Settings given for each variant."""
    abouts: list[dict[str, Any]] = field(default_factory=list)
    """Each folder's `run.json`."""

    @property
    def simulations(self) -> list[str]:
        """Notes on simulated runs."""
        return list(dict.fromkeys(said for about in self.abouts if (said := said_of(about))))

    def compare_with(self, name: str) -> None:
        """Put a variant first: the others are compared with it.

        Raises:
            InputError: There is no variant of that name.
        """
        if name not in self.methods:
            raise InputError(f"--against: unknown variant {name!r}", hint=f"variants: {', '.join(self.methods)}")
        self.methods = {name: self.methods[name], **self.methods}


def read_runs(folders: Sequence[Path]) -> Runs:
    """The results of evaluation runs.

    Variants of the same name get their folder's name, and simulated ones a tag. Questions are matched by id.

    Raises:
        StoreError: A folder has no run, or a damaged one.
        InputError: Two runs have different questions of the same id.
    """
    found = Runs()
    abouts = {path: RunFolder(path).about() for path in folders}
    tags = {path: simulation.tag if (simulation := Simulation.of(about)) else "" for path, about in abouts.items()}
    mixed = len(set(tags.values())) > 1
    for path, about in abouts.items():
        folder = RunFolder(path)
        names: dict[str, str] = {}
        for row in about["variants"]:
            own = str(row["name"])
            name = f"{own} ({tags[path]})" if mixed and tags[path] else own
            name = name if name not in found.methods else f"{name} ({path.name})"
            if name in found.methods:
                raise InputError(f"{path}: duplicate variant {name!r}", hint="rename one of the folders")
            names[own] = name
            found.methods[name] = str(row["method"])
            found.settings[name] = dict(row["values"])
        for question in own_questions(about, folder.questions()):
            known = found.questions.setdefault(question.id, question)
            if known.question != question.question:
                raise InputError(f"{path}: question {question.id} differs from that of {folders[0]}")
        found.runs.append(Run(folder, names, said_of(about), about["identity"]["gold"]))
        found.abouts.append({"path": str(path), **about})
        for record in folder.records():
            if record["variant"] in names and record["id"] in found.questions:
                found.records.append({**record, "variant": names[record["variant"]]})
    return found
