"""A reward function for TRL's GRPOTrainer that returns the advantage.

    args = GRPOConfig("runs/trl", num_generations=8, **config("diver-mix"))
    reward = GroupAdvantage("diver-mix", args, tokenizer)
    GRPOTrainer(model, reward, args=args, train_dataset=problems, processing_class=tokenizer).train()

TRL subtracts the mean of a group from its rewards and, with scale_rewards="none", divides by nothing. The advantages of
a group already have mean 0, so they come through unchanged (to float32, in which TRL keeps them).
"""

import math
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.columns import COLUMNS, first_value
from diver.core.seeds import digest
from diver.core.turns import Turn, content_text, turns_of
from diver.core.types import DiverError, Grade, Group, Problem, Progress, Reward, Rollout, State, sampling_metrics
from diver.grading import DEFAULT, get_grader, in_thought, opens_thought, verdicts, with_keys
from diver.grading.settings import Verification
from diver.integrations.schedule import schedule_steps
from diver.integrations.seam import decoder
from diver.integrations.trl.objective import SEAM, check_objective, config, departures
from diver.integrations.trl.outcomes import Outcome, one_outcome
from diver.integrations.trl.trained import Comparison, calling_trainer, check_trainer, is_training
from diver.methods import Method
from diver.recipe.data import Source
from diver.sample.base import is_truncated
from diver.tasks.sources import counted_options, to_problem

Row = tuple[Problem, str, Rollout]
"""A problem, its prompt as a text, and a rollout."""


class GroupAdvantage:
    """A reward function for GRPOTrainer: the advantage of each completion, float64, by `method`.

    In an evaluation it gives the outcome of each completion instead.

    The outcome of a completion is our grade of what the assistant wrote, unless `outcome` is given. Pass several
    functions as `outcome=[f, g]` and not as reward functions of the trainer beside this one: those would be added to an
    advantage, which is refused.

    Args:
        args: the trainer's GRPOConfig; `config` gives what the method needs in it.
        tokenizer: the trainer's processing class.
        outcome: a reward function in TRL's own signature, whose values take the place of our grades. It returns None
            for a prompt that it does not grade; the completions of that prompt have the advantage 0. The first of
            several functions gives the outcome, which says what is correct. The others are added to the reward
            (`one_outcome`).
        weights: one per function of `outcome`.
        answer_ends: called like `outcome`. It returns the characters of each completion up to the end of its answer,
            None if that is unknown. Our verifiers find the end without it.
        verifier: the grader of our grades.
        verification: the limits of grading.
        ends: end tokens of the model that neither the tokenizer nor the trainer (`eos_token_ids`) names.
        problems: the problems by the ids in the column `problem`. Without them a problem is made from the columns of
            the data set: `answer` or `solution`, and the others that `diver.tasks.sources` reads.
        on_step: called on each process with every rollout step (from 1), its groups and its metrics.

    Groups may be split over processes. The rows of all processes are gathered first, and every process computes all
    groups, so that what it logs is the value of the whole batch. An error on one process is raised on all.
    """

    __name__ = "diver"  # TRL logs the function under this name
    stock = True
    """Whether the trainer is TRL's. Its data sets are read then, and its batches are compared."""
    seam = SEAM
    """What the trainer supports."""

    def __init__(
        self,
        method: str | Method,
        args: Any,
        tokenizer: Any,
        *,
        outcome: Outcome | Sequence[Outcome] | None = None,
        weights: Sequence[float] | None = None,
        answer_ends: Callable[..., Sequence[int | None]] | None = None,
        verifier: str = "auto",
        verification: Verification = DEFAULT,
        ends: Collection[int] = (),
        problems: Mapping[str, Problem] | None = None,
        on_step: Callable[[int, list[Group], Mapping[str, float]], None] | None = None,
    ) -> None:
        self.tokenizer, self._decode, self._unlimited = tokenizer, decoder(tokenizer), self.seam.usable(method)
        self._use(args)
        for departure in departures(args, self.method, self.seam):
            warnings.warn(departure, stacklevel=2)
        if outcome is not None and (missing := sorted(self.method.needs & {"grades", "keys"})):
            raise DiverError(f"method {self.method.name!r} needs {', '.join(missing)}, which `outcome` does not give")
        self.outcome = one_outcome(outcome, weights, self.method)
        self.answer_ends, self.problems, self.on_step = answer_ends, problems, on_step
        if verifier != "auto":
            get_grader(verifier, "verifier")
        self.source, self.verification = Source(path="TRL", verifier=verifier), verification
        self.ends: set[Any] = {getattr(tokenizer, "eos_token_id", None), *ends}
        self.entry: Any = self
        """The object in the trainer's list of reward functions."""
        self._letters: dict[tuple[str, str], Problem] = {}
        """Problems whose answers were numbers of options and are now letters, by question and number."""
        self._place: tuple[Any, int, int] = (None, 0, 0)
        """The trainer's state at the last call, its optimizer step, and the generations before it in this step."""
        self.times: defaultdict[str, float] = defaultdict(float)
        """Seconds since the last report, by metric."""

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **inputs: Any
    ) -> list[float]:
        """This process's advantages, in the order of its rows. TRL calls it, on all processes at once."""
        # Check again: the configuration may have changed, another trainer may call, and TRL must add nothing.
        trainer = calling_trainer(inputs)
        self._use(self.args if trainer is None else trainer.args)
        if trainer is not None:
            check_trainer(trainer, self.entry, config(self.method, self.seam))
            self.ends |= {*getattr(trainer, "eos_token_ids", ())}
            if self.stock and not hasattr(trainer, "diver_comparison"):
                Comparison(trainer)
                self._read(trainer)
        start = time.perf_counter()
        training = is_training(trainer)
        grade = partial(self._graded, prompts, completions, completion_ids, inputs)
        rows, offset, progress = gathered(
            lambda: (grade(), self._progress(inputs["trainer_state"]) if training else None)
        )
        self.times["time/verify"] += time.perf_counter() - start
        local_rows = slice(offset, offset + len(prompts))
        if progress is None:
            size = getattr(self.args, "num_generations_eval", None) or self.args.num_generations
            return self._evaluated(self._groups(rows, size), local_rows, inputs)
        rollouts = self._trained(self._groups(rows, self.args.num_generations), progress, local_rows, inputs)
        if trainer is not None and self.stock:
            trainer.diver_comparison.expect(self.method, [*zip(map(list, completion_ids), rollouts, strict=True)])
        return [r.advantage for r in rollouts]

    def _trained(
        self, sampled: Sequence[Group], progress: Progress, local: slice, inputs: Mapping[str, Any]
    ) -> list[Rollout]:
        """This process's rollouts with their advantages; metrics and columns are logged."""
        groups = self.shaped(sampled, progress)
        return self._logged(groups, self.reported(groups, progress), local, inputs)

    def shaped(self, sampled: Sequence[Group], progress: Progress, state: State | None = None) -> list[Group]:
        """The groups as the method shapes them; groups without outcomes have the advantage 0."""
        start = time.perf_counter()
        applies = [not np.isnan(group.outcomes).any() for group in sampled]
        scored = list(compress(sampled, applies))
        if "keys" in self.method.needs:
            scored = with_keys(scored)
        shaped = iter(self.method.shaped(scored, progress, self._decode, state))
        trained = not self.method.selection.drops
        groups = [
            next(shaped) if a else g.with_each(advantage=[0.0] * len(g), trained=[trained] * len(g))
            for g, a in zip(sampled, applies, strict=True)
        ]
        self.times["time/diversity"] += time.perf_counter() - start
        return groups

    def reported(
        self, groups: Sequence[Group], progress: Progress, further: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        """The metrics of shaped groups and `further` ones; `on_step` gets them, too."""
        scored = [group for group in groups if not np.isnan(group.outcomes).any()]
        metrics = {**self.times, **(further or {})}
        self.times.clear()
        if scored:
            metrics |= self.method.metrics(scored, progress) | sampling_metrics(scored)
        else:
            warnings.warn("diver: no function of `outcome` gives a number for this batch: no gradient", stacklevel=2)
        if self.on_step:
            self.on_step(progress.step + 1, scored, metrics)
        return metrics

    def _logged(
        self, groups: Sequence[Group], metrics: Mapping[str, float], local: slice, inputs: Mapping[str, Any]
    ) -> list[Rollout]:
        """Give TRL (since 1.0) the metrics and the columns of its table of completions; return this process's rollouts.

        TRL keeps the last values of each column, so every call gives all columns, NaN where a value is unknown.
        """
        rollouts = [r for group in groups for r in group.rollouts][local]
        for callback, values in (("log_metric", metrics), ("log_extra", self.columns_of(rollouts))):
            for name, value in values.items() if callback in inputs else ():
                inputs[callback](name, value)
        return rollouts

    def columns_of(self, rollouts: Sequence[Rollout]) -> dict[str, list[float]]:
        """Our columns of TRL's table of completions."""
        return {
            "outcome": [r.reward.outcome if r.reward else math.nan for r in rollouts],
            **{n: [r.diversity.get(n, math.nan) for r in rollouts] for n in dict.fromkeys(self.method.metric_names)},
        }

    def _evaluated(self, groups: Sequence[Group], local: slice, inputs: Mapping[str, Any]) -> list[float]:
        """This process's outcomes, NaN if no function grades a prompt. An evaluation has no advantages."""
        outcomes = np.concatenate([group.outcomes for group in groups])
        scored = [group for group in groups if not np.isnan(group.outcomes).any()]
        metrics = {"reward/outcome": float(np.nanmean(outcomes))} | sampling_metrics(scored) if scored else {}
        self._logged(groups, metrics, local, inputs)
        return outcomes[local].tolist()

    def _use(self, args: Any) -> None:
        """Use the configuration of the calling trainer, and check it."""
        limit, overlong = args.max_completion_length, self._unlimited.overlong
        if limit is None and overlong and not overlong.max_tokens:
            raise DiverError("method.overlong.max_tokens: max_completion_length is None, so give the limit here")
        self.args, self.method = args, self._unlimited if limit is None else self._unlimited.limited(limit)
        check_objective(args, self.method, self.seam)

    def _graded(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        tokens: Sequence[Sequence[int]],
        inputs: Mapping[str, Any],
    ) -> list[Row]:
        """This process's rows with their outcomes, NaN if `outcome` gave None."""
        truncated = self._truncated(tokens, {**inputs, "prompts": prompts})
        # TRL does not pass `env_mask` of a rollout_func to reward functions, but it passes its other fields.
        masks = inputs.get("policy_mask") or [None] * len(tokens)
        sampled = [self._rollout(*row) for row in zip(completions, tokens, masks, strict=True)]
        written = [*map(_written, completions)]
        grades: Sequence[Grade | None] = [None] * len(completions)
        ends: Sequence[int | None]
        if self.outcome is None:
            problems = self._problems(prompts, inputs)
            thinking = [self._is_thinking(prompt, ids) for prompt, ids in zip(prompts, tokens, strict=True)]
            for i, (rollout, ids) in enumerate(zip(sampled, tokens, strict=True)):
                if not rollout.turns and rollout.length < len(ids):  # an environment wrote some tokens
                    written[i] = rollout.response
            pairs = list(zip(written, problems, strict=True))
            graded = verdicts(pairs, self.verification, truncated=truncated, thinking=thinking)
            grades, ends = [v.grade for v in graded], [v.answer_end for v in graded]
            rewards = [Reward(float(grade is Grade.CORRECT)) for grade in grades]
        else:
            ids, texts = first_value(inputs, COLUMNS["id"]) or [None] * len(prompts), [*map(_text, prompts)]
            names = [digest(text) if row_id is None else str(row_id) for row_id, text in zip(ids, texts, strict=True)]
            problems = [Problem(name, text, "") for name, text in zip(names, texts, strict=True)]
            columns = {"prompts": prompts, "completions": completions, "completion_ids": tokens, **inputs}
            rewards, ends = self.outcome(**columns), self._ends_given(columns)
        rows = []
        for i, (rollout, end) in enumerate(zip(sampled, ends, strict=True)):
            start = rollout.response.rfind(written[i])  # the graded text follows the parsed thought
            rollout = rollout.replace(
                truncated=bool(truncated[i]),
                grade=grades[i],
                answer_end=None if end is None or start < 0 else start + end,
                reward=rewards[i],
            )
            rows.append((problems[i], _text(prompts[i]), rollout))
        return rows

    def _ends_given(self, columns: Mapping[str, Any]) -> Sequence[int | None]:
        """The ends of answers in the assistant's texts, by `answer_ends`; else None, with a warning if it matters."""
        if self.answer_ends is not None:
            return self.answer_ends(**columns)
        if self.method.diversity.until == "answer" and "responses" in self.method.needs:
            lacks = "`outcome` does not say where an answer ends; give `answer_ends`"
            warnings.warn(f"diver: the diversity of whole responses is measured: {lacks}", stacklevel=2)
        return [None] * len(columns["completions"])

    def _truncated(self, tokens: Sequence[Sequence[int]], inputs: Mapping[str, Any]) -> Sequence[bool]:
        limit = self.args.max_completion_length or 1  # without a limit, no end token means truncated
        context = getattr(self.args, "vllm_max_model_length", None) or math.inf  # vLLM counts the prompt, too
        rooms = [context - self._length(prompt) if context < math.inf else context for prompt in inputs["prompts"]]
        return [is_truncated(ids, limit, self.ends, room) for ids, room in zip(tokens, rooms, strict=True)]

    def _length(self, prompt: Any) -> int:
        """The tokens of a prompt, with those that the tokenizer puts in front of a flat one."""
        return len(self.tokenizer(text=self._rendered(prompt), add_special_tokens=isinstance(prompt, str))["input_ids"])

    def _rendered(self, prompt: Any) -> str:
        if isinstance(prompt, str):
            return prompt
        settings = getattr(self.args, "chat_template_kwargs", None) or {}
        return self.tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True, **settings)

    def _rollout(self, completion: Any, ids: Sequence[int], mask: Sequence[int] | None) -> Rollout:
        """All text and tokens of the policy, with the thoughts and calls that TRL has parsed out of a message.

        The tokens are decoded as TRL decodes those that it does not parse. If tools answered, the text is that of the
        assistant's messages.

        Raises:
            DiverError: the method needs tokens, and which of them are a tool's is not known.
        """
        turns = _turns(completion)
        texts = [turn.text for turn in turns if turn.by_policy]
        answered = len(texts) < len(turns)
        if self.seam is SEAM and answered and mask is None and "tokens" in self.method.needs:
            raise DiverError(
                f"method {self.method.name!r} needs tokens, and TRL does not say which tokens of a trajectory are a "
                "tool's; choose a method without lengths (overlong, diversity.horizon)"
            )
        written = list(ids) if mask is None else [*compress(ids, mask)]
        if answered:
            text = "\n".join(texts)
        elif isinstance(completion, str) and len(written) == len(ids):
            text = completion
        else:
            text = self._decode(written)
        return Rollout(text, None if answered and mask is None else written, turns=turns)

    def _is_thinking(self, prompt: Any, ids: Sequence[int]) -> bool:
        """Whether the prompt opened a thought that the completion did not close.

        The tokens are read, since TRL may have removed the thought from a parsed message.
        """
        text = self._rendered(prompt)
        return opens_thought(text) and in_thought(self.tokenizer.decode(list(ids), skip_special_tokens=False), True)

    def _problems(self, prompts: Sequence[Any], inputs: Mapping[str, Any]) -> list[Problem]:
        if self.problems is not None:
            if "problem" not in inputs:
                raise DiverError("the data set has no column problem: add it, with remove_unused_columns=False")
            return [self.problems[name] for name in inputs["problem"]]
        columns = {name: column for name, column in inputs.items() if isinstance(column, list)} | {"prompt": prompts}
        rows = [{name: column[i] for name, column in columns.items()} for i in range(len(prompts))]
        problems = []
        for i, row in enumerate(rows):
            problem = to_problem(row, f"row {i}", self.source)
            if first_value(row, COLUMNS["id"]) is None:  # methods store their state of a problem by its id
                meta = {name: str(value) for name, value in problem.meta.items()}
                problem = replace(problem, id=digest(_text(prompts[i]), problem.answer, meta))
            if letter := self._letters.get((problem.question, problem.answer)):
                problem = replace(problem, answer=letter.answer, verifier=letter.verifier)
            problems.append(problem)
        return problems

    def _read(self, trainer: Any) -> None:
        """Read the trainer's data sets, so that a row that cannot be graded is an error before training begins.

        Raises:
            DiverError: names the data set and the row, from 0.
        """
        evaluated = getattr(trainer, "eval_dataset", None)
        evaluated = evaluated if isinstance(evaluated, Mapping) else {"eval_dataset": evaluated}
        for name, rows in {"train_dataset": getattr(trainer, "train_dataset", None), **evaluated}.items():
            if self.outcome is not None or self.problems is not None or not hasattr(rows, "__len__"):
                continue  # rows are not graded, or a stream can be read only once
            problems = [to_problem(row, f"{name}[{i}]", self.source, i) for i, row in enumerate(rows)]
            for problem in problems:
                get_grader(problem.verifier, "verifier").check(problem, f"{name}: ")
            counted, _ = counted_options(problems, self.source, name)
            self._letters |= {(problems[i].question, problems[i].answer): new for i, new in counted.items()}

    def _groups(self, rows: Sequence[Row], size: int) -> list[Group]:
        """The groups of the rows of all processes. In TRL's order, the `size` rows of a prompt follow each other."""
        groups = []
        for start in range(0, len(rows), size):
            problems, prompts, rollouts = zip(*rows[start : start + size], strict=True)
            if len({*prompts}) != 1 or len(rollouts) != size:
                raise DiverError(
                    f"rows {start} to {start + size - 1} of a batch of {len(rows)} answer {len({*prompts})} prompts: "
                    f"groups must be whole, num_generations = {size} rows of one prompt each"
                )
            group = Group(problems[0], rollouts, prompt=prompts[0]).with_each(index=range(size))
            missing = np.isnan(group.outcomes).sum()
            if missing not in (0, size):
                raise DiverError(
                    f"prompt {prompts[0]!r:.60}: the outcome of {missing} of {size} completions is None or NaN: a "
                    "function gives a number for all completions of a prompt, or None for all"
                )
            groups.append(group)
        return groups

    def _progress(self, state: Any) -> Progress:
        """TRL counts optimizer steps; the schedule of lambda counts rollout batches.

        Before `train`, as in an evaluation, TRL reports 0 steps, which is the beginning of the run.
        """
        from accelerate import PartialState

        micro_batches = self.args.steps_per_generation * self.args.num_iterations
        accumulated = self.args.gradient_accumulation_steps
        # A batch may be sampled within an optimizer step. The last micro-batch that follows in it decides.
        step = (state.global_step * accumulated + min(accumulated, micro_batches) - 1) // micro_batches
        # A step may take several batches, which are counted. `train` makes a new state, so the count restarts.
        last_state, last_step, earlier = self._place
        earlier = earlier + 1 if last_state is state and last_step == state.global_step else 0
        self._place, step = (state, state.global_step, earlier), step + earlier
        steps = math.ceil(state.max_steps * accumulated / micro_batches)
        folder, is_main = Path(self.args.output_dir), PartialState().is_main_process
        return Progress(step, schedule_steps(folder, step, steps, write=is_main))


def check_ids(rows: Any) -> None:
    """Raises DiverError if rows with different prompts share an id, since a method would take them for one problem."""
    prompts: dict[str, Any] = {}
    for i, row in enumerate(rows):
        name, prompt = first_value(row, COLUMNS["id"]), row.get("prompt")
        if name is not None and prompts.setdefault(str(name), prompt) != prompt:
            raise DiverError(f"train_dataset[{i}]: another prompt has the id {name!r}, too; give each problem its own")


def gathered(make: Callable[[], tuple[list[Row], Progress | None]]) -> tuple[list[Row], int, Progress | None]:
    """The rows of all processes, the index of the first row of this process, and the progress of the first process.

    A process that fails tells the others, which would wait for it otherwise. Only the first process may have the file
    of the schedule.
    """
    from accelerate import PartialState  # installed with TRL; other functions here work without it
    from accelerate.utils import gather_object

    result: tuple[list[Row], Progress | None] = [], None
    failure = None
    try:
        result = make()
    except Exception as error:
        failure = error
    index = PartialState().process_index
    parts = gather_object([(*result, failure and f"process {index}: {type(failure).__name__}: {failure}")])
    if failure:
        raise failure
    if failures := [message for *_, message in parts if message]:
        raise DiverError(f"the reward function failed on {failures[0]}")
    return [row for rows, *_ in parts for row in rows], sum(len(rows) for rows, *_ in parts[:index]), parts[0][1]


def _text(prompt: Any) -> str:
    """A prompt, text or chat messages, as one string."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(content_text(message.get("content"), i) for i, message in enumerate(prompt))


def _turns(completion: Any) -> tuple[Turn, ...]:
    """The turns of messages in which a tool was called or answered; empty for a response of one turn."""
    if isinstance(completion, str):
        return ()
    acts = any(message["role"] != "assistant" or message.get("tool_calls") for message in completion)
    return turns_of(completion) if acts else ()


def _written(completion: Any) -> str:
    """The graded text: the completion, or the messages of the assistant without those of tools."""
    return _text(completion if isinstance(completion, str) else [m for m in completion if m["role"] == "assistant"])
