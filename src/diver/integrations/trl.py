"""TRL's GRPOTrainer with our method, through its public seam only: a reward function that returns the advantage.

    args = GRPOConfig("runs/trl", num_generations=8, **config("diver-mix"))
    GRPOTrainer(model, GroupAdvantage("diver-mix", args), args=args, train_dataset=problems).train()

TRL subtracts the mean of a group from its rewards and, with scale_rewards="none", divides by nothing. The advantages of
a group already have mean 0, so they come through unchanged (to float32, in which TRL keeps them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from diver.config.data import Source
from diver.config.verification import Verification
from diver.data.sources import to_problem
from diver.losses import ClipLoss, HighEntropyLoss, PolicyLoss
from diver.methods import Decode, Method, check_needs, method_named
from diver.types import DiverError, Grade, Group, Problem, Progress, Reward, Rollout, grade_fractions
from diver.verify import DEFAULT, get_grader, grade

LOSS_TYPES = {"token-mean": "dapo", "sequence-mean": "grpo", "token-sum": "luspo"}
_CLIP = {"epsilon": "clip_low", "epsilon_high": "clip_high"}
POLICY_LOSSES: dict[type[PolicyLoss], dict[str, str]] = {
    ClipLoss: _CLIP,
    HighEntropyLoss: {**_CLIP, "top_entropy_quantile": "top_entropy_fraction"},
}
"""The losses that TRL has: option of GRPOConfig -> our setting."""
CARRIES = ("responses", "tokens")
Outcome = Callable[..., Sequence[float]]


def config(method: str | Method) -> dict[str, Any]:
    """What a GRPOConfig must say for `method`: clipping, aggregation, KL, entropy, and that TRL scales nothing.

    TRL normalises "token-mean" over the batch of one generation, and chooses tokens of high entropy in each micro-batch;
    we do both over the mini-batch. DiverError for a method that TRL's seam cannot carry.
    """
    loss = _usable(method).loss
    return {
        "scale_rewards": "none",
        "loss_type": LOSS_TYPES[loss.aggregation],
        "importance_sampling_level": "token",
        "beta": loss.kl_coef,
        "use_bias_correction_kl": False,  # TRL's default multiplies the divergence by the ratio
        "entropy_coef": loss.entropy_coef,
        "top_entropy_quantile": 1.0,
        **{option: getattr(loss, setting) for option, setting in POLICY_LOSSES[type(loss)].items()},
    }


class GroupAdvantage:
    """A reward function for GRPOTrainer: the advantage of each completion, float64, by `method`.

    `args` is the trainer's GRPOConfig (`config` gives what the method needs in it). The outcome of a completion is our
    grade of it, by the columns of the data set (`answer` or `solution`, and whatever else `diver.data.sources` reads), or
    what `outcome` returns, a reward function in TRL's own signature. `decode` (token ids -> text) is needed for a horizon.

    Groups may be split over processes: the rows of all are gathered first, and every process computes all groups, so
    that what it logs is the value of the whole batch.
    """

    __name__ = "diver"  # TRL logs the function under this name

    def __init__(
        self,
        method: str | Method,
        args: Any,
        *,
        outcome: Outcome | None = None,
        verifier: str = "auto",
        verification: Verification = DEFAULT,
        decode: Decode | None = None,
    ) -> None:
        self.method = _usable(method)
        self.outcome = outcome
        if verifier != "auto":
            get_grader(verifier, "verifier")
        self.source = Source(path="TRL", verifier=verifier)
        self.verification, self.decode = verification, decode
        self.args = args
        _check(args, self.method)

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **inputs: Any
    ) -> list[float]:
        """This process's advantages, in the order of its rows. TRL calls it, on all processes at once."""
        from accelerate import PartialState  # comes with TRL; what TRL can carry is known without it
        from accelerate.utils import gather_object

        rollouts = self._graded(prompts, completions, completion_ids, inputs)
        everyone = gather_object(list(zip(map(_text, prompts), rollouts, strict=True)))
        progress = self._progress(inputs["trainer_state"])
        groups = self.method.apply(self._groups(everyone), progress, self.decode)
        for name, value in (self.method.metrics(groups, progress) | grade_fractions(groups)).items():
            inputs["log_metric"](name, value)
        first = PartialState().process_index * len(rollouts)  # TRL gives every process as many rows
        own = [r for group in groups for r in group.rollouts][first : first + len(rollouts)]
        inputs["log_extra"]("outcome", [r.reward.outcome if r.reward else math.nan for r in own])
        for name in own[0].diversity:
            inputs["log_extra"](name, [r.diversity[name] for r in own])
        return [r.advantage for r in own]

    def _graded(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        inputs: Mapping[str, Any],
    ) -> list[Rollout]:
        """This process's rows with their outcomes: every process grades its own."""
        texts, tokens = [_text(c) for c in completions], [list(ids) for ids in completion_ids]
        # TRL does not say what was truncated: a completion that ends just at the limit is taken for a truncated one.
        truncated = [len(ids) >= self.args.max_completion_length for ids in tokens]
        graded: Sequence[Grade | None] = [None] * len(texts)
        if self.outcome is None:
            columns = {name: column for name, column in inputs.items() if isinstance(column, list)} | {
                "prompt": prompts
            }
            rows = [{name: column[i] for name, column in columns.items()} for i in range(len(prompts))]
            problems = [to_problem(row, f"row {i}", self.source) for i, row in enumerate(rows)]
            graded = grade(list(zip(texts, problems, strict=True)), self.verification, truncated=truncated)
            outcomes: Sequence[float] = [float(g is Grade.CORRECT) for g in graded]
        else:
            outcomes = self.outcome(prompts=prompts, completions=completions, completion_ids=completion_ids, **inputs)
        return [
            Rollout(text, ids, truncated=t, grade=g, reward=Reward(math.nan if r is None else float(r)))
            for text, ids, t, g, r in zip(texts, tokens, truncated, graded, outcomes, strict=True)
        ]

    def _groups(self, rows: Sequence[tuple[str, Rollout]]) -> list[Group]:
        """Rows of all processes, in TRL's order: num_generations of one prompt after those of another."""
        size = self.args.num_generations
        groups = []
        for start in range(0, len(rows), size):
            prompts, rollouts = zip(*rows[start : start + size], strict=True)
            if len({*prompts}) != 1 or len(rollouts) != size:
                raise DiverError(
                    f"rows {start} to {start + size - 1} of a batch of {len(rows)} answer {len({*prompts})} prompts: "
                    f"groups must be whole, num_generations = {size} rows of one prompt each"
                )
            groups.append(Group(Problem(str(start // size), prompts[0], ""), rollouts))
        return groups

    def _progress(self, state: Any) -> Progress:
        """TRL counts optimizer steps; the schedule of lambda counts rollout batches."""
        each = self.args.steps_per_generation * self.args.num_iterations / self.args.gradient_accumulation_steps
        return Progress(int(state.global_step / each), math.ceil(state.max_steps / each))


def _usable(method: str | Method) -> Method:
    """The method, where a reward function can carry it: TRL subtracts the mean of a group and trains on every rollout."""
    method = method_named(method) if isinstance(method, str) else method
    check_needs(method, "TRL", CARRIES)
    if not method.zero_mean:
        raise DiverError(
            f"method {method.name!r}: its advantages do not sum to 0 in a group, and TRL subtracts their mean; choose "
            "another engine"
        )
    if method.selection.keep != "all":
        raise DiverError(
            f"method {method.name!r}: a selection drops rollouts, and TRL trains on every one; choose another engine"
        )
    if type(method.loss) not in POLICY_LOSSES:
        raise DiverError(
            f"method.loss.name = {method.loss.name!r}: TRL has no such loss; train this method with another engine"
        )
    return method


def _check(args: Any, method: Method) -> None:
    """Raises DiverError where the GRPOConfig would change advantages, or has another objective than `method`."""
    wanted = {**config(method), "multi_objective_aggregation": "sum_then_normalize"}
    given = {name: getattr(args, name) for name in wanted}
    if given["epsilon_high"] is None:
        given["epsilon_high"] = given["epsilon"]
    wrong = [f"{name}={value!r} (it is {given[name]!r})" for name, value in wanted.items() if given[name] != value]
    if wrong:
        raise DiverError(f"GRPOConfig is not that of method {method.name!r}: set {', '.join(wrong)}")
    if args.num_generations_eval not in (None, args.num_generations):
        raise DiverError(
            f"GRPOConfig.num_generations_eval is {args.num_generations_eval}: a reward function cannot tell evaluation from "
            f"training, so leave it out, or set it to num_generations, {args.num_generations}"
        )
    method.check_group_size(args.num_generations, "num_generations")


def _text(message: Any) -> str:
    """A prompt or completion, text or chat messages, as one string."""
    return message if isinstance(message, str) else "".join(str(m.get("content") or "") for m in message)
