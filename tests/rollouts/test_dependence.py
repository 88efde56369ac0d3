"""Repetition beyond chance: constructed files are found, honest files of narrow policies are not."""

import importlib
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from diver_command import diver
from rows import write_rows
from synthetic_run import write_run

from diver.pages.run_record import RunRecord, repeated, run_alerts
from diver.rollouts.dependence import FALSE_ALARMS, _repeated, dependence, of_evaluation

PROBLEMS, DRAWS = 20, 32


@pytest.fixture(autouse=True)
def a_hundred_permutations(monkeypatch):
    """A repetition that is found takes all the permutations, 100 times as many at the real rate of false alarms."""
    monkeypatch.setattr("diver.rollouts.dependence.FALSE_ALARMS", 1e-2)


def honest(random, problems=PROBLEMS, draws=DRAWS, words=None):
    """Draws of a policy that has few responses for each problem, some of them very likely."""
    words = words or int(random.integers(1, 60))
    spread = random.choice([0.05, 0.3, 1.0, 5.0])
    chances = random.dirichlet([spread] * words, size=problems)
    return {p: [f"response {w}" for w in random.choice(words, draws, p=chances[p])] for p in range(problems)}


def shifted(random, n=8):
    """Requests of n responses with the seeds s, s + 1, ...: the i-th response of a request has the seed s + i."""
    groups = {}
    for problem in range(PROBLEMS):
        stream = [f"{problem} {random.integers(10**6)}" for _ in range(DRAWS)]
        groups[problem] = [stream[request + i] for request in range(DRAWS // n) for i in range(n)]
    return groups


def test_pairs_by_hand():
    """a b a / a a c: distance 1 has one pair (a a), distance 2 one (a . a); at the same place one (a, a)."""
    tables = [np.array([[[0, 1, 0], [0, 0, 2]]])]
    assert _repeated(tables).tolist() == [[1, 1, 1]]
    assert _repeated([*tables, np.array([[[0, 0]]])]).tolist() == [[3 + 1, 2, 1]]


def test_pairs_against_brute_force():
    random = np.random.default_rng(0)
    tables = [random.integers(0, 4, (3, 5)), random.integers(0, 4, (4, 7))]
    rows = [row for table in tables for row in table]
    expected = [sum(int(a == b) for x, y in itertools.combinations(rows, 2) for a, b in zip(x, y, strict=False))]
    expected += [sum(int(x[i] == x[i + lag]) for x in rows for i in range(len(x) - lag)) for lag in range(1, 7)]
    both = [np.stack([table, table[:, ::-1]]) for table in tables]
    assert _repeated(both).tolist()[0] == expected
    assert _repeated(both).tolist()[1][1:] == expected[1:]  # backwards, distances are the same


@pytest.mark.parametrize("seed", range(3))
def test_overlapping_seeds_are_found(seed, monkeypatch):
    monkeypatch.setattr("diver.rollouts.dependence.FALSE_ALARMS", FALSE_ALARMS)
    found = dependence(shifted(np.random.default_rng(seed)).values())
    assert found.lag == 7 and found.repeated == PROBLEMS * 3 * 7
    assert "overlapping seeds" in str(found)


def test_rows_that_occur_twice_are_found():
    random = np.random.default_rng(0)
    groups = {p: [t for t in texts for _ in range(2)] for p, texts in honest(random, draws=16, words=40).items()}
    assert dependence(groups.values()).lag == 1
    again = {p: texts * 2 for p, texts in honest(random, draws=16, words=40).items()}
    assert dependence(again.values()).lag == 16


def test_one_list_of_responses_under_two_ids_is_found():
    groups = honest(np.random.default_rng(1), words=40)
    copies = {f"copy {p}": groups[p] for p in range(3)}
    found = dependence((groups | copies).values())
    assert found.lag == 0 and "two ids" in str(found)


@pytest.mark.parametrize("seed", range(40))
def test_honest_files_are_not_accused(seed, monkeypatch):
    monkeypatch.setattr("diver.rollouts.dependence.FALSE_ALARMS", FALSE_ALARMS)
    assert dependence(honest(np.random.default_rng(seed)).values()) is None


@pytest.mark.slow
def test_honest_samples_of_a_bundled_policy_are_not_accused(monkeypatch):
    """At .3 it repeats itself in more than half of its responses; the same responses, shifted, are found."""
    monkeypatch.setattr("diver.rollouts.dependence.FALSE_ALARMS", FALSE_ALARMS)
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    benchmark = importlib.import_module("dependence")
    for seed, temperature in enumerate((0.3, 1.0, 1.6)):
        groups = benchmark.honest("countdown", temperature, seed)
        assert [len(texts) for texts in groups.values()] == [DRAWS] * PROBLEMS
        assert dependence(groups.values()) is None
        assert dependence(benchmark.shifted(groups).values()) is not None


def generations(folder, groups, key="k", **extra):
    """Rows of `diver eval`, the last samples first."""
    rows = [
        {"key": key, "problem": str(p), "sample": i, "response": text, "tokens": 1, "truncated": False, **extra}
        for p, texts in groups.items()
        for i, text in enumerate(texts)
    ]
    (folder / "generations").mkdir(parents=True, exist_ok=True)
    with (folder / "generations" / "sums.jsonl").open("a") as out:
        out.writelines(json.dumps(row) + "\n" for row in reversed(rows))


def test_the_responses_of_an_evaluation_are_those_of_its_last_settings(tmp_path):
    random = np.random.default_rng(0)
    generations(tmp_path / "last", honest(random, words=40))
    generations(tmp_path / "last", shifted(random), key="later")
    ((name, found),) = of_evaluation(tmp_path / "last")
    assert name == "sums" and found.lag == 7
    generations(tmp_path / "first", shifted(random))
    generations(tmp_path / "first", honest(random, words=40), key="later")
    assert not [*of_evaluation(tmp_path / "first")]
    generations(tmp_path / "counted", shifted(random), count=2)
    assert not [*of_evaluation(tmp_path / "counted")] and not [*of_evaluation(tmp_path / "nothing")]


def test_compare_says_it_of_evaluations(tmp_path):
    random = np.random.default_rng(0)
    counts = [{"id": str(p), "n": DRAWS, "c": p % 3, "distinct": p % 3} for p in range(PROBLEMS)]
    result = {"title": "Sums", "k": [1], "samples": DRAWS, "per_problem": counts}
    for name, groups in (("fair", honest(random, words=40)), ("shifted", shifted(random))):
        generations(tmp_path / name, groups)
        (tmp_path / name / "results.json").write_text(json.dumps({"model": name, "benchmarks": {"sums": result}}))
    shown = diver("compare", "fair", "shifted", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    (line,) = (line for line in shown.stdout.splitlines() if "places apart" in line)
    assert line.startswith("shifted, sums: ") and "overlapping seeds" in line


def test_the_rollouts_of_a_run_are_tested_too(tmp_path):
    folder = write_run(tmp_path / "run", steps=4, rollouts=PROBLEMS, hostile=False)
    assert repeated(RunRecord.read(folder)) is None
    for step in (1, 4):
        file = folder / "rollouts" / f"step_{step:04}.jsonl"
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        file.unlink()
        write_rows(file, ({**row, "response": f"{row['step']} {row['problem']} {row['sample'] // 2}"} for row in rows))
    run = RunRecord.read(folder)
    assert repeated(run).lag == 1
    (alert,) = (alert for alert in run_alerts(run) if alert.title == "Responses repeat beyond chance")
    assert "neighbouring responses of a problem are equal" in alert.text


@pytest.mark.parametrize("command", ["measure", "grade", "browse"])
def test_the_commands_say_it_in_one_line(command, tmp_path):
    groups = shifted(np.random.default_rng(0))
    rows = [{"problem": str(p), "response": t, "answer": "1", "correct": True} for p, of in groups.items() for t in of]
    write_rows(tmp_path / "shifted.jsonl", rows)
    shown = diver(command, "shifted.jsonl", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    (line,) = (line for line in (shown.stdout + shown.stderr).splitlines() if "7 places apart" in line)
    assert "overlapping seeds" in line
    random = np.random.default_rng(0)
    fair = [{**row, "response": f"{row['problem']} {random.integers(4)}"} for row in rows]
    write_rows(tmp_path / "fair.jsonl", fair)
    shown = diver(command, "fair.jsonl", cwd=tmp_path)
    assert "places apart" not in shown.stdout + shown.stderr


def test_long_groups_are_compared_from_their_beginning():
    """Two ranks with one seed, 1,000 draws each of which 500 are repeated, and 100 more such groups."""
    groups = {p: [f"{p} {i % 500}" for i in range(2_000)] for p in range(100)}
    assert dependence(groups.values()).lag == 500


def test_nothing_to_compare():
    assert dependence([]) is None
    assert dependence([["a"], ["a"]]) is None
    assert dependence([["a", "b"], ["c", "d"]]) is None
    assert dependence([["a"] * 8, ["b"] * 8]) is None
