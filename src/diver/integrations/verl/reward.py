"""Our grades as verl's reward: outcome 1 for a correct response, else 0, graded as by the built-in trainer."""

import asyncio
import math
from collections.abc import Container, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from omegaconf import DictConfig, OmegaConf
from transformers import GenerationConfig
from verl import DataProto
from verl.experimental.reward_loop.reward_manager import register
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from diver.core.types import Grade, Group, Problem, Rollout
from diver.grading import Verdict, opens_thought, verdicts, with_keys
from diver.grading.settings import Verification
from diver.integrations.verl.config import NAME, read_plugin
from diver.recipe.data import Source
from diver.sample.base import is_truncated
from diver.sample.hf import end_tokens
from diver.tasks.sources import to_problem


@register(NAME)
class DiverRewardManager(RewardManagerBase):
    """A reward manager of verl, which gets one response at a time.

    Responses that arrive while others are graded are graded together next, in worker processes that can be killed.
    """

    def __init__(self, config: DictConfig, tokenizer: Any, compute_score: Any = None, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        self.ends = ends(config, tokenizer)
        plugin = read_plugin(OmegaConf.to_container(config.algorithm, resolve=True).get(NAME))
        self.grader = BatchedGrader(plugin.verify)
        self.with_key = "keys" in plugin.method.needs

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        """The reward of the last output of one sample: its outcome; beside it `acc`, `grade`, `answer_end`, and for a
        method that needs keys `key` and `solution`."""
        row = data[-1:][0]
        columns = row.non_tensor_batch
        length = int(row.batch["attention_mask"][-row.batch["responses"].shape[-1] :].sum())
        tokens = row.batch["responses"][:length].tolist()
        prompt = int(row.batch["attention_mask"][: row.batch["prompts"].shape[-1]].sum())
        truncated = cut(self.config, self.ends, tokens, prompt)
        response = self.tokenizer.decode(tokens, skip_special_tokens=True)
        thinking = opens_thought(self.tokenizer.decode(row.batch["prompts"].tolist(), skip_special_tokens=False))
        problem = problem_of(columns)
        grade, end = await self.grader.grade(response, problem, truncated, thinking)
        outcome = float(grade is Grade.CORRECT)
        # verl wants a number in every row: an unknown end is that of the whole response.
        info = {"acc": outcome, "grade": str(grade), "answer_end": len(response) if end is None else end}
        if self.with_key:
            (group,) = with_keys([Group(problem, (Rollout(response, grade=grade),))])
            (rollout,) = group.rollouts
            # verl wants a text in every row: an unknown solution is "".
            info |= {"key": rollout.key, "solution": rollout.solution or ""}
        return {"reward_score": outcome, "reward_extra_info": info}


class BatchedGrader:
    """Grades responses that arrive one at a time, from tasks of one event loop, each of which may be cancelled."""

    def __init__(self, settings: Verification) -> None:
        self.settings = settings
        self.waiting: list[tuple[str, Problem, bool, bool, asyncio.Future[Verdict]]] = []
        self.task: asyncio.Task[None] | None = None

    async def grade(self, response: str, problem: Problem, truncated: bool, thinking: bool) -> Verdict:
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self.waiting.append((response, problem, truncated, thinking, answer))
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._grade_waiting())
        return await answer

    async def _grade_waiting(self) -> None:
        while self.waiting:
            responses, problems, truncated, thinking, answers = zip(*self.waiting, strict=True)
            self.waiting = []
            pairs = list(zip(responses, problems, strict=True))
            try:
                results: list[Any] = await asyncio.to_thread(
                    verdicts, pairs, self.settings, truncated=truncated, thinking=thinking
                )
            except Exception as error:  # the installation is at fault, not a text: each caller gets the error
                results = [error] * len(answers)
            for answer, result in zip(answers, results, strict=True):
                if not answer.done():
                    (answer.set_exception if isinstance(result, Exception) else answer.set_result)(result)


def cut(config: DictConfig, ends: Container[int], tokens: Sequence[int], prompt: int) -> bool:
    """Whether verl cut a response after a prompt of so many tokens: at response_length, or where its context ends."""
    rollout = config.actor_rollout_ref.rollout
    return is_truncated(tokens, rollout.response_length, ends, (rollout.get("max_model_len") or math.inf) - prompt)


def ends(config: DictConfig, tokenizer: Any) -> list[int]:
    """The tokens that end a response of the policy that verl's configuration names."""
    path = OmegaConf.select(config, "actor_rollout_ref.model.path")
    try:
        generation = GenerationConfig.from_pretrained(path) if path else None
    except OSError:  # a model without generation_config.json
        generation = None
    return end_tokens(SimpleNamespace(generation_config=generation), tokenizer)


def problem_of(columns: Mapping[str, Any]) -> Problem:
    """The problem of a row of verl's data. `extra_info.verifier` names its grader; without it the grader is chosen
    as for any file."""
    info, source = columns.get("extra_info") or {}, str(columns.get("data_source", ""))
    row = {
        "prompt": [dict(message) for message in columns["raw_prompt"]],
        "reward_model": columns.get("reward_model"),
        "data_source": source,
        "extra_info": dict(info),
        "id": info.get("id"),
    }
    where = f"row {info.get('index', '?')} of {source or 'the data'}"
    return to_problem(row, where, Source(path=source, verifier=info.get("verifier", "auto")))
