"""Perfect agents: every role of every method, played from gold decompositions and the prompt.

An agent knows the decomposition of the question, but of the answers only what its prompt shows: a fact counts only if
its gold sentence is among the passages, or an earlier step has answered it. The results therefore measure retrieval and
control flow apart from the model. Errors are typical of the role and drawn by seed and request: the same request gets
the same reply.

`hopgraph/simulation/x.py` has the roles of method `x` as `ROLES`, by node; `reranking.py` the one of all methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

import hopgraph.simulation
from hopgraph.simulation.endpoint import Completion, Request
from hopgraph.simulation.kit import Agents, Prompt, Role, completion
from hopgraph.simulation.reranking import RERANKER


@cache
def roles(method: str) -> Mapping[str, Role]:
    """Roles of a method by node; empty for a method without a file here."""
    if method not in {module.name for module in iter_modules(hopgraph.simulation.__path__)}:
        return {}
    found: Mapping[str, Role] = getattr(import_module(f"hopgraph.simulation.{method}"), "ROLES", {})
    return found


class PerfectAgents(Agents):
    """A model that plays every role."""

    def __call__(self, request: Request) -> Completion:
        """The reply to a request.

        Raises:
            ValueError: The role is unknown, or the prompt lacks what it needs.
        """
        role = roles(request.method).get(request.node) or RERANKER.get(request.node)
        if role is None:
            raise ValueError(f"perfect agents do not know the role {request.method}/{request.node}")
        reply = role(self, Prompt(request, self.find), self.errs(request))
        return reply if isinstance(reply, Completion) else completion(reply)
