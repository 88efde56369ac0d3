"""The study of TRL on Countdown: its plan, the rule of its conclusion by hand, and the history of its records."""

from pathlib import Path

import numpy as np
import pytest
from protocol import check_descent, check_only_added_to

from diver.core.statistics import Estimate
from diver.sweep import records
from diver.sweep.choose import Policy
from diver.sweep.plan import UNTRAINED
from trl_countdown import page, study

ROOT = Path(__file__).parents[2]
PROTOCOL = "studies/trl_countdown/study.toml"
RESULTS = ROOT / "docs" / "results"
TRAINED, BEFORE = "1 0.6", "0 0.6"


def known():
    return records.read(RESULTS / study.RECORDS)


def test_every_record_is_of_a_commit_after_the_protocol():
    check_descent(PROTOCOL, known().values())


def test_since_the_first_run_the_protocol_is_only_added_to():
    check_only_added_to(PROTOCOL, known().values())


def test_the_page_is_what_the_records_give(tmp_path):
    (tmp_path / study.RECORDS).parent.mkdir(parents=True)
    (tmp_path / study.RECORDS).write_bytes((RESULTS / study.RECORDS).read_bytes())
    written = page.write_page(tmp_path).read_text(encoding="utf-8")
    assert written == (RESULTS / "trl-countdown.md").read_text(encoding="utf-8")


def test_pass_at_1_of_the_page_is_that_of_the_counts():
    """With one sample Pass@1 is the share of correct samples, so the records give it without an estimator."""
    of_page = (RESULTS / "trl-countdown.md").read_text(encoding="utf-8")
    shares = {}
    for record in known().values():
        key = BEFORE if record["setting"] == UNTRAINED else TRAINED
        counts = [c if isinstance(c, int) else c[0] for c in record["fronts"]["held-out"][key]]
        assert len(counts) == 1024
        shares.setdefault(record["setting"], []).append(100 * np.mean(counts) / record["samples"])
    for label, of_seeds in shares.items():
        row = next(line for line in of_page.splitlines() if line.startswith(f"| {label} "))
        assert row.split("|")[2].split()[0] == f"{np.mean(of_seeds):.1f}"


def test_runs_differ_in_the_engine_alone():
    of = study.plan()
    assert [setting.label for setting in of.settings] == [
        "clip-higher, built-in", "clip-higher, TRL", "max-rl, replay, built-in", "max-rl, replay, TRL",
    ]  # fmt: skip
    for built_in, trl in zip(of.settings[::2], of.settings[1::2], strict=True):
        one, other = (of.trained(setting, 500) for setting in (built_in, trl))
        assert (one.run.engine, other.run.engine) == ("builtin", "trl")
        assert (one.method, one.train, one.sample, one.data) == (other.method, other.train, other.sample, other.data)
        assert one.train.steps == 150 and one.method.frame == "common"
    assert of.trained(of.settings[3], 500).method.replay.alpha == 0.3


def policies(beyond, seeds=(500, 501, 502)):
    """Two engines, TRL with `beyond(seed, problem)` more correct samples of 64 than the built-in trainer."""
    counts = [8 + 6 * (problem % 8) for problem in range(64)]
    of_trl = {seed: [c + beyond(seed, problem) for problem, c in enumerate(counts)] for seed in seeds}

    def policy(of_seeds):
        runs = {seed: {"samples": 64, "fronts": {"held-out": {TRAINED: c}}} for seed, c in of_seeds.items()}
        return Policy(runs, seeds)

    return {"m, built-in": policy(dict.fromkeys(seeds, counts)), "m, TRL": policy(of_trl)}


@pytest.mark.parametrize(
    ("beyond", "said"),
    [
        (lambda seed, problem: (-1) ** (problem // 8), "**The engines agree**"),  # 0 on average, for every level
        (lambda seed, problem: 4, "**The engines differ**"),  # 6.25 points on every problem
        (lambda seed, problem: 6 * (seed == 500), "**Nothing is concluded**: the half-width at Pass@1 is"),
    ],
)
def test_the_rule_of_the_protocol(beyond, said):
    assert page.answer(study.load(), policies(beyond), "m").startswith(said)


def test_a_method_without_all_of_its_runs_is_not_finished():
    said = page.answer(study.load(), policies(lambda seed, problem: 0, (500, 501)), "m")
    assert said == "**Not finished**: 4 of 6 runs have a record."


def test_the_difference_by_hand():
    gap = page.gap(study.load(), policies(lambda seed, problem: 4), "m, TRL", "m, built-in", 1)
    assert isinstance(gap, Estimate) and gap.mean == pytest.approx(100 * 4 / 64)
