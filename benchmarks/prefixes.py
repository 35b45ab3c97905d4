"""Share of each method's prompt tokens that a vLLM server serves from its prefix cache.

    hopgraph eval ... --out runs/some                # any run, also one with --perfect
    make vllm-up                                     # or another vLLM, with --enable-prompt-tokens-details
    python benchmarks/prefixes.py runs/some --url http://127.0.0.1:8000/v1

The prompts of the run are put to the server anew, in the order in which they were asked, one after another and for one
token each, so that nothing depends on what happens to be in flight. Every method begins with an empty cache. What is
cached are whole blocks: of 16 tokens on a GPU, of 128 on a CPU.
"""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import httpx
import typer

from hopgraph.record import Exchange, read_record
from stores.checkpoints import open_checkpoints


def main(
    run: Annotated[Path, typer.Argument(help="Folder of an evaluation run.")],
    url: Annotated[str, typer.Option(help="The server.")] = "http://127.0.0.1:8000/v1",
) -> None:
    """Print prompt tokens and cached tokens by method and node."""
    exchanges = asyncio.run(recorded(run))
    with httpx.Client(base_url=url, timeout=600.0, trust_env=False) as server:
        model = server.get("/models").raise_for_status().json()["data"][0]["id"]
        print(f"{os.cpu_count()} cores, {model} at {url}\n")
        print(f"{'method':<14}{'node':<26}{'calls':>6}{'prompt':>10}{'cached':>10}{'share':>8}")
        for method, rows in exchanges.items():
            nodes = replay(server, model, rows)
            for node, (calls, prompt, cached) in sorted(nodes.items()):
                print(f"{method:<14}{node:<26}{calls:>6}{prompt:>10,}{cached:>10,}{cached / prompt:>8.1%}")
            calls, prompt, cached = (sum(column) for column in zip(*nodes.values(), strict=True))
            print(f"{method:<14}{'all':<26}{calls:>6}{prompt:>10,}{cached:>10,}{cached / prompt:>8.1%}\n")


async def recorded(run: Path) -> dict[str, list[Exchange]]:
    """The calls of a run by method, in order."""
    found: dict[str, list[Exchange]] = defaultdict(list)
    async with open_checkpoints(str(run / "checkpoints.sqlite")) as saver:
        for line in (run / "results.jsonl").read_text("utf-8").splitlines():
            result = json.loads(line)
            found[result["method"]] += (await read_record(result["thread"], saver)).exchanges
    return {method: sorted(rows, key=lambda row: row.call["started"]) for method, rows in sorted(found.items())}


def replay(server: httpx.Client, model: str, rows: list[Exchange]) -> dict[str, list[int]]:
    """Calls, prompt tokens and cached tokens of each node."""
    nodes: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    salt = uuid.uuid4().hex  # prefixes are shared only within the same salt
    for row in rows:
        messages = [{"role": role, "content": text} for role, text in row.prompt]
        body = {"model": model, "messages": messages, "max_tokens": 1, "temperature": 0, "cache_salt": salt}
        answer = server.post("/chat/completions", json=body)
        answer.raise_for_status()
        usage = answer.json()["usage"]
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        for place, number in enumerate((1, usage["prompt_tokens"], cached)):
            nodes[row.call["node"]][place] += number
    return nodes


if __name__ == "__main__":
    typer.run(main)
