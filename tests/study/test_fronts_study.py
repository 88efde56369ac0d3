"""The study of fronts: its plan, its problems, its controls, and the history of its records."""

import dataclasses
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from protocol import check_descent, check_only_added_to

from diver.core.types import Problem
from diver.sweep import records
from diver.sweep.run import sweep
from fronts import page, study
from fronts.controls import CONTROLS, make_controls, section
from fronts.picture import front
from fronts.problems import HELD_OUT, SELECTION, evaluated, shares
from fronts.study import plan
from verified_replay.problems import held_out_stream, trained

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
PAGES = {
    "study": (page.write_page, "fronts.md"),
    "recent_methods": (page.write_recent, "recent-methods.md"),
    "language_model": (page.write_language_model, "language-model.md"),
}


def finished_records(name):
    found = records.read(RESULTS / study.RECORDS[name])
    return [record for record in found.values() if record.get("commit")]


@pytest.mark.parametrize("name", PAGES)
def test_every_record_is_of_a_commit_after_the_protocol(name):
    check_descent(f"studies/fronts/{name}.toml", finished_records(name))


@pytest.mark.parametrize("name", PAGES)
def test_since_the_first_run_the_protocol_is_only_added_to(name):
    check_only_added_to(f"studies/fronts/{name}.toml", finished_records(name))


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_records_give(name, tmp_path):
    """Every run that has a record is on it, too: the table of runs lists all that the records have.

    The answer comes first: what weights and temperature leave, then a sentence for each k."""
    if not (RESULTS / study.RECORDS[name]).exists():
        pytest.skip("no run is made yet")
    (tmp_path / "records").mkdir()
    for file in study.RECORDS.values():
        if (RESULTS / file).exists():
            (tmp_path / file).write_bytes((RESULTS / file).read_bytes())
    write, file = PAGES[name]
    written = write(tmp_path).read_text(encoding="utf-8")
    assert written == (RESULTS / file).read_text(encoding="utf-8")
    first = next(iter(study.testbeds(name).values()))
    assert written.splitlines()[2].startswith(f"- {first}: at best weights and temperature, ")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in written.splitlines()]
    for name_of_run, record in records.read(RESULTS / study.RECORDS[name]).items():
        if record["setting"] not in ("untrained", CONTROLS):
            _, label, seed = name_of_run.split("/")
            assert any(row[0] == label and seed.removeprefix("seed_") in row[1].split() for row in rows), name_of_run


@pytest.mark.parametrize("readme", [ROOT / "README.md", RESULTS / "README.md"])
def test_the_readme_says_for_each_k_what_the_page_says(readme):
    """Its rows have the pair and the difference over the settings of both studies, and the CPU time of the fronts."""

    def rows(text):
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]

    def parts(page, title):
        """The rows below a title of third level, by testbed."""
        testbeds = (RESULTS / page).read_text(encoding="utf-8").split("\n## ")[1:]
        found = {part.partition("\n")[0].lower(): part.partition(f"### {title}")[2] for part in testbeds}
        return {testbed: rows(part.partition("\n### ")[0])[2:] for testbed, part in found.items()}

    together = parts("recent-methods.md", "Together with the settings of the fronts")
    times = {
        (testbed, label): time
        for testbed, table in parts("fronts.md", "Every setting at its best").items()
        for label, _, time, *_ in table
    }
    given = [
        row for row in rows(readme.read_text(encoding="utf-8")) if len(row) == 7 and row[1] in ("Countdown", "mazes")
    ]
    by_k = {(testbed.lower(), k): row for row in given for testbed in [row[1]] for k in row[0].split(", ")}
    assert by_k.keys() == {(testbed, k) for testbed in ("countdown", "mazes") for k in ("1", "4", "16", "64")}
    assert sum(len(row[0].split(", ")) for row in given) == len(by_k)
    for testbed, table in together.items():
        for k, label, *_, over_baseline, over_untrained, baseline_over_untrained, _ in table:
            _, _, setting, pair, gain, time, _ = by_k[testbed, k]
            if label == "do not train":
                assert gain.startswith("no setting") and time == "none" and pair == "0, 1"
                continue
            name, _, at = label.partition(" at ")
            assert setting == ", ".join([f"`{name.split(', ')[0]}`", *name.split(", ")[1:]]) and pair == at
            over = baseline_over_untrained if name == "clip-higher" else over_untrained
            assert over_baseline in gain if gain.endswith("clip-higher") else over in gain, (testbed, k)
            assert time == (f"{float(times[testbed, name]):.1f}" if (testbed, name) in times else page.DASH)


def test_a_front_by_hand():
    """(1, 5) is equal to (1, 6) in one and worse in the other; (2, 3) is worse than (3, 4) in both."""
    assert front([(3, 4), (1, 5), (2, 3), (1, 6), (3, 4)]) == [(1, 6), (3, 4), (3, 4)]


def test_the_settings_of_a_testbed():
    of = plan("countdown")
    labels = [setting.label for setting in of.settings]
    assert labels[:3] == ["clip-higher, equal time", "clip-higher", "max-rl, replay"] and len(labels) == 9
    longer, short, replay = of.settings[:3]
    assert short.run == longer.label and short.step == 600 and of.folder(short, 400) == of.folder(longer, 400)
    assert short.seeds == (400, 401, 402, 403, 404) and of.setting("verified-replay").seeds == (400, 401, 402)
    recipe = of.trained(replay, 401)
    assert (recipe.method.name, recipe.method.replay.alpha, recipe.method.frame) == ("max-rl", 0.3, "common")
    assert (recipe.train.learning_rate, recipe.train.steps, recipe.run.seed) == (1.25e-5, 600, 401)
    assert of.trained(short, 400).train.steps == 930 and plan("maze").trained(short, 400).train.steps == 1080
    # The problems are apart from the training data, so the run evaluates nothing itself.
    assert recipe.evaluate.problems == 0 and of.recipe_of(replay, 401).evaluate.problems == SELECTION + HELD_OUT


def test_the_settings_of_recent_methods_stand_beside_the_baseline_of_the_fronts():
    of = plan("maze", name="recent_methods")
    labels = [setting.label for setting in of.settings]
    assert labels[0] == of.baseline == "clip-higher" and of.records.name == "recent-methods.jsonl.gz"
    assert {*(s.label for s in plan("countdown", name="recent_methods").settings)} == {*labels, "dph-rl"}
    assert len(labels) == 7
    assert {setting.seeds for setting in of.settings} == {(400, 401, 402)}
    drift, retries = (of.trained(of.setting(label), 400) for label in ("max-rl, replay of little drift", "retries"))
    assert (drift.method.replay.alpha, drift.method.replay.max_drift, drift.train.learning_rate) == (0.3, 0.01, 2.5e-5)
    assert (retries.method.name, retries.method.selection.retries, retries.train.steps) == ("clip-higher", 3, 600)
    assert page.DRIFT in labels and page.REPLAY in [setting.label for setting in plan("maze").settings]


def test_the_records_of_a_testbed_are_of_the_same_problems():
    """Those of both protocols, since a method of one is paired with clip-higher of the other."""
    digests = defaultdict(set)
    for protocol in ("study", "recent_methods"):
        for name, record in records.read(RESULTS / study.RECORDS[protocol]).items():
            for part, digest in record["problems"].items():
                digests[name.partition("/")[0], part].add(digest)
    assert {key: len(different) for key, different in digests.items()} == {
        (testbed, part): 1 for testbed in study.testbeds() for part in ("selection", "held-out")
    }


def test_the_page_of_recent_methods_has_the_optimizer_steps_of_each_run(tmp_path):
    """One run whose blocks of steps have 4 and 3, with the counts of a run of clip-higher."""
    (tmp_path / "records").mkdir()
    fronts = RESULTS / study.RECORDS["study"]
    (tmp_path / study.RECORDS["study"]).write_bytes(fronts.read_bytes())
    other = {"name": "maze/bbg/seed_401", "setting": "bbg", "metrics": {"policy/updates": [4, 3]}}
    run = records.read(fronts)["maze/clip-higher/seed_401"] | other
    records.add(tmp_path / study.RECORDS["recent_methods"], {run["name"]: run})
    text = page.write_recent(tmp_path).read_text(encoding="utf-8")
    (line,) = [line for line in text.partition("### Optimizer steps")[2].splitlines() if line.startswith("| bbg")]
    assert [cell.strip() for cell in line.strip("|").split("|")] == ["bbg", page.DASH, "3.50", page.DASH]


def test_the_page_of_the_language_model_by_hand(tmp_path):
    """Every problem has 16 of 32 samples correct without training, 20 with clip-higher and 24 with replay."""
    of = plan("gsm8k", tmp_path, name="language_model")
    replay = of.trained(of.setting("max-rl, replay"), 402)
    assert (replay.method.name, replay.method.replay.alpha, replay.method.frame) == ("max-rl", 0.3, "common")
    assert of.baseline == "clip-higher" and of.prefix == "gsm8k/" and {s.seeds for s in of.settings} == {of.seeds}
    common = {"samples": 32, "steps": 60, "metrics": {}, "problems": {}, "commit": "0" * 40}
    for label, correct in {"untrained": 16, "clip-higher": 20, "max-rl, replay": 24}.items():
        pairs = of.untrained if label == "untrained" else of.grid
        sizes = {"selection": of.selection, "held-out": 128}
        fronts = {part: {f"{a:g} {t:g}": [correct] * size for a, t in pairs} for part, size in sizes.items()}
        for seed in (None,) if label == "untrained" else of.seeds:
            name = f"gsm8k/{label}" if seed is None else f"gsm8k/{label}/seed_{seed}"
            records.add(of.records, {name: {"setting": label, "seed": seed, "fronts": fronts, **common}})
    text = page.write_language_model(tmp_path).read_text(encoding="utf-8")
    # (24 - 20) / 32; of equal pairs the lower alpha, then the lower temperature. Of 32 samples all are drawn.
    assert "k = 1: max-rl, replay, alpha 0.5, temperature 0.3; +12.5 [12.5, 12.5] points from clip-higher." in text
    assert "k = 32: do not train; the best setting is the untrained policy." in text
    assert "not finished**: 6 of 9 runs" in text and (tmp_path / "language-model.png").stat().st_size


def test_shares_by_hand():
    def problems(levels):
        return [Problem(str(i), "", "", source=level) for i, level in enumerate(levels)]

    # 2 / 3 of 4 is 2.67 and 1 / 3 is 1.33: the larger remainder gets the fourth.
    assert shares(problems("aab"), 4) == Counter(a=3, b=1)
    assert shares(problems("ab"), 6) == Counter(a=3, b=3)


@pytest.mark.slow
def test_problems_are_new_and_have_the_levels_of_the_training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found, training = evaluated("countdown"), trained("countdown", "final")
    assert len(found) == len({p.id for p in found}) == SELECTION + HELD_OUT
    earlier = {p.id for p in (*training, *trained("countdown", "tuning"), *held_out_stream("countdown"))}
    assert earlier.isdisjoint(p.id for p in found)
    for part in (found[:SELECTION], found[SELECTION:]):
        assert Counter(p.source for p in part) == shares(training, len(part))
    assert evaluated("countdown") == found  # from the file


TINY = """
[model]
path = "countdown"
threads = 1
[sample]
group_size = 4
max_tokens = 40
max_prompt_tokens = 24
[train]
steps = 4
batch_size = 4
mini_batch_size = 4
learning_rate = 1e-4
save_steps = 1
save_total_limit = 9
[evaluate]
problems = 12
temperature = 0.6
"""


@pytest.mark.slow
def test_runs_and_their_controls(tmp_path, monkeypatch):
    """A longer run and its checkpoint, then the earlier checkpoint that is nearest to alpha 0.5."""
    (tmp_path / "tiny.toml").write_text(TINY)
    of = dataclasses.replace(
        plan("countdown", tmp_path, tmp_path),
        recipe=tmp_path / "tiny.toml",
        seeds=(0,),
        temperatures=(0.6,),
        alphas=(0.0, 0.5, 1.0),
        ks=(1, 4),
        samples=4,
        selection=4,
    )
    longer, short = (
        dataclasses.replace(s, seeds=(0,), flags=("--method.name", "clip-higher")) for s in of.settings[:2]
    )
    of = dataclasses.replace(of, settings=(longer, dataclasses.replace(short, step=3)))
    sweep(of, 1)
    make_controls(of, 1)
    known = records.read(of.records)
    assert {name.removeprefix("countdown/") for name in known} == {
        "untrained", "clip-higher, equal time/seed_0", "clip-higher/seed_0", "controls/seed_0",
    }  # fmt: skip
    control, run = known["countdown/controls/seed_0"], known["countdown/clip-higher/seed_0"]
    assert run["steps"] == 3 and known["countdown/clip-higher, equal time/seed_0"]["steps"] == 4
    earlier = control["fronts"]["selection"]
    assert [*earlier] == ["step 1", "step 2"]
    wanted = sum(run["fronts"]["selection"]["0.5 0.6"])
    distance = {int(name[5:]): abs(sum(counts) - wanted) for name, counts in earlier.items()}
    assert control["steps"] == max(step for step, d in distance.items() if d == min(distance.values()))
    assert {*control["fronts"]["held-out"]} == {"0.5 0.6", f"step {control['steps']}"}
    assert all(len(counts) == 8 for counts in control["fronts"]["held-out"].values())
    from diver.sweep.choose import policies

    text = section(of, policies(of, known))
    assert "alpha 0.5 minus the earlier checkpoint" in text and f"of the steps {control['steps']}." in text
