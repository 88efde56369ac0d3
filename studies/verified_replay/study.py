"""study.toml as runs: the tuning, the choices of the finished tuning, and the runs that depend on them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from diver.core.settings import merge
from diver_paper import runs
from diver_paper.runs import Planned, Record, given
from method_comparison.plan import load_plan
from method_comparison.results import UNTRAINED, pass_at

RECORDS = "verified-replay"
TESTBEDS = ("countdown", "maze")
BASELINE, REPLAY = "clip-higher", "verified-replay"
TUNED_ALPHA = 0.1
"""The alpha at which the learning rate of verified-replay is chosen."""
MORE_ROLLOUTS = "more rollouts"
SELECTION = "held-out 0.6"
"""The evaluation by which rates and alpha are chosen."""


class Choice(NamedTuple):
    """The choices of a testbed's tuning, as far as it is finished: the rate of each method, and alpha."""

    rates: Mapping[str, float]
    alpha: float | None


class Study(runs.Study):
    """The runs of study.toml."""

    package, name = "verified_replay", RECORDS

    def regime(self, testbed: str, stage: str) -> dict[str, Any]:
        """The recipe of a testbed over the problems of a stage; the controls and the untrained policy have those of the
        final runs."""
        problem_stage = "final" if stage in ("controls", UNTRAINED) else stage
        source = f"verified_replay.problems:{testbed}_{problem_stage}"
        changes = {
            "data": {"path": source, "template": "plain"},
            "evaluate": {"source": {"path": f"{source}_held_out"}},
        }
        return merge(load_plan().regime(testbed), changes)

    def planned(self) -> Iterator[Planned]:
        """All runs whose settings are known so far, in the order in which they are made."""
        for testbed in TESTBEDS:
            yield from self.tuning(testbed)
        yield from self._final()
        for testbed in TESTBEDS:
            yield Planned(UNTRAINED, testbed, UNTRAINED, given(self.regime(testbed, UNTRAINED), {}, 0), trained=False)

    def tuning(self, testbed: str) -> Iterator[Planned]:
        """The runs by which rates and alpha are chosen."""
        rates = self.config["learning_rates"][testbed]
        for label in self.config["methods"]:
            for rate in rates:
                yield self._tuning(testbed, label, rate)
        best = self._best_of_grid(testbed)
        if BASELINE in best:
            for rate in (best[BASELINE] / math.sqrt(2), best[BASELINE] * math.sqrt(2)):
                yield self._tuning(testbed, BASELINE, rate)
        if REPLAY in best:
            for alpha in self.config["alphas"]:
                if alpha != TUNED_ALPHA:
                    yield self._tuning(testbed, REPLAY, best[REPLAY], alpha)

    def choice(self, testbed: str) -> Choice:
        """By the criterion of the protocol; a method whose runs are not finished has no rate."""
        rates = dict(self._best_of_grid(testbed))
        tuned = [(self.record(planned), planned) for planned in self.tuning(testbed)]
        scores = [(score(record), planned) for record, planned in tuned if record is not None]
        alpha = None
        if len(scores) == len(tuned) and {BASELINE, REPLAY} <= rates.keys():
            rates[BASELINE] = lowest_of_best([(s, p.rate) for s, p in scores if p.label == BASELINE])
            alphas = [(s, p.alpha or TUNED_ALPHA) for s, p in scores if p.label == REPLAY and p.rate == rates[REPLAY]]
            alpha = lowest_of_best(alphas)
        elif BASELINE in rates:
            del rates[BASELINE]
        return Choice(rates, alpha)

    def _best_of_grid(self, testbed: str) -> dict[str, float]:
        """Method -> its best learning rate, for the methods with a finished run at every rate."""
        best = {}
        for label in self.config["methods"]:
            runs = {rate: self.record(self._tuning(testbed, label, rate)) for rate in self._rates(testbed)}
            scores = [(score(record), rate) for rate, record in runs.items() if record is not None]
            if len(scores) == len(runs):
                best[label] = lowest_of_best(scores)
        return best

    def _rates(self, testbed: str) -> list[float]:
        return list(self.config["learning_rates"][testbed])

    def _final(self) -> Iterator[Planned]:
        chosen = {testbed: self.choice(testbed) for testbed in TESTBEDS}
        ready = [
            t for t in TESTBEDS if chosen[t].alpha is not None and len(chosen[t].rates) == len(self.config["methods"])
        ]
        seeds, early = self.config["final_seeds"], len(self.config["control_seeds"])
        for seed in seeds[:early]:
            for testbed in ready:
                for label in self.labels:
                    yield self._run("final", testbed, label, seed, chosen[testbed])
        if "maze" in ready:
            yield from self._controls(chosen["maze"])
        for seed in seeds[early:]:
            for testbed in ready:
                for label in self.labels:
                    yield self._run("final", testbed, label, seed, chosen[testbed])
        if "maze" in ready:
            for seed in self.config["large_seeds"]:
                for label in (BASELINE, REPLAY):
                    yield self._run("large", "maze", label, seed, chosen["maze"])

    def _controls(self, choice: Choice) -> Iterator[Planned]:
        for labels in self.config["control_order"]:
            for seed in self.config["control_seeds"]:
                for label in labels:
                    if label == MORE_ROLLOUTS:
                        changes = {"sample": {"group_size": self.rollouts_of_equal_tokens}}
                        method, rate = self.config["methods"][BASELINE], choice.rates[BASELINE]
                        yield self._planned("controls", "maze", label, method, rate, seed, **changes)
                    else:
                        yield self._run("controls", "maze", label, seed, choice)

    @property
    def labels(self) -> list[str]:
        """The settings of the final runs."""
        return [*self.config["methods"], *self.config["combined"]]

    @cached_property
    def rollouts_of_equal_tokens(self) -> int:
        """The group size that gives clip-higher as many gradient tokens as tuned verified-replay has in mazes."""
        choice, recipe = self.choice("maze"), self.regime("maze", "tuning")
        assert choice.alpha is not None
        tuned = self.record(self._tuning("maze", REPLAY, choice.rates[REPLAY], choice.alpha))
        assert tuned is not None
        metrics, size = tuned["metrics"], int(recipe["sample"]["group_size"])
        steps = zip(metrics["response/length_mean"], metrics["policy/active_token_frac"], strict=True)
        sampled = sum(length * active for length, active in steps) * size * recipe["train"]["batch_size"]
        return round(size * (sampled + sum(metrics["replay/tokens"])) / sampled)

    def _tuning(self, testbed: str, label: str, rate: float, alpha: float = TUNED_ALPHA) -> Planned:
        method = self.config["methods"][label]
        if alpha != TUNED_ALPHA:
            method = merge(method, {"replay": {"alpha": alpha}})
        return self._planned("tuning", testbed, label, method, rate, self.config["tuning_seed"])

    def _run(self, stage: str, testbed: str, label: str, seed: int, choice: Choice) -> Planned:
        """A run at the chosen rate: of a method, of a base with replay, or of verified-replay with a change."""
        replay = {"replay": {"alpha": choice.alpha}}
        if label in self.config["combined"]:
            base = self.config["combined"][label]
            method, rate = merge(self.config["methods"][base], replay), choice.rates[base]
        elif label in self.config["controls"]:
            method = merge(self.config["methods"][REPLAY], merge(replay, {"replay": self.config["controls"][label]}))
            rate = choice.rates[REPLAY]
        else:
            method, rate = self.config["methods"][label], choice.rates[label]
            if label == REPLAY:
                method = merge(method, replay)
        return self._planned(stage, testbed, label, method, rate, seed)

    def _planned(
        self,
        stage: str,
        testbed: str,
        label: str,
        method: Mapping[str, Any],
        rate: float,
        seed: int,
        **changes: Any,
    ) -> Planned:
        train = {"learning_rate": float(f"{rate:.6g}")}
        changes = {"method": {"frame": "common", **method}, "train": train, **changes}
        return Planned(stage, testbed, label, given(self.regime(testbed, stage), changes, seed))


def score(record: Record) -> float:
    """The criterion: the mean of Pass@1 and Pass@64 on the selection problems at temperature 0.6."""
    return float((pass_at(record, SELECTION, 1).mean() + pass_at(record, SELECTION, 64).mean()) / 2)


def lowest_of_best(scores: list[tuple[float, float]]) -> float:
    """The value with the highest score; among equal scores, the lowest value."""
    return max(scores, key=lambda pair: (pair[0], -pair[1]))[1]
