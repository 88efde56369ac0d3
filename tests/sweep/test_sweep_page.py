"""The page of a sweep, from synthetic records: its verdict in words, its sections, and how it looks in a browser."""

import dataclasses
import math
import shutil
from pathlib import Path

import pytest

from diver.pages.page import cell
from diver.sweep import records
from diver.sweep.choose import policies
from diver.sweep.page import headline, sections, write_page
from diver.sweep.plan import HELD_OUT, SELECTION, Plan, Setting

CHROMIUM = shutil.which("chromium")
RECIPE = Path(__file__).parents[2] / "recipes" / "quickstart.toml"
ALPHAS, TEMPERATURES, SAMPLES = (0.0, 0.5, 1.0), (0.3, 0.6), 64
CORRECT = {
    # samples of 64 that are correct: of an easy problem, and of one that only exploration solves
    "untrained": {0.0: (30, 8)},
    "clip-higher": {0.5: (45, 2), 1.0: (40, 0)},
    "max-rl": {0.5: (44, 4), 1.0: (42, 1)},
    "own_methods:MaxRl, rate 0.0001": {0.5: (60, 6), 1.0: (50, 3)},
}
"""Setting -> alpha -> correct samples of each problem at temperature 0.3. At 0.6 they are half of it."""


def counts(label, problems, seed=0):
    return {
        f"{alpha:g} {t:g}": [c // (1 if t == 0.3 else 2) + (seed if c else 0) for c in pair * (problems // 2)]
        for alpha, pair in CORRECT[label].items()
        for t in TEMPERATURES
    }  # fmt: skip


def record(label, seed=None):
    fronts = {SELECTION: counts(label, 8, seed or 0), HELD_OUT: counts(label, 40, seed or 0)}
    return {
        "setting": label, "seed": seed, "samples": SAMPLES, "steps": 200,
        "cpu_seconds": 100.0 + 50 * (label == "max-rl"), "commit": "0123456789abcdef",
        "command": "diver sweep recipes/quickstart.toml --methods clip-higher max-rl",
        "fronts": fronts,
    }  # fmt: skip


@pytest.fixture
def plan(tmp_path):
    labels = [label for label in CORRECT if label != "untrained"]
    made = Plan(
        recipe=RECIPE,
        settings=tuple(Setting(label, (), (0, 1, 2)) for label in labels),
        seeds=(0, 1, 2),
        baseline="clip-higher",
        alphas=ALPHAS,
        temperatures=TEMPERATURES,
        ks=(1, 16),
        samples=SAMPLES,
        out=tmp_path,
        records=tmp_path / "records.jsonl.gz",
    )
    rows = {f"{label}/seed_{seed}": record(label, seed) for label in labels for seed in (0, 1, 2)}
    records.add(made.records, {"untrained": record("untrained"), **rows})
    return made


def test_the_headline_is_the_verdict_at_each_k(plan):
    """Pass@1 at alpha 0.5, temperature 0.3: own 66/128, clip-higher 47/128, untrained 38/128. With 16 samples the
    problem that the untrained policy solves in 8 of 64 decides, which no setting does over the seeds."""
    found = policies(plan, records.read(plan.records))
    assert headline(plan, found) == (
        "At k = 1: own_methods:MaxRl, rate 0.0001, alpha 0.5, temperature 0.3. At k = 16: do not train"
    )


def test_the_sections(plan):
    found = policies(plan, records.read(plan.records))
    parts = {part.title: part.rows for part in sections(plan, found)}
    assert [*parts] == ["What to turn on", "Fronts", "Every setting at its best", "Runs"]
    first = parts["What to turn on"][1]
    assert first[:2] == ["1", "own_methods:MaxRl, rate 0.0001 at 0.5, 0.3"]
    # (60 + 6) / 128 with 0, 1 or 2 more correct of each by the seed: one more is 1/64
    assert first[4] == f"{100 * (66 / 128 + 1 / 64):.1f}" and first[5].startswith(f"+{100 * (66 - 47) / 128:.1f} [")
    assert len(parts["Fronts"]) == 1 + 2 + 3 * 4 and len(parts["Runs"]) == 1 + 9
    settings = {row[0]: row for row in parts["Every setting at its best"][1:]}
    assert settings["max-rl"][1:3] == ["3", "1.50"] and settings["clip-higher"][2] == "1.00"


def test_before_all_runs_are_made_there_is_no_verdict(plan):
    some = {name: r for name, r in records.read(plan.records).items() if "seed_2" not in name}
    found = policies(plan, some)
    assert headline(plan, found).startswith("Not finished") and sections(plan, found)[-1].text.startswith("6 of 9 runs")


def test_an_unscored_response_leaves_its_problem_out(plan):
    """One hard problem of the untrained policy has 10 scored samples, so no Pass@16; the others give the verdict."""
    rows = records.read(plan.records)
    rows["untrained"]["fronts"][HELD_OUT]["0 0.3"][1] = [8, 10]
    found = policies(plan, rows)
    easy, hard = (1 - math.comb(64 - c, 16) / math.comb(64, 16) for c in (30, 8))
    best = next(part for part in sections(plan, found) if part.title == "Every setting at its best")
    untrained = next(row for row in best.rows if row[0] == "untrained")
    assert untrained[6:8] == ["0, 0.3", f"{100 * (20 * easy + 19 * hard) / 39:.1f}"]
    assert headline(plan, found).endswith("k = 16: do not train")


def test_pairs_outside_the_plan_are_not_chosen(plan):
    """A record of an earlier call has more weights; a setting with more of them would have more chances."""
    rows = records.read(plan.records)
    for seed in (0, 1, 2):
        rows[f"max-rl/seed_{seed}"]["fronts"][SELECTION]["0.75 0.3"] = [64] * 8
    assert policies(plan, rows)["max-rl"].best(1)[0].alpha == 0.5


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_in_a_browser(plan, width, scheme):
    """Nothing sticks out to the right, the verdict is on the first screen, and nothing is asked for."""
    from playwright.sync_api import sync_playwright

    path = write_page(plan)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme).new_page()
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.resolve().as_uri())
        page.wait_for_selector("html[data-ready]")
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        verdict = page.locator("h1")
        assert "k = 16: do not train." in verdict.inner_text() and verdict.bounding_box()["y"] < 400
        assert page.locator("figure.front").count() == len(TEMPERATURES)
        browser.close()
    assert not said and asked == [path.resolve().as_uri()]


def test_the_page_escapes_names_and_keeps_their_hyphens(plan, tmp_path):
    """A minus is drawn before a number alone: a name is copied into a command."""
    settings = [dataclasses.replace(s, label=s.label.replace("own_", "<b>-")) for s in plan.settings]
    named = dataclasses.replace(plan, settings=tuple(settings), records=tmp_path / "named.jsonl.gz")
    rows = {name.replace("own_", "<b>-"): r for name, r in records.read(plan.records).items()}
    records.add(named.records, {name: {**r, "name": name} for name, r in rows.items()})
    html = write_page(named).read_text(encoding="utf-8")
    assert "<h1>At k = 1: &lt;b&gt;-methods:MaxRl" in html and "<b>-methods" not in html
    assert "clip-higher" in html and "clip−higher" not in html
    assert cell("-1.2 [-3.0, 0.6]") == "−1.2<small>[−3.0, 0.6]</small>" and cell("rate 1e-05") == "rate 1e-05"
