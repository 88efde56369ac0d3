"""The page of synthetic runs, read back by an HTML parser: what it says, and that nothing it quotes can act."""

import base64
import dataclasses
import hashlib
import json
import math
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from diver_command import fails, succeeds
from hypothesis import given
from hypothesis import strategies as st
from report_page import packed, write_several, written
from rows import write_rows
from synthetic_run import HOSTILE, evaluation, write_run
from waiting import until

from diver.core.files import to_json
from diver.core.statistics import UNKNOWN, Estimate
from diver.core.tables import clean, counted
from diver.core.types import DiverError
from diver.evaluate.comparison import Comparison
from diver.evaluate.evaluate import duration
from diver.pages import browse, serve
from diver.pages.curves import PANELS, curves_data
from diver.pages.page import span_text, text
from diver.pages.run_page import labels, render, write_report
from diver.pages.run_record import RunRecord, conclusion, run_alerts, run_folders, summary_table

VOID = {"meta", "br"}


class Page(HTMLParser):
    """The tags, attributes and text of a page; fails on a tag that is not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.open, self.words = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *a) for a in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *a) for a in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs") / "quickstart")


@pytest.fixture(scope="module")
def html(run):
    return write_report(run).read_bytes().decode("utf-8")


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def test_what_was_written_by_others_is_only_text(page, html):
    assert page.tags.count("script") == 2 and page.tags.count("meta") == 4 and page.tags.count("style") == 1
    assert not {"iframe", "img", "base", "form", "object", "embed", "link"} & set(page.tags)
    for tag, name, value in page.attributes:
        assert not name.startswith("on") and name not in {"src", "srcset", "action", "style"}, (tag, name, value)
        assert "://" not in (value or ""), (tag, name, value)
        assert name != "href" or value.startswith("#curve-"), (tag, name, value)
    shown = [written(r["text"]) for g in packed(html)["browser"]["groups"] for r in g["responses"]]
    for hostile in HOSTILE[:5]:
        assert hostile in shown and hostile not in html
    assert "right to left \ufffd override, שלום עולם, مرحبا بالعالم" in shown


def test_no_character_that_breaks_a_file_gets_through(run, html):
    unsafe = "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\uffff]"
    data = json.dumps(packed(html), ensure_ascii=False)
    assert not re.search(unsafe, html) and not re.search(unsafe, data)
    assert "\ufffd[31m" in data
    assert not re.search("[\x00-\x09\x0b-\x1f]", summary_table(run))


def test_scripts_and_network_are_forbidden_but_for_what_the_page_brings(html):
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', html)
    assert policy and policy.end() < html.index("<style>") < html.index("<script>")
    rules = dict(rule.split(" ", 1) for rule in policy[1].replace("&#x27;", "'").split("; "))
    source = {tag: re.search(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)[1] for tag in ("style", "script")}
    digest = {tag: base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for tag, s in source.items()}
    assert rules == {
        "default-src": "'none'",
        "script-src": f"'sha256-{digest['script']}'",
        "style-src": f"'sha256-{digest['style']}'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
    }


def test_the_script_makes_no_markup_and_asks_for_nothing(html):
    source = re.search(r"<script>(.*?)</script>", html, re.DOTALL)[1]
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "fetch(",
        "XMLHttp",
        "import(",
    ):
        assert word not in source


def test_the_page_stays_small(html, run):
    assert len(html) < 400_000
    data = packed(html)["browser"]
    longest = max((part for g in data["groups"] for r in g["responses"] for part in r["text"]), key=len)
    assert len(longest) <= data["max_chars"] == 12_000


def test_the_summary_comes_first_and_all_parts_are_there(page, html):
    headings = ["Pass@k over k", "Before and after training", "Alerts", "Curves", "Groups", "Provenance"]
    places = [page.text.index(heading) for heading in ["Pass@1 rose by", *headings]]
    assert places == sorted(places)
    for word in ("countdown", "diver-mix", "diver train recipes/quickstart.toml", '"learning_rate": 0.0001', "0b1a489"):
        assert word in page.text
    data = packed(html)
    titles = [panel["title"] for panel in data["curves"]["panels"]]
    others = ("replay/", "response/turns_mean")  # the run neither replays nor has an environment
    drawn = [panel.title for panel in PANELS if not panel.id.startswith(others)]
    assert titles == ["Held-out Pass@1", "Held-out Pass@64", *drawn]
    assert {"policy/clip_fraction", "time/sample"} <= {panel["title"] for panel in data["curves"]["more"]}
    assert {g["step"] for g in data["browser"]["groups"]} == {1, 60} and len(data["browser"]["groups"]) == 48


def test_weights_between_are_drawn_where_they_were_evaluated(tmp_path):
    """Pass@1 against Pass@k of the largest k: a line for each temperature, without half of each and unknown points."""
    run = write_run(tmp_path / "run", steps=2, rollouts=2)
    assert "Weights between" not in Page(render([RunRecord.read(run)])).text
    places = {
        (0, 0.6): (0.3, 0.9),
        (0.5, 0.6): (0.4, 0.8),
        (1, 0.6): (0.5, 0.7),
        (0, 1): (0.3, 0.9),
        (1, 0): (0.5, None),
    }
    rows = [
        {"policy": f"alpha {alpha}", "alpha": alpha, "temperature": temperature, "pass@1": x, "pass@8": 0, "pass@16": y}
        for (alpha, temperature), (x, y) in places.items()
    ]
    rows.append({"policy": "half of each, temperature 0.6", "pass@1": None, "pass@8": 0.1, "pass@16": 0.95})
    found = {"problems": 3, "samples": 16, "k": [1, 8, 16], "rows": rows}
    front = {"base": HOSTILE[0], "trained": "run/checkpoints/step_0002", "benchmarks": {"countdown": found}}
    (run / "eval/front.json").write_text(json.dumps(front))
    html = render([RunRecord.read(run)])
    page = Page(html)
    assert (
        "3 held-out problems with 16 samples each" in page.text and HOSTILE[0] in page.text and HOSTILE[0] not in html
    )
    section = html[html.index("<h2>Weights between</h2>") :].partition("</section>")[0]
    assert re.findall(r"</i>(temperature [^<]+)<", section) == ["temperature 0.6", "temperature 1"]
    assert re.findall(r'(?:ring" )?cx="([\d.]+)" cy="([\d.]+)"', section) == [
        ("34.0", "28.0"), ("190.0", "154.0"), ("346.0", "280.0"), ("34.0", "28.0"),
    ]  # fmt: skip
    assert section.count('class="ring"') == 2 and section.count(">untrained<") == 1 and ">0.5</text>" in section
    assert "Pass@16, %" in section
    assert "Weights between" not in Page(render([RunRecord.read(run), RunRecord.read(run)])).text


def test_a_page_that_is_there_is_replaced_and_nothing_else_is_left(tmp_path):
    folder = write_run(tmp_path / "run", steps=2, rollouts=3)
    (folder / "report.html").write_text("old")
    before = {p.name for p in folder.iterdir()}
    assert write_report(folder) == folder / "report.html"
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    assert {p.name for p in folder.iterdir()} == before


def test_the_same_run_gives_the_same_page(run, html):
    assert render([RunRecord.read(run)]) == html


def _config_only(folder):
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def test_a_run_that_has_only_begun(tmp_path):
    folder = _config_only(tmp_path / "run")
    assert "not evaluated after training yet" in Page(render([RunRecord.read(folder)])).text
    assert "not evaluated after training yet" in summary_table(folder)
    assert conclusion(RunRecord.read(folder)).endswith("not evaluated after training yet")


def test_whatever_is_missing_or_odd_is_left_out(tmp_path):
    folder = _config_only(tmp_path / "run")
    (folder / "config.json").write_text(
        '{"recipe": {"model": 3, "train": null}, "versions": [], "schedule_steps": "x"}'
    )
    rows = ['{"step": 2, "reward/outcome": 0.5}', '{"step": 1, "reward/outcome": null}']
    rows += ['{"step": 3, "reward/outcome": NaN, "policy/entropy": "high", "group/solve_all": true}']
    (folder / "metrics.jsonl").write_text("\n".join([*rows, '{"step": 4, "rew']))
    (folder / "rollouts").mkdir()
    row = {"problem": "p", "sample": 0, "response": "r", "grade": None, "reward": None, "diversity": None}
    (folder / "rollouts" / "step_0002.jsonl").write_text(json.dumps(row) + "\n")
    (folder / "rollouts" / "step_2.txt").write_text("")
    record = RunRecord.read(folder)
    assert list(record.metrics.index) == [1, 2, 3]
    assert record.column("reward/outcome").to_dict() == {2: 0.5}
    assert len(record.column("group/solve_all")) == len(record.column("policy/entropy")) == 0
    html = render([record])
    data = packed(html)
    assert [panel["id"] for panel in data["curves"]["panels"]] == ["reward/outcome"]
    assert [r["grade"] for g in data["browser"]["groups"] for r in g["responses"]] == [None]
    assert "not evaluated" in summary_table(folder)


def test_estimates_of_no_problem_are_left_out(tmp_path):
    """Every response of both problems unscored but one: no Pass@2, and Pass@1 of one problem has no interval."""
    folder = _config_only(tmp_path / "run")
    (folder / "eval").mkdir()
    rows = [{"id": "a", "n": 1, "c": 1, "distinct": 1}, {"id": "b", "n": 0, "c": 0, "distinct": 0}]
    (folder / "eval" / "step_0000.json").write_text(to_json(evaluation(rows, 4, (1, 2))))
    assert [row.cells() for row in RunRecord.read(folder).before_and_after] == [["Pass@1", "100.0", "–", "–  "]]
    (panel,) = packed(render([RunRecord.read(folder)]))["curves"]["panels"]
    assert (panel["id"], panel["lines"][0]["values"], panel["lines"][0]["low"]) == ("eval/pass@1", [1.0], [None])


@pytest.mark.parametrize("name", ["metrics.jsonl", "eval/step_0002.json", "rollouts/step_0002.jsonl"])
def test_a_file_that_is_not_what_a_run_writes_is_named(tmp_path, name):
    folder = _config_only(tmp_path / "run")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("[1]\n")
    with pytest.raises(DiverError, match=rf"{re.escape(name)}(:1)?: a list, not an object"):
        write_report(folder)
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize(("name", "content"), [(None, ""), ("config.json", "{"), ("config.json", "[]")])
def test_what_is_no_run_folder_is_an_error_of_one_line(tmp_path, name, content):
    if name:
        (tmp_path / name).write_text(content)
    for use in (write_report, summary_table):
        with pytest.raises(DiverError, match=re.escape(str(tmp_path))) as error:
            use(tmp_path)
        assert "\n" not in str(error.value)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("name", ["results.json", "grades.jsonl"])
def test_an_evaluation_is_no_run(tmp_path, name):
    (tmp_path / "config.json").write_text('{"identity": {"model": "countdown"}}')
    (tmp_path / name).write_text("")
    with pytest.raises(DiverError, match="has an evaluation or grades and no run; diver browse shows its responses"):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def _evaluated(folder, base, trained, samples=4):
    """A run whose evaluations have a row for each problem: {id: (c, distinct)}."""
    _config_only(folder)
    (folder / "eval").mkdir()
    for step, found in ((0, base), (9, trained)):
        rows = [{"id": name, "n": samples, "c": c, "distinct": d} for name, (c, d) in found.items()]
        (folder / "eval" / f"step_{step:04}.json").write_text(to_json(evaluation(rows, samples, (1, 2))))
    return folder


def twelve(**problems):
    """Each problem twelve times."""
    return {f"{name}{i}": row for name, row in problems.items() for i in range(12)}


def test_the_interval_of_the_change_pairs_problems_by_id(tmp_path):
    """By hand, n = 4. Pass@1 is c/4: "a" 1/4 to 2/4, "b" 0 to 1/4, both +1/4. Pass@2 is 1 - C(4-c, 2)/6:
    "a" 1/2 to 5/6 (+1/3), "b" 0 to 1/2 (+1/2), mean 5/12, deviation of 12 of each 1/12 sqrt(24/23), t of 23 is 2.0687.
    Distinct: "a" 1 to 1, "b" 0 to 2.
    """
    folder = _evaluated(tmp_path / "run", twelve(a=(1, 1), b=(0, 0)), twelve(b=(1, 2), a=(2, 1)))
    rows = RunRecord.read(folder).before_and_after
    assert [row.label for row in rows] == ["Pass@1", "Pass@2", "Distinct@4"]
    half = 2.0687 / 12 / 23**0.5
    np.testing.assert_allclose([row.change.mean for row in rows], [1 / 4, 5 / 12, 1.0])
    np.testing.assert_allclose(rows[0].change, 1 / 4)
    np.testing.assert_allclose(rows[1].change[1:], (5 / 12 - half, 5 / 12 + half), atol=1e-5)
    assert "[38.1, 45.3]" in Page(render([RunRecord.read(folder)])).text


def test_the_change_over_k_is_drawn_with_its_ranges_in_words(tmp_path):
    """One more of 4 samples is correct in each of 20 problems: Pass@1 rises by a quarter, Pass@4 stays 1."""
    before, after = ({str(i): (c + i % 2, 1) for i in range(20)} for c in (1, 2))
    text = write_report(_evaluated(tmp_path / "run", before, after)).read_text()
    assert text.count("After minus before training, points") == 1 and text.count('class="band single"') == 1
    (words,) = re.findall(r"k from 1 to 4, all together \(95 %\): ([^<]*?) Light", text)
    assert re.fullmatch(
        r"after training is higher for k = 1( to [23])?; no significant difference for k = .*4\.", words
    )
    alone = write_report(_evaluated(tmp_path / "one", {"a": (0, 0)}, {"a": (1, 1)})).read_text()
    assert "After minus before training" not in alone


def test_the_terminal_gets_the_same_table(tmp_path):
    """The problems of the test above."""
    folder = _evaluated(tmp_path / "run", twelve(a=(1, 1), b=(0, 0)), twelve(b=(1, 2), a=(2, 1)))
    recipe = {"model": {"path": "countdown"}, "method": {"name": "diver-mix"}, "train": {"steps": 10}}
    (folder / "config.json").write_text(json.dumps({"recipe": recipe}))
    times = {"time/sample": 60.0, "time/verify": 1.0, "time/diversity": 1.0, "time/update": 30.0}
    write_rows(folder / "metrics.jsonl", ({"step": s} | times for s in (1, 9)))
    assert summary_table(folder).split("\n") == [
        "countdown trained with diver-mix: 9 of 10 steps in 3 min 04 s",
        "After 9 steps, Pass@1 rose by 25.0 points, Pass@2 rose by 41.7 points",
        "",
        "24 held-out problems, 4 samples each at temperature 1",
        "",
        "|            |   before training |    after training |             change   |",
        "| ---------- | ----------------: | ----------------: | -------------------: |",
        "| Pass@1     |  12.5 [6.5, 21.3] | 37.5 [29.9, 45.6] | +25.0 [25.0, 25.0] * |",
        "| Pass@2     | 25.0 [14.7, 38.1] | 66.7 [57.2, 75.2] | +41.7 [38.1, 45.3] * |",
        "| Distinct@4 |    0.5 [0.3, 0.9] |    1.5 [1.2, 1.8] |    +1.0 [0.4, 1.5] * |",
        "",
        "Pass@k in percent. Distinct@n: distinct correct solutions among n samples.",
        "[ ]: 95 % intervals over problems (of the change: paired); * : that of the",
        "change excludes 0.",
        "",
        f"Report:   diver browse {folder}",
        f"Metrics:  {folder / 'metrics.jsonl'}",
    ]


def test_an_evaluation_that_was_deleted_is_missed(tmp_path):
    folder = _evaluated(tmp_path / "run", {"a": (1, 1)}, {"a": (2, 1)})
    rows = ({"step": step, "eval/pass@1": 0.25} for step in (0, 9))
    write_rows(folder / "metrics.jsonl", rows)
    assert "missing" not in summary_table(folder)
    (folder / "eval" / "step_0000.json").unlink()
    assert "temperature 1; missing, so not compared: eval/step_0000.json" in summary_table(folder)
    assert "missing, so not compared: eval/step_0000.json" in Page(render([RunRecord.read(folder)])).text
    (folder / "eval" / "step_0009.json").unlink()
    assert "missing, so not compared: eval/step_0000.json, eval/step_0009.json" in summary_table(folder)


def test_a_run_that_is_still_training(tmp_path):
    """During training fewer samples are drawn, so that Pass@k can be paired and the number of distinct ones cannot."""
    folder = _evaluated(tmp_path / "run", {"a": (1, 1), "b": (0, 0)}, {"a": (2, 1), "b": (1, 1)})
    rows = [{"id": "a", "n": 2, "c": 2, "distinct": 1}, {"id": "b", "n": 2, "c": 1, "distinct": 1}]
    (folder / "eval" / "step_0009.json").write_text(to_json(evaluation(rows, 2, (1, 2))))
    (folder / "eval" / ".step_0010.json.part").write_text('{"step": 10, "estim')
    (folder / "config.json").write_text('{"recipe": {"train": {"steps": 40}}}')
    (folder / "metrics.jsonl").write_text('{"step": 0}\n{"step": 9, "reward/outcome": 0.5}\n{"step": 10, "rew')
    assert write_report(folder).is_file()
    lines = summary_table(folder).split("\n")
    assert "9 of 40 steps" in lines[0] and lines[3] == "2 held-out problems, 4 then 2 samples each at temperature 1"
    known = {row.label: not math.isnan(row.change.mean) for row in RunRecord.read(folder).before_and_after}
    assert known == {"Pass@1": True, "Pass@2": True, "Distinct@2": False, "Distinct@4": False}


def test_the_table_of_a_whole_run_fits_on_one_screen(run):
    lines = summary_table(run).split("\n")
    assert len(lines) <= 24 and max(len(line) for line in lines[:-2]) <= 80
    assert [row.label for row in RunRecord.read(run).before_and_after] == [
        "Pass@1",
        "Pass@4",
        "Pass@16",
        "Pass@64",
        "Distinct@64",
    ]


def test_where_no_change_is_significant_the_first_sentence_says_so(tmp_path):
    """Pass@1 of "a" rises by 1/4 and that of "b" falls by 1/4: mean 0, interval from -1/4 to 1/4."""
    folder = _evaluated(tmp_path / "run", {"a": (1, 1), "b": (1, 1)}, {"a": (2, 1), "b": (0, 0)})
    words = "After 9 steps, Pass@1 and Pass@2 did not change significantly"
    assert summary_table(folder).split("\n")[1] == words
    assert words in Page(render([RunRecord.read(folder)])).text and conclusion(RunRecord.read(folder)).endswith(words)


def test_what_can_be_told_apart_is_said_beside_what_cannot(tmp_path):
    """By hand, n = 4: of 20 problems half fall from 4 correct to 2 and half rise from 0 to 2. Pass@1 changes by -1/2
    and +1/2, mean 0; Pass@2, 1 - C(4-c, 2)/6, by -1/6 and +5/6, mean 1/3 with a standard error of 0.11."""
    before = {str(i): (4 * (i % 2), 1) for i in range(20)}
    after = {str(i): (2, 1) for i in range(20)}
    folder = _evaluated(tmp_path / "run", before, after)
    pass_1, pass_2, _ = RunRecord.read(folder).before_and_after
    assert (pass_1.significant, pass_2.significant) == (False, True)
    assert conclusion(RunRecord.read(folder)) == (
        "After 9 steps, Pass@1 did not change significantly, Pass@2 rose by 33.3 points"
    )


def test_a_star_stands_only_where_the_printed_interval_excludes_0():
    """0.04 points round to 0.0, 0.06 to 0.1; of a count of solutions, 0.04 and 0.06 themselves."""
    for percent, scale in ((True, 100), (False, 1)):
        for low, star in ((0.04, False), (0.06, True)):
            for sign in (1, -1):
                change = Estimate(sign * 0.5 / scale, *sorted((sign * low / scale, sign * 0.9 / scale)))
                row = Comparison("Pass@1", UNKNOWN, UNKNOWN, change, percent)
                assert row.significant == star and row.cells()[-1].endswith("*") == star, row
    assert not Comparison("Pass@1", UNKNOWN, UNKNOWN, UNKNOWN).significant


def test_one_step_one_problem_and_one_sample_are_singular(tmp_path):
    assert [counted(n, "step") for n in (0, 1, 2, 1024)] == ["0 steps", "1 step", "2 steps", "1,024 steps"]
    folder = _evaluated(tmp_path / "run", {"a": (0, 0)}, {"a": (1, 1)}, samples=1)
    (folder / "eval" / "step_0009.json").rename(folder / "eval" / "step_0001.json")
    (folder / "config.json").write_text(json.dumps({"recipe": {"train": {"steps": 1}}}))
    write_rows(folder / "metrics.jsonl", ({"step": step} for step in (0, 1)))
    lines = summary_table(folder).split("\n")
    assert lines[0].endswith(": 1 step") and lines[1].startswith("After 1 step, ")
    assert "1 held-out problem, 1 sample each at temperature 1" in lines


def test_a_run_without_a_gradient_says_so_first(tmp_path):
    folder = _evaluated(tmp_path / "run", {"a": (0, 0), "b": (0, 0)}, {"a": (0, 0), "b": (0, 0)})
    rows = [{"step": s, "policy/grad_norm": 0.0, "group/solve_none": 0.9, "group/solve_all": 0.1} for s in range(1, 10)]
    write_rows(folder / "metrics.jsonl", rows)
    words = "None of the 9 steps had a gradient, so nothing was learned: in 90% of the groups no response was correct"
    assert summary_table(folder).split("\n")[1] == words
    page = Page(render([RunRecord.read(folder)]))
    assert words in page.text and "Steps without a gradient" in page.text and "Pass@1 went from" not in page.text
    with (folder / "metrics.jsonl").open("a") as out:
        out.write(json.dumps({"step": 10, "policy/grad_norm": 1e-3}) + "\n")
    assert "None of the" not in summary_table(folder)


def test_solutions_that_are_only_written_differently_are_called_that(tmp_path):
    folder = _evaluated(tmp_path / "run", {"a": (1, 1), "b": (0, 0)}, {"b": (1, 2), "a": (2, 1)})
    for path in (folder / "eval").iterdir():
        path.write_text(json.dumps(json.loads(path.read_text()) | {"exact_solutions": False}))
    table, page = summary_table(folder), Page(render([RunRecord.read(folder)])).text
    for words in (table, page):
        assert "Written differently" in words and "Distinct@" not in words
    assert "Written differently: sets of formulas that the correct samples write." in table


def test_groups_are_consecutive_rows_of_one_problem_with_rising_samples(tmp_path):
    folder = _config_only(tmp_path / "run")
    (folder / "rollouts").mkdir()
    samples = [("a", 0), ("a", 1), ("b", 0), ("b", 3), ("b", 0), ("b", 1), ("c", 0), ("c", 1), ("c", 2)]
    values = {"response": "r", "grade": "correct", "reward": {"outcome": 1.0}}
    rows = [json.dumps({"problem": p, "sample": s, **values}) for p, s in samples]
    for step in (9_999, 10_000):
        (folder / "rollouts" / f"step_{step}.jsonl").write_text("\n".join(rows))
    record = RunRecord.read(folder)
    assert list(record.rollout_files) == [9_999, 10_000]
    assert [(g.problem.id, len(g)) for g in record.groups(10_000)] == [("a", 2), ("b", 2), ("b", 2), ("c", 3)]


def test_more_right_answers_on_fewer_problems(tmp_path):
    """Pass@1 of 4 problems from 1/4 to 2/4 each but one, Pass@4 from 1 to 1 but for the last, which is lost: with more
    problems of the first kind for Pass@1 and of the last for Pass@4 both intervals leave 0."""
    _config_only(tmp_path / "run")
    (tmp_path / "run" / "eval").mkdir()
    for step, counts in ((0, [1] * 40), (9, [3] * 20 + [0] * 20)):
        rows = [{"id": str(i), "n": 4, "c": c, "distinct": c} for i, c in enumerate(counts)]
        row = evaluation(rows, 4, (1, 4))
        (tmp_path / "run" / "eval" / f"step_{step:04}.json").write_text(to_json(row))
    (alert,) = run_alerts(RunRecord.read(tmp_path / "run"))
    assert alert.text.startswith("Pass@1 rose by 12.5 points while Pass@4 fell by 50.0")
    assert alert.metric == "eval/pass@4" and alert.spans == ()


def test_intervals_in_words():
    assert span_text(()) == "" and span_text(((3, 3),)) == "step 3" and span_text(((3, 9),)) == "steps 3–9"
    assert span_text(((3, 3), (5, 9))) == "steps 3 and 5–9"
    assert span_text(((1, 1), (3, 3), (5, 5), (7, 7), (9, 9), (11, 11))) == "steps 1, 3, 5, 7 and 2 later intervals"


VERL = {  # what verl's run logs of a step: no log-prob mismatch, and neither entropy nor evaluation where verl has none
    "reward/outcome": 0.4, "reward/shaped": 0.42, "diversity/textual": 0.5, "diversity/equational": 0.4,
    "shaping/coef": 0.1, "shaping/clipped": 0.2,
    "group/solve_all": 0.1, "group/solve_none": 0.2, "advantage/solve_all_frac": 0.1,
    "response/length_mean": 24.0, "response/truncated": 0.0, "policy/grad_norm": 0.5,
    "time/sample": 2.0, "time/update": 3.0,
}  # fmt: skip
TRL = {name: value for name, value in VERL.items() if not name.startswith("time/")} | {"policy/entropy": 0.3}


@pytest.mark.parametrize(("engine", "row"), [("verl", VERL), ("trl", TRL)])
def test_a_run_of_another_engine_has_the_panels_of_what_it_logged(tmp_path, engine, row):
    folder = write_run(tmp_path / "run", steps=4, rollouts=3)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"engine": engine}))
    write_rows(folder / "metrics.jsonl", ({"step": s} | row for s in (1, 2, 3, 4)))
    for file in (folder / "eval").iterdir():
        file.unlink()
    rows = [json.loads(line) for line in (folder / "rollouts" / "step_0004.jsonl").read_text().splitlines()]
    unknown = {
        "grade": None,
        "advantage": None,
        "length": None,
        "diversity": {},
        "answer": None,
    }  # what a trainer may not say
    write_rows(folder / "rollouts" / "step_0004.jsonl", (r | unknown for r in rows))
    html = write_report(folder).read_text()
    page, data = Page(html), packed(html)
    metrics = {p.id for p in PANELS} & set(row) | ({"time"} if engine == "verl" else set())
    assert {panel["id"] for panel in data["curves"]["panels"]} == metrics
    assert {p["id"] for p in data["curves"]["more"]} == set(row) - metrics
    assert f"Engine{engine}" in page.text and "Before and after training" not in page.text and "No alerts" in page.text
    assert [len(g["responses"]) for g in data["browser"]["groups"]] == [8] * 6
    table = summary_table(folder).split("\n")
    took = " in 20 s" if engine == "verl" else ""
    assert table[0] == f"countdown trained with diver-mix ({engine}): 4 steps{took}"
    assert table[1] == "A run of 4 steps, not evaluated after training yet" and "| before" not in "".join(table)


def test_several_runs_side_by_side(tmp_path):
    folders = [write_run(tmp_path / name, rollouts=5, seed=i) for i, name in enumerate(["plain", "diver"])]
    path = write_several(*folders, path=tmp_path / "both.html", groups=8)
    html = path.read_text()
    page, data = Page(html), packed(html)
    assert "2 runs\nafter training against before training: ▲\xa0Pass@1 rose by " in page.text  # two seeds of a variant
    assert data["runs"] == ["diver-mix, seed 0", "diver-mix, seed 1"]
    for panel in data["curves"]["panels"]:
        assert [line["run"] for line in panel["lines"]] == [0, 1]
    assert [g["run"] for g in data["browser"]["groups"]] == [0] * 4 + [1] * 4
    # The verdict, differences beside levels, before and after training of two runs.
    assert page.text.count("Pass@16") == 4


def test_the_command_for_one_run_and_for_several(tmp_path):
    for name in "ab":
        write_run(tmp_path / name, steps=4, rollouts=3)
    assert succeeds("browse", "a", cwd=tmp_path).endswith("a/report.html\n") and (tmp_path / "a/report.html").is_file()
    one, other, path = succeeds("browse", "a", "b", "--groups", 4, cwd=tmp_path).splitlines()
    assert (
        one.startswith("a: After 4 steps, Pass@1 ")
        and other.startswith("b: After 4 steps, Pass@1 ")
        and path == "comparison.html"
    )
    assert len(packed((tmp_path / path).read_text())["browser"]["groups"]) == 4
    (tmp_path / "keep.json").write_text("{}")
    kept = "--out keep.json: exists and is not a page that diver wrote; name another file, or delete it"
    assert kept in fails("browse", "a", "--out", "keep.json", cwd=tmp_path)
    assert (tmp_path / "keep.json").read_text() == "{}"
    assert succeeds("browse", "b", "--out", "comparison.html", cwd=tmp_path).endswith("comparison.html\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name at least one file or folder of rollouts: diver browse runs/quickstart"),
        (["a", "--groups", "-1"], "command line: groups: must be at least 0, not -1"),
        (["a", "missing"], "missing: no such file or folder in {}"),
        (["a", "--steps", "1"], "--steps: is for rollouts, and a is a run; name its a/rollouts"),
        (["a", "--by", "model"], "--by: is for rollouts, and a is a run; name its a/rollouts"),
        (["a", "--format", "csv"], "--format: is for rollouts, and a is a run; name its a/rollouts"),
    ],
)
def test_a_wrong_argument_is_a_one_line_error(tmp_path, arguments, message):
    write_run(tmp_path / "a", steps=2, rollouts=1)
    assert fails("browse", *arguments, cwd=tmp_path) == f"diver: {message.format(tmp_path)}"
    assert {p.name for p in tmp_path.iterdir()} == {"a"} and not (tmp_path / "a" / "report.html").exists()


def test_what_is_a_run_and_what_is_a_dump(tmp_path):
    """The folder of a model or of an evaluation has a config.json, too, and is no run;
    a folder of runs is all of them."""
    write_run(tmp_path / "seeds" / "seed_0", steps=2, rollouts=1)
    write_run(tmp_path / "seeds" / "seed_1", steps=2, rollouts=1, seed=1)
    assert run_folders(tmp_path / "seeds" / "seed_0") == [tmp_path / "seeds" / "seed_0"]
    assert run_folders(tmp_path / "seeds") == [tmp_path / "seeds" / f"seed_{i}" for i in (0, 1)]
    for name, config in (("model", {"model_type": "llama"}), ("evaluation", {"identity": {"model": "countdown"}})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
        (tmp_path / name / "x.jsonl").write_text('{"problem": "Q", "response": "a", "correct": true}\n')
        assert run_folders(tmp_path / name) == run_folders(tmp_path / "model" / "x.jsonl") == []
        printed = succeeds("browse", name, cwd=tmp_path)
        assert re.search(r"\| responses +\| +1 \|", printed) and printed.endswith("browse.html\n")
    beside = succeeds("browse", "model", "seeds/seed_0", cwd=tmp_path)  # a run beside a dump is read as one, too
    assert re.search(r"model +\| +seeds/seed_0 ", beside)
    assert not (tmp_path / "seeds" / "seed_0" / "report.html").exists()


def test_names_that_the_user_gives_are_those_of_the_page(tmp_path):
    for name in "ab":
        write_run(tmp_path / name, steps=2, rollouts=1)
    succeeds("browse", "plain=a", "b", cwd=tmp_path)
    assert packed((tmp_path / "comparison.html").read_text())["runs"] == ["plain", "b"]
    runs = [dataclasses.replace(RunRecord.read(tmp_path / folder), name="x") for folder in "ab"]
    assert labels(runs) == ["x/a", "x/b"]  # the two runs of one folder


def test_a_run_that_goes_on_is_served_and_nothing_is_written(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "a", steps=4, rollouts=1)
    files = {*tmp_path.rglob("*")}
    pages, stop = [], threading.Event()

    @contextmanager
    def kept(page, port):
        pages.append(page)
        yield SimpleNamespace(server_port=port, serve_forever=stop.wait)

    monkeypatch.setattr(serve, "EVERY", 0.01)
    monkeypatch.setattr(serve, "server", kept)
    thread = threading.Thread(target=browse.run, args=(browse.Browse(rollouts=(str(folder),), watch=True),))
    thread.start()
    try:
        until(lambda: pages and pages[0].version == "1")
        assert packed(pages[0].content.decode())["curves"]["steps"] == 4
        with (folder / "metrics.jsonl").open("a") as metrics:
            metrics.write('{"step": 7, "reward/outcome": 0.5}\n')
        until(lambda: pages[0].version == "2")
        assert packed(pages[0].content.decode())["curves"]["steps"] == 7
    finally:
        stop.set()
        thread.join()
    assert {*tmp_path.rglob("*")} == files


def test_runs_of_the_same_name_are_told_apart(tmp_path):
    for parent in "ab":
        _config_only_in(tmp_path / parent / "run")
    assert labels([RunRecord.read(tmp_path / parent / "run") for parent in "ab"]) == ["a/run", "b/run"]
    for parent in ("c/x", "d/x"):
        _config_only_in(tmp_path / parent / "run")
    deeper = [RunRecord.read(tmp_path / parent / "run") for parent in ("c/x", "d/x", "a")]
    assert labels(deeper) == ["c/x/run", "d/x/run", f"{tmp_path.name}/a/run"]


def _config_only_in(folder):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")


def test_held_out_curves_carry_their_intervals_and_fall_back_to_the_metrics(tmp_path):
    def held_out():
        curves = curves_data([RunRecord.read(tmp_path / "run")], [[]])
        return next(p["lines"][0] for p in curves["panels"] + curves["more"] if p["id"] == "eval/pass@1")

    write_run(tmp_path / "run", steps=4, every=2, rollouts=3)
    line = held_out()
    assert line["steps"] == [0, 2, 4]
    assert all(low < mean < high for low, mean, high in zip(line["low"], line["values"], line["high"], strict=True))
    for file in (tmp_path / "run" / "eval").iterdir():
        file.unlink()
    assert held_out() == {key: line[key] for key in ("run", "steps", "values")}


@pytest.mark.parametrize(
    ("seconds", "words"), [(math.nan, "–"), (59.4, "59 s"), (59.6, "1 min 00 s"), (4000, "1 h 06 min")]
)
def test_durations(seconds, words):
    assert duration(seconds) == words


@given(st.text(alphabet=st.characters(), max_size=200))
def test_any_text_can_be_written_and_read_back(value):
    shown = clean(value)
    assert shown.encode("utf-8").decode("utf-8") == shown == clean(shown)
    assert Page(f"<p>{text(value)}</p>").text == shown


def test_nothing_heavy_is_loaded_before_a_page_is_made():
    code = (
        "import sys, diver.pages.run_page; "
        "sys.exit(bool({'matplotlib', 'torch', 'pandas', 'latex2mathml'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
