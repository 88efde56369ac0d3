"""What a policy acts in: `reset` asks, and `step` answers each of its turns, pays a reward and says when it is over.

The names are those of gymnasium. Text takes the place of observations and of actions, as in TRL and verifiers.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from diver.core.turns import as_action
from diver.core.types import Problem


class Step(NamedTuple):
    """What an environment answers to a turn of the policy.

    Attributes:
        observation: the text that the policy reads next. The last one, with `done`, is only shown on the page.
        done: whether the trajectory ends.
        reward: what the turn earned. The outcome of a trajectory is the sum of its rewards.
        state: a name of the state that the turn leads to, equal for equal states; None: the observation stands for it.
        actions: what the policy did, names or pairs of name and arguments. None: what stands between marks in its text.
    """

    observation: str
    done: bool = False
    reward: float = 0.0
    state: str | None = None
    actions: Sequence[Any] | None = None


class Environment:
    """A task of several turns. Its subclass is named by `data.verifier = "my_module:MyEnvironment"`.

    Each trajectory has an instance, made without arguments. Its calls come one after another. Calls of several
    instances come at the same time, from several threads. Whatever is random must be drawn from the problem alone, so
    that a run can be resumed. An exception ends the trajectory, whose grade is then "error".
    """

    max_turns: int = 16
    """Maximum number of turns of the policy. A trajectory that is not done by then is truncated."""
    max_observation_tokens: int = 512
    """Maximum length of an observation in tokens; the rest is cut off."""
    timeout_s: float = 60.0
    """Time limit for a call in seconds. A trajectory whose environment takes longer ends with the grade "timeout"."""

    def reset(self, problem: Problem) -> str:
        """Begin a trajectory: the question, which the prompt template renders. Equal at each call for one problem."""
        raise NotImplementedError

    def step(self, text: str) -> Step | tuple[str, bool, float]:
        """Answer a turn of the policy: a `Step`, or a tuple of observation, done and reward."""
        raise NotImplementedError


def checked_step(answer: object) -> Step:
    """An answer of an environment: its reward a finite float, its actions `Action`s.

    Raises:
        TypeError, ValueError: it is none.
    """
    if not isinstance(answer, tuple):
        raise TypeError(f"step returned {answer!r:.60}, not a Step or a tuple of observation, done and reward")
    step = Step(*answer)
    if not isinstance(step.observation, str) or not math.isfinite(step.reward):
        raise TypeError(f"step returned the observation {step.observation!r:.60} and the reward {step.reward!r:.60}")
    actions = None if step.actions is None else tuple(as_action(action, "step") for action in step.actions)
    return step._replace(done=bool(step.done), reward=float(step.reward), actions=actions)
