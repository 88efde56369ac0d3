"""Trajectories: the policy and an environment speak in turn, all trajectories of a batch together.

for each turn:
    replies = generator.respond(contexts)      # all trajectories that are not over, in one batch
    answers = environment.step(reply)          # each in a thread
    context = context + reply + answer         # token ids; what the policy wrote is never tokenised again
"""

import logging
import math
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from diver.core.environment import Environment, Step, at_once, checked_step
from diver.core.rounding import reaches
from diver.core.seeds import stream_seed
from diver.core.settings import own_place
from diver.core.tables import clean
from diver.core.turns import ENVIRONMENT, POLICY, Turn, marked_actions
from diver.core.types import DiverError, Grade, Problem, Reward, Rollout
from diver.diversity import action_key
from diver.grading import EnvironmentGrader, get_grader
from diver.sample.base import Generation, Generator, Job, Key, Request, SamplingParams
from diver.tasks.templates import between_turns

logger = logging.getLogger(__name__)

SOLVED = 0.5
"""Minimum sum of rewards of a correct trajectory."""
CHARACTERS = 32
"""Characters of an observation that are kept per token of its limit: an environment may return any length of text."""


class Trajectory:
    """A response that is being sampled: its turns, and the context that the policy continues."""

    def __init__(self, job: Job, problem: Problem, grader: EnvironmentGrader, prompt: Sequence[int]) -> None:
        self.job, self.problem, self.context = job, problem, [*prompt]
        self.environment: Environment = grader.start(problem)[0]
        self.turns: list[Turn] = []
        self.replies: list[Rollout] = []
        self.outcome = 0.0
        self.done = self.truncated = False
        self.failure: Grade | None = None

    @property
    def over(self) -> bool:
        return self.done or self.truncated or self.failure is not None

    def next_job(self, prompt: int, room: float) -> Job:
        """The job of the next turn, whose context is prompt number `prompt`. Each turn has another random stream."""
        budget = self.job.limit - sum(reply.length for reply in self.replies)
        return Job(prompt, stream_seed(self.job.seed, len(self.replies)), int(min(budget, room - len(self.context))))

    def take(self, reply: Rollout) -> None:
        """Add a turn of the policy. A truncated turn ends the trajectory."""
        self.replies.append(reply)
        self.context += reply.tokens or ()
        self.turns.append(Turn(POLICY, reply.response, marked_actions(reply.response), tokens=reply.tokens))
        self.truncated = reply.truncated

    def hear(self, answer: Step | Exception, tokens: Callable[[str, int], list[int]], room: float) -> None:
        """Add a turn of the environment, or its failure. `tokens(text, n)` encodes an observation, at most n tokens."""
        if isinstance(answer, DiverError):
            raise answer
        if isinstance(answer, Exception):
            self.failure = Grade.TIMEOUT if isinstance(answer, TimeoutError) else Grade.ERROR
            self.turns = [replace(turn, reward=None) for turn in self.turns]  # the outcome of a failure is 0
            error = f"{type(answer).__name__}: {clean(str(answer))} {own_place(answer)}"
            logger.warning("problem %r, turn %d: the environment failed: %s", self.problem.id, len(self.replies), error)
            return
        if answer.actions is not None:
            self.turns[-1] = replace(self.turns[-1], actions=tuple(answer.actions))
        self.outcome += answer.reward
        self.done = answer.done
        limit = self.environment.max_observation_tokens
        text = answer.observation[: CHARACTERS * limit]
        observed = [] if answer.done else tokens(text, limit)
        fits = len(self.context) + len(observed) < room
        observed = observed if fits else []  # the context of the model has no room for it
        self.context += observed
        self.turns.append(Turn(ENVIRONMENT, text, state=answer.state, reward=answer.reward, tokens=observed))
        written = sum(reply.length for reply in self.replies)
        cut = len(self.replies) >= self.environment.max_turns or written >= self.job.limit or not fits
        self.truncated = cut and not self.done

    def rollout(self) -> Rollout:
        """The trajectory with its grade, its outcome and the key of its actions."""
        lengths = [reply.length for reply in self.replies]
        entropies = [reply.entropy * reply.length for reply in self.replies]
        failure, unsolved = self.failure, Grade.TRUNCATED if self.truncated else Grade.WRONG
        rollout = Rollout.of_turns(
            self.turns,
            logprobs=np.concatenate([reply.logprobs for reply in self.replies]),  # type: ignore[misc]  # sampled here
            entropy=sum(entropies) / sum(lengths) if sum(lengths) else math.nan,
            truncated=self.truncated,
            grade=failure or (Grade.CORRECT if reaches(self.outcome, SOLVED) else unsolved),
            reward=Reward(0.0 if failure else self.outcome),
        )
        return rollout.replace(key=action_key(rollout))


class Trajectories:
    """See `diver.sample.base.Generator`. An `HFGenerator` samples each turn of the policy, and an environment answers.

    `max_tokens` bounds the tokens of the policy over all its turns. The context of the model bounds the tokens of both
    sides together.
    """

    def __init__(self, generator: Any, problems: Sequence[Problem], template: str) -> None:
        self.generator, self.name, self.tokenizer = generator, generator.name, generator.tokenizer
        self.context, self.ends = generator.context, generator.ends
        self.problems = {problem.id: problem for problem in problems}
        self.between = cache(lambda *end: [*map(self._encode, between_turns(template, self.tokenizer, end))])
        self.marks = sum(map(len, self.between()))

    def generate(
        self, requests: Sequence[Request], params: SamplingParams, have: Container[Key] = ()
    ) -> Iterator[Generation]:
        return self.generator.generate(requests, params, have, self.respond)

    def respond(
        self,
        prompts: Sequence[list[int]],
        jobs: Sequence[Job],
        temperature: float,
        rows: int = 0,
        ends: Collection[int] | None = None,
    ) -> list[Rollout]:
        """A trajectory for each job, in their order; see `HFGenerator.respond`."""
        trajectories = []
        for job in jobs:
            problem = self.problems[job.problem]
            grader = get_grader(problem.verifier)
            assert isinstance(grader, EnvironmentGrader)  # `playing` has checked it
            trajectories.append(Trajectory(job, problem, grader, prompts[job.prompt]))
        limit = max(map(self._most_tokens, trajectories))
        rows = self.generator.max_num_seqs or self.generator.rows_for(limit)
        for start in range(0, len(trajectories), rows):
            self._play(trajectories[start : start + rows], temperature, ends, self.generator.past(limit))
        return [trajectory.rollout() for trajectory in trajectories]

    def _most_tokens(self, trajectory: Trajectory) -> int:
        """The maximum number of positions that the context of a trajectory without turns may reach."""
        environment = trajectory.environment
        observation = environment.max_observation_tokens + self.marks
        most = len(trajectory.context) + trajectory.job.limit + environment.max_turns * observation
        return min(most, self.context or most)

    def _play(
        self, trajectories: Sequence[Trajectory], temperature: float, ends: Collection[int] | None, past: Any
    ) -> None:
        """Sample all turns of these trajectories; `past` keeps the keys and values of their contexts."""
        room, going = self.context or math.inf, [*trajectories]
        while going:
            contexts: dict[tuple[int, ...], int] = {}  # equal contexts are run once if nothing is cached yet
            jobs = [t.next_job(contexts.setdefault(tuple(t.context), len(contexts)), room) for t in going]
            replies = self.generator.respond([*map(list, contexts)], jobs, temperature, ends=ends, past=past)
            for trajectory, reply in zip(going, replies, strict=True):
                trajectory.take(reply)
            answered = [trajectory for trajectory in going if not trajectory.truncated]
            answers = at_once(
                [partial(_answer, t.environment, t.turns[-1].text) for t in answered],
                [t.environment.timeout_s for t in answered],
            )
            for trajectory, answer in zip(answered, answers, strict=True):
                trajectory.hear(answer, partial(self.observation_tokens, end=trajectory.context[-1]), room)
            past.keep([i for i, trajectory in enumerate(going) if not trajectory.over])
            going = [trajectory for trajectory in going if not trajectory.over]

    def observation_tokens(self, text: str, most: int, end: int) -> list[int]:
        """The tokens of an observation between the marks of the template, after a turn of the policy that `end` ended.

        The text is untrusted: it is cut to `most` tokens, and a mark of the template in it is encoded as plain text.
        """
        before, after = self.between(end)
        return [*before, *self._encode(text, split_special_tokens=True)[:most], *after]

    def _encode(self, text: str, **options: Any) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False, **options)["input_ids"]


def _answer(environment: Environment, text: str) -> Step:
    return checked_step(environment.step(text))


def playing(generator: Any, problems: Sequence[Problem], template: str) -> Generator:
    """The generator for these problems: `Trajectories` where environments answer, else `generator` itself.

    Raises:
        DiverError: only some problems have an environment, or the generator cannot continue token ids.
    """
    graders = [get_grader(problem.verifier) for problem in problems]
    environments = {grader.name for grader in graders if isinstance(grader, EnvironmentGrader)}
    if not environments:
        return generator
    names = ", ".join(sorted(environments))
    if others := {grader.name for grader in graders} - environments:
        raise DiverError(f"environment {names}: other problems have verifier {', '.join(sorted(others))}; train apart")
    if not hasattr(generator, "respond"):
        raise DiverError(f"environment {names}: trajectories are sampled with --generator transformers alone")
    return Trajectories(generator, problems, template)
