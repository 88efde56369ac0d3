"""Claims are made of variants that exist, and the figures beside them are those of the paper's tables."""

from dataclasses import replace

import numpy as np
import pytest

from diver.evaluate.paper import HYPERPARAMETERS, LARGER_PASS_AT_K, MAIN, PASS_AT_K
from diver_paper import claims
from diver_paper.catalogue import EXPERIMENTS
from diver_paper.claims import INITIAL
from diver_paper.reading import Study, verdict
from diver_paper.tables import claims as told

PRINTED = {
    "diver-mix": "DIVER", "clip-higher": "GRPO w/ Clip-higher", "kl-cov": "Entropy-RL", "pass-at-k": "Pass@k Training",
    INITIAL: "Qwen2.5-Math-7B", "diver-td": "DIVER-TD", "diver-ed": "DIVER-ED",
}  # fmt: skip


def test_every_claim_and_comparison_names_variants_of_its_experiment():
    for experiment in EXPERIMENTS.values():
        pairs = {variant: less for variant in experiment.variants if (less := experiment.baseline(variant))}
        assert {*pairs, *pairs.values()} <= experiment.variants.keys(), experiment.name
        assert len(pairs) >= len(experiment.variants) - 1, experiment.name
        for claim in experiment.claims:
            assert {claim.more, claim.less, *(claim.beyond or ())} <= {*experiment.variants, INITIAL}, claim


def in_domain(rows, model, group=None):
    return next(r.scores["in"] for r in rows if r.model == model and group in (None, r.group))


def pass_at(measure, model):
    """The in-domain average of Pass@2..32; of larger k the mean of the three benchmarks."""
    k = int(measure.removeprefix("pass@"))
    if k <= 32:
        return in_domain(PASS_AT_K, model, f"k={k}")
    return np.mean([r.scores[measure] for r in LARGER_PASS_AT_K if r.model == model])


def gap(measure, claim):
    return pass_at(measure, PRINTED[claim.more]) - pass_at(measure, PRINTED[claim.less])


@pytest.mark.parametrize("claim", [c for c in claims.MAIN if c.paper], ids=lambda c: c.text)
def test_figures_of_table_1(claim):
    names = {**PRINTED, "diver-mix": "DIVER-MIX"}
    difference = in_domain(MAIN, names[claim.more]) - in_domain(MAIN, names[claim.less])
    assert claim.paper == f"{difference:+.1f}"


@pytest.mark.parametrize(
    "claim", [c for c in claims.PASS_AT_K + claims.PASS_AT_K_LARGE if c.paper], ids=lambda c: f"{c.text}, {c.measure}"
)
def test_figures_of_the_tables_of_pass_at_k(claim):
    first, _, second = claim.measure.partition(" - ")
    difference = gap(first, claim) - (gap(second, claim) if second else 0.0)
    assert claim.paper == f"{difference:+.1f}"


def test_figures_of_table_10():
    def at(group, variant):
        return in_domain(HYPERPARAMETERS, PRINTED[variant.partition(",")[0]], group)

    four, cool, four_loss, cool_loss = claims.ROBUSTNESS
    for claim, group in ((four, "G = 4"), (cool, "t = 0.6")):
        assert claim.paper == f"{at(group, claim.more) - at(group, claim.less):+.1f}"
    for claim, before, after in ((four_loss, "G = 8", "G = 4"), (cool_loss, "t = 1.0", "t = 0.6")):
        losses = [at(before, v) - at(after, v) for v in ("clip-higher", "diver-mix")]
        assert claim.paper == f"{losses[0] - losses[1]:+.1f}"


def study(**shares):
    """Four seeds of each variant, which solves that many of 100 samples of each of 200 problems."""

    def record(share, seed):
        counts = np.random.default_rng(seed).binomial(100, share, 200)
        return {"metrics": {}, "evaluations": {"9": {"samples": 100, "solutions": [[int(c)] for c in counts if c]}}}

    runs = {
        v.replace("_", " "): {s: record(share, 10 * i + s) for s in range(4)}
        for i, (v, share) in enumerate(shares.items())
    }
    return Study(EXPERIMENTS["shaping-ratio"], runs)  # fmt: skip


def test_as_well_as_is_a_claim_of_a_small_difference():
    near = claims.Claim("", "pass@1", "a", "b", within=0.03)
    assert verdict(study(a=0.5, b=0.5), near)[0] == "holds"
    assert verdict(study(a=0.5, b=0.7), near)[0] == verdict(study(a=0.7, b=0.5), near)[0] == "does not hold"
    assert verdict(study(a=0.5, b=0.53), near)[0] == "cannot be seen"


def test_a_loss_is_compared_with_another_loss():
    found = study(a=0.9, a_4=0.5, b=0.8, b_4=0.7)
    more = claims.Claim("", "pass@1", "a", "a 4", beyond=("b", "b 4"))
    told, difference = verdict(found, more)
    assert told == "holds" and difference.mean == pytest.approx(0.4 - 0.1, abs=0.01)
    assert verdict(found, more._replace(more="b", less="b 4", beyond=("a", "a 4")))[0] == "does not hold"


def test_the_untrained_policy_is_the_same_for_every_seed():
    found = study(a=0.6, before_training=0.4)
    one = Study(found.experiment, {"a": found.runs["a"], INITIAL: {0: found.runs[INITIAL][0]}})
    told, difference = verdict(one, claims.Claim("", "pass@1", "a", INITIAL))
    assert told == "holds" and difference.mean == pytest.approx(0.2, abs=0.01)
    assert (
        verdict(Study(one.experiment, {"a": one.runs["a"]}), claims.Claim("", "pass@1", "a", INITIAL))[0] == "not run"
    )


def test_the_table_of_claims_counts_them_and_shows_each():
    found = study(**{"λ 0.1": 0.6, "λ 0.2": 0.6, "λ 0.5": 0.4})
    page = told(found)
    assert page.startswith("Of 4 claims: holds: 2, does not hold: 1, not run: 1.")
    assert page.count("\n| ") == 6 and "within its bounds" in page


def test_there_is_no_room_above_a_variant_that_solves_every_problem():
    found = study(a=0.9, b=1.0)
    assert verdict(found, claims.Claim("", "pass@1", "a", "b"))[0] == "no room for it"
    assert verdict(found, claims.Claim("", "pass@1", "b", "a"))[0] == "holds"
    assert verdict(study(a=0.9, b=0.97), claims.Claim("", "pass@1", "a", "b"))[0] == "does not hold"


def test_what_cannot_be_seen_may_still_be_less_than_in_the_paper():
    found = study(**{"λ 0.1": 0.6, "λ 0.5": 0.6})
    for paper, note in (("+9.0", True), ("+0.1", False), ("", False)):
        claim = claims.Claim("", "pass@1", "λ 0.1", "λ 0.5", paper)
        page = told(found._replace(experiment=replace(found.experiment, claims=(claim,))))
        assert "**cannot be seen**" in page and ("but it is less than in the paper" in page) == note
