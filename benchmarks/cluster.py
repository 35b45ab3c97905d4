"""What several workers and several shards cost and bring.

    python benchmarks/cluster.py calls
    python benchmarks/cluster.py search INDEX QUESTIONS [--sizes 100000,1000000] [--shards 1,4,16]
    python benchmarks/cluster.py serial INDEX
    python benchmarks/cluster.py simulate

`calls` evaluates `no_retrieval` (one call a question) against a simulated endpoint of 512 slots and 1 s a reply: in one
process without Ray, and on a Ray cluster on this machine with 1, 2 and 4 workers. Calls a second are counted by the
endpoint from its first request to its last reply. CPU is read from /proc: `our` of the workers and the command after
their start, `Ray's` of its servers, and the endpoint's. `linear` is N times the calls of one worker, or what the cores
allow by the CPU time of a call.

`search` makes up passages as scale.py does, builds an index of them, and searches it with each number of shards.

`serial` measures the CPU time of what the command itself does for each passage of `index --ray` and each result of
`eval --ray`, and what the workers do: the ratio is how many workers it can feed.

`simulate` calculates what dividing a fixed limit of calls costs 100 workers: how much longer a run takes than one that
shares all slots, because a worker that has finished leaves its share unused.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from heapq import heapreplace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hopgraph.evaluation.data import Question, SubQuestion
from hopgraph.simulation.agents import PerfectAgents
from hopgraph.simulation.endpoint import Endpoint
from hopgraph.simulation.gold import cases_of
from stores.passages import Passage

SLOTS, SECONDS = 512, 1.0
GOAL = 0.9
"""Calls a second, relative to linear."""
HOPGRAPH = Path(sys.executable).with_name("hopgraph")
app = typer.Typer(help=__doc__)


@app.command()
def calls(
    questions: Annotated[int, typer.Option(help="Number of questions.")] = 4_000,
    workers: Annotated[str, typer.Option(help="Numbers of workers; 0: one process without Ray.")] = "0,1,2,4",
) -> None:
    """Calls a second, and Ray's share of the CPU time; exit code 1 if the goal is missed."""
    asked = [
        Question(f"q{n}", text := f"What is number {n}?", (f"{n}",), decomposition=(SubQuestion(text, f"{n}"),))
        for n in range(questions)
    ]
    cores = os.cpu_count() or 1
    print(f"{cores} cores, load {os.getloadavg()[0]:.1f}; {questions:,} calls, {SLOTS} slots of {SECONDS:g} s\n")
    head = f"{'workers':>8}{'calls/s':>9}{'linear':>8}{'ratio':>7}{'our ms':>8}{'Ray ms':>8}{'endpoint':>10}"
    print(f"{head}  of CPU a call")
    one, missed = 0.0, False
    for count in map(int, workers.split(",")):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
            row = run_once(Path(place), asked, count)
        one = row["rate"] if count == 1 else one
        most = min(SLOTS / SECONDS, cores / (row["ours"] + row["rays"] + row["endpoint"]))
        linear = min(most, count * one) if count else most
        missed |= count > 1 and row["rate"] < GOAL * linear
        print(
            f"{count or 'no Ray':>8}{row['rate']:>9.0f}{linear:>8.0f}{row['rate'] / linear:>7.2f}"
            f"{1e3 * row['ours']:>8.2f}{1e3 * row['rays']:>8.2f}{1e3 * row['endpoint']:>10.2f}",
            flush=True,
        )
    raise SystemExit(int(missed))


def run_once(place: Path, asked: Sequence[Question], workers: int) -> dict[str, float]:
    """Calls a second, and CPU seconds a call of ours and of Ray's."""
    lines = (json.dumps({"id": q.id, "question": q.question, "answers": list(q.answers)}) for q in asked)
    (place / "questions.jsonl").write_text("".join(f"{line}\n" for line in lines))
    words = [HOPGRAPH, "eval", "-m", "no_retrieval", "-q", place / "questions.jsonl", "--out", place / "run", "--json"]
    with cluster(workers) as address, endpoint(asked) as (url, seen):
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HOPGRAPH_")},
            "HOPGRAPH_HOME": str(place / "home"),
            "HOPGRAPH_LLM_URL": url,
            "HOPGRAPH_LLM_CONCURRENCY": str(SLOTS),
        }
        if workers:
            words += ["--ray", address, "--workers", str(workers)]
        usage = Usage()
        process = subprocess.Popen(list(map(str, words)), env=environment, stdout=subprocess.DEVNULL, stderr=None)
        while process.poll() is None:
            usage.look(started=seen()[0] > 0)
            time.sleep(0.2)
        if process.returncode:
            raise SystemExit(process.returncode)
        count, seconds = seen()
    spent = {kind: usage.of(kind) / count for kind in ("ours", "rays", "endpoint")}
    return {"rate": count / seconds, **spent}


class Usage:
    """CPU seconds of the processes below this one since the first call was made."""

    def __init__(self) -> None:
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._kinds: dict[int, str] = {}

    def look(self, *, started: bool) -> None:
        """Read the CPU time of all processes, which may end at any time."""
        parents, used = {}, {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            pid = int(path.name)
            parents[pid] = int(fields[1])
            used[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            if "answer_shard" in command:  # until its task ends; then it is an idle process of Ray
                self._kinds[pid] = "ours"
            else:
                self._kinds.setdefault(pid, _kind_of(command))
        for pid, seconds in used.items():
            above = pid
            while above in parents and above != os.getpid():
                above = parents[above]
            if above != os.getpid() or pid == os.getpid():
                continue
            if not started:
                self._first[pid] = seconds
            elif pid in self._first:
                self._last[pid] = seconds

    def of(self, kind: str) -> float:
        """CPU seconds of `ours` (the command and the workers), `rays` or the `endpoint`."""
        return sum(seconds - self._first[pid] for pid, seconds in self._last.items() if self._kinds[pid] == kind)


def _kind_of(command: str) -> str:
    if "spawn_main" in command or "resource_tracker" in command:
        return "endpoint"
    return "rays" if "/ray/" in command or command.startswith("ray::") else "ours"


@contextmanager
def cluster(workers: int) -> Iterator[str]:
    """The address of a Ray cluster with a CPU for each worker; "" for none."""
    if not workers:
        yield ""
        return
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    started = Cluster(initialize_head=True, head_node_args={"num_cpus": workers, "include_dashboard": False})
    try:
        yield started.address
    finally:
        started.shutdown()


@contextmanager
def endpoint(asked: Sequence[Question]) -> Iterator[tuple[str, Any]]:
    """URL of a simulated endpoint in a process of its own, and a function that gives its calls and their seconds."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, list(asked)), daemon=True)
    process.start()

    def seen() -> tuple[int, float]:
        here.send(None)
        found: tuple[int, float] = here.recv()
        return found

    try:
        yield here.recv(), seen
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Connection, asked: list[Question]) -> None:
    times: list[float] = []
    lock = threading.Lock()

    def latency(request: Any) -> float:
        with lock:
            times.append(time.monotonic())
        return SECONDS

    agents = PerfectAgents(cases_of(asked, {question.id: [] for question in asked}))
    with Endpoint(agents, "simulated-perfect", latency=latency, slots=SLOTS).running() as served:
        pipe.send(served.url)
        while True:
            pipe.recv()
            with lock:
                pipe.send((len(times), times[-1] + SECONDS - times[0] if times else 0.0))


@app.command()
def search(
    index: Annotated[str, typer.Argument(help="An index whose passages and vectors are taken.")],
    questions: Annotated[Path, typer.Argument(help="Questions to search for.")],
    sizes: Annotated[str, typer.Option(help="Numbers of passages.")] = "100000,1000000",
    shards: Annotated[str, typer.Option(help="Numbers of shards.")] = "1,4,16",
    queries: Annotated[int, typer.Option(help="Number of questions.")] = 200,
) -> None:
    """Time of a search in milliseconds."""
    from scale import K, MadeUp

    from hopgraph.evaluation.datasets import read_questions
    from inference.encoders.configured import get_encoder
    from inference.settings import get_settings
    from stores.build import build_index, rebuild_index
    from stores.index import Index, open_index
    from stores.manifest import current_version, index_folder

    asked = [question.question for question in read_questions(questions)][:queries]
    vectors = get_encoder().encode_queries(asked)
    source = open_index(index)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {len(asked)} questions, top {K}\n")
    print(f"{'passages':>10}{'shards':>8}{'build s':>9}" + "".join(f"{m + ' p50':>13}{'p99':>8}" for m in _MODES))
    for size in map(int, sizes.split(",")):
        made = MadeUp(source, size)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
            os.environ["HOPGRAPH_HOME"] = home
            get_settings.cache_clear()
            for number, count in enumerate(map(int, shards.split(","))):
                started = time.perf_counter()
                if number == 0:
                    build_index("sharded", made.passages(), encoder=made, shards=count)
                else:
                    rebuild_index("sharded", encoder=made, shards=count)
                seconds = time.perf_counter() - started
                version = current_version(index_folder("sharded"))
                assert version is not None
                opened = Index(version, (version / "in_use").open(encoding="utf-8"), made)
                figures = [_times(opened, asked, vectors, mode) for mode in _MODES]
                row = "".join(f"{p50:>13.2f}{p99:>8.2f}" for p50, p99 in figures)
                print(f"{len(opened):>10,}{count:>8}{seconds:>9.0f}{row}", flush=True)


@app.command()
def serial(
    index: Annotated[str, typer.Argument(help="An index whose passages and vectors are taken.")],
    passages: Annotated[int, typer.Option(help="Number of passages.")] = 5_000,
) -> None:
    """CPU time of the command and of its workers, in microseconds a passage or a result."""
    from itertools import islice

    from hopgraph.cluster.files import Tail
    from hopgraph.evaluation.folder import Lines
    from inference.encoders.configured import get_encoder
    from stores.bm25 import write_sparse
    from stores.collect import filled
    from stores.index import open_index
    from stores.links import write_links
    from stores.records import Records, searchable
    from stores.vectors import KeptVectors, vector_key
    from stores.words import Words

    taken = list(islice((p for chunk in open_index(index).passages() for p in chunk), passages))
    encoder = get_encoder()
    texts = [searchable(passage) for passage in taken]
    bare = [Passage(p.id, p.title, p.text) for p in taken]
    filled(bare[:10])
    some = texts[:1024]
    encoder.encode_passages(some[:64])
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        rows = {"workers: sentences": (_cpu(lambda: filled(bare)), len(taken))}
        vectors = encoder.encode_passages(some)
        rows["workers: vectors"] = (_cpu(lambda: encoder.encode_passages(some)), len(some))
        records = Records(place / "passages.sqlite", writable=True)
        rows["command: passages"] = (_cpu(lambda: records.append(taken)), len(taken))
        kept = KeptVectors(place / "vectors.sqlite")
        keys = [vector_key(encoder.id, text) for text in some]
        rows["command: vectors"] = (_cpu(lambda: kept.put(keys, vectors)), len(some))
        rows["command: hash"] = (_cpu(records.hash), len(taken))
        pairs = [(p.title, p.text) for p in taken]

        def words() -> None:
            with Words.within(place, pairs) as numbered:
                write_sparse(place / "sparse", numbered)
                write_links(place / "links", numbered)

        rows["command: words and links"] = (_cpu(words), len(taken))
        line = {"variant": "prism", "id": "q", "trajectory": ["x" * 100] * 60}
        with Lines(place / "part.jsonl", {"id"}).appending() as append:
            for _ in range(passages):
                append(line)

        def take() -> None:
            with Lines(place / "whole.jsonl", {"id"}).appending() as add:
                for found in Tail(place / "part.jsonl").new():
                    add(found)

        rows["command: results of eval (6 KB)"] = (_cpu(take), passages)
    for what, (seconds, count) in rows.items():
        print(f"{what:<34}{1e6 * seconds / count:>9,.0f} µs")


def _cpu(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


@app.command()
def simulate(
    slots: Annotated[int, typer.Option(help="Calls at a time, of the whole cluster.")] = 6_400,
    questions: Annotated[int, typer.Option(help="Number of questions.")] = 1_000_000,
    calls_a_question: Annotated[int, typer.Option(help="Dependent calls.")] = 6,
) -> None:
    """Length of a run whose limit is divided, relative to one shared limit; reply times are log-normal (.8)."""
    rng = np.random.default_rng(0)
    print(f"{slots:,} slots, {calls_a_question} calls a question, 1 s a call on average\n")
    print(f"{'workers':>8}{'questions':>11}{'shared s':>10}{'divided':>9}")
    for count in (questions, questions // 10, questions // 100):
        spread = 0.8
        lengths = np.exp(rng.normal(-(spread**2) / 2, spread, (count, calls_a_question))).sum(axis=1)
        shared = _makespan(lengths, slots)
        for workers in (10, 100):
            divided = max(_makespan(lengths[n::workers], max(1, slots // workers)) for n in range(workers))
            print(f"{workers:>8}{count:>11,}{shared:>10,.0f}{divided / shared:>9.3f}", flush=True)


def _makespan(lengths: Any, slots: int) -> float:
    """Seconds until all questions are answered, each in the first slot that is free."""
    free = [0.0] * min(slots, len(lengths))
    for length in lengths.tolist():
        heapreplace(free, free[0] + length)
    return max(free)


_MODES = ("dense", "sparse", "hybrid")


def _times(index: Any, asked: Sequence[str], vectors: Any, mode: str) -> tuple[float, float]:
    """p50 and p99 in milliseconds, after a round that warms up."""
    taken = []
    for warm in (True, False):
        for question, vector in zip(asked, vectors, strict=True):
            started = time.perf_counter()
            index.search_encoded(question, vector, 10, mode)
            if not warm:
                taken.append(1e3 * (time.perf_counter() - started))
    return float(np.percentile(taken, 50)), float(np.percentile(taken, 99))


if __name__ == "__main__":
    app()
