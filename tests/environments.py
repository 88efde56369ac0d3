"""Environments for tests, named by import path as a user names his own."""

import os
import signal
import threading
from pathlib import Path

from diver.core.environment import Environment, Step
from diver.core.types import Problem
from text_game import TextWorld


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


class Even(Echo):
    """Pays for an even number of characters in the last turn."""

    def step(self, text):
        step = super().step(text)
        return step._replace(reward=float(step.done and len(text) % 2 == 0))


class Killed(Echo):
    """Pays for a 7 in the last turn. It kills its process within the second rollout batch, where a mark asks for it."""

    lock = threading.Lock()

    def step(self, text):
        step = super().step(text)
        if mark := os.environ.get("KILLED_MARK"):
            with self.lock, open(mark, "a") as file:
                file.write(".")
                file.flush()
                if Path(mark).stat().st_size == 46:  # 12 calls of the evaluation, 24 of a batch, 10 of the next
                    os.kill(os.getpid(), signal.SIGKILL)
        return step._replace(reward=float(step.done and "7" in text.split()))


class KilledTextWorld(TextWorld):
    """Pays for turns of even length, too. It kills its process in a second turn, once the file of the mark exists."""

    def reset(self, problem):
        self.turns = 0
        return super().reset(problem)

    def step(self, text):
        self.turns += 1
        if self.turns == 2 and Path(os.environ.get("KILLED_MARK", "no file")).exists():
            os.kill(os.getpid(), signal.SIGKILL)
        step = super().step(text)
        return step._replace(reward=0.1 * (len(text) % 2 == 0) + step.reward)


def problems():
    """Questions in the words of the bundled policy."""
    return [Problem(f"p{i}", f"Use {i} and 4 to make 7.", "", verifier="environments:Echo") for i in range(1, 9)]


class Broken(Echo):
    def reset(self, problem):
        return problem.meta["board"]


class Down(Echo):
    def step(self, text):
        raise ConnectionError("no server")


class Leaves(Echo):
    def step(self, text):
        raise SystemExit("the tool called sys.exit")


class NeverBegins(Echo):
    timeout_s = 0.05

    def reset(self, problem):
        threading.Event().wait()


class LeavesAtOnce(Echo):
    def reset(self, problem):
        raise SystemExit(0)


class WithoutSteps(Environment):
    def reset(self, problem):
        return problem.prompt
