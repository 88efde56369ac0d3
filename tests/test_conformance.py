"""docs/conformance.md and its data: that the page is made of the data, and that the data cover every pair.

What the trainers give is compared in their own environments, by the tests of tests/integrations named `*_conformance`.
"""

import re

import conformance
import pytest
import torch
from conformance import BATCH, CLIP, Found, Pair

from diver.integrations.engines import agreement
from diver.integrations.versions import VERSIONS
from diver.losses import ClipLoss
from diver.methods import method_named

DATA = conformance.stored()
PINS = {
    "TRL": ("make test-vllm", "trl"),
    "verl": ("make test-vllm", "verl"),
    "ms-swift": ("make test-engines", "ms-swift"),
}
EVERYWHERE = {"clip", "dual-clip", "cispo", "gspo", "sapo", "grpo", "dr-grpo", "rloo", "kl"}
PAIRS = {
    "TRL": EVERYWHERE | {"gmpo", "entropy-bonus"},
    "verl": EVERYWHERE | {"clip-cov", "kl-cov", "gmpo", "dppo", "entropy-bonus", "pass-at-k"},
    "ms-swift": EVERYWHERE,
}


def rows(trainer):
    return DATA["trainers"][trainer]["rows"]


def test_the_page_is_made_of_the_data():
    assert conformance.PAGE.read_text(encoding="utf-8") == conformance.page(DATA)
    assert DATA["batch"] == conformance.described()


@pytest.mark.parametrize("trainer", PAIRS)
def test_the_page_has_every_setting_and_every_sentence(trainer):
    text = " ".join(conformance.PAGE.read_text(encoding="utf-8").split())
    for row in rows(trainer):
        assert f"`{row['setting']}`" in text and row.get("term", "") in text, row
    for run in DATA["trainers"][trainer]["runs"]:
        assert conformance.RUNS[run["name"]] in text and run.get("term", "") in text, run


@pytest.mark.parametrize("trainer", PAIRS)
def test_the_release_is_the_pinned_one(trainer):
    target, package = PINS[trainer]
    assert DATA["trainers"][trainer]["version"] == VERSIONS["environments"][target]["versions"][package]


@pytest.mark.parametrize("trainer", PAIRS)
def test_every_pair_of_that_name_is_there_and_each_difference_has_one_sentence(trainer):
    assert {row["name"] for row in rows(trainer)} == PAIRS[trainer]
    for row in rows(trainer):
        if not row["equal"]:
            assert row["explained"] and row["by"]["numbers"] > conformance.TOLERANCE
            assert len(re.findall(r"[.](?: |$)", row["term"])) == 1 and len(row["term"].split()) <= 30, row["term"]


def test_the_lines_of_the_page_are_short():
    assert max(map(len, conformance.PAGE.read_text(encoding="utf-8").splitlines())) <= 120


def test_the_batch_has_what_a_wrong_loss_would_change():
    groups = BATCH.rewards.reshape(-1, conformance.SIZE)
    assert {0.0, 1.0} < {*groups.mean(axis=1)}  # groups of equal rewards, and others
    assert len({*BATCH.mask.sum(1).tolist()}) > 10
    ratio = (BATCH.logprobs - BATCH.old_logprobs).exp()
    for sign in (-1, 1):
        of_sign = BATCH.mask & (BATCH.advantages * sign > 0)[:, None]
        assert (ratio[of_sign] > 3).any() and (ratio[of_sign] < 1 - CLIP.clip_low).any()
    for part in BATCH.parts:  # no micro-batch is without a gradient, and no two have as many tokens
        assert BATCH.advantages[part].any()
    assert len({int(BATCH.mask[part].sum()) for part in BATCH.parts}) == conformance.PARTS


def loss_by_loop(low, high, bound=float("inf")):
    """The clip of each token by hand, a mean over tokens."""
    total = 0.0
    for i in range(len(BATCH.mask)):
        for t in range(int(BATCH.mask[i].sum())):
            a, rho = float(BATCH.advantages[i]), float((BATCH.logprobs[i, t] - BATCH.old_logprobs[i, t]).exp())
            value = min(rho * a, min(max(rho, 1 - low), 1 + high) * a)
            total -= max(value, bound * a) if a < 0 else value
    return total / int(BATCH.mask.sum())


def test_the_losses_of_the_batch_by_hand():
    assert conformance.our_loss(CLIP).loss == pytest.approx(loss_by_loop(0.2, 0.28), rel=1e-12)
    assert conformance.our_loss(conformance.DualClip()).loss == pytest.approx(loss_by_loop(0.2, 0.28, 3.0), rel=1e-12)


def pair(theirs, changed=None):
    return Pair("clip", "x", lambda: conformance.our_loss(CLIP), theirs, "The clip is wider.", changed)


def test_a_sentence_that_does_not_hold_is_no_explanation():
    def wider():
        return conformance.our_loss(ClipLoss(clip_high=0.5))

    assert conformance.row(pair(lambda: conformance.our_loss(CLIP))) == {"name": "clip", "setting": "x", "equal": True}
    explained = conformance.row(pair(wider, wider))
    assert explained["explained"] and explained["term"] == "The clip is wider." and explained["by"]["loss"] > 0.01
    for changed in (None, lambda: conformance.our_loss(ClipLoss(clip_high=0.4))):
        row = conformance.row(pair(wider, changed))
        assert not row["equal"] and not row["explained"] and row["term"] == "What differs is not known."


def test_equal_values_with_another_gradient_are_not_equal():
    found = conformance.our_loss(CLIP)
    moved = Found(found.loss, found.numbers + 1e-5 * found.numbers.abs().max())
    assert not conformance.row(pair(lambda: moved))["equal"]
    near = Found(found.loss, found.numbers + 1e-7 * found.numbers.abs().max())
    assert conformance.row(pair(lambda: near))["equal"]
    assert not conformance.row(pair(lambda: Found(found.loss * (1 + 1e-5), found.numbers)))["equal"]


def test_a_setting_that_a_release_does_not_have_is_a_row():
    def gone():
        raise KeyError("vanilla")

    row = conformance.row(pair(gone))
    assert not row["equal"] and not row["explained"] and row["term"] == "KeyError: 'vanilla'"


def test_the_rows_that_changed_are_printed():
    before = {
        "rows": [{"name": "clip", "setting": "x", "equal": True}, {"name": "clip", "setting": "y", "equal": True}]
    }
    after = {"rows": [conformance.row(pair(lambda: Found(1.0, torch.ones(2, *BATCH.mask.shape)))), before["rows"][1]]}
    (line,) = conformance.changes(before, after)
    assert re.fullmatch(r"clip x: equal -> differs by [\d.e+]+ % and [\d.e+]+ %: What differs is not known\.", line)
    failed = {
        "rows": [
            {"name": "clip", "setting": "x", "equal": False, "explained": False, "by": {}, "term": "KeyError: 'x'"}
        ]
    }
    (line, _) = conformance.changes(before, failed)
    assert line == "clip x: equal -> failed: KeyError: 'x'"


def test_what_diver_methods_says_of_a_method():
    verl = f"verl {DATA['trainers']['verl']['version']}"
    assert agreement(method_named("clip-cov")) == f"clip-cov equal in {verl} (docs/conformance.md)"
    told = agreement(method_named("grpo"))
    assert re.match(r"clip equal in TRL [\d.]+, verl [\d.]+, ms-swift [\d.]+; grpo differs in TRL [\d.]+, verl", told)
    assert agreement(method_named("siren")) == ""
