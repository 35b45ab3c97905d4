"""Speed of Studio's page in Chromium, with many threads and with a long run.

    python benchmarks/page.py [--threads 10000] [--steps 300]

Threads: every method answers a question once, and the rows of these threads are copied under new ids and questions,
spread over the last days. They are the store of `hopgraph ask` (`ask`), the folder of an evaluation (`evaluation`), or
also in the list of the server, as if they had been asked on the page (`studio`). The page is opened several times
without a browser cache, on 20 threads and on many, and the times count from navigation: `list` until the newest threads
are painted and the question can be typed, `graph` until the method is drawn, `all` until every thread is in the list.
`key` is the longest time from a key of the search, or from a choice of the filter, to the next painted frame; `scroll`
the longest frame while the list is scrolled from end to end.

Run: PruneRAG splits a question until it has so many steps. While the page follows the run, `frame` is the time between
two frames, and a long task one of over 50 ms. Then it is opened again by its address. A run of few steps is next to it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

sys.path.insert(0, str(Path(__file__).parents[1]))

from hopgraph import loop
from hopgraph.methods import METHODS
from hopgraph.run import ask, make_context, new_thread
from inference.settings import get_settings
from stores.checkpoints import open_checkpoints
from tests.scripted import Request, ScriptedModel, plausible
from tests.small import INDEX, QUESTION, build_small
from tests.studio import browser as browsers
from tests.studio.conftest import Studio, start_studio

FIRST_VIEW, FRAME = 1000.0, 100.0
"""Goals in milliseconds: first view; longest wait for a frame when a person types or a run goes on."""
FEW = 20
DAYS = 30
TICKS = 10_000_000
"""Of a UUID's clock, a second."""
WATCH = """
window.seen = {}
const seen = window.seen
const painted = (act) => requestAnimationFrame(() => setTimeout(act))
const once = (name) => {
  if (name in seen) return
  seen[name] = 0
  painted(() => { seen[name] = performance.now() })
}
new MutationObserver(() => {
  if (document.querySelector('.threads li') && document.querySelector('#question, .asked')) once('list')
  if (document.querySelector('.node')) once('graph')
  if (document.querySelector('article.step')) once('steps')
  const count = +(document.querySelector('.count')?.innerText ?? '0').replaceAll(',', '')
  if (window.wanted && count >= window.wanted) once('all')
}).observe(document, { subtree: true, childList: true, characterData: true })
window.tasks = []
new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((row) => row.duration)))
  .observe({ type: 'longtask', buffered: true })
for (const kind of ['keydown', 'change'])
  addEventListener(kind, () => {
    const start = performance.now()
    painted(() => { seen.key = Math.max(seen.key ?? 0, performance.now() - start) })
  }, true)
window.frames = []
let before = 0
const frame = (now) => {
  if (before && window.watched) window.frames.push(now - before)
  before = now
  requestAnimationFrame(frame)
}
requestAnimationFrame(frame)
"""
"""Run in the page before its own script."""


def main(
    threads: Annotated[int, typer.Option(help="Threads.")] = 10_000,
    steps: Annotated[int, typer.Option(help="Steps of the run.")] = 300,
    visits: Annotated[int, typer.Option(help="Times that the page is opened; the median counts.")] = 5,
) -> None:
    """Print the tables; exit code 1 if a goal is missed."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n", flush=True)
    packages = get_settings().home / "studio"
    missed = False
    with tempfile.TemporaryDirectory() as place, ScriptedModel(splitting).running() as model:
        home = Path(place)
        (home / "studio").mkdir()
        for kept in packages.glob("packages-*"):
            (home / "studio" / kept.name).symlink_to(kept)
        os.environ |= {"HOPGRAPH_HOME": place, "HOPGRAPH_LLM_URL": model.url, "HOPGRAPH_CACHE": "off"}
        get_settings.cache_clear()
        build_small()
        stores = {number: fill(home / f"threads-{number}", number) for number in (FEW, threads)}
        with browsers.chromium() as browser:
            print(f"{'':<12}{'threads':>9}{'MB':>7}{'list':>8}{'graph':>8}{'all':>8}{'key':>7}{'scroll':>8}   ms")
            for kind in ("ask", "evaluation", "studio"):
                first = 0.0
                for number, size in stores.items():
                    folder = home / f"threads-{number}"
                    with serving(home, model, folder, kind) as server:
                        if kind == "studio":
                            register(server, folder / "checkpoints.sqlite")
                        found = opened(browser, server, number, visits)
                    over = f"   {found['list'] / first:.2f} times as long" if first else ""
                    first = found["list"]
                    missed |= found["list"] > FIRST_VIEW or found["key"] > FRAME
                    times = "".join(f"{found[name]:>{width}.0f}" for name, width in COLUMNS)
                    print(f"{kind:<12}{number:>9,}{size / 1e6:>7.0f}{times}{over}", flush=True)
            times = f"{'frame: p50':>12}{'p99':>7}{'longest':>9}{'long tasks':>12}{'opened':>8}"
            print(f"\n{'':<12}{'steps':>9}{'s':>7}{times}")
            with serving(home, model, home / "run", "ask") as server:
                for number in (FEW, steps):
                    missed |= followed(browser, server, number)
    raise SystemExit(int(missed))


COLUMNS = (("list", 8), ("graph", 8), ("all", 8), ("key", 7), ("scroll", 8))


def splitting(request: Request) -> Any:
    """Four queries for each query of PruneRAG; else the plainest reply."""
    schema = request.body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    if '"queries"' not in json.dumps(schema):
        return plausible(request)
    time.sleep(0.05)
    made = [f"Sub-question {n} of {request.id.rsplit('.', 1)[0]}?" for n in range(4)]
    return {"type": "query", "queries": made}


@contextmanager
def serving(home: Path, model: ScriptedModel, folder: Path, kind: str) -> Iterator[Studio]:
    """A server of the threads in a folder."""
    folder.mkdir(exist_ok=True)
    options = ["--run", str(folder)] if kind == "evaluation" else []
    given = None if kind == "evaluation" else folder / "checkpoints.sqlite"
    server = start_studio(home, model, "--index", INDEX, *options, checkpoints=given)
    try:
        yield server
    finally:
        server.kill()


def fill(folder: Path, number: int) -> int:
    """Make a store with so many threads. Returns its bytes."""
    folder.mkdir()
    path = folder / "checkpoints.sqlite"
    loop.run(answer_once(path))
    with closing(sqlite3.connect(path)) as store, store:
        originals = [row[0] for row in store.execute("SELECT DISTINCT thread_id FROM checkpoints")]
        tables = {name: [row[1] for row in store.execute(f"PRAGMA table_info({name})")] for name in TABLES}
        rows = {
            (name, thread): store.execute(f"SELECT * FROM {name} WHERE thread_id = ?", (thread,)).fetchall()
            for name in tables
            for thread in originals
        }
        for at in range(number - len(originals)):
            thread = originals[at % len(originals)]
            new, back = str(uuid.uuid4()), at * DAYS * 86_400 * TICKS // number
            for name, columns in tables.items():
                places = ", ".join("?" * len(columns))
                copied = [copy(dict(zip(columns, row, strict=True)), new, back, at) for row in rows[name, thread]]
                store.executemany(f"INSERT INTO {name} VALUES ({places})", copied)
    return path.stat().st_size


TABLES = ("checkpoints", "writes")


def copy(row: dict[str, Any], thread: str, back: int, at: int) -> tuple[Any, ...]:
    """A row of another thread, so many ticks earlier, with a question of its own."""
    row["thread_id"] = thread
    for name in ("checkpoint_id", "parent_checkpoint_id"):
        if row.get(name):
            row[name] = earlier(row[name], back)
    if "metadata" in row:
        metadata = json.loads(row["metadata"])
        origin = json.loads(metadata["hopgraph"])
        origin["question"] = f"Where was the director of film number {at} born, and in which year?"
        row["metadata"] = json.dumps(metadata | {"hopgraph": json.dumps(origin)}).encode()
    return tuple(row.values())


def earlier(checkpoint: str, ticks: int) -> str:
    """A UUID of version 6 that was made so many ticks earlier."""
    number = uuid.UUID(checkpoint).int
    clock = ((number >> 80) << 12 | (number >> 64 & 0xFFF)) - ticks
    return str(uuid.UUID(int=(clock >> 12) << 80 | 6 << 76 | (clock & 0xFFF) << 64 | (number & (1 << 64) - 1)))


async def answer_once(path: Path) -> None:
    """Ask every method."""
    async with open_checkpoints(str(path)) as saver:
        for method in METHODS:
            context = make_context(method, {"index": INDEX, "top_k": 2})
            result = await ask(QUESTION, context, saver, thread=new_thread(context))
            assert result["status"] != "failed", (method, result["error"])


def register(server: Studio, path: Path) -> None:
    """Have the server list the threads of a store, as it does with those that begin on the page."""
    with closing(sqlite3.connect(path)) as store:
        newest = store.execute(
            "SELECT thread_id, metadata, MAX(checkpoint_id) AS latest FROM checkpoints "
            "WHERE checkpoint_ns = '' GROUP BY thread_id ORDER BY latest"  # SQLite gives the metadata of the latest
        ).fetchall()
    with httpx.Client(base_url=server.url, trust_env=False, timeout=600) as client:
        for thread, metadata, _ in newest:
            origin = json.loads(json.loads(metadata)["hopgraph"])
            about = {"graph_id": origin["method"], "question": origin["question"]}
            body = {"thread_id": thread, "metadata": about, "if_exists": "do_nothing"}
            client.post("/threads", json=body).raise_for_status()


def opened(browser: Any, server: Studio, number: int, visits: int) -> dict[str, float]:
    """Milliseconds until the page is there, of its search and filter, and of scrolling."""
    rows = []
    for _ in range(visits):
        with browsers.visiting(browser, server.url) as visit:
            page = visit.page
            page.add_init_script(f"window.wanted = {number};{WATCH}")
            page.goto(f"{server.url}/studio/")
            page.wait_for_function("() => seen.list && seen.graph && seen.all")
            page.wait_for_load_state("networkidle")
            found = page.evaluate("seen")
            page.locator("[aria-label='Search threads']").focus()
            page.keyboard.type("film number 1", delay=60)
            page.locator("[aria-label='Search threads']").fill("")
            page.get_by_label("Method of threads").select_option("prism")
            page.get_by_label("Method of threads").select_option("")
            page.wait_for_timeout(200)
            found["key"] = page.evaluate("seen.key")
            found["scroll"] = scrolled(page)
            rows.append(found)
            assert visit.problems == [], visit.problems
    return {name: statistics.median(row[name] for row in rows) for name, _ in COLUMNS}


def scrolled(page: Any) -> float:
    """The longest frame while the list is scrolled to its end in 30 frames."""
    return float(
        page.evaluate(
            """async () => {
              const list = document.querySelector('.threads .scroll')
              window.frames.length = 0
              window.watched = true
              for (let at = 1; at <= 30; at++) {
                list.scrollTop = list.scrollHeight * at / 30
                await new Promise(requestAnimationFrame)
              }
              window.watched = false
              return Math.max(...window.frames)
            }"""
        )
    )


def followed(browser: Any, server: Studio, steps: int) -> bool:
    """Print a row of a run that the page starts, follows and opens again; whether a goal is missed."""
    with browsers.visiting(browser, server.url) as visit:
        page = visit.page
        page.add_init_script(WATCH)
        visit.open().choose("prunerag", top_k="2", branching="4", max_depth="6", max_searches=str(steps // 5))
        page.get_by_label("adaptive").check()
        page.evaluate("tasks.length = 0; frames.length = 0; window.watched = true")
        start = time.monotonic()
        visit.ask(QUESTION)
        visit.until("answered|unanswerable")
        seconds = time.monotonic() - start
        tasks, frames = page.evaluate("tasks"), sorted(page.evaluate("frames"))
        thread = page.url
        assert visit.problems == [], visit.problems
    with browsers.visiting(browser, server.url) as visit:
        visit.page.add_init_script(WATCH)
        visit.page.goto(thread)
        visit.page.wait_for_function("() => seen.steps")
        again = visit.page.evaluate("seen.steps")
        visit.page.wait_for_function("() => document.querySelector('.now').innerText === 'answered'")
    middle, last = statistics.median(frames), frames[int(0.99 * len(frames))]
    print(
        f"{'':<12}{steps:>9}{seconds:>7.1f}{middle:>12.0f}{last:>7.0f}{frames[-1]:>9.0f}"
        f"{f'{len(tasks)}, {sum(tasks):.0f} ms':>12}{again:>8.0f}",
        flush=True,
    )
    return last > FRAME or again > FIRST_VIEW


if __name__ == "__main__":
    typer.run(main)
