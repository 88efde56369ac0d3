"""The pair of each setting is chosen on the selection problems, and its gain measured on the others. All by hand."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from diver.core.statistics import Estimate
from diver.core.types import DiverError
from diver.evaluate.front import Pair
from diver.sweep.choose import cost, pairs_of, policies, scored, seeds_needed, verdict
from diver.sweep.plan import HELD_OUT, SELECTION, Plan, Setting
from diver.sweep.run import check_records, thinned

RECIPE = Path(__file__).parents[2] / "recipes" / "quickstart.toml"  # it evaluates at temperature 0.6
SAMPLES = 4


def plan(*labels, seeds=(0,), more=(), **changes):
    settings = tuple(Setting(label, (), (*seeds, *more)) for label in labels)
    given = {"recipe": RECIPE, "settings": settings, "seeds": seeds, "baseline": labels[0]}
    given |= {"alphas": (0.0, 0.5, 1.0), "temperatures": (0.6, 1.0), "ks": (1, 4), "samples": SAMPLES}
    return Plan(**given | {"out": Path("out"), "records": Path("out/records.jsonl.gz")} | changes)


def record(label, seed=None, *, selection, held_out=None, cpu=None):
    return {
        "setting": label,
        "seed": seed,
        "samples": SAMPLES,
        "cpu_seconds": cpu,
        "steps": 1,
        "fronts": {SELECTION: selection, HELD_OUT: held_out or {}},
    }


UNTRAINED = record(
    "untrained",
    selection={"0 0.6": [1, 1], "0 1": [0, 1]},
    held_out={"0 0.6": [1, 1, 0], "0 1": [1, 1, 1]},
)


def test_the_pair_depends_on_k():
    """Of four samples, [4, 0] correct have Pass@1 1/2 and Pass@4 1/2; [2, 1] have 3/8 and 1."""
    records = {
        "untrained": UNTRAINED,
        "a/seed_0": record("a", 0, selection={"0.5 0.6": [4, 0], "1 0.6": [2, 1], "1 1": [0, 0]}),
    }
    policy = policies(plan("a"), records)["a"]
    assert policy.best(1) == (Pair(0.5, 0.6), 0.5)
    # (0, 0.6) has Pass@4 1 too, and alpha 0 is nearer to no training than alpha 1.
    assert policy.best(4) == (Pair(0.0, 0.6), 1.0)


def test_a_choice_takes_the_mean_over_the_choosing_seeds_alone():
    records = {
        "untrained": UNTRAINED,
        "a/seed_0": record("a", 0, selection={"0.5 0.6": [4, 0], "1 0.6": [3, 0]}),
        "a/seed_1": record("a", 1, selection={"0.5 0.6": [0, 0], "1 0.6": [3, 0]}),
        "a/seed_2": record("a", 2, selection={"0.5 0.6": [4, 4], "1 0.6": [0, 0]}),
    }
    # Pass@1 of seeds 0 and 1: (1/2 + 0) / 2 at (0.5, 0.6), 3/8 at (1, 0.6). Seed 2 would turn it round.
    assert policies(plan("a", seeds=(0, 1), more=(2,)), records)["a"].best(1) == (Pair(1.0, 0.6), 0.375)
    assert policies(plan("a", seeds=(0, 1, 2)), records)["a"].best(1)[0] == Pair(0.5, 0.6)


def test_nothing_is_chosen_before_every_choosing_seed_has_a_record():
    records = {"untrained": UNTRAINED, "a/seed_0": record("a", 0, selection={"1 0.6": [4, 0]})}
    two = plan("a", seeds=(0, 1))
    assert policies(two, records)["a"].best(1) is None and pairs_of(two, records, "a") == []


class Unreadable(dict):
    """Held-out counts that nobody may read."""

    def __getitem__(self, name):
        raise AssertionError("held-out counts are read before a pair is chosen")

    __iter__ = __contains__ = keys = items = values = get = __getitem__


def test_a_choice_reads_no_held_out_count():
    base = record("untrained", selection=UNTRAINED["fronts"][SELECTION])
    mine = record("a", 0, selection={"0.5 0.6": [4, 0], "1 0.6": [2, 1]})
    sealed = plan("a")
    open_choice = pairs_of(sealed, {"untrained": base, "a/seed_0": mine}, "a")
    found = policies(sealed, {"untrained": base, "a/seed_0": mine})["a"]
    run = {**found.runs[0], "fronts": {**found.runs[0]["fronts"], HELD_OUT: Unreadable()}}
    found = found._replace(runs={0: run})
    assert [found.best(k)[0] for k in (1, 4)] == [Pair(0.5, 0.6), Pair(0.0, 0.6)]
    # those of both k, and the trained policy at the temperature of the recipe
    assert open_choice == [Pair(0.0, 0.6), Pair(0.5, 0.6), Pair(1.0, 0.6)]
    with pytest.raises(AssertionError, match="held-out"):
        found.values(HELD_OUT, Pair(0.5, 0.6), 1)


def three(gain):
    """The baseline and a setting over 3 seeds; on every held-out problem the setting has `gain` more correct of 4."""
    held_out = {"1 0.6": [1, 1, 1]}
    records = {"untrained": UNTRAINED}
    for seed in (0, 1, 2):
        records[f"base/seed_{seed}"] = record("base", seed, selection={"1 0.6": [2, 2]}, held_out=held_out, cpu=10.0)
        more = {"1 0.6": [1 + gain] * 3}
        records[f"a/seed_{seed}"] = record("a", seed, selection={"1 0.6": [3, 3]}, held_out=more, cpu=10.0 * (seed + 1))
        records[f"b/seed_{seed}"] = record("b", seed, selection={"1 0.6": [1, 1]}, held_out=held_out)
    return records


def test_a_verdict_by_hand():
    of = plan("base", "a", "b", seeds=(0, 1, 2))
    found = policies(of, three(2))
    told = verdict(of, found, 1)
    assert (told.label, told.pair, told.baseline) == ("a", Pair(1.0, 0.6), Pair(1.0, 0.6))
    assert told.level == 0.75 and told.gain.mean == 0.5  # 3 of 4, against 1 of 4
    assert found["untrained"].best(1) == (Pair(0.0, 0.6), 1 / 4)  # on the selection problems; 1/8 at temperature 1
    assert math.isclose(told.over_untrained.mean, 0.75 - (1 / 4 + 1 / 4 + 0) / 3)
    assert math.isclose(told.baseline_over_untrained.mean, 1 / 4 - 1 / 6)
    assert cost(of, found, "a") == 2.0  # the mean of 1, 2 and 3, seed by seed
    assert math.isnan(cost(of, found, "b"))


def test_the_interval_of_the_best_setting_is_corrected_for_the_others():
    """With one other setting it is that of 95 %; with two of 97.5 %, which is wider."""
    rng = np.random.default_rng(0)
    wide = {}
    for others in (("a",), ("a", "b")):
        of = plan("base", *others, seeds=(0, 1, 2))
        records = three(1)
        for seed in (0, 1, 2):
            counts = [int(c) for c in rng.integers(0, 5, 40)] if len(others) == 1 else wide["counts"][seed]
            wide.setdefault("counts", []).append(counts)
            for label in ("base", "a", "b"):
                run = records[f"{label}/seed_{seed}"]
                run["fronts"][HELD_OUT] = {"1 0.6": counts if label == "a" else [2] * 40}
        records["untrained"] = record(
            "untrained", selection=UNTRAINED["fronts"][SELECTION], held_out={"0 0.6": [1] * 40, "0 1": [1] * 40}
        )
        gain = verdict(of, policies(of, records), 1).gain
        wide[len(others)] = gain.high - gain.low
    assert wide[2] > wide[1] > 0


@pytest.mark.parametrize(
    ("gain", "over", "base", "alpha", "advice"),
    [
        ((0.1, 0.01, 0.2), (0.1, 0.01, 0.2), (0.1, 0.01, 0.2), 1.0, "a"),
        ((0.1, -0.01, 0.2), (0.1, 0.01, 0.2), (0.1, 0.01, 0.2), 1.0, "the baseline"),
        ((0.1, 0.01, 0.2), (0.1, -0.01, 0.2), (0.1, 0.01, 0.2), 1.0, "the baseline"),
        ((0.1, 0.01, 0.2), (0.1, -0.01, 0.2), (0.0, -0.1, 0.1), 1.0, "untrained"),
        ((0.1, 0.01, 0.2), (0.1, 0.01, 0.2), (0.0, -0.1, 0.1), 0.0, "untrained"),
    ],
)
def test_what_is_advised(gain, over, base, alpha, advice):
    of = plan("base", "a", seeds=(0, 1, 2))
    told = verdict(of, policies(of, three(1)), 1)._replace(
        gain=Estimate(*gain),
        over_untrained=Estimate(*over),
        baseline_over_untrained=Estimate(*base),
        pair=Pair(alpha, 0.6),
        baseline=Pair(alpha, 0.6),
    )
    assert told.advice == advice


def test_how_many_seeds_would_decide():
    assert seeds_needed(Estimate(0.02, -0.02, 0.06), 3) == 12  # half the width is twice the mean: 3 x 2 x 2
    assert seeds_needed(Estimate(-0.02, -0.04, 0.0), 3) == 3
    assert seeds_needed(Estimate(0.02, 0.01, 0.03), 3) is None and seeds_needed(Estimate(0.0, -1, 1), 3) is None


def test_unscored_responses_leave_a_problem_with_fewer_samples():
    n, c = scored([3, [1, 2], 0], SAMPLES)
    assert n.tolist() == [4, 2, 4] and c.tolist() == [3, 1, 0]


def test_a_column_keeps_the_means_of_blocks():
    assert thinned([1.0, None, 3.0]) == [1.0, None, 3.0]
    assert thinned([float(i) for i in range(120)])[:2] == [0.5, 2.5]


def test_plans_that_cannot_be_made():
    with pytest.raises(DiverError, match="--baseline: unknown choice 'other'; choices: a, b"):
        plan("a", "b", baseline="other")
    with pytest.raises(DiverError, match="same name"):
        plan("a", "a")
    with pytest.raises(DiverError, match="--k: 4 needs as many samples; raise --samples above 3"):
        plan("a", samples=3)


def test_a_longer_run_has_the_shorter_one_in_its_folder():
    of = plan("longer", "shorter, x")
    short = dataclasses.replace(of.settings[1], run="longer", step=5)
    assert of.folder(of.settings[0], 3) == of.folder(short, 3) == Path("out/longer/seed_3")
    assert of.folder(of.settings[1], 3) == Path("out/shorter-x/seed_3")


def test_a_record_of_another_number_of_samples_is_refused(tmp_path):
    from diver.sweep import records

    of = plan("a", records=tmp_path / "records.jsonl.gz")
    records.add(of.records, {"a/seed_0": record("a", 0, selection={}) | {"samples": 8, "recipe": {}}})
    with pytest.raises(DiverError, match="has 8 samples, not 4"):
        check_records(of)
