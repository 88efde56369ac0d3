"""A verifier of one's own: `data.verifier = "my_module:my_function"`.

    def my_function(response: str, problem: diver.types.Problem) -> bool | None | str

True is correct, False wrong, None no answer; a string is the name of a grade. It runs in a worker process, so that one
that does not return within verify.timeout_s is a timeout of that response, and one that raises or crashes an error. The
problem reaches it through JSON: arrays in `meta` become lists. What it prints is lost. It is not asked about a response
that ends inside a thought, nor about one that was cut before a box had closed.
"""

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from diver.settings import import_object
from diver.types import DiverError, Grade, Problem


class PendingCall(NamedTuple):
    """A response to be graded by `function` ("module:name") in a worker; `problem` is JSON."""

    function: str
    response: str
    problem: str


def check_function(path: str, parameters: Sequence[str], where: str) -> Callable[..., Any]:
    """The function at "module:name". DiverError unless it can be imported and called with these arguments."""
    if path.startswith("__main__:"):
        raise DiverError(f"{where}: {path!r}: put the function into a module, which a worker process can import")
    function = import_object(path, where)
    if not callable(function):
        raise DiverError(f"{where}: {path!r} is a {type(function).__name__}, not a function")
    try:
        inspect.signature(function).bind(*parameters)
    except TypeError as error:
        raise DiverError(f"{where}: {path!r} must take ({', '.join(parameters)}): {error}") from None
    except ValueError:  # some functions written in C have no signature
        pass
    return function


def defer(function: str, response: str, problem: Problem) -> PendingCall:
    return PendingCall(function, response, json.dumps(dataclasses.asdict(problem), default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return value.tolist() if hasattr(value, "tolist") else str(value)


def call(function: str, response: str, problem: str) -> str:
    """In the worker: the name of the grade."""
    fields = json.loads(problem)
    if not isinstance(fields["prompt"], str):
        fields["prompt"] = tuple(fields["prompt"])
    result = import_object(function, "verifier")(response, Problem(**fields))
    if result is None:
        return Grade.NO_ANSWER
    if isinstance(result, str):
        return Grade(result)
    if result not in (0, 1):
        raise TypeError(f"{function} returned {result!r:.40}, not True, False, None or the name of a grade")
    return Grade.CORRECT if result else Grade.WRONG
