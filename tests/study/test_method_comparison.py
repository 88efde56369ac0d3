"""The comparison of methods: its plan, its numbers by hand, and its command."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from diver.core.types import DiverError, Group, Problem, Reward, Rollout
from diver.methods import method_named
from diver.recipe.data import Source
from diver.recipe.load import load_recipe
from diver.recipe.recipe import make_recipe
from diver.sweep import records
from diver.tasks.testbeds import generate
from diver_paper.commands import reproduce
from diver_paper.runs import given, records_file
from method_comparison import problems as choice_problems
from method_comparison.command import read_results
from method_comparison.deeper import gained_and_lost, large_difference
from method_comparison.page import PAGE, front_table, levels_table, rates_note, write_page
from method_comparison.plan import load_plan
from method_comparison.rates import RECORDS, best_rate, choice_regime
from method_comparison.results import (
    Candidate,
    Part,
    Results,
    above_front,
    crossed,
    finals,
    free_candidates,
    gap,
    level,
    pass_at,
    smallest_difference,
)
from method_comparison.summary import confirming, summary
from method_comparison.tails import tail_section

ROOT = Path(__file__).parents[2]
PLAN = load_plan()
TEMPERATURES = [f"{t:g}" for t in PLAN.evaluation.temperatures]


def test_every_variant_of_the_plan_is_a_recipe_in_its_frame():
    for testbed, variant in itertools.product(PLAN.testbeds, PLAN.variants.values()):
        recipe = make_recipe(given(PLAN.regime(testbed), variant.changes(1e-4), 3))
        assert recipe.run.seed == 3 and recipe.method.frame == variant.frame
        assert {variant.rate_of, variant.ablation_of} <= {None, *PLAN.variants}
        assert recipe.train.learning_rate == pytest.approx(1e-4 * variant.rate_factor)
    assert {label for stage in PLAN.stages.values() for label in stage.variants} <= PLAN.variants.keys()
    twice = PLAN.variants["clip-higher, twice the rate"].changes(1e-4)
    assert twice["train"] == {"learning_rate": 2e-4} and twice["method"]["name"] == "clip-higher"


@pytest.mark.parametrize("testbed", sorted({bed.rates_of for bed in PLAN.testbeds.values()}))
def test_a_testbed_has_the_problems_and_lengths_of_its_recipe(testbed):
    ours = make_recipe(PLAN.regime(testbed))
    theirs = load_recipe(ROOT / "recipes" / "testbeds" / f"{testbed}.toml")
    assert (ours.data, ours.sample, ours.model) == (theirs.data, theirs.sample, theirs.model)
    assert (ours.train.batch_size, ours.train.mini_batch_size) == (
        theirs.train.batch_size,
        theirs.train.mini_batch_size,
    )


def test_a_testbed_that_is_like_another_has_its_recipe_and_its_learning_rates():
    short, long, new = (PLAN.regime(f"countdown{of}") for of in ("", "-long", "-new"))
    assert new == {**short, "data": {**short["data"], "countdown": {**short["data"]["countdown"], "seed": 1}}}
    assert long == {**short, "train": {**short["train"], "steps": 2000, "save_steps": 500}}
    assert choice_regime(PLAN, "countdown-long") == choice_regime(PLAN, "countdown") != choice_regime(PLAN, "maze")


def test_the_best_rate_or_that_of_clip_higher():
    """Over four blocks: .3 more on average, with a standard error of .1 (differences .1, .5, .1, .5) or of .35 (-.6,
    1.2, -.6, 1.2)."""
    low, high = np.array([0.0, 0.0, 0.0, 0.0]), np.array([0.1, 0.5, 0.1, 0.5])
    noisy = np.array([-0.6, 1.2, -0.6, 1.2])
    assert best_rate({1e-4: high, 5e-5: low}) == best_rate({1e-4: high, 5e-5: low}, 5e-5) == 1e-4
    assert best_rate({1e-4: noisy, 5e-5: low}) == 1e-4 and best_rate({1e-4: noisy, 5e-5: low}, 5e-5) == 5e-5
    assert best_rate({1e-4: low, 5e-5: low}) == 5e-5


@pytest.mark.slow
@pytest.mark.parametrize(("testbed", "count"), [("countdown", 8192), ("maze", 512)])
def test_rates_are_chosen_on_problems_that_no_other_run_of_the_testbed_sees(testbed, count):
    data = make_recipe(PLAN.regime(testbed)).data
    trained = {p.id for p in generate(Source(path=data.path), data, None, held_out=False)}
    held_out = {p.id for p in generate(Source(path=data.path), data, 128, held_out=True)}  # mazes take long
    found = [p.id for p in getattr(choice_problems, testbed)()]
    assert len({*found}) == len(found) == len(trained) == count and not {*found} & (trained | held_out)


@pytest.mark.slow
def test_what_the_other_problems_share_with_those_of_stage_a():
    """The counts of study.toml: a part of the held-out problems is the same, and none is trained on."""
    datas = [make_recipe(PLAN.regime(name)).data for name in ("countdown", "countdown-new")]
    held, new_held = ({p.id for p in generate(Source(path=data.path), data, 1024, held_out=True)} for data in datas)
    trained, new_trained = (
        {p.id for p in generate(Source(path=data.path), data, None, held_out=False)} for data in datas
    )
    assert len(held & new_held) == 145 and not (held | new_held) & (trained | new_trained)
    assert len(new_trained & {p.id for p in choice_problems.countdown()}) == 968
    assert "145 of the 1,024 held-out problems are also " in PLAN.testbeds["countdown-new"].note


# ---- the numbers -----------------------------------------------------------------------------------------------------


def record(correct, samples=64, large=(), before=(), shared_solutions=((4, 1), (1, 2))):
    """A record of which `correct[t]` are the correct samples of each problem at temperature t; 0 elsewhere."""
    size = len(next(iter(correct.values())))
    evaluations = {
        f"final {t}": {"samples": samples if t != "0" else 1, "c": correct.get(t, [0] * size), "distinct": [0] * size}
        for t in TEMPERATURES
    }
    evaluations |= {f"100 {t}": {"samples": samples, "c": c} for t, c in before}
    evaluations["large 1"] = {"samples": 1024, "c": list(large), "solutions": [[c] if c else [] for c in large]}
    evaluations["solutions"] = {"steps": [1, 2], "shared": shared_solutions, "shown": []}
    return {"evaluations": evaluations, "metrics": {}, "cpu_seconds": {"train": 1.0, "evaluate": 1.0}}


def results(untrained=None, **runs):
    named = {label.replace("_", "-"): dict(enumerate(records)) for label, records in runs.items()}
    return Results(PLAN, Part("countdown", (0, 1)), named, untrained, {}, {})


def test_pass_at_k_is_estimated_from_all_samples():
    found = results(clip_higher=[record({"1": [64, 0], "0": [1, 0]}), record({"1": [32, 0], "0": [1, 1]})])
    assert level(found.baseline, "final 1", 1).mean == pytest.approx((1 + 0 + 0.5 + 0) / 4)
    assert level(found.baseline, "final 1", 64).mean == pytest.approx(0.5)  # one of 2 problems is ever solved
    assert level(found.baseline, "final 0", 64).mean == pytest.approx(0.75)  # of the one greedy answer, whatever k


def test_a_temperature_is_chosen_on_one_half_of_the_problems_and_reported_on_the_other():
    """The even problems choose 0.6 (1 against .5), where the odd ones have 0 and .5; these choose 1 (1 against .25),
    where the even ones have .5."""
    found = results(max_rl=[record({"1": [32, 64, 32, 64], "0.6": [64, 0, 64, 32]})] * 2)
    candidates = [Candidate("max-rl", name) for name in finals(found)]
    best = crossed(found, candidates, lambda record, name: pass_at(record, name, 1), (0, 1))
    assert [candidate.name for candidate in best.chosen] == ["final 1", "final 0.6"]
    assert [best.values[seed].tolist() for seed in (0, 1)] == [[0.5, 0.0, 0.5, 0.5]] * 2


def test_a_method_must_be_above_whatever_costs_nothing():
    """At w = 1 clip-higher's checkpoint after 100 steps (.75) is the best that is free, above its last (.5)."""
    free = [record({"1": [32] * 4}, before=[("1", [48] * 4)])] * 2
    mine = [record({"0.3": [56] * 4})] * 2
    found = results(clip_higher=free, max_rl=mine)
    method, best, more = above_front(found, "max-rl", 1.0)
    assert (str(method), str(best)) == ("max-rl at 0.3", "clip-higher after 100 steps at 1")
    assert more.mean == pytest.approx(56 / 64 - 48 / 64)
    assert above_front(found, "max-rl", 0.5)[2].mean == pytest.approx((56 - 48) / 64 / 2)  # Pass@64 is 1 for both


def test_a_method_must_be_above_the_untrained_policy_at_its_best_temperature():
    """One that has not moved: .5 at temperature 1, where the untrained policy has .75 at 0.6 and clip-higher .25."""
    untrained, still = record({"1": [32] * 4, "0.6": [48] * 4}), [record({"1": [32] * 4})] * 2
    found = results(untrained, clip_higher=[record({"1": [16] * 4})] * 2, max_rl=still)
    _, best, more = above_front(found, "max-rl", 1.0)
    assert str(best) == "untrained at 0.6" and more.mean == pytest.approx(-0.25)
    assert Candidate("untrained", "final 0.6") in free_candidates(found)


def test_a_checkpoint_of_one_seed_alone_is_no_candidate():
    """Saved when a run was stopped: the best by chance, and no mean over the seeds."""
    whole = record({"1": [32] * 4}, before=[("1", [40] * 4)])
    stopped = record({"1": [32] * 4}, before=[("1", [40] * 4)])
    stopped["evaluations"]["77 1"] = stopped["evaluations"]["final 1"] | {"c": [64] * 4}
    found = results(clip_higher=[stopped, whole], max_rl=[record({"1": [48] * 4})] * 2)
    assert str(above_front(found, "max-rl", 1.0)[1]) == "clip-higher after 100 steps at 1"
    assert [c.name for c in free_candidates(found) if not c.name.startswith("final")] == ["100 1"]


def test_the_title_of_a_part_names_its_seeds():
    titles = {
        seeds: results()._replace(part=Part("maze", seeds)).title for seeds in ((5,), (0, 1), (10, 11, 12), (0, 1, 3))
    }
    assert [*titles.values()] == ["Mazes, seed 5", "Mazes, seeds 0, 1", "Mazes, seeds 10 to 12", "Mazes, seeds 0, 1, 3"]


def test_the_best_that_is_free_is_of_the_seeds_that_all_have():
    """Half the rate, of one seed that was lucky for all, is worse there than clip-higher; the other seeds do not
    count."""
    lucky, other = [record({"1": [48] * 4}), record({"1": [16] * 4})], [record({"1": [40] * 4})]
    found = results(clip_higher=lucky, max_rl=[record({"1": [56] * 4})] * 2)
    runs = {**found.runs, "clip-higher, half the rate": dict(enumerate(other))}
    _, best, more = above_front(found._replace(runs=runs), "max-rl", 1.0)
    assert str(best) == "clip-higher at 1" and more.mean == pytest.approx(8 / 64)
    assert above_front(found._replace(runs={**runs, "ucpo": {1: lucky[0]}}), "ucpo", 1.0) is None


def test_a_checkpoint_has_fewer_problems_than_the_last():
    """The best that is free is the checkpoint, of the first two problems, for both halves: .75 and .25, max-rl .5 on
    these."""
    free = [record({"1": [16] * 4}, before=[("1", [48, 48])])] * 2
    found = results(clip_higher=free, max_rl=[record({"1": [32, 32, 0, 0]})] * 2)
    _, best, more = above_front(found, "max-rl", 1.0)
    assert str(best) == "clip-higher after 100 steps at 1" and more.mean == pytest.approx(0.5 - 0.75)


def test_a_part_without_clip_higher_has_no_differences():
    found = results(record({"1": [32] * 4}), max_rl=[record({"1": [48] * 4}, large=[1, 2, 3, 4])] * 2)
    assert np.isnan(smallest_difference(found, "final 1", 1))
    assert np.isnan(gap(found, "max-rl", "final 1", 1).mean)
    assert np.isnan(large_difference(found, "max-rl", 1024).mean)
    assert str(above_front(found, "max-rl", 1.0)[1]) == "untrained at 1"


def test_problems_gained_and_lost_by_hand():
    """The untrained policy solves the second and the fourth problem. Seed 0 gains the first and loses the fourth; seed
    1 loses the second."""
    runs = [record({"1": [0] * 4}, large=large) for large in ([1, 5, 0, 0], [0, 0, 0, 2])]
    found = results(record({"1": [0] * 4}, large=[0, 5, 0, 2]), max_rl=runs)
    assert gained_and_lost(found, "max-rl") == (0.5, 1.0)


def confirming_parts(settings, *, seeds=None):
    """The plan's confirming stages, with the correct samples of 64 at 0.6 of 40 problems by label, the same for every
    seed."""
    found = []
    for stage in (stage for stage in PLAN.stages.values() if stage.confirms):
        correct = dict.fromkeys(stage.variants, [16] * 40) | settings
        runs = {x: {seed: record({"0.6": c}) for seed in (seeds or stage.seeds)} for x, c in correct.items()}
        found.append(Results(PLAN, Part(stage.testbed, stage.seeds), runs, record({"1": [0] * 40}), {}, {}))
    return found


def test_a_setting_is_recommended_where_it_is_above_clip_higher_and_the_free_baselines_on_new_problems():
    """clip-higher solves 30 of 40 problems, each with 16 of 64 samples. max-rl solves 38 with 24: Pass@64 is 20 points
    higher. pass-at-k solves the 30 with 24: no more of them. Half the rate is free: as good as max-rl, it leaves
    nothing to recommend."""
    base, better = [16] * 30 + [0] * 10, [24] * 38 + [0] * 2
    same = ["clip-higher", "clip-higher, half the rate", "clip-higher, KL", "entropy-advantage", "diver-mix"]
    common = dict.fromkeys(same, base) | {"pass-at-k": [24] * 30 + [0] * 10}
    assert ", above clip-higher: none; above" in summary(PLAN, confirming_parts({**common, "max-rl": base}))
    parts = confirming_parts({**common, "max-rl": better})
    found = summary(PLAN, parts)
    assert "above clip-higher: max-rl (0.6); above the best free" in found and "**Recommended: max-rl (0.6).**" in found
    assert ": the best method at Pass@64 is max-rl, +20.0 [" in found and "and its Pass@1 rises." in found
    assert "the best free baseline at Pass@64 is clip-higher, half the rate, +0.0 [" in found
    table = levels_table(parts[0])
    assert "**+20.0 [" in table and "**+0.0 [" not in table
    found = summary(PLAN, confirming_parts({**common, "max-rl": better, "clip-higher, half the rate": better}))
    assert "above clip-higher: clip-higher, half the rate (0.6); max-rl (0.6); above" in found
    assert "**Recommended: none.**" in found
    first = summary(PLAN, parts[:1])
    assert confirming(PLAN, parts[:1]) == (parts[:1], False) and "Recommended" not in first
    assert f"On {parts[0].title}, above" in first and "**left to confirm: max-rl (0.6).**" in first


def test_nothing_is_recommended_before_a_stage_that_confirms_is_finished():
    parts = confirming_parts({"max-rl": [60] * 40}, seeds=(0, 1))
    found = summary(PLAN, parts)
    assert "No confirming stage is finished yet" in found and "Recommended" not in found
    assert ["(2 of 5 seeds)" in levels_table(part) for part in parts] == [True, False]
    assert ["(2 of 3 seeds)" in levels_table(part) for part in parts] == [False, True]


def test_a_setting_with_unfinished_seeds_is_not_recommended_and_not_bold():
    """A method of one's own beside the finished variants, better by far in its only seed."""
    base, better = [16] * 30 + [0] * 10, [24] * 38 + [0] * 2
    parts = confirming_parts(dict.fromkeys(PLAN.stages["c"].variants, base) | {"mine:Mine": better})
    parts = [p._replace(runs={**p.runs, "mine:Mine": {p.part.seeds[0]: record({"0.6": better})}}) for p in parts]
    found = summary(PLAN, parts)
    assert "above clip-higher: none" in found and "**Recommended: none.**" in found
    table = levels_table(parts[0])
    assert "+20.0 [" in table and "**+20.0" not in table


def test_a_table_has_the_untrained_policy_and_of_a_confirming_stage_both_temperatures():
    """No sample is correct at 0.6, where clip-higher solves 30 of 40 problems at a quarter: -18.8 and -75 points. At
    temperature 1 neither solves any."""
    (part, *_) = confirming_parts(dict.fromkeys(PLAN.stages["c"].variants, [16] * 30 + [0] * 10))
    row = next(line for line in levels_table(part).splitlines() if line.startswith("| untrained"))
    assert row.count("**-18.8 [") == row.count("**-75.0 [") == 1 and row.count(" +0.0 [") == 2
    elsewhere = levels_table(part._replace(part=Part("countdown", part.part.seeds)))
    row = next(line for line in elsewhere.splitlines() if line.startswith("| untrained"))
    assert "**-75.0 [" in row and "+0.0 [" not in row


def test_a_row_of_the_front_is_marked_where_a_free_baseline_has_fewer_seeds():
    """max-rl has both seeds, half the rate one of them."""
    found = results(clip_higher=[record({"1": [32] * 4})] * 2, max_rl=[record({"1": [48] * 4})] * 2)
    runs = {**found.runs, "clip-higher, half the rate": {0: record({"1": [40] * 4})}}
    text = front_table(found._replace(runs=runs))
    assert (
        "| max-rl *(1 of 2 seeds)* |" in text
        and "best free baseline for each w:\n\n- w = 1: clip-higher, half the rate at 1\n" in text
    )
    both = {**runs, "clip-higher, half the rate": dict.fromkeys((0, 1), record({"1": [40] * 4}))}
    assert "| max-rl |" in " ".join(front_table(found._replace(runs=both)).split())


def test_a_learning_rate_at_an_end_of_those_tried_is_told_and_so_are_problems_that_come_again():
    """Mazes: 200 steps of 32 groups on 512 problems are 12.5 times each."""
    tried = {rate: {"metrics": {"reward/outcome": [rate] * 8}} for rate in PLAN.rates}
    found = results(clip_higher=[record({"1": [1]})])
    found = found._replace(part=Part("maze", (0, 1)), rates={"clip-higher": 1e-4}, tried={"clip-higher": tried})
    text = rates_note(found)
    assert "The highest rate was taken for clip-higher; none beyond it was tried." in text and "about 12 times" in text
    middle = found._replace(part=Part("countdown", (0, 1)), rates={"clip-higher": 5e-5})
    assert rates_note(middle) == ""


def test_every_record_is_on_the_page():
    """The runs of the stages, those that choose learning rates, and the untrained policies."""
    out = ROOT / "docs" / "results"
    parts = read_results(PLAN, out)
    runs = {r["name"] for part in parts for of in (*part.runs.values(), *part.tried.values()) for r in of.values()}
    runs |= {part.untrained["name"] for part in parts if part.untrained}
    assert {*records.read(records_file(out, RECORDS))} == runs


@pytest.mark.slow
def test_the_page_is_what_the_records_give(tmp_path):
    out = ROOT / "docs" / "results"
    written = write_page(PLAN, read_results(PLAN, out), tmp_path).read_text()
    assert written == (out / PAGE).read_text() and "this loophole" in written


# ---- text after the answer -------------------------------------------------------------------------------------------


def grown(tokens, truncated, unanswered, textual):
    """A record whose training has these curves."""
    names = ("response/length_mean", "response/truncated", "grade/truncated", "diversity/textual")
    metrics = dict(zip(names, (tokens, truncated, unanswered, textual), strict=True))
    return record({"0.6": [16] * 30 + [0] * 10}) | {"metrics": metrics}


def test_a_variant_that_writes_on_after_its_answer_is_marked():
    """Seed 0 ends with .5 cut and .1 without an answer, so .4 after one; seed 1 with .3. In the third of four: 0,
    .01."""
    tails = [
        grown([17, 17, 16.5, 30], [0, 0, 0.0, 0.5], [0, 0, 0, 0.1], [0.7, 0.4, 0.4, 0.6]),
        grown([17, 17, 17.5, 40], [0, 0, 0.02, 0.32], [0, 0, 0.01, 0.02], [0.7, 0.4, 0.3, 0.65]),
    ]
    plain = [grown([17] * 4, [0] * 4, [0] * 4, [0.2] * 4)] * 2
    cut = [grown([44] * 4, [0.9] * 4, [0.8] * 4, [0.9] * 4)] * 2  # cut before their answers: no text after any
    once = [tails[0], plain[0]]  # not in every seed
    found = results(clip_higher=plain, diver_mix=tails, diver_td=cut, max_rl=once)
    section = " ".join("\n".join(tail_section(found)).split())
    assert (
        "| diver-mix † | 16.5 to 17.5 → 30.0 to 40.0 | 0.000 to 0.010 → 0.300 to 0.400 | 0.30 to 0.40 → 0.60 to 0.65 |"
        in section
    )
    assert section.count(" † |") == 1
    table = levels_table(found)
    assert "| diver-mix † " in table and table.count("†") == 1


def test_without_such_a_variant_there_is_neither_mark_nor_section():
    found = results(clip_higher=[record({"0.6": [16] * 30 + [0] * 10})] * 2, max_rl=[record({"0.6": [20] * 40})] * 2)
    assert tail_section(found) == [] and "†" not in levels_table(found)


# ---- ablations -------------------------------------------------------------------------------------------------------


def group(*texts_and_outcomes):
    rollouts = tuple(Rollout(text, reward=Reward(outcome)) for text, outcome in texts_and_outcomes)
    return Group(Problem("p", "", ""), rollouts)


def rewarded(name, made):
    (shaped,) = method_named(f"method_comparison.ablations:{name}").apply([made], 0.0)
    return [r.reward.total for r in shaped.rollouts], [r.advantage for r in shaped.rollouts]


def test_mixed_groups_have_no_diversity_reward_where_all_are_correct():
    same = [("a b c d e", 1.0), ("a b c d f", 1.0), ("g h i j k", 1.0), ("a b c d e", 1.0)]
    assert rewarded("MixedGroups", group(*same)) == ([1.0] * 4, [0.0] * 4)
    mixed = group(*same[:3], ("a b c d e", 0.0))
    plain = method_named("diver-mix")
    assert rewarded("MixedGroups", mixed)[0] == [r.reward.total for r in plain.apply([mixed], 0.0)[0].rollouts]


def test_diversity_among_the_correct_alone():
    """Two equal correct responses differ from the wrong ones, which counts for DIVER-MIX, and not among themselves."""
    made = group(("a b c d", 1.0), ("a b c d", 1.0), ("w x y z", 0.0), ("s t u v", 0.0))
    assert rewarded("AmongCorrect", made)[0] == [1.0, 1.0, 0.0, 0.0]
    assert method_named("diver-mix").apply([made], 0.0)[0].rollouts[0].reward.total > 1
    different = group(
        ("a b c d", 1.0), ("e f g h", 1.0), ("a b c d", 0.0)
    )  # TD 1 of each among the correct, no formula
    assert rewarded("AmongCorrect", different)[0] == pytest.approx([1 + 0.1 * 0.65 / 2] * 2 + [0.0])
    alone = group(("a b c d", 1.0), ("w x y z", 0.0))
    assert rewarded("AmongCorrect", alone)[0] == [1.0, 0.0]


# ---- the command -----------------------------------------------------------------------------------------------------


def test_a_page_of_nothing_is_told(tmp_path):
    with pytest.raises(
        DiverError, match=r"empty/records/methods.jsonl.gz: no run of the study is finished, so there is no page"
    ):
        reproduce(["methods", "--out", str(tmp_path / "empty")])
    assert not [*tmp_path.iterdir()]
