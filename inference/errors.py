"""Errors a user can act on: what is wrong, where, and what to do. The command line prints no traceback for them."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The start of a hint, such as `did you mean 'prism'? `; "" without a close match."""
    from difflib import get_close_matches

    near = get_close_matches(word.lower(), known, n=1)
    return f"did you mean {near[0]!r}? " if near else ""


class HopgraphError(RuntimeError):
    """Base class. `str()` returns message and hint, one line each.

    A RuntimeError, because LangGraph's server shows the message of no other type.

    Args:
        message: What is wrong, naming the field, file and line where there is one.
        hint: What to do about it, in one sentence.
    """

    kind = "error"
    """Short machine-readable cause; becomes `error.kind` of a failed result."""
    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class InputError(HopgraphError):
    """Invalid user input: a file, an argument, a setting, a prompt."""

    kind = "input"
    exit_code = 2


class StoreError(HopgraphError):
    """An index or a checkpoint is missing, damaged or incompatible with the request."""

    kind = "store"
    exit_code = 2


class StoreUnavailable(StoreError):
    """A checkpoint store on a server is away for longer than HOPGRAPH_CHECKPOINTS_PATIENCE.

    The run can be resumed: nothing that was committed is lost.
    """

    kind = "store_unavailable"
    exit_code = 3


class EndpointError(HopgraphError):
    """The model's server is unreachable, refuses, or returns something that is not a completion.

    The run can be resumed: no reply is lost.

    Args:
        message: What is wrong.
        hint: What to do about it.
        permanent: Not retried: the same request keeps failing until something is changed, such as a wrong key, an
            unknown model, or a server that lacks a feature.
    """

    kind = "endpoint"
    exit_code = 3

    def __init__(self, message: str, *, hint: str = "", permanent: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.permanent = permanent


class DeadlineError(HopgraphError):
    """A node or a run exceeded its deadline. The run can be resumed: no reply is lost."""

    kind = "deadline"
    exit_code = 3


class PromptTooLong(EndpointError):
    """A prompt does not fit the model's context, even without passages."""

    kind = "prompt_too_long"


class ModelOutputError(HopgraphError):
    """A model's output was empty, truncated, not JSON or did not match the schema, and one repair call failed."""

    kind = "model_output"
