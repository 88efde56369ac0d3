"""What a method is: settings, what it needs, and the way from graded groups to advantages.

`Method.apply` is the only way from graded groups to advantages, whatever engine trains: rewards -> selection ->
advantages. A subclass is one file: its settings, its formula with the source, and its departures. No torch here.
"""

import dataclasses
import hashlib
import math
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from diver.core.rounding import ROUNDING, reaches
from diver.core.settings import (
    Bound,
    NonNegative,
    NonNegativeInt,
    PositiveInt,
    ZeroToOne,
    own_place,
    refuse_without_effect,
    settings,
)
from diver.core.types import DiverError, Group, Progress, Reward, State, left_out, trained_on
from diver.diversity import Diversity, needs_of, unspaced_note, with_diversity
from diver.losses import ClipLoss, PolicyLoss
from diver.methods.replay import Replay, admitted

Decode = Callable[[Sequence[int]], str]

OBSERVED = ("textual", "equational")  # measured for every method, so that any two runs can be compared
NEEDS = ("responses", "tokens", "decode", "logprobs", "grades", "keys", "turns", "state", "replay", "start", "retries")
"""What a method may need from an engine besides outcomes.

- responses: the texts.
- tokens: the policy's token ids.
- decode: the function from token ids to text.
- logprobs: the sampler's log-probs.
- grades: how the verifier graded each response (`Rollout.grade`).
- keys: which responses are the same answer or solution (`Rollout.key`).
- turns: the turns of a trajectory (`Rollout.turns`). A response may have a single one; a run must have an environment.
- state: a `State` that is saved with every checkpoint.
- replay: an update that also trains on rollouts sampled before (`Method.replayed`).
- start: responses of the policy before training to every problem (`Method.start_responses`).
- retries: sampling a problem again within a step (`Selection.retries`).
"""

LARGEST_LOGPROB = 0.01  # 0, with room for the rounding of bfloat16


@settings
class Selection:
    """Which of the sampled rollouts are trained on."""

    keep: Literal["all", "most", "least"] = "all"
    """most or least: of more samples, the G of highest or lowest mean of TD and ED (paper, appendix B.1)."""
    samples: PositiveInt = 2
    """Number of times G rollouts are sampled, if `keep` is not all."""
    outcomes: Literal["all", "correct", "wrong"] = "all"
    """Leave out wrong rollouts, or correct ones: they then do not count in the mean over tokens either."""
    filter_groups: bool = False
    """Replace groups whose outcomes are all correct or all wrong by those of other problems. This is the dynamic
    sampling of DAPO (arXiv 2503.14476). The outcome decides, never the shaped reward."""
    max_num_gen_batches: PositiveInt = 10
    """Maximum number of batches sampled for one step, where groups are filtered. The step then trains on the available
    groups."""
    retries: Annotated[int, Bound("between 0 and 64", lambda n: 0 <= n <= 64)] = 0
    """How often a problem without a correct response is sampled again, G responses each time, until one is correct. The
    group then has all of them (Never Give Up, arXiv 2609.13443, where each retry has a probability, and retries spread
    over steps). Add filter_groups to leave out what stays unsolved, as there."""
    top_p: Annotated[float, Bound("above 0 and at most 1", lambda x: 0 < x <= 1)] = 1.0
    """Below 1: train on the groups with the largest standard deviation of outcomes only. They have this part of its
    sum over the batch. RAGEN-2 (arXiv 2604.06268); its release has 0.9. No other problems are sampled."""

    def __post_init__(self) -> None:
        if self.keep == "all":
            refuse_without_effect(self, ["samples"], "keep is 'all'; choose 'most' or 'least'")
        if not self.filter_groups:
            refuse_without_effect(self, ["max_num_gen_batches"], "no group is left out; set filter_groups = true")
        elif self.top_p < 1:
            raise ValueError("filter_groups samples other problems in the place of groups, top_p does not: choose one")

    @property
    def multiplier(self) -> int:
        """Number of sampled rollouts per selected rollout."""
        return 1 if self.keep == "all" else self.samples

    @property
    def drops(self) -> bool:
        """Whether some sampled rollouts are not trained on."""
        return self.keep != "all" or self.outcomes != "all" or self.filter_groups or self.top_p < 1

    def select(self, group: Group, threshold: float) -> np.ndarray:
        """Which rollouts of a measured group are selected, bool [G].

        Among rollouts of equal diversity, the earlier ones are selected.

        Raises:
            ValueError: G would not be an integer.
        """
        correct = reaches(group.outcomes, threshold)
        if self.filter_groups and correct.all() == correct.any():
            return np.zeros_like(correct)
        by_outcome = {"all": np.ones_like(correct), "correct": correct, "wrong": ~correct}[self.outcomes]
        return by_outcome & self._by_diversity(group) if self.keep != "all" else by_outcome

    def most_varied(self, groups: Sequence[Group]) -> list[Group]:
        """The groups of a batch; an update trains on those that `top_p` selects.

        As in the release, the standard deviation is that of the sample, and the sum may be short by 0.01.
        """
        deviation = np.array([group.outcomes.std(ddof=1) if len(group) > 1 else 0.0 for group in groups])
        order = np.argsort(-deviation, kind="stable")
        sums_before = deviation[order].cumsum() - deviation[order]
        enough = (sums_before >= self.top_p * deviation.sum() - 0.01) | (deviation[order] == 0)
        return left_out(groups, order[enough].tolist())

    def _by_diversity(self, group: Group) -> np.ndarray:
        if len(group) % self.samples:
            raise ValueError(
                f"problem {group.problem.id!r}: a selection of 1 in {self.samples} needs a multiple of "
                f"{self.samples} rollouts, not {len(group)}"
            )
        score = np.array([(r.diversity["textual"] + r.diversity["equational"]) / 2 for r in group.rollouts])
        order = np.argsort(-score if self.keep == "most" else score, kind="stable")
        return np.isin(np.arange(len(group)), order[: len(group) // self.samples])


@settings
class Overlong:
    """A penalty that rises linearly over the last part of the length limit L and is full at L.

    It is DAPO's soft overlong punishment (arXiv 2503.14476, eq. 13).
    """

    buffer: ZeroToOne = 0.0
    """The part of L over which it rises; 0 is no penalty. The source has 4,096 of 20,480 tokens, 0.2."""
    penalty: NonNegative = 0.5
    """The penalty at L. The source has 1 with rewards of 1 and -1, which is half of their range, as this is of 1 and
    0."""
    max_tokens: NonNegativeInt = 0
    """L, in policy tokens; 0 is the limit of the engine, sample.max_tokens."""

    def __post_init__(self) -> None:
        if not self.buffer:
            refuse_without_effect(self, ["penalty", "max_tokens"], "buffer is 0; give one, such as 0.2")

    def __bool__(self) -> bool:
        return self.buffer > 0 and self.penalty > 0

    def reward(self, lengths: np.ndarray) -> np.ndarray:
        """-penalty clip((T - (1 - buffer) L) / (buffer L), 0, 1) of lengths T in policy tokens: float64 [G]."""
        if not self.max_tokens:
            raise ValueError("overlong.max_tokens, the length limit, is 0: give it where no engine does")
        start = (1 - self.buffer) * self.max_tokens
        return -self.penalty * np.clip((np.asarray(lengths) - start) / (self.max_tokens - start), 0.0, 1.0)


class Context(NamedTuple):
    """The inputs of a method besides a group: the progress of the run, the state, and `decode` if the engine has it."""

    progress: Progress | float
    state: State
    decode: Decode | None


@settings
class Method:
    """The exploration method, which turns graded groups into advantages. By default it has its source's settings."""

    name: str = ""
    """Name of the method, or `package.module:Class`. Names are those of `diver methods`. On the command line it
    replaces the table [method] of the recipe."""
    frame: Literal["published", "common"] = "published"
    """Which defaults the other settings have. With published they are those of the source. With common they are those
    that all methods share in a comparison. Then the loss is that of clip-higher, or the method's, without other terms.
    The divisor is that of GRPO where the definition allows one."""
    threshold: float = 0.5
    """A response is correct when its outcome is at least this, up to the rounding of float32."""
    diversity: Diversity = Diversity()
    """How the diversity metrics are measured."""
    extra_metrics: tuple[str, ...] = ()
    """Further diversity metrics that are measured and logged, and not rewarded: names, or `module:function`."""
    selection: Selection = Selection()
    """Which rollouts are trained on."""
    overlong: Overlong = Overlong()
    """A penalty for responses near the length limit."""
    replay: Replay = Replay()
    """Correct responses found before that join each update."""
    loss: PolicyLoss = ClipLoss()
    """The objective of the update; its `name` chooses one of LOSSES."""

    common: ClassVar[dict[str, Any]] = {}
    """The settings of the frame "common" that differ from its defaults, without those of the loss."""

    outcomes_only: ClassVar[bool] = False
    """Whether advantages depend on outcomes only, so that a penalty in the reward has no effect."""

    counts_correct: ClassVar[bool] = False
    """Whether advantages depend on which outcomes reach `threshold`."""

    zero_mean: ClassVar[bool] = False
    """Whether the advantages of every group sum to 0. A trainer that subtracts the mean then leaves them unchanged."""

    any_size: ClassVar[bool] = False
    """Whether advantages mean the same in groups of any size, so that the groups of a batch may differ in size."""

    start_responses: ClassVar[int] = 0
    """Responses to each problem that the policy samples before training, for `update_start`. A subclass may make it a
    setting."""

    per_token: ClassVar[bool] = False
    """Whether `advantages` gives one advantage for each token of a response."""

    formula_needs: ClassVar[frozenset[str]] = frozenset()
    """Which of NEEDS the formula of the class reads; `needs` adds those of its settings."""

    @property
    def unit_outcomes(self) -> bool:
        """Whether outcomes must be from 0 (wrong) to 1 (correct), because a coefficient is in units of reward."""
        return bool(self.overlong)

    @property
    def needs(self) -> frozenset[str]:
        """Which of NEEDS this method requires with its settings."""
        needs = {*self.formula_needs}
        needs |= {"responses"} if self.selection.keep != "all" else set()
        needs |= {"tokens"} if self.overlong or self.diversity.tokenize == "policy" else set()
        needs |= {"tokens", "decode"} if self.diversity.horizon is not None else set()
        needs |= {"tokens", "grades", "keys", "state"} if self.replay.alpha else set()
        needs |= {"logprobs"} if self.replay.max_drift else set()
        needs |= {"retries"} if self.selection.retries else set()
        needs |= {"start", "state"} if self.start_responses else set()
        needs |= {"replay"} if self.replay.alpha or type(self).replayed is not Method.replayed else set()
        return frozenset(needs.union(*(needs_of(name, self.diversity) for name in {*self.metric_names} - {*OBSERVED})))

    def in_common_frame(self) -> Self:
        """This method with the defaults of `frame = "common"`."""
        return dataclasses.replace(self, frame="common", loss=self.loss.in_common_frame(), **self.common)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The diversity metrics that are measured."""
        return (*OBSERVED, *self.extra_metrics)

    def check_group_size(self, size: int, key: str) -> None:
        """Raises DiverError if no group of `size` responses, the setting `key`, could ever have a signal."""

    def correct(self, group: Group) -> np.ndarray:
        """Which responses of a group are correct, bool [G]."""
        return reaches(group.outcomes, self.threshold)

    def shaping_coef(self, progress: Progress | float) -> float:
        """lambda, the coefficient of an intrinsic reward, at `progress`; 0 for a method without one."""
        return 0.0

    def rewards(self, group: Group, context: Context) -> list[Reward]:
        """The parts of the reward of each rollout of a measured group. By default, this is the outcome alone."""
        return [Reward(r) for r in group.outcomes.tolist()]

    def advantages(self, group: Group, context: Context) -> np.ndarray | Sequence[np.ndarray]:
        """A, float64 [G], of a group with its rewards; if `per_token`, float64 [T] for each of its rollouts."""
        raise TypeError(f"method {self.name!r} does not say what an advantage is: define advantages")

    def update_state(self, group: Group, state: State) -> None:
        """Enter a sampled group into `state`, in place. Called for every group of a step, in order, after all are
        shaped."""

    def trains_on(self, group: Group, state: State) -> bool:
        """Whether an update trains on this sampled group, given what `update_start` entered for its problem."""
        return True

    def update_start(self, group: Group, state: State) -> None:
        """Enter a graded group that the policy sampled before training into `state`, in place."""

    def replayed(self, state: State, problems: int, progress: Progress) -> list[Group]:
        """Rollouts that were sampled before and join the update of this step.

        An engine that carries `replay` calls this after `apply`, once in each step that trains on sampled groups. The
        loss of the update is that of the sampled groups plus the mean over these groups, over their rollouts and over
        tokens. The engine computes log-probs under the current policy. Other engines refuse a method that needs
        `replay`.

        Args:
            state: the method's state; it is changed in place.
            problems: the number of sampled problems in the batch.
            progress: how far the run is.

        Returns:
            Groups with their `prompt_tokens`, of which every rollout has tokens and an advantage.
        """
        return self.replay.replayed(state, problems, progress.step) if self.replay.alpha else []

    def reweighed(self, replayed: Sequence[Group], now: Sequence[Group]) -> list[Group]:
        """The replayed groups with their advantages in the update.

        Args:
            replayed: the groups that `replayed` returned.
            now: the same groups with the log-probs of the policy before the update.
        """
        return admitted(replayed, now, self.replay.max_drift)

    def limited(self, max_tokens: int) -> Self:
        """This method with the length limit `max_tokens` in its `overlong` penalty, if it has one without a limit.

        Raises:
            DiverError: the limit of the penalty is above `max_tokens`, so it would never be full.
        """
        if self.overlong and (limit := self.overlong.max_tokens) > max_tokens:
            raise DiverError(
                f"method.overlong.max_tokens: {limit} is above the length limit of a response, {max_tokens}: omit it"
            )
        if not self.overlong or self.overlong.max_tokens:
            return self
        return dataclasses.replace(self, overlong=dataclasses.replace(self.overlong, max_tokens=max_tokens))

    def apply(
        self,
        groups: Iterable[Group],
        progress: Progress | float,
        decode: Decode | None = None,
        state: State | None = None,
    ) -> list[Group]:
        """The groups to train on: every rollout with its diversity, the parts of its reward, and its advantage.

        This is `trained_on` of what `shaped` returns, without the rollouts that a selection leaves out. A group without
        a selected rollout is left out. Replayed rollouts do not pass through `apply`: the update gets them from
        `replayed`.

        Args:
            groups: sampled and graded.
            progress: how far the run is, for schedules.
            decode: turns token ids into text, for methods and metrics that read a part of a text.
            state: the method's state; it is changed in place.

        Raises:
            ValueError: an outcome is missing or not finite.
            DiverError: the method cannot have this input, or something that it `needs` is missing. Examples are an
                outcome above 1 where a coefficient is in units of reward, and one below 0 where rewards are divided by
                their mean.
        """
        return trained_on(self.shaped(groups, progress, decode, state))

    def shaped(
        self,
        groups: Iterable[Group],
        progress: Progress | float,
        decode: Decode | None = None,
        state: State | None = None,
        *,
        measure_all: bool = True,
    ) -> list[Group]:
        """Every sampled group, each rollout with its diversity, the parts of its reward, and whether it is `trained`.

        TD and ED are measured even if the method does not reward them. A selection sees the diversity within all
        samples. The advantage is computed over the selected ones; the others have none. Without `measure_all` TD and ED
        are measured if they are read. Other arguments and errors: `apply`.
        """
        needs = self.needs
        if "state" in needs and state is None:
            raise DiverError(f"method {self.name!r} counts over the run: give the same `state`, a dict, in every step")
        if self.replay.alpha and not isinstance(progress, Progress):
            raise DiverError(f"method {self.name!r} replays rollouts by age: give progress as Progress(step, steps)")
        result, sampled = [], list(groups)
        context = Context(progress, {} if state is None else state, decode)
        for group in sampled:
            self._check_given(group, needs)
            names = dict.fromkeys(self.metric_names)
            group = with_diversity(group, names, self.diversity, decode, when_read=not measure_all)
            rewards = self._call(self.rewards, group, context)
            if len(rewards) != len(group) or not all(isinstance(reward, Reward) for reward in rewards):
                raise self._error(group, f"rewards must give {len(group)} Reward, one for each rollout")
            other_rewards = [rollout.reward.other if rollout.reward else 0.0 for rollout in group.rollouts]
            rewards = [r._replace(other=other) for r, other in zip(rewards, other_rewards, strict=True)]
            if self.outcomes_only and any(other_rewards):
                raise self._error(group, "its advantages are of outcomes alone, so a further reward has no effect")
            if self.overlong:
                penalties = self.overlong.reward(np.array([r.length for r in group.rollouts]))
                rewards = [r._replace(length=r.length + p) for r, p in zip(rewards, penalties.tolist(), strict=True)]
            group = group.with_each(reward=rewards)
            selected = self.selection.select(group, self.threshold)
            chosen = group.only(selected)
            trained_rollouts = iter(self._with_advantages(chosen, context).rollouts if chosen else ())
            pairs = zip(group.rollouts, selected, strict=True)
            rollouts = tuple(next(trained_rollouts) if k else r.replace(trained=False) for r, k in pairs)
            result.append(dataclasses.replace(group, rollouts=rollouts))
        if self.start_responses:
            anchored = [i for i, group in enumerate(sampled) if not self.trains_on(group, context.state)]
            result = left_out(result, anchored)
        if self.selection.top_p < 1:
            result = self.selection.most_varied(result)
        for group in sampled:
            self._call(self.update_state, group, context.state)
            if self.replay.alpha:
                self.replay.remember(group, context.state, progress.step)  # type: ignore[union-attr]  # checked above
        texts = [text for group in result for text in group.responses] if measure_all or "responses" in needs else []
        if note := unspaced_note(texts, self.diversity.tokenize):
            warnings.warn(note, stacklevel=2)
        return result

    def _with_advantages(self, group: Group, context: Context) -> Group:
        advantages = self._call(self.advantages, group, context)
        if not self.per_token:
            values = np.asarray(advantages, np.float64)
            if values.shape != (len(group),) or not np.isfinite(values).all():
                raise self._error(group, f"advantages must be {len(group)} finite numbers, not {values}")
            # Above the rounding of a sum in float32, and far below an advantage.
            if self.zero_mean and abs(values.sum()) > 1e-6 * max(1.0, np.abs(values).sum()):
                raise self._error(group, f"its advantages sum to {values.sum():.3g}, so `zero_mean` must be False")
            return group.with_each(advantage=values.tolist(), trained=[True] * len(group))
        token_advantages = [np.asarray(a, np.float32) for a in advantages]
        shapes = [(*a.shape,) for a in token_advantages]
        if shapes != [(r.length,) for r in group.rollouts] or not all(np.isfinite(a).all() for a in token_advantages):
            raise self._error(group, "advantages must be an array of each rollout with a finite number for each token")
        means = [float(a.mean()) if a.size else 0.0 for a in token_advantages]
        return group.with_each(advantage=means, token_advantages=token_advantages, trained=[True] * len(group))

    def _call(self, function: Callable[..., Any], group: Group, argument: Any) -> Any:
        """Call a function of this method. An error in a file of the user becomes one line that names the file."""
        try:
            return function(group, argument)
        except DiverError:
            raise
        except Exception as error:
            if place := own_place(error):
                raise self._error(group, f"{type(error).__name__}: {error} ({place})") from error
            raise

    def _check_given(self, group: Group, needs: Collection[str]) -> None:
        """Check that every rollout has a finite outcome, in the range of the method, and each field that it `needs`."""
        for i, outcome in enumerate(group.outcomes):
            if not math.isfinite(outcome):
                raise ValueError(
                    f"problem {group.problem.id!r}, rollout {i}: the outcome is {outcome}; every rollout needs a "
                    "finite outcome before it is shaped"
                )
            if self.unit_outcomes and not -ROUNDING <= outcome <= 1 + ROUNDING:
                reason = f"rollout {i} has the outcome {outcome:g}; give one from 0 (wrong) to 1 (correct)"
                raise self._error(group, reason)
        for field_name, function in (("key", "with_keys"), ("grade", "verify")):
            if f"{field_name}s" in needs and any(getattr(rollout, field_name) is None for rollout in group.rollouts):
                way = f"diver.grading.{function}(groups), or set Rollout.{field_name}"
                raise self._error(group, f"every rollout needs a {field_name}: {way}")
        for i, rollout in enumerate(group.rollouts if "logprobs" in needs else ()):
            values = np.asarray(rollout.logprobs, np.float64)
            length = rollout.known_length
            if rollout.logprobs is None or values.ndim != 1 or (length is not None and len(values) != length):
                shape = None if rollout.logprobs is None else [*values.shape]
                wanted = "one for each token" if length is None else f"one for each of its {length} tokens"
                raise self._error(group, f"rollout {i} needs log-probs, {wanted}, without padding: got {shape}")
            if not (np.isfinite(values) & (values <= LARGEST_LOGPROB)).all():
                raise self._error(group, f"rollout {i} has log-probs that are not finite, or above 0")

    def _error(self, group: Group, message: str) -> DiverError:
        return DiverError(f"method {self.name!r}, problem {group.problem.id!r}: {message}")

    def metrics(self, sampled: Sequence[Group], progress: Progress | float) -> dict[str, float]:
        """Metrics of the groups that `shaped` or `apply` returned, for the run folder.

        Outcomes are those of all rollouts. Diversity, shaped reward and advantage are means over the rollouts that are
        trained on, and are left out without any.
        """
        groups = trained_on(sampled)
        correct = [*map(self.correct, sampled)]
        signal = [float(np.nansum(np.abs(group.advantages))) for group in sampled]
        rollouts = [rollout for group in groups for rollout in group.rollouts]
        means = {
            "reward/shaped": [reward for group in groups for reward in group.rewards],
            "advantage/abs_mean": [abs(r.advantage) for r in rollouts],
            **{f"diversity/{name}": [r.diversity[name] for r in rollouts] for name in dict.fromkeys(self.metric_names)},
        }
        return {
            "reward/outcome": float(np.concatenate([group.outcomes for group in sampled]).mean()),
            **{name: float(np.mean(values)) for name, values in means.items() if values},
            "shaping/coef": self.shaping_coef(progress),
            "shaping/clipped": self.clipped_fraction(groups),
            "group/solve_all": float(np.mean([c.all() for c in correct])),
            "group/solve_none": float(np.mean([not c.any() for c in correct])),
            "advantage/solve_all_frac": float(np.dot(signal, [c.all() for c in correct]) / (sum(signal) or 1.0)),
        }

    def clipped_fraction(self, groups: Sequence[Group]) -> float:
        """The fraction of intrinsic rewards that clip_max clips; 0 for a method without them."""
        return 0.0


def sum_logprobs(group: Group) -> np.ndarray:
    """log pi(o) under the sampler, the sum over the tokens of each response, float64 [G]; 0 without tokens."""
    return np.array([np.asarray(rollout.logprobs, np.float64).sum() for rollout in group.rollouts])


def mean_logprobs(group: Group) -> np.ndarray:
    """log pi(o) / T, the mean over the tokens of each response, float64 [G]; 0 without tokens."""
    lengths = np.array([len(np.asarray(rollout.logprobs)) for rollout in group.rollouts])
    return sum_logprobs(group) / np.maximum(lengths, 1)


def random_stream(*key: object) -> "np.random.Generator":  # quoted: NumPy imports numpy.random at its first use
    """The random generator of this key, such as a problem and a step: a resumed run draws the same numbers."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest))


def with_diversity_reward(outcomes: np.ndarray, diversity: np.ndarray) -> list[Reward]:
    """The rewards of a group from these two parts, float64 [G] each."""
    return [Reward(r, d) for r, d in zip(outcomes.tolist(), diversity.tolist(), strict=True)]


def check_replayed(method: Method, groups: Sequence[Group]) -> Sequence[Group]:
    """The groups that `Method.replayed` returned. DiverError if an update could not train on one of them."""
    for group in groups:
        for i, rollout in enumerate(group.rollouts):
            complete = group.prompt_tokens and rollout.tokens is not None and rollout.length
            if not complete or not math.isfinite(rollout.advantage):
                raise method._error(
                    group, f"replayed rollout {i} needs tokens, the prompt_tokens of its group and a finite advantage"
                )
    return groups


def check_needs(method: Method, engine: str, carries: Collection[str]) -> None:
    """Raises DiverError if `method` needs what `engine` does not give."""
    if missing := [need for need in sorted(method.needs) if need not in carries]:
        asked, others = f"needs {', '.join(missing)}", ""
        if "start" in missing:
            asked, others = "samples all problems before training (start)", "; the built-in trainer does"
        elif "replay" in missing:
            asked = "adds replayed rollouts to each update (method.replay)"
            others = "; the built-in trainer, verl and DiverTrainer (--engine trl) do"
        raise DiverError(f"method {method.name!r} {asked}, which {engine} does not provide{others}")


def check_outcomes(method: Method, outcomes: Sequence[float]) -> None:
    """Raises DiverError for an outcome, float [B], that is not from 0 to 1 where the method needs that.

    Warns where the method asks what is correct, no outcome reaches its threshold, and the outcomes have one or two
    values, such as 0 and 0.1. This is no error: a batch may also be all wrong with partial credit. NaN and
    infinite outcomes are not checked.
    """
    finite = {i: outcome for i, outcome in enumerate(outcomes) if math.isfinite(outcome)}
    if method.unit_outcomes:
        for i, outcome in finite.items():
            if not -ROUNDING <= outcome <= 1 + ROUNDING:
                raise DiverError(
                    f"row {i}: the outcome is {outcome:g}, and method {method.name!r} needs outcomes from 0 (wrong) to "
                    "1 (correct). Divide rewards of 0 and 10 by 10; give (r + 1) / 2 for rewards of -1 and 1"
                )
    values, threshold = {*finite.values()}, method.threshold
    needs_correct = method.unit_outcomes or method.counts_correct
    if needs_correct and len(values) in (1, 2) and (highest := max(values)) > 0 and not reaches(highest, threshold):
        warnings.warn(
            f"method {method.name!r}: no outcome reaches method.threshold = {threshold:g}, and the highest of "
            f"{len(finite)} is {highest:g}; if {highest:g} is the reward of a correct response, give 1 instead",
            stacklevel=3,
        )
