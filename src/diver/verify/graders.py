"""Graders by name: `Problem.verifier` and `--grader` name one of `GRADERS`, or a function of one's own.

Several graders may grade the same responses; each grade is stored with `str(grader)`, name and version, so that grades
made by other rules are never mistaken for it. A new grader is a module with a function `grade`, and a line below.
"""

import hashlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from diver.config.testbeds import TESTBEDS
from diver.settings import choose, import_object
from diver.types import DiverError, Grade, Problem
from diver.verify.bounds import PendingComparison
from diver.verify.custom import PendingCall, check_function, defer

GradeFunction = Callable[[str, Problem], Grade | PendingComparison | PendingCall]
"""(response, problem) -> its grade, or what a worker process has to decide."""


@dataclass(frozen=True)
class Grader:
    """Functions are "module:name" of a (response, problem), imported when they are needed.

    `rules` counts the versions of our own rules: raise it with every change that can change a grade. `packages` are
    those whose version can. With `isolated` the function runs in a worker process; see `custom`.
    """

    name: str
    function: str
    rules: int | str
    packages: tuple[str, ...] = ()
    answer: str | None = "diver.verify.mathematics:final_answer"
    """-> str or None: the answer by which maj@k counts votes; None where voting says nothing."""
    value: str | None = None
    """-> str or None: what a wrong response came to, where there is no such answer."""
    solution: str = "diver.verify.mathematics:written_formulas"
    """-> str, equal for two correct responses that are the same solution (distinct@k)."""
    exact_solutions: bool = False
    """Whether it is equal for no others: else two responses may be one solution, written differently."""
    explicit: str = "diver.verify.mathematics:has_answer"
    """A function of a response: whether one that was cut at its length limit holds an answer that it had finished."""
    isolated: bool = False
    meta: tuple[str, ...] = ()
    """What it reads of `Problem.meta`."""
    gradable: str = ""
    """A function of a problem that raises ValueError where no response could be graded by it or be correct."""
    template: str = "chat"
    """By which a chat model is asked where no template is named: `boxed` asks for a box, `chat` for nothing."""

    @cached_property
    def version(self) -> str:
        """Such as "2+math-verify-0.9.0+sympy-1.14.0"."""
        return "+".join([str(self.rules), *(f"{package}-{version(package)}" for package in self.packages)])

    @cached_property
    def grade(self) -> GradeFunction:
        return partial(defer, self.function) if self.isolated else self._imported(self.function)

    @property
    def votes(self) -> bool:
        return self.answer is not None

    def check(self, problem: Problem, where: str = "") -> None:
        """DiverError, which `where` begins, for a problem that lacks what the grader reads of its meta."""
        if missing := [key for key in self.meta if key not in problem.meta]:
            keys = ", ".join(missing)
            raise DiverError(f"{where}problem {problem.id!r}: verifier {self.name} needs {keys} in its meta")
        if self.gradable:
            try:
                self._imported(self.gradable)(problem)
            except ValueError as error:
                raise DiverError(f"{where}problem {problem.id!r}: {error}, which verifier {self.name} needs") from None

    def holds_answer(self, response: str) -> bool:
        return self._imported(self.explicit)(response)

    def final_answer(self, response: str, problem: Problem) -> str | None:
        return self._imported(self.answer)(response, problem) if self.answer else None

    def reached(self, response: str, problem: Problem) -> str:
        """What two wrong responses have in common if they are wrong in the same way; "" of one without an answer."""
        function = self.value or self.answer
        return (self._imported(function)(response, problem) if function else None) or ""

    def _imported(self, function: str) -> Any:
        return import_object(function, f"grader {self.name}")

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


_GYM_ANSWER = "diver.data.reasoning_gym:final_answer"


def _gym(name: str, rules: int, **fields: Any) -> Grader:
    """Judged by reasoning-gym's own verifiers."""
    return Grader(
        name,
        "diver.data.reasoning_gym:grade",
        rules,
        ("reasoning-gym",),
        explicit="diver.data.reasoning_gym:has_answer",
        isolated=True,
        meta=TESTBEDS["reasoning-gym"].meta,
        template="boxed",
        **fields,
    )


_ALGEBRA = ("math-verify", "latex2sympy2-extended", "sympy")

GRADERS = {
    grader.name: grader
    for grader in (
        Grader("math", "diver.verify.mathematics:grade", 10, _ALGEBRA, template="boxed"),
        Grader(
            "gsm8k",
            "diver.verify.mathematics:grade_gsm8k",
            10,
            _ALGEBRA,
            answer="diver.verify.mathematics:final_gsm8k_answer",
            explicit="diver.verify.mathematics:has_gsm8k_answer",
            template="boxed",
        ),
        Grader(
            "choice",
            "diver.verify.choice:grade",
            7,
            answer="diver.verify.choice:final_answer",
            template="boxed",
            gradable="diver.verify.choice:known_label",
        ),
        *(
            Grader(
                name,
                f"{testbed.module}:grade",
                testbed.rules,
                answer=None,
                value=f"{testbed.module}:value",
                solution=f"{testbed.module}:canonical",
                exact_solutions=True,
                meta=testbed.meta,
                gradable=testbed.gradable and f"{testbed.module}:{testbed.gradable}",
            )
            for name, testbed in TESTBEDS.items()
            if testbed.rules
        ),
        _gym("reasoning-gym", 2, answer=_GYM_ANSWER, solution=_GYM_ANSWER),
        _gym(
            "graph-coloring",
            1,
            answer=None,
            value=_GYM_ANSWER,
            solution="diver.data.reasoning_gym:coloring",
            exact_solutions=True,
        ),
        Grader("math-verify", "diver.verify.math_verify:grade", 1, _ALGEBRA, isolated=True, template="boxed"),
    )
}


def get_grader(name: str, where: str = "grader") -> Grader:
    """The grader of that name, or of a function "package.module:name".

    DiverError, which begins with `where`: no such name, a module that cannot be imported, a function that does not take
    (response, problem).
    """
    if name in GRADERS:
        return GRADERS[name]
    if ":" not in name:
        choose(name, [*GRADERS, "package.module:function"], where)
    return _custom(name, where)


@cache
def _custom(name: str, where: str) -> Grader:
    """A function of one's own; its version is a digest of its module's source."""
    check_function(name, ("response", "problem"), where)
    spec = importlib.util.find_spec(name.partition(":")[0])
    source = Path(spec.origin) if spec and spec.origin else None
    content = source.read_bytes() if source and source.is_file() else b""
    return Grader(name, name, hashlib.blake2b(content, digest_size=4).hexdigest(), isolated=True)


def solution(grader: Grader, problem: Problem, response: str) -> str:
    """What makes two solutions the same that `grader` finds correct."""
    return import_object(grader.solution, f"grader {grader.name}")(response, problem)
