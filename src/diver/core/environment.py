"""Environments: `reset` asks a question, and `step` answers each turn of the policy with a reward, until it is done.

The names are those of gymnasium. Text takes the place of observations and of actions, as in TRL and verifiers.
"""

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from diver.core.turns import as_action
from diver.core.types import Problem


class Step(NamedTuple):
    """The answer of an environment to a turn of the policy.

    Attributes:
        observation: the text that the policy reads next. The last one, with `done`, is only shown on the page.
        done: whether the trajectory ends.
        reward: the reward of the turn. The outcome of a trajectory is the sum of its rewards.
        state: a name of the state that the turn leads to, equal for equal states; None: the observation stands for it.
        actions: the actions of the policy, names or pairs of name and arguments. None: they are read from the tags in
            its text.
    """

    observation: str
    done: bool = False
    reward: float = 0.0
    state: str | None = None
    actions: Sequence[Any] | None = None


class Environment(ABC):
    """A task of several turns. Its subclass is named by `data.verifier = "my_module:MyEnvironment"`.

    Each trajectory has an instance, made without arguments. Its calls come one after another. Calls of several
    instances come at the same time, from several threads. Random choices must depend on the problem alone, so that a
    run can be resumed. An exception ends the trajectory, whose grade is then "error".
    """

    max_turns: int = 16
    """Maximum number of turns of the policy. A trajectory that is not done by then is truncated."""
    max_observation_tokens: int = 512
    """Maximum length of an observation in tokens; the rest is cut off."""
    timeout_s: float = 60.0
    """Time limit for a call in seconds. A trajectory whose `step` takes longer ends with the grade "timeout"."""

    @abstractmethod
    def reset(self, problem: Problem) -> str:
        """Begin a trajectory: the question, which the prompt template renders. Equal at each call for one problem.

        Without a question there is no trajectory, so an exception, or no answer in time, stops the run.
        """

    @abstractmethod
    def step(self, text: str) -> Step | tuple[str, bool, float]:
        """Answer a turn of the policy: a `Step`, or a tuple of observation, done and reward."""


def checked_step(answer: object) -> Step:
    """The answer of an environment as a `Step` whose reward is a finite float and whose actions are `Action`s.

    Raises:
        TypeError, ValueError: the answer is not a step.
    """
    step = Step(*answer) if isinstance(answer, tuple) else None
    if step is None or not isinstance(step.observation, str) or not math.isfinite(step.reward):
        raise TypeError(f"step returned {answer!r:.60}, not a Step or a tuple of observation, done and a finite reward")
    actions = None if step.actions is None else tuple(as_action(action, "step") for action in step.actions)
    return step._replace(done=bool(step.done), reward=float(step.reward), actions=actions)


def at_once(calls: Sequence[Callable[[], Any]], limits: Sequence[float]) -> list[Any]:
    """Make all calls at the same time. The result of each is what it returns or raises, or a TimeoutError.

    Args:
        calls: functions without arguments.
        limits: the time limit of each call in seconds.
    """
    results: list[Any] = [TimeoutError(f"no answer within {limit:g} s") for limit in limits]

    def run(i: int) -> None:
        try:
            results[i] = calls[i]()
        except Exception as error:  # the user's code may raise anything
            results[i] = error
        except BaseException as error:  # sys.exit would end this thread, or the run in the caller's, without a message
            results[i] = RuntimeError(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(calls))]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread, limit in zip(threads, limits, strict=True):
        thread.join(max(0.0, start + limit - time.monotonic()))
    return [*results]  # a copy, to which a late call does not write


def in_time(call: Callable[[], Any], limit: float) -> Any:
    """Return what the call returns, or raise what it raises; TimeoutError after `limit` seconds."""
    (answer,) = at_once([call], [limit])
    if isinstance(answer, Exception):
        raise answer
    return answer
