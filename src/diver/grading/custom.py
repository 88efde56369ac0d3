"""A custom verifier: `data.verifier = "my_module:my_function"`.

    def my_function(response: str, problem: Problem) -> bool | None | str | tuple[bool | None | str, int]

It returns 1 or True for correct, 0 or False for wrong, None for no answer, or the name of a grade. It may also return a
pair of this and the end of the answer, an offset in the response. There is no partial credit. It runs in a worker
process: a call that does not return within verify.timeout_s is a timeout of that response, and an exception or a crash
is an error. The problem reaches the function through JSON: arrays in `meta` become lists. What it prints is lost.

It also judges responses that were cut at the length limit, unless the function has `sees_truncated = False`. Then it
only gets those with a closed box or closed `<answer>` tags. A response that ends inside a thought never reaches it.
"""

import hashlib
import importlib.util
import json
from collections.abc import Callable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from diver.core.settings import check_callable, import_object
from diver.core.types import DiverError, Grade, Problem
from diver.grading.base import PendingCall, Verdict, defer
from diver.grading.mathematics import Mathematics

RULES = b"2"
"""Version of the rules for which responses reach a custom verifier and how its result is read. Raise it with them."""


class Custom(Mathematics):
    """A custom function as a grader. Its final answers and solutions are read as in mathematics."""

    packages = ()
    template = "chat"

    def __init__(self, path: str, where: str) -> None:
        function = check_function(path, ("response", "problem"), where)
        spec = importlib.util.find_spec(path.partition(":")[0])
        source = Path(spec.origin) if spec and spec.origin else None
        content = source.read_bytes() if source and source.is_file() else b""
        self.name = path
        self.rules = hashlib.blake2b(content, digest_size=4, person=RULES).hexdigest()
        self.sees_truncated = bool(getattr(function, "sees_truncated", True))

    @property
    def note(self) -> str:  # type: ignore[override]
        function = self.name.partition(":")[2]
        rule = (
            f"also judges responses cut at the length limit; {function}.sees_truncated = False leaves them ungraded"
            if self.sees_truncated
            else "is not asked about responses cut at the length limit before a box or answer tags closed, "
            f"because {function}.sees_truncated is False"
        )
        return f"verifier {self.name}: {rule}"

    def holds_answer(self, response: str) -> bool:
        return self.sees_truncated or super().holds_answer(response)

    def grade(self, response: str, problem: Problem) -> PendingCall:
        return defer(self.name, response, problem, warm=self.name.partition(":")[0])

    def answer_end(self, response: str, problem: Problem, correct: bool) -> None:
        """The function itself may return the end of the answer."""


def check_function(path: str, parameters: Sequence[str], where: str) -> Callable[..., Any]:
    """The function at "module:name". DiverError unless it can be imported and called with these arguments."""
    if path.startswith("__main__:"):
        raise DiverError(f"{where}: {path!r}: put the function into a module, which a worker process can import")
    function = import_object(path, where)
    check_callable(function, f"{where}: {path!r}", parameters, f"({', '.join(parameters)})")
    return function


def call(function: str, response: str, problem: str) -> Verdict:
    """In the worker: the verdict of the function on the response."""
    fields = json.loads(problem)
    if not isinstance(fields["prompt"], str):
        fields["prompt"] = tuple(fields["prompt"])
    result = import_object(function, "verifier")(response, Problem(**fields))
    value, end = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if end is not None and not (isinstance(end, Integral) and 0 <= int(end) <= len(response)):
        raise TypeError(
            f"{function} returned {end!r:.40} as the end of the answer, not an offset in the response or None"
        )
    if value is None:
        grade = Grade.NO_ANSWER
    elif isinstance(value, str):
        grade = Grade(value)
    elif value in (0, 1):
        grade = Grade.CORRECT if value else Grade.WRONG
    else:
        raise TypeError(
            f"{function} returned {value!r:.40}, not 0 or 1 (or False or True), None or the name of a grade; "
            "there is no partial credit"
        )
    return Verdict(grade, None if end is None else int(end))
