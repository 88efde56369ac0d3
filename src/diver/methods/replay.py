"""Replay of verified solutions: an update also trains on correct responses that the policy found before (Re:Dr and
Re:Max).

Source: the package remax-rl 0.1.1 (`core/objectives.py`), whose replay loss is

    L = mean over replayed problems, mean over their solutions, of -1/|y| sum_t log pi(y_t)

and is added to the loss of the sampled groups with the coefficient alpha. Here the policy loss of the method takes the
place of -log pi, with the advantage alpha and the ratio to the policy at the start of the update. In the first
mini-batch the gradient is alpha times that of L over the problems replayed in it; in later ones the clip bounds how far
a response moves. Every response has the same weight, whatever its length. KL and entropy terms are of sampled rollouts
only. The tokens y of a trajectory are those of the policy. Those of the environment are its context: they have no
log-prob, no gradient and no part in |y|.

As in the release, the responses of a step enter the bank before that step's replay, so a new solution may be replayed
at once. Departures: the release multiplies alpha by (G - 1) / G^2 and divides its other loss by the length limit. Here
neither is done.
"""

import dataclasses
import hashlib
import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from diver.core.formulas import formulas
from diver.core.settings import NonNegative, NonNegativeInt, Positive, PositiveInt, refuse_without_effect, settings
from diver.core.turns import turns_of_tokens
from diver.core.types import Grade, Group, Problem, Rollout, State

KEY = "replay"
"""The bank's key in the state."""
_EQUALITY = re.compile(r"[\d(][\d\s.,+\-*/×÷()$%]{0,200}=[\s$]{0,4}-?[\d.,]*\d")


@settings
class Replay:
    """Correct responses found before that join each update. Off unless `alpha` is above 0.

    The bank holds responses that are correct and ended before the length limit, by problem. Problems are replayed in
    turn, the one that has waited longest first.
    """

    alpha: NonNegative = 0.0
    """The weight of the replay term beside the loss of the sampled groups; 0: no replay. The source has 0.1."""
    capacity: PositiveInt = 16
    """Maximum number of responses per problem in the bank."""
    problems: NonNegativeInt = 0
    """Replayed problems per step. 0: as many as a batch has, `train.batch_size`."""
    keep: Literal["distinct", "latest"] = "distinct"
    """distinct: one response of each solution, the first, or with max_drift the newest. latest: the newest responses,
    whether or not they differ."""
    weights: Literal["uniform", "frequency"] = "uniform"
    """Weights of the solutions of a problem: equal, or by how often each was sampled."""
    max_age: NonNegativeInt = 0
    """Responses found more than so many steps ago are dropped when their problem's turn comes. 0: never."""
    max_drift: NonNegative = 0.0
    """Maximum drift of a response, above which it leaves its weight in a step to the others; 0: no limit. The drift is
    the mean of (log pi - log pi_found)^2 over its tokens before the step, with the policy pi_found that sampled it.
    After arXiv 2609.03941, which a second-hand reading quotes with 0.001 and 0.01 for whole groups, and with further
    candidates in the place of groups above it."""
    bank_gb: Positive = 4.0
    """Maximum size of the tokens of the bank in memory and in each checkpoint, in GB (10^9 bytes). Beyond it the
    responses found first are dropped."""

    def __post_init__(self) -> None:
        if not self.alpha:
            names = [field.name for field in dataclasses.fields(self) if field.name != "alpha"]
            refuse_without_effect(self, names, "without alpha nothing is replayed; give alpha, such as 0.1")
        if self.keep == "latest":
            refuse_without_effect(self, ["weights"], "keep = 'latest' counts no solutions; choose 'distinct'")

    def remember(self, group: Group, state: State, step: int) -> None:
        """Add the correct, finished rollouts of a group, sampled in rollout step `step`, to the bank, in place."""
        bank = state.setdefault(KEY, {})
        name, prompt = group.problem.id, np.array(group.prompt_tokens, np.int32)
        if name in bank and not np.array_equal(bank[name]["prompt"], prompt):  # the id now names another prompt
            name = f"{name} {hashlib.blake2b(prompt.tobytes(), digest_size=8).hexdigest()}"
        for rollout in group.rollouts:
            if rollout.grade is not Grade.CORRECT or rollout.truncated or not rollout.length:
                continue
            responses = bank.setdefault(name, {"prompt": prompt, "responses": {}})["responses"]
            response = {**stored(rollout, with_logprobs=self.max_drift > 0), "found": step, "seen": 1}
            if self.keep == "latest":
                responses[str(int(next(reversed(responses), "0")) + 1)] = response
            elif (solution := solution_of(rollout)) in responses:
                if self.max_drift:  # the newest response has drifted least
                    responses[solution] = {**response, "seen": responses[solution]["seen"]}
                responses[solution]["seen"] += 1
            elif len(responses) < self.capacity:
                responses[solution] = response
            if len(responses) > self.capacity:
                del responses[next(iter(responses))]

    def replayed(self, state: State, problems: int, step: int) -> list[Group]:
        """The groups to replay in this step: each problem's responses with their advantages.

        The mean of a group's advantages is alpha. Replayed problems move to the end of the queue.
        """
        bank = state.setdefault(KEY, {})
        self._limit(bank)
        groups: list[Group] = []
        for name in list(bank):
            if len(groups) == (self.problems or problems):
                break
            entry = bank.pop(name)
            responses = entry["responses"]
            if self.max_age:
                responses = {k: r for k, r in responses.items() if step - r["found"] <= self.max_age}
            if not responses:
                continue
            bank[name] = {**entry, "responses": responses}
            found, seen = (np.array([r[key] for r in responses.values()]) for key in ("found", "seen"))
            weight = np.ones(len(seen)) if self.weights == "uniform" else seen
            advantages = self.alpha * len(seen) * weight / weight.sum()
            group = restored_group(name, bank[name]).with_each(grade=[Grade.CORRECT] * len(seen))
            groups.append(group.with_each(age=(step - found).tolist(), advantage=advantages.tolist()))
        return groups

    def metrics(self, state: State) -> dict[str, float]:
        """The size of the bank."""
        bank = state.get(KEY, {})
        return {
            "replay/bank_problems": float(len(bank)),
            "replay/bank_responses": float(sum(len(entry["responses"]) for entry in bank.values())),
            "replay/bank_mb": sum(map(_size, bank.values())) / 1e6,
        }

    def _limit(self, bank: dict[str, Any]) -> None:
        """Drop the responses found first until the bank is within `bank_gb`."""
        excess = sum(map(_size, bank.values())) - self.bank_gb * 1e9
        if excess <= 0:
            return
        for _, name, key in sorted((r["found"], n, k) for n, e in bank.items() for k, r in e["responses"].items()):
            entry = bank[name]
            excess -= _bytes(entry["responses"].pop(key))
            if not entry["responses"]:
                excess -= bank.pop(name)["prompt"].nbytes
            if excess <= 0:
                return


def solution_of(rollout: Rollout) -> str:
    """A key that is equal for correct responses with the same solution.

    It is the verifier's key, if the verifier distinguishes solutions; an environment does so by the actions. Otherwise
    it is a digest of the answer and of the set of formulas before it, without white space. Responses with the same
    answer and no formula are one solution.
    """
    if rollout.solution is not None:
        return rollout.solution
    text = rollout.until_answer
    written = formulas(text, ignore_space=True) | {"".join(equality.split()) for equality in _EQUALITY.findall(text)}
    return hashlib.blake2b("\n".join([rollout.key or "", *sorted(written)]).encode(), digest_size=16).hexdigest()


def admitted(replayed: Sequence[Group], now: Sequence[Group], max_drift: float) -> list[Group]:
    """The replayed groups `now` of a step with the advantages of those responses that have not drifted too far.

    The other responses have advantage 0. The sum over groups of the mean |advantage| of their responses stays, unless
    no response is left.

    Args:
        replayed: the groups with the log-probs that their responses had when they were found.
        now: the same groups with the log-probs of the policy before the update.
        max_drift: maximum mean of the squared difference over the tokens of a response; 0 is no limit.
    """
    if not max_drift:
        return [*now]
    pairs = [zip(before.rollouts, group.rollouts, strict=True) for before, group in zip(replayed, now, strict=True)]
    near = [np.array([_drift(*pair) <= max_drift for pair in of_group]) for of_group in pairs]
    total = sum(np.abs(group.advantages).mean() for group in now)
    remaining = sum(np.abs(group.advantages * is_near).mean() for group, is_near in zip(now, near, strict=True))
    scale = total / remaining if remaining else 0.0
    return [
        group.with_each(advantage=(scale * group.advantages * is_near).tolist())
        for group, is_near in zip(now, near, strict=True)
    ]


def _drift(replayed: Rollout, now: Rollout) -> float:
    before, after = (np.asarray(rollout.logprobs, np.float64) for rollout in (replayed, now))
    return float(((after - before) ** 2).mean())


def weights_of(groups: Sequence[Group]) -> list[float]:
    """The weight of each token's loss, for every rollout in order: the mean over groups, over their rollouts, over
    tokens."""
    return [1 / (len(groups) * len(group) * rollout.length) for group in groups for rollout in group.rollouts]


def replay_metrics(groups: Sequence[Group], replayed: float, sampled: float) -> dict[str, float]:
    """Metrics of the replayed groups, whose log-probs are those of the policy at the start of the update.

    `replayed` and `sampled` are sums of weight times |advantage|, over the tokens of the replayed and of the sampled
    groups. replay/gradient_share is the fraction of the total that is replayed. replay/logprob is the mean over the
    rollouts of the mean log-prob of a token.
    """
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    metrics = {
        "replay/problems": float(len(groups)),
        "replay/rollouts": float(len(rollouts)),
        "replay/tokens": float(sum(rollout.length for rollout in rollouts)),
        "replay/gradient_share": replayed / (replayed + sampled or 1.0),
    }
    if rollouts:
        metrics["replay/admitted"] = float(np.mean([rollout.advantage != 0 for rollout in rollouts]))
        metrics["replay/age"] = float(np.mean([rollout.age for rollout in rollouts]))
        metrics["replay/logprob"] = float(np.mean([np.asarray(rollout.logprobs).mean() for rollout in rollouts]))
    return metrics


def stored(rollout: Rollout, *, with_logprobs: bool) -> dict[str, Any]:
    """What a state stores of a rollout, as int32 arrays.

    Its tokens with their mask are [S]: an id, or ~id where the environment wrote.
    """
    ids, written = rollout.sequence
    logprobs = {"logprobs": np.array(rollout.logprobs, np.float32).view(np.int32)} if with_logprobs else {}
    return {"tokens": np.where(written, ids, ~ids).astype(np.int32), **logprobs}


def restored_group(name: str, entry: dict[str, Any]) -> Group:
    """The `stored` responses of a problem with its prompt, with zeros for log-probs that were not stored."""
    rollouts = []
    for i, response in enumerate(entry["responses"].values()):
        tokens = response["tokens"]
        turns = turns_of_tokens(np.where(tokens < 0, ~tokens, tokens).tolist(), tokens >= 0)
        logprobs = response.get("logprobs", np.zeros((tokens >= 0).sum(), np.int32)).view(np.float32)
        rollouts.append(Rollout.of_turns(turns, index=i, logprobs=logprobs))
    return Group(Problem(name, "", ""), tuple(rollouts), prompt_tokens=tuple(entry["prompt"].tolist()))


def _size(entry: dict[str, Any]) -> int:
    """Bytes of the tokens of a problem's entry, and of their log-probs."""
    return int(entry["prompt"].nbytes) + sum(map(_bytes, entry["responses"].values()))


def _bytes(response: dict[str, Any]) -> int:
    return sum(value.nbytes for value in response.values() if isinstance(value, np.ndarray))
