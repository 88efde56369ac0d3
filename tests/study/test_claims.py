"""Claims are made of variants that exist, and the figures beside them are those of the paper's tables."""

from dataclasses import replace

import numpy as np
import pytest

from diver_paper import paper
from diver_paper.aggregate import Study, claim_status
from diver_paper.experiments import EXPERIMENTS, INITIAL, Claim
from diver_paper.pages import claims_section, comparison

PRINTED = {**paper.NAMES, "diver-mix": "DIVER", INITIAL: "Qwen2.5-Math-7B"}


def test_every_claim_and_comparison_names_variants_of_its_experiment():
    for experiment in EXPERIMENTS.values():
        pairs = {variant: less for variant in experiment.variants if (less := experiment.baseline_of(variant))}
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
        return in_domain(paper.TABLES["pass@k"], model, f"k={k}")
    return np.mean([r.scores[measure] for r in paper.TABLES["larger-pass@k"] if r.model == model])


def gap(measure, claim):
    return pass_at(measure, PRINTED[claim.more]) - pass_at(measure, PRINTED[claim.less])


@pytest.mark.parametrize("claim", [c for c in EXPERIMENTS["main"].claims if c.paper], ids=lambda c: c.text)
def test_figures_of_table_1(claim):
    main = paper.TABLES["main"]
    difference = in_domain(main, paper.NAMES[claim.more]) - in_domain(main, paper.NAMES[claim.less])
    assert claim.paper == f"{difference:+.1f}"


@pytest.mark.parametrize(
    "claim",
    [c for name in ("pass-at-k", "pass-at-k-large") for c in EXPERIMENTS[name].claims if c.paper],
    ids=lambda c: f"{c.text}, {c.measure}",
)
def test_figures_of_the_tables_of_pass_at_k(claim):
    first, _, second = claim.measure.partition(" - ")
    difference = gap(first, claim) - (gap(second, claim) if second else 0.0)
    assert claim.paper == f"{difference:+.1f}"


def test_figures_of_table_10():
    def at(group, variant):
        return in_domain(paper.TABLES["hyperparameters"], PRINTED[variant.partition(",")[0]], group)

    four, cool, four_loss, cool_loss = EXPERIMENTS["robustness"].claims
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
    near = Claim("", "pass@1", "a", "b", within=0.03)
    assert claim_status(study(a=0.5, b=0.5), near)[0] == "supported"
    assert claim_status(study(a=0.5, b=0.7), near)[0] == claim_status(study(a=0.7, b=0.5), near)[0] == "contradicted"
    assert claim_status(study(a=0.5, b=0.53), near)[0] == "inconclusive"


def test_a_loss_is_compared_with_another_loss():
    found = study(a=0.9, a_4=0.5, b=0.8, b_4=0.7)
    more = Claim("", "pass@1", "a", "a 4", beyond=("b", "b 4"))
    status, difference = claim_status(found, more)
    assert status == "supported" and difference.mean == pytest.approx(0.4 - 0.1, abs=0.01)
    assert claim_status(found, more._replace(more="b", less="b 4", beyond=("a", "a 4")))[0] == "contradicted"


def test_the_untrained_policy_is_the_same_for_every_seed():
    found = study(a=0.6, before_training=0.4)
    one = Study(found.experiment, {"a": found.runs["a"], INITIAL: {0: found.runs[INITIAL][0]}})
    status, difference = claim_status(one, Claim("", "pass@1", "a", INITIAL))
    assert status == "supported" and difference.mean == pytest.approx(0.2, abs=0.01)
    assert claim_status(Study(one.experiment, {"a": one.runs["a"]}), Claim("", "pass@1", "a", INITIAL))[0] == "not run"


def test_the_table_of_claims_counts_them_and_shows_each():
    found = study(**{"λ 0.1": 0.6, "λ 0.2": 0.6, "λ 0.5": 0.4})
    page = claims_section(found)
    assert page.startswith("4 claims: 2 supported, 1 contradicted, 1 not run.")
    assert page.count("\n| ") == 6 and "| paper |" not in page  # the paper prints no number for these


def test_a_status_ends_with_the_evidence_of_another_page():
    found = study(**{"λ 0.1": 0.6, "λ 0.5": 0.4})
    claim = Claim("", "pass@1", "λ 0.1", "λ 0.5", see="[mazes](method-comparison.md)")
    page = claims_section(found._replace(experiment=replace(found.experiment, claims=(claim,))))
    assert "| **supported**; [mazes](method-comparison.md) |" in page


def test_what_another_page_shows_follows_the_claims():
    elsewhere = replace(EXPERIMENTS["shaping-ratio"], elsewhere="in mazes\nit did not")
    body = comparison(study(**{"λ 0.1": 0.6, "λ 0.5": 0.4})._replace(experiment=elsewhere))
    assert body.index("4 claims") < body.index("\nElsewhere: in mazes it did not.\n") < body.index("## Results")


def test_a_variant_that_solves_every_problem_is_the_ceiling():
    found = study(a=0.9, b=1.0)
    assert claim_status(found, Claim("", "pass@1", "a", "b"))[0] == "at ceiling"
    assert claim_status(found, Claim("", "pass@1", "b", "a"))[0] == "supported"
    assert claim_status(study(a=0.9, b=0.97), Claim("", "pass@1", "a", "b"))[0] == "contradicted"


def test_an_inconclusive_difference_may_still_be_smaller_than_the_papers():
    found = study(**{"λ 0.1": 0.6, "λ 0.5": 0.6})
    for printed, note in (("+9.0", True), ("+0.1", False), ("", False)):
        claim = Claim("", "pass@1", "λ 0.1", "λ 0.5", printed)
        page = claims_section(found._replace(experiment=replace(found.experiment, claims=(claim,))))
        assert "**inconclusive**" in page and (", smaller than the paper's |" in page) == note
