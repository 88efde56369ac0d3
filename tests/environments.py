"""Environments for tests, named by import path as a user names his own."""

import os
import signal
import threading
from pathlib import Path

from diver.core.environment import Environment, Step
from diver.core.types import Problem


class Echo(Environment):
    """Says the number of the turn. It pays 1 in the third turn and is then done."""

    def reset(self, problem):
        self.turns = 0
        return problem.prompt

    def step(self, text):
        self.turns += 1
        done = self.turns == 3
        words = [w for w in text.split() if w.isdigit()][:2]
        return Step(f"Use {self.turns}", done, float(done), f"state {self.turns}", [("say", words)])


class Endless(Environment):
    max_turns = 4
    max_observation_tokens = 2

    def reset(self, problem):
        return problem.prompt

    def step(self, text):
        return "<eos> 1 2 3 4", False, 0.25


class Failing(Environment):
    """Raises in the second turn of problems that have the number 3, and waits for ever for those with a 5."""

    timeout_s = 0.2

    def reset(self, problem):
        self.problem, self.turns = problem, 0
        return problem.prompt

    def step(self, text):
        self.turns += 1
        if self.turns == 2 and "3" in self.problem.id:
            raise RuntimeError("the server is gone")
        if self.turns == 2 and "5" in self.problem.id:
            threading.Event().wait()
        return "Use 2", self.turns == 3, 0.5


class Random(Echo):
    """Asks something else each time, so no group has one prompt."""

    asked = 0

    def reset(self, problem):
        Random.asked += 1
        return f"Use {Random.asked}"


class Killed(Echo):
    """Kills the process at one step of the third rollout batch, the first time that it is made."""

    def step(self, text):
        mark = Path(os.environ["KILLED_MARK"])
        with open(mark, "a") as file:
            file.write(".")
        if mark.stat().st_size == 40:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(text)


def problems():
    """Questions in the words of the bundled policy."""
    return [Problem(f"p{i}", f"Use {i} and 4 to make 7.", "", verifier="environments:Echo") for i in range(1, 9)]
