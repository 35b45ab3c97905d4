"""Hop predictor: how many hops a question takes, and what accuracy therefore weighs (PAR-RAG, Secs. 3.3 and 3.4)."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from langgraph.runtime import Runtime

from inference.heads.hops import predict_hops
from nodes.kit.rendering import counted
from nodes.kit.steps import logged, step
from nodes.parrag.context import ParContext
from nodes.parrag.state import ParState


async def hop_predictor(state: ParState, runtime: Runtime[ParContext]) -> dict[str, Any]:
    """Predict the hop count on a small local model (Eq. 6), and from it the weight of accuracy (Eq. 9)."""
    context, score = runtime.context, None
    if context.hop_count is not None:
        hops, how = context.hop_count, "given"
    else:
        [prediction] = await asyncio.to_thread(predict_hops, [state["question"]])
        hops, how, score = prediction.hops, "predicted", round(max(prediction.probabilities), 3)
    alpha = 1 / (1 + math.exp(context.gamma * (hops - context.h0)))
    answer = f"{counted(hops, 'hop')} ({how})"
    row = step("root/hop_predictor", "route", question=state["question"], answer=answer, score=score)
    return {"hops": hops, "alpha": round(alpha, 4), **logged(row)}
