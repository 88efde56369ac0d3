"""Runs of several methods and seeds side by side: the numbers by hand, and what cannot be compared."""

import csv
import dataclasses
import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from diver_command import diver
from in_this_process import runs_in_this_process
from rows import write_rows

from diver.cli.compare import command
from diver.cli.eval import command as evaluate
from diver.cli.train import command as train
from diver.cli.train import parse_seeds
from diver.core.run_folder import run_name
from diver.core.statistics import interval, paired_interval
from diver.core.types import DiverError
from diver.evaluate.comparison import BEFORE, differences, left_out, levels
from diver.evaluate.of_run import read_run
from diver.pages.curves import curves_over_seeds
from diver.pages.over_seeds import by_variant, compare_runs, evaluations, read_runs
from diver.pages.run_record import RunRecord

PROBLEMS = 6


def write_run(folder, method, seed, correct, *, base=None, ids=None, temperature=0.6, config=None, **settings):
    """A finished run of which `correct` of 8 samples of each problem are right; `config` adds to its config.json."""
    (folder / "eval").mkdir(parents=True)
    recipe = {
        "run": {"seed": seed, "folder": str(folder)},
        "method": {"name": method, **settings},
        "train": {"steps": 3},
    }
    identity = {"engine": "built-in", "run.seed": seed, "method.name": method}
    identity |= {f"method.{key}": value for key, value in settings.items()}
    config = config or {}
    made = {"recipe": recipe, "schedule_steps": 3, **config, "identity": identity | config.get("identity", {})}
    (folder / "config.json").write_text(json.dumps(made))
    write_rows(folder / "metrics.jsonl", ({"step": step} for step in range(4)))
    for step, counts in ((0, base), (3, correct)):
        if counts is not None:
            rows = [
                {"id": name, "n": 8, "c": c, "distinct": min(c, 2)}
                for name, c in zip(ids or map(str, range(PROBLEMS)), counts, strict=True)
            ]
            evaluation = {"step": step, "samples": 8, "problems": len(rows), "temperature": temperature, "k": [1, 8]}
            evaluation |= {"estimates": {}, "model": "m", "benchmark": "sums"}
            (folder / "eval" / f"step_{step:04d}.json").write_text(json.dumps({**evaluation, "per_problem": rows}))
    return folder


CLIP = {0: [0, 2, 4, 8, 1, 0], 1: [0, 4, 4, 8, 3, 0]}
MIX = {0: [1, 2, 6, 8, 2, 0], 1: [0, 6, 5, 8, 4, 1]}


@pytest.fixture
def folders(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / "clip" / f"seed_{seed}", "clip-higher", seed, CLIP[seed], base=[1] * PROBLEMS)
        write_run(tmp_path / "mix" / f"seed_{seed}", "diver-mix", seed, MIX[seed], base=[1] * PROBLEMS)
    return tmp_path


def with_pairs(folder, diversity):
    """The last evaluation of a run with the diversity of correct pairs of its problems; None: no pair."""
    file = folder / "eval" / "step_0003.json"
    evaluation = json.loads(file.read_text())
    for row, value in zip(evaluation["per_problem"], diversity, strict=True):
        row |= {} if value is None else {"pair_diversity": value}
    file.write_text(json.dumps(evaluation))


def test_the_diversity_of_correct_pairs_over_the_problems_of_which_every_run_has_it(folders):
    """Problems 1 and 3 are those of all four runs: .5 and .25, then .75 and .75 on average."""
    for seed, values in enumerate(([0.1, 0.5, None, 0.2, None, None], [None, 0.5, None, 0.3, 0.9, None])):
        with_pairs(folders / "clip" / f"seed_{seed}", values)
    for seed, values in enumerate(([0.3, 0.5, 1.0, 0.7, None, None], [None, 1.0, None, 0.8, 0.9, None])):
        with_pairs(folders / "mix" / f"seed_{seed}", values)
    found = evaluations(by_variant(read_runs([folders / "clip", folders / "mix"])))
    found.pop(BEFORE, None)
    (clip, mix), (change,) = levels(found).records(), differences(found, "clip-higher").records()
    assert levels(found).text()[0][-2:] == ["Correct pairs distinct (2 problems)", "Effective solutions"]
    assert clip["pair_diversity"] == pytest.approx(0.375) and clip["effective_solutions"] == pytest.approx(1.6)
    assert mix["pair_diversity"] == pytest.approx(0.75) and mix["effective_solutions"] == pytest.approx(4)
    assert change["pair_diversity"] == pytest.approx(0.375) and "effective_solutions" not in change
    assert not any("pairs" in line for line in left_out(found, "clip-higher"))


def test_levels_and_paired_differences(folders):
    found = evaluations(by_variant(read_runs([folders / "clip", folders / "mix"])))
    assert list(found) == [BEFORE, "clip-higher", "diver-mix"]
    clip, mix = (np.array([values[0], values[1]]) / 8 for values in (CLIP, MIX))
    of_clip = levels(found).rows["clip-higher (2 seeds)"]
    assert of_clip[0] == pytest.approx(interval(clip, (0, 1))) and of_clip[0].mean == pytest.approx(34 / 96)
    assert of_clip[1].mean == pytest.approx(8 / 12) and of_clip[2].mean == pytest.approx((7 + 8) / 12)
    gap = differences(found, "clip-higher").rows
    assert list(gap) == ["diver-mix (2 seeds)"]
    assert gap["diver-mix (2 seeds)"][0] == pytest.approx(paired_interval(clip, mix, (0, 1)))
    assert gap["diver-mix (2 seeds)"][0].mean == pytest.approx((43 - 34) / 96)


def test_a_difference_is_over_the_seeds_of_both(folders):
    write_run(folders / "mix" / "seed_2", "diver-mix", 2, [8] * PROBLEMS)
    found = evaluations(by_variant(read_runs([folders / "clip", folders / "mix"])))
    assert "diver-mix (3 seeds)" in levels(found).rows
    assert differences(found, "clip-higher").rows["diver-mix (2 seeds)"][0].mean == pytest.approx((43 - 34) / 96)
    write_run(folders / "other", "max-rl", 7, [8] * PROBLEMS)
    found = evaluations(variants := by_variant(read_runs([folders / "clip", folders / "other"])))
    assert {*differences(found, "clip-higher").text()[1][1:]} == {"–"}
    assert compare_runs(variants, "clip-higher").notes == [
        "max-rl and clip-higher have no seed in common, so that nothing can be paired"
    ]


def without_width(notes):
    """The notes but the one on the width of the intervals, which six problems have."""
    assert notes[-1].endswith("problems, not 6, give 20.")
    return notes[:-1]


def test_a_problem_that_one_run_lacks_counts_in_no_row(folders):
    """Seven samples of the fourth problem are scored in one run: it has no Pass@8 there."""
    file = folders / "mix" / "seed_1" / "eval" / "step_0003.json"
    evaluation = json.loads(file.read_text())
    evaluation["per_problem"][3] |= {"n": 7, "c": 7}
    file.write_text(json.dumps(evaluation))
    found = evaluations(variants := by_variant(read_runs([folders / "clip", folders / "mix"])))
    table = levels(found).rows
    assert table["clip-higher (2 seeds)"][0].mean == pytest.approx(34 / 96)
    assert table["clip-higher (2 seeds)"][1].mean == pytest.approx(6 / 10)  # with the fourth 8 of 12
    assert table["diver-mix (2 seeds)"][1].mean == pytest.approx(8 / 10)  # 1 2 6 . 2 0 and 0 6 5 . 4 1
    assert differences(found, "clip-higher").rows["diver-mix (2 seeds)"][1].mean == pytest.approx(2 / 10)
    few = "1 of 6 problems left out, of which a run has too few scored samples"
    assert without_width(compare_runs(variants, "clip-higher").notes) == [f"Pass@8: {few}", f"Distinct@8: {few}"]


def test_what_else_differs_than_the_method_is_told(tmp_path):
    for name, seed, rate in (("a", 0, 0.1), ("b", 0, 0.2)):
        config = {"identity": {"train.learning_rate": rate}, "own_code": {"my:M": name}, "content": {"data.path": "1"}}
        write_run(tmp_path / name, f"method-{name}", seed, CLIP[0], config=config)
    variants = by_variant(read_runs([tmp_path]))
    assert without_width(compare_runs(variants, "method-a").notes) == [
        "the file of my:M differs: a (method-a); b (method-b)",
        "train.learning_rate differs: 0.1 (method-a); 0.2 (method-b)",
    ]
    write_run(tmp_path / "c", "method-a", 0, CLIP[0], config={"identity": {"train.learning_rate": 0.3}})
    variants = by_variant(read_runs([tmp_path / "a", tmp_path / "c"]))
    assert without_width(compare_runs(variants, next(iter(variants))).notes) == []  # the labels say it


def test_code_and_data_of_one_variant_alone_are_no_difference(tmp_path):
    """The other one uses neither a file of its own nor one of data, as its method and data.path say."""
    own = {"own_code": {"my:M": "12345678"}, "content": {"data.path": "87654321"}}
    write_run(tmp_path / "a", "clip-higher", 0, CLIP[0], config={"own_code": {}, "content": {}})
    write_run(tmp_path / "b", "my:M", 0, CLIP[0], config=own)
    variants = by_variant(read_runs([tmp_path]))
    assert without_width(compare_runs(variants, "clip-higher").notes) == []


def test_runs_have_the_names_that_are_given(folders, monkeypatch):
    monkeypatch.chdir(folders)
    out = diver("compare", "base=clip", "ours=mix", "--baseline", "base").stdout
    assert [line.split("|")[1].strip() for line in out.splitlines() if line.startswith("|")] == [
        "variant", "-" * 25, "before training (2 seeds)", "base (2 seeds)", "ours (2 seeds)",
        "minus base", "-" * 14, "ours (2 seeds)",
    ]  # fmt: skip
    one, two = by_variant(read_runs(["one=clip/seed_0", "one=clip/seed_1", "two=clip/seed_0"])).values()
    assert [*one] == [0, 1] and [*two] == [0]  # the same recipe under two names is two variants
    assert list(by_variant(read_runs(["all=clip", "all=mix"]))) == [
        "all, method.name clip-higher", "all, method.name diver-mix",
    ]  # fmt: skip
    (folders / "lr=1").mkdir()
    (folders / "clip" / "seed_0").rename(folders / "lr=1" / "seed_0")
    assert list(by_variant(read_runs(["lr=1"]))) == ["clip-higher"]
    for wrong, told in (("=mix", "'=mix': give a path, or NAME=PATH"), ("a=none", "none: no such file or folder"),
                        ("before training=mix", "'before training' is the policy before training")):  # fmt: skip
        assert told in diver("compare", wrong).stderr


@pytest.mark.parametrize("key", ["content", "own_code"])
def test_two_versions_of_the_data_or_of_ones_own_code_are_two_variants(tmp_path, key):
    for seed in (0, 1):
        held = {key: {"data.path": f"{seed}" * 8}}
        write_run(tmp_path / f"seed_{seed}", "my:M", seed, CLIP[seed], config=held)
    assert list(by_variant(read_runs([tmp_path]))) == [f"my:M, {key}.data.path {str(s) * 8}" for s in (0, 1)]


def test_two_models_have_no_common_policy_before_training(folders):
    """Although no seed was run with both."""
    other = {"identity": {"model.path": "other"}}
    write_run(folders / "other", "max-rl", 7, CLIP[0], base=[5] * PROBLEMS, config=other)
    assert BEFORE not in evaluations(by_variant(read_runs([folders / "clip", folders / "other"])))


def test_other_problems_of_the_same_ids_are_not_paired(folders):
    for name in ("clip", "mix"):
        file = folders / name / "seed_0" / "eval" / "step_0003.json"
        evaluation = json.loads(file.read_text())
        for row in evaluation["per_problem"]:
            row["digest"] = f"{name} {row['id']}"
        file.write_text(json.dumps(evaluation))
    variants = by_variant(read_runs([folders / "clip" / "seed_0", folders / "mix" / "seed_0"]))
    with pytest.raises(DiverError, match="its held-out problems are not those of the other runs"):
        evaluations(variants)


def test_evaluations_made_later_stand_for_those_of_the_runs(folders, capsys):
    """As `diver eval RUN --temperature 1.0` writes them; those of two recipes lie apart."""
    paths = [str(folders / "clip"), str(folders / "mix")]
    with pytest.raises(DiverError, match="--evaluations .*: has none of these runs; make it by: diver eval RUN"):
        command([*paths, "--evaluations", str(folders)])
    for file in folders.glob("*/*/eval/step_*.json"):
        evaluation = json.loads(file.read_text()) | {"temperature": 1.0}
        for row in evaluation["per_problem"]:
            row["c"] = min(8, row["c"] + 1)
        out = folders / "later" / run_name(file.parents[1]) / file.stem
        out.mkdir(parents=True)
        (out / "results.json").write_text(json.dumps({"model": "m", "benchmarks": {"sums": evaluation}}))
    assert sorted(p.relative_to(folders).as_posix() for p in folders.glob("later/*/*")) == [
        *("later/clip/seed_0", "later/clip/seed_1", "later/mix/seed_0", "later/mix/seed_1"),
    ]
    found = evaluations(by_variant(read_runs(map(Path, paths), folders / "later")))
    assert levels(found).rows["clip-higher (2 seeds)"][0].mean == pytest.approx((34 + 10) / 96)  # two had all 8
    assert levels(found).rows["before training (2 seeds)"][0].mean == 2 / 8
    (folders / "mix" / "seed_0" / "checkpoints" / "step_0003").mkdir(parents=True)  # of a policy trained since
    with pytest.raises(DiverError, match="mix/seed_0/step_0003: is of another policy than .*; delete it"):
        command([*paths, "--evaluations", str(folders / "later")])
    (folders / "mix" / "seed_0" / "checkpoints" / "step_0003").rmdir()
    (folders / "later" / "mix" / "seed_1" / "step_0003" / "results.json").unlink()
    with pytest.raises(DiverError, match="is 0.6, of the first run 1.0; evaluate all alike by diver eval RUN"):
        command([*paths, "--evaluations", str(folders / "later")])


@pytest.mark.parametrize("base", [None, [2] * PROBLEMS])
def test_runs_that_began_otherwise_have_no_common_policy_before_training(folders, base):
    write_run(folders / "other", "max-rl", 0, CLIP[0], base=base)
    found = evaluations(by_variant(read_runs([folders / "clip", folders / "other"])))
    assert list(found) == ["clip-higher", "max-rl"]


def test_a_policy_that_was_sampled_less_before_training_is_no_row(folders):
    """Pass@k of 8 samples stands beside it, which fewer do not have."""
    path = folders / "clip" / "seed_0" / "eval" / "step_0000.json"
    path.write_text(path.read_text().replace('"samples": 8', '"samples": 4'))
    assert list(evaluations(by_variant(read_runs([folders / "clip"])))) == ["clip-higher"]


def test_variants_of_a_method_are_named_by_what_differs(tmp_path):
    write_run(tmp_path / "a", "max-rl", 0, CLIP[0])
    write_run(tmp_path / "b", "diver-mix", 0, CLIP[0], coef=0.1, divisor="std")
    write_run(tmp_path / "c", "diver-mix", 0, CLIP[0], coef=0.2, divisor="std")
    found = by_variant(read_runs([tmp_path]))
    assert list(found) == ["max-rl", "diver-mix, method.coef 0.1", "diver-mix, method.coef 0.2"]


def test_a_variant_is_not_called_as_another_one_is(tmp_path):
    for name, coef in (("b", 0.1), ("c", 0.2)):
        write_run(tmp_path / name, "diver-mix", 0, CLIP[0], coef=coef)
    named = write_run(tmp_path / "a", "max-rl", 0, CLIP[0])
    name = "diver-mix, method.coef 0.1"
    with pytest.raises(DiverError, match=f"another variant is called '{name}', too; rename it"):
        by_variant(
            [dataclasses.replace(RunRecord.read(named), name=name), *read_runs([tmp_path / "b", tmp_path / "c"])]
        )


def test_solutions_that_may_be_one_and_of_too_few_samples(folders):
    """Where the verifier cannot tell whether two solutions are one; and where no problem has all its samples scored."""
    for file in folders.glob("*/*/eval/*.json"):
        evaluation = json.loads(file.read_text()) | {"exact_solutions": False}
        for row in evaluation["per_problem"]:
            row |= {"n": 7, "c": min(row["c"], 7)}
        file.write_text(json.dumps(evaluation))
    found = evaluations(by_variant(read_runs([folders / "clip", folders / "mix"])))
    for table in (levels(found), differences(found, "clip-higher")):
        header, *rows = table.text()
        assert header[-1] == "Written differently@8" and {row[-1] for row in rows} == {"–"}


def test_what_cannot_be_compared_is_told(folders):
    def told(*paths):
        with pytest.raises(DiverError) as error:
            evaluations(by_variant(read_runs([folders / path for path in paths])))
        return str(error.value)

    (folders / "empty").mkdir()
    assert "empty: is neither a run folder nor" in told("empty")
    for read in (RunRecord.read, read_run):
        with pytest.raises(DiverError, match="clip: .* name a run in it: .*clip/seed_0"):
            read(folders / "clip")
    assert "the same recipe and the same seed" in told("clip", "clip/seed_0")
    write_run(folders / "hot", "max-rl", 0, CLIP[0], temperature=1.0)
    assert "hot: temperature of its evaluation is 1.0, of the first run 0.6" in told("clip", "hot")
    write_run(folders / "other", "max-rl", 0, CLIP[0], ids=list("abcdef"))
    assert "other: its held-out problems are not those of the other runs" in told("clip", "other")
    write_run(folders / "young", "max-rl", 0, None, base=CLIP[0])
    assert "young: was evaluated after 0 of 3 steps; finish the run" in told("clip", "young")
    half = write_run(folders / "half", "max-rl", 0, CLIP[0])
    config = json.loads((half / "config.json").read_text())
    config["recipe"]["train"]["steps"] = config["schedule_steps"] = 6
    (half / "config.json").write_text(json.dumps(config))
    assert (
        "half: was evaluated after 3 of 6 steps; finish the run, end it at its last checkpoint (--train.steps)"
        in told("clip", "half")
    )


def test_the_command_writes_tables_and_figures(folders, capsys):
    paths = [str(folders / "clip"), str(folders / "mix")]
    command([*paths, "--out", str(folders / "out"), "--format", "csv", "--figures", "pdf"])
    with open(folders / "out" / "differences.csv") as file:
        (row,) = csv.DictReader(file)
    assert row["minus clip-higher"] == "diver-mix (2 seeds)" and float(row["pass@1"]) == pytest.approx((43 - 34) / 96)
    assert (folders / "out" / "pass_at_k.pdf").read_bytes().startswith(b"%PDF")
    assert capsys.readouterr().out.startswith("| variant ")  # Markdown, whatever the format, as --help says
    assert "are printed as Markdown" in " ".join(diver("compare", "--help", "all").stdout.split())
    command(paths)
    assert "+9.4" in capsys.readouterr().out
    command(paths[:1])
    assert f"minus {BEFORE}" in capsys.readouterr().out
    with pytest.raises(DiverError, match="--format csv: there are two tables; name a folder with --out"):
        command([*paths, "--format", "csv"])
    with pytest.raises(DiverError, match="'max-rl'; choices: 'before training', clip-higher, diver-mix"):
        command([*paths, "--baseline", "max-rl"])


def test_a_page_shows_runs_against_each_other(folders, monkeypatch):
    """By hand: with seed 0, 1 + 2 + 6 + 8 + 2 of diver-mix's 48 samples are right, 2 + 4 + 8 + 1 of clip-higher's."""
    monkeypatch.chdir(folders)

    def rows(*words):
        assert diver("browse", *words, "--out", "page.html").returncode == 0
        html = Path("page.html").read_text()
        section = html.partition("<h2>Against each other</h2>")[2].partition("</section>")[0]
        found = [re.findall(r"<th[^>]*>(.*?)</th>", section.partition("</thead>")[0])[1:]]
        body = re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', section)
        found += [[name, *re.findall(r"<td>([^<]*)", cells)] for name, cells in body]
        return found, html.partition("<h1>")[2].partition("</h1>")[0], section

    one, verdict, _ = rows("clip/seed_0", "mix/seed_0")
    names = ["before training (1 seed)", "clip-higher (1 seed)", "diver-mix (1 seed)"]
    assert one[:2] == [
        ["diver-mix (1 seed) minus clip-higher", *names],
        ["Pass@1", "+8.3", "12.5", "31.2", "39.6"],
    ]
    assert verdict.startswith("diver-mix against clip-higher: Pass@1 and Pass@8 do not differ significantly")
    several, _, _ = rows("clip", "mix")
    assert several[0][0] == "diver-mix (2 seeds) minus clip-higher" and several[1][1] == "+9.4"
    seeds, _, _ = rows("clip")
    assert seeds[0][0] == f"clip-higher (2 seeds) minus {BEFORE}" and seeds[1][1] == "+22.9"  # 34 / 96 - 1 / 8
    for method in ("dapo", "max-rl"):
        write_run(folders / method, method, 0, MIX[0], base=[1] * PROBLEMS)
    more, verdict, _ = rows("clip/seed_0", "mix/seed_0", "dapo")
    assert verdict == "2 variants against clip-higher" and len(more[0]) == 6
    many, _, _ = rows("clip/seed_0", "mix/seed_0", "dapo", "max-rl")
    assert many[0][:2] == ["Pass@1", "Pass@8"] and many[-1][0] == "max-rl (1 seed)"  # a table each
    write_run(folders / "young", "max-rl", 0, None, base=CLIP[0])
    assert "young: was evaluated after 0 of 3 steps; finish the run, end it at" in rows("clip", "young")[2]


def test_curves_over_seeds_are_means_between_the_lowest_and_the_highest(folders):
    """Over the steps that both seeds have: the second was recorded to step 2 only."""
    for seed, values in ((0, [0.25, 0.5, 0.75]), (1, [0.75, 0.5])):
        rows = [{"step": step, "reward/outcome": value} for step, value in enumerate(values, 1)]
        write_rows(folders / "clip" / f"seed_{seed}" / "metrics.jsonl", rows)
    runs = read_runs([folders / "clip"])
    (panel,) = curves_over_seeds([runs])
    (line,) = panel["lines"]
    assert panel["title"] == "Outcome reward" and line == {
        "run": 0, "steps": [1, 2], "values": [0.5, 0.5], "low": [0.25, 0.5], "high": [0.75, 0.5],
    }  # fmt: skip


def test_figures_of_a_comparison(folders, monkeypatch):
    monkeypatch.chdir(folders)
    for name in ("clip", "mix"):
        rows = [{"step": step, "reward/outcome": step / 4, "policy/entropy": 1.0} for step in range(1, 4)]
        for seed in (0, 1):
            write_rows(folders / name / f"seed_{seed}" / "metrics.jsonl", rows)
    words = ("clip", "ours=mix", "--out", "out", "--format", "latex", "--uncertainty", "plus-minus", "--figures")
    out = diver("compare", *words, "svg", "pdf").stdout
    written = [
        "levels.tex",
        "differences.tex",
        *(f"{n}.{k}" for n in ("pass_at_k", "difference_over_k", "curves") for k in ("svg", "pdf")),
    ]
    assert out.splitlines()[-8:] == [f"out/{name}" for name in written]
    assert "; ±: half the width of 95 % intervals over seeds and problems" in out
    curves = Path("out/curves.svg").read_text()
    assert all(text in curves for text in ("Outcome reward", "Entropy", "clip-higher (2 seeds)", "ours (2 seeds)"))
    # Of 96 samples after training 34 and 43 are right; after 48 before training 12.5 per cent.
    levels_in_latex = Path("out/levels.tex").read_text().splitlines()
    assert levels_in_latex[-3].startswith(r"ours (2 seeds) & \textbf{44.8} $\pm$ ") and " [" not in levels_in_latex[-3]
    assert levels_in_latex[-4].startswith(r"clip-higher (2 seeds) & 35.4 $\pm$ ")


def test_what_restart_has_set_aside_is_no_run(folders):
    """And a folder whose own name ends in a number is one."""
    (folders / "clip" / "seed_0").rename(folders / "clip" / "seed_0.1")
    write_run(folders / "clip" / "seed_0", "clip-higher", 0, CLIP[1])
    write_run(folders / "rates" / "lr_0", "clip-higher", 4, CLIP[1])
    write_run(folders / "rates" / "lr_0.1", "clip-higher", 5, CLIP[1])
    found = by_variant(read_runs([folders / "clip", folders / "rates"]))
    assert {label: [*runs] for label, runs in found.items()} == {"clip-higher": [0, 1, 4, 5]}
    assert found["clip-higher"][0].folder.name == "seed_0"


def test_seeds_are_a_range_or_a_list():
    assert parse_seeds("0..3") == [0, 1, 2, 3] and parse_seeds("5") == [5] and parse_seeds("7,0") == [7, 0]
    for wrong in ("", "a", "3..1", "1,1", "-1", "0..x", "-1..2", "٣", "0..٣", "1_0"):
        with pytest.raises(DiverError, match=r"--seeds .*such as 0\.\.4 or 0,3,7"):
            parse_seeds(wrong)


def test_runs_without_an_evaluation_are_not_to_be_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("diver.cli.train.notes_of", lambda recipe: [])
    monkeypatch.setattr("diver.train.parallel.run_all", lambda runs, logs, workers: None)
    (tmp_path / "own.toml").write_text("[evaluate]\nproblems = 0\n")
    train(["own.toml", "--seeds", "0,2", "--run.folder", "own"])
    assert capsys.readouterr().out == "method diver-mix, seeds 0, 2, engine built-in\nRuns: own/seed_N\n"


@pytest.mark.first
@pytest.mark.slow
def test_runs_of_several_seeds(tmp_path, monkeypatch, capsys):
    """Each in a folder of its own, as `diver train --run.seed` makes it; the same command again trains nothing.

    The first runs are processes, two at once; those after them are made in this one.
    """
    (tmp_path / "own.toml").write_text(
        "[data.countdown]\nproblems = 32\n[sample]\nmax_tokens = 40\nmax_prompt_tokens = 24\n[method]\n"
        'name = "max-rl"\n'
        "[train]\nsteps = 1\nbatch_size = 4\nmini_batch_size = 2\n[evaluate]\nproblems = 4\nnum_samples = 4\n"
    )
    monkeypatch.chdir(tmp_path)
    train(["own.toml", "--seeds", "0,2", "--jobs", "2", "--run.folder", "runs/own"])
    assert "max-rl (2 seeds)" in capsys.readouterr().out
    config = json.loads((tmp_path / "runs" / "own" / "seed_2" / "config.json").read_text())
    assert config["command"] == shlex.join(["diver", *sys.argv[1:]])
    train(["own.toml", "--run.seed", "2", "--run.folder", "runs/alone"])
    rows = [
        json.loads((tmp_path / "runs" / name / "eval" / "step_0001.json").read_text())
        for name in ("own/seed_2", "alone")
    ]
    assert rows[0] == rows[1]
    written = {p: p.stat().st_mtime_ns for p in (tmp_path / "runs" / "own").glob("seed_*/metrics.jsonl")}
    with runs_in_this_process():
        train(["own.toml", "--seeds", "0,2", "--run.folder", "runs/own"])
    assert {p: p.stat().st_mtime_ns for p in written} == written and len(written) == 2
    for seed in (0, 2):
        evaluate([f"runs/own/seed_{seed}", "--temperature", "0.6", "--samples", "8"])
    command(["runs/own", "--evaluations", "runs/eval"])
    out = capsys.readouterr().out
    assert "| max-rl (2 seeds)" in out and "Distinct@8" in out and f"minus {BEFORE}" in out
    with pytest.raises(DiverError, match="another"):
        train(["own.toml", "--seeds", "0,2", "--run.folder", "runs/own", "--method", "dr-grpo"])
    with runs_in_this_process():
        train(["own.toml", "--seeds", "2", "--run.folder", "runs/own", "--restart"])
    assert "max-rl (1 seed)" in capsys.readouterr().out and (tmp_path / "runs" / "own" / "seed_2.1").is_dir()
