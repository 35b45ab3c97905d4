"""Errors a person can act on: what is wrong, where, and what to do. The command line prints no traceback for them."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "DeadlineError",
    "EndpointError",
    "HopgraphError",
    "InputError",
    "ModelOutputError",
    "PromptTooLong",
    "StoreError",
    "did_you_mean",
]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The start of a hint, such as `did you mean 'prism'? `; "" if nothing known is close to the word."""
    from difflib import get_close_matches

    near = get_close_matches(word.lower(), known, n=1)
    return f"did you mean {near[0]!r}? " if near else ""


class HopgraphError(RuntimeError):
    """Base class. `str()` has message and hint, a line each.

    (LangGraph's server shows what a RuntimeError says, and of other errors nothing but their type.)

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
    """Something the user gave is wrong: a file, an argument, a setting, a prompt."""

    kind = "input"
    exit_code = 2


class StoreError(HopgraphError):
    """An index or a checkpoint is missing, damaged, or does not fit what is asked of it."""

    kind = "store"
    exit_code = 2


class EndpointError(HopgraphError):
    """The model's server can't be reached, refuses, or answers with something that is not a completion.

    The run can be resumed: nothing that had been answered is lost.

    Args:
        message: What is wrong.
        hint: What to do about it.
        permanent: The same request will fail again until somebody changes something: a wrong key, an unknown model, a
            server that lacks a feature. No such request is tried again.
    """

    kind = "endpoint"
    exit_code = 3

    def __init__(self, message: str, *, hint: str = "", permanent: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.permanent = permanent


class DeadlineError(HopgraphError):
    """A node or a run took longer than it may. The run can be resumed: nothing that had been answered is lost."""

    kind = "deadline"
    exit_code = 3


class PromptTooLong(EndpointError):
    """A prompt does not fit the model's context even with no passage in it."""

    kind = "prompt_too_long"


class ModelOutputError(HopgraphError):
    """A model's output was empty, cut, not JSON or of another shape, and one repair call did not help."""

    kind = "model_output"
