"""The page in a real browser: it draws, it answers, it asks for nothing, and what a model wrote stays text.

Needs Debian's chromium (/usr/bin/chromium); skipped by name where that is absent.
"""

import io
import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from diver_command import succeeds
from PIL import Image
from report_page import write_groups, write_several
from rows import write_rows
from synthetic_run import HOSTILE, evaluation

from diver.core.files import to_json
from diver.core.tables import clean
from diver.core.types import Grade, Group, Problem, Reward, Rollout
from diver.pages.dump_page import render
from diver.pages.run_page import write_report
from diver.pages.serve import Page, server
from diver.pages.source import Source
from diver.rollouts import Columns

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync"
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium"),
]
PHONE, DARK = {"viewport": {"width": 390, "height": 844}}, {"color_scheme": "dark"}
ROOT = Path(__file__).parents[2]
ATTACKS = [
    *HOSTILE,
    r"\( \href{javascript:document.title='owned'}{x} \)",
    r"\( \text{<img src=x onerror=document.title='owned'>} \)",
    r"\( \style{position:fixed;inset:0;background:red}{x} \) \( \frac{1}{",
    "[link](javascript:document.title='owned') <a href=\"javascript:document.title='owned'\">x</a>",
]


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run of the first recipe, by the real command."""
    folder = tmp_path_factory.mktemp("runs") / "quickstart"
    flags = [
        "--train.steps=6",
        "--train.batch_size=16",
        "--evaluate.problems=24",
        "--evaluate.num_samples=8",
        "--evaluate.every=2",
    ]
    command = [sys.executable, "-c", "from diver.cli import main; main()", "train", "recipes/quickstart.toml"]
    subprocess.run([*command, f"--run.folder={folder}", *flags], cwd=ROOT, check=True, capture_output=True)
    return folder


class Visit:
    """A page opened in the browser, with all that it said and asked for."""

    def __init__(self, chromium, path, **context):
        self.said, self.asked = [], []
        still = {
            "viewport": {"width": 1280, "height": 900},
            "reduced_motion": "reduce",
        }  # what is measured stands still
        self.page = chromium.new_context(**{**still, **context}).new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.resolve().as_uri())
        self.page.wait_for_selector("html[data-ready]")
        self.address = path.resolve().as_uri()

    def quiet(self):
        return self.said == [] and self.asked == [self.address]

    def fits(self):
        """Nothing sticks out to the right."""
        return self.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.fixture
def visit(chromium, run):
    opened = Visit(chromium, write_report(run))
    yield opened
    assert opened.quiet(), (opened.said, opened.asked)


def test_curves_answer_to_the_pointer_and_to_keys(visit):
    figure = visit.page.locator("#curve-reward-outcome")
    at_rest = figure.locator("figcaption").inner_text()
    picture = figure.locator("svg")
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    visit.page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    pointed = figure.locator("figcaption").inner_text()
    assert pointed != at_rest and "step 3" in pointed
    assert "step 3" in visit.page.locator("#curve-policy-entropy figcaption").inner_text()  # one cursor for all
    visit.page.mouse.move(5, 5)
    assert figure.locator("figcaption").inner_text() == at_rest
    picture.focus()
    visit.page.keyboard.press("Home")
    visit.page.keyboard.press("ArrowRight")
    assert "step 2" in figure.locator("figcaption").inner_text()
    visit.page.keyboard.press("Escape")
    assert figure.locator("figcaption").inner_text() == at_rest


def test_values_under_the_pointer_are_those_of_the_metrics(visit, run):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    picture = visit.page.locator("#curve-reward-outcome svg")
    picture.focus()
    visit.page.keyboard.press("Home")
    for row in rows[1:]:
        value = float(visit.page.locator("#curve-reward-outcome figcaption b").inner_text())
        assert value == pytest.approx(row["reward/outcome"], abs=6e-4)
        visit.page.keyboard.press("ArrowRight")


def test_held_out_values_show_their_interval(visit, run):
    estimate = json.loads((run / "eval" / "step_0006.json").read_text())["estimates"]["pass@1"]
    mean, low, high = (f"{100 * estimate[end]:.1f}" for end in ("mean", "low", "high"))
    caption = visit.page.locator("#curve-eval-pass-1 figcaption b").inner_text()
    assert caption.replace("\xa0", " ") == f"{mean} % [{low}, {high}]"


def test_smoothing_changes_the_line(visit):
    line = visit.page.locator("#curve-reward-outcome path.thick")
    before = line.get_attribute("d")
    visit.page.locator("#smoothing").fill("1")
    assert (
        line.get_attribute("d") != before
        and "mean over 3 steps" in visit.page.locator(".controls output").first.inner_text()
    )


def test_a_search_finds_a_group_and_shows_its_matrix(visit, run):
    rows = [json.loads(line) for line in (run / "rollouts" / "step_0006.jsonl").read_text().splitlines()]
    wanted = rows[0]["problem"]
    visit.page.get_by_label("Search").fill(wanted)
    visit.page.get_by_label("Step", exact=True).select_option("6")
    assert visit.page.locator(".groups button").count() == 1
    assert wanted in visit.page.locator(".detail h3").inner_text()
    assert visit.page.locator(".heat rect.cell").count() == 8 * 7
    assert visit.page.locator(".cards article").count() == 8
    assert visit.page.locator(".cards math").count() > 0
    shown = [
        float(dd)
        for dd in visit.page.locator(".cards dl div:first-child dd").evaluate_all("l => l.map(d => d.firstChild.data)")
    ]
    assert shown == pytest.approx([row["reward"]["total"] for row in rows[:8]], abs=6e-4)
    visit.page.get_by_label("Search").fill("there is no such group")
    assert visit.page.locator(".groups button").count() == 0 and "No matching group" in visit.page.inner_text("nav")


def test_filter_and_order(visit):
    visit.page.get_by_label("Grade", exact=True).select_option("none")
    lines = visit.page.locator(".groups .what:last-child").all_inner_texts()
    assert lines and all(line.startswith("0 of 8 correct") for line in lines)
    visit.page.get_by_label("Grade", exact=True).select_option("")
    visit.page.get_by_label("Sort by").select_option("textual down")
    values = [
        float(text.split("TD ")[1][:4]) for text in visit.page.locator(".groups .what:last-child").all_inner_texts()
    ]
    assert len(values) > 20 and values == sorted(values, reverse=True)


def test_groups_and_pairs_by_keys(visit):
    visit.page.locator(".groups button").first.focus()
    visit.page.keyboard.press("Home")
    first = visit.page.locator(".detail h3").inner_text()
    visit.page.keyboard.press("ArrowDown")
    assert visit.page.locator(".detail h3").inner_text() != first
    assert visit.page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    visit.page.locator(".heat").focus()
    for _ in range(8):
        visit.page.keyboard.press("ArrowLeft")
        visit.page.keyboard.press("ArrowUp")
    assert "Response 1 itself" in visit.page.inner_text(".pair")
    visit.page.keyboard.press("ArrowRight")
    assert "Responses 1 and 2" in visit.page.inner_text(".pair")
    assert visit.page.locator(".cards article.chosen").count() == 2


def test_a_pair_is_chosen_by_a_click_and_its_shared_words_are_marked(chromium, tmp_path):
    responses = ("we add one and two to get three", "we add one then we get three")
    group = Group(Problem("p", "?", "3"), tuple(map(Rollout, responses)))
    visit = Visit(chromium, write_groups(tmp_path / "page.html", [group], title="pair"))
    visit.page.locator(".heat rect.cell").nth(1).click()
    assert "Responses 2 and 1" in visit.page.inner_text(".pair")
    marks = visit.page.locator(".sides > div:last-child mark")
    shared = marks.evaluate_all("l => l.map(m => [m.className, m.textContent.trim()])")
    assert shared == [["n3", "we add one"], ["n2", "get three"]]
    assert visit.quiet()


def test_hostile_responses_are_text_and_nothing_runs(chromium, tmp_path):
    rollouts = tuple(Rollout(text, grade=Grade.WRONG, reward=Reward(0.0)) for text in ATTACKS)
    hostile = Group(Problem(HOSTILE[0], HOSTILE[1], HOSTILE[2]), rollouts)
    calm = Group(Problem("calm", "?", "3"), (Rollout("all is well"), Rollout("so it is")))
    visit = Visit(chromium, write_groups(tmp_path / "page.html", [hostile, calm], title=HOSTILE[0]))
    visit.page.wait_for_timeout(300)
    assert visit.page.title() == clean(HOSTILE[0])
    known = "iframe, img, base, form, object, embed, link, [onerror], [onload], [onmouseover], [style]"
    assert visit.page.locator("main").locator(known).count() == 0
    assert visit.page.locator("main [href]:not([href^='#groups?'])").count() == 0
    shown = visit.page.locator(".cards .text").all_text_contents()
    for text in HOSTILE[:8]:
        assert clean(text) in shown
    assert "…" in shown[8] and len(shown[8]) < 13_000
    assert visit.fits()
    visit.page.get_by_label("Search").fill("all is well")
    assert (
        visit.page.inner_text(".detail h3").startswith("calm, ragged: 2")
        and visit.page.locator(".heat rect.cell").count() == 2
    )
    assert visit.quiet()


def hostile_dump(folder):
    """Rollouts of two runs at two steps whose every text, of the model, the data and the file, is an attack."""
    folder.mkdir()
    for step in (1, 2):
        rows = [
            {
                "prompt": HOSTILE[1], "response": text.encode("utf-8", "replace").decode(), "answer": HOSTILE[2],
                "step": step,
                "correct": i % 2, "entropy": 0.5, "model": HOSTILE[i // 2 % 2], f"<b onmouseover=alert({i})>": 1,
            }
            for i, text in enumerate(ATTACKS)
        ]  # fmt: skip
        write_rows(folder / f"<img src=x onerror=alert({step})>.jsonl", rows)
    (folder / "<svg onload=alert(3)>.jsonl").write_text(json.dumps({"problem": HOSTILE[0]}) + "\n")
    return folder


def test_hostile_rollouts_of_others_are_text_and_nothing_runs(chromium, tmp_path):
    folder = hostile_dump(tmp_path / "<script>alert(1)<")
    succeeds("browse", f"<iframe><script>alert(0)<={folder}", "--by", "model", "--out", tmp_path / "page.html")
    visit = Visit(chromium, tmp_path / "page.html")
    visit.page.wait_for_timeout(300)
    assert visit.page.title() == "<iframe><script>alert(0)<"
    known = "iframe, img, base, form, object, embed, link, [onerror], [onload], [onmouseover], [style]"
    assert visit.page.locator("main").locator(known).count() == 0
    assert visit.page.locator("main [href]:not([href^='#curve-'], [href^='#groups?'])").count() == 0
    assert visit.page.locator("#curve-policy-entropy g.line").count() == 4  # two runs, correct and wrong
    visit.page.get_by_label("Run", exact=True).select_option(clean(HOSTILE[0]))
    shown = visit.page.locator(".cards .text").all_text_contents()
    assert clean(HOSTILE[0]) in shown and clean(HOSTILE[1]) in shown
    assert "<svg onload=alert(3)>.jsonl" in visit.page.locator("main").inner_text()  # the note on what was left out
    assert visit.fits() and visit.quiet()


def test_a_served_page_offers_what_is_new(chromium, tmp_path):
    page = Page()
    with server(page, 0) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        source = Source("dump", hostile_dump(tmp_path / "dump"), Columns(), "", 10, 0.5)
        source.look()
        source.read(None, 10)
        page.replace("1", render([source], 10, 0.5, version="1"))
        tab = chromium.new_page()
        said = []
        tab.on("console", lambda message: said.append(message.text))
        tab.goto(f"http://127.0.0.1:{http.server_port}/")
        tab.wait_for_selector("html[data-ready]")
        assert tab.locator(".news").count() == 0
        page.replace("2", render([source], 10, 0.5, version="2"))
        tab.locator(".news").click(timeout=300_000)
        tab.wait_for_selector("html[data-ready]")
        assert tab.locator(".news").count() == 0 and said == []
        http.shutdown()


def test_the_policy_stops_what_escaping_would_have_let_through(chromium, tmp_path):
    """As if a hole were found: markup forced into the page at several places runs nothing and loads nothing."""
    group = Group(Problem("p", "?", "3"), (Rollout("a"), Rollout("b")))
    path = write_groups(tmp_path / "page.html", [group])
    hole = (
        "<script>document.title='owned'</script>"
        "<img src='https://example.com/x.png' onerror=\"document.title='owned'\">"
        "<iframe src='https://example.com/'></iframe><link rel='stylesheet' href='https://example.com/x.css'>"
        "<style>main{display:none}</style><a id='go' href=\"javascript:document.title='owned'\">go</a>"
    )
    path.write_text(path.read_text().replace("</h1>", "</h1>" + hole))
    visit = Visit(chromium, path)
    visit.page.evaluate("document.getElementById('go').click()")
    visit.page.wait_for_timeout(300)
    assert visit.page.title() == "t" and visit.page.is_visible("main h1")
    assert len(visit.said) >= 5 and all("Content Security Policy" in line for line in visit.said)
    assert visit.page.evaluate("performance.getEntriesByType('resource').filter(e => e.transferSize > 0).length") == 0


@pytest.mark.parametrize("context", [PHONE, DARK])
def test_a_phone_and_the_dark(chromium, run, context):
    visit = Visit(chromium, write_report(run), **context)
    assert visit.fits() and visit.quiet()
    colour = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == ("rgb(20, 23, 27)" if "color_scheme" in context else "rgb(255, 255, 255)")


def test_runs_side_by_side_and_on_paper(chromium, run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "again")
    visit = Visit(chromium, write_several(run, copy, path=tmp_path / "both.html", groups=40))
    assert visit.page.locator("#curve-reward-outcome g.line").count() == 2
    visit.page.get_by_label("Run", exact=True).select_option("1")
    assert 0 < visit.page.locator(".groups button").count() <= 20
    assert visit.fits() and visit.quiet()
    visit.page.pdf(path=str(tmp_path / "both.pdf"))
    assert (tmp_path / "both.pdf").stat().st_size > 20_000


@pytest.fixture(scope="module")
def rivals(tmp_path_factory):
    """Two runs of other methods on the same problems: one narrows, Pass@1 up and Pass@16 down, and one does not."""
    folder = tmp_path_factory.mktemp("rivals")
    for name, after in (("clip-higher", (16, 0)), ("diver-mix", (6, 3))):
        config = {"recipe": {"method": {"name": name}}, "identity": {"method.name": name}, "schedule_steps": 9}
        (folder / name / "eval").mkdir(parents=True)
        (folder / name / "config.json").write_text(json.dumps(config))
        for step, solved in ((0, (4, 2)), (9, after)):
            rows = [{"id": str(i), "n": 16, "c": solved[i % 2], "distinct": solved[i % 2]} for i in range(80)]
            found = to_json({"step": step, **evaluation(rows, 16, (1, 4, 16))})
            (folder / name / "eval" / f"step_{step:04}.json").write_text(found)
        solved = [solves for problem in range(3) for solves in (problem < 2, False, False, False)]
        rollouts = [
            {
                "step": 9, "problem": f"p{i // 4}", "sample": i % 4, "prompt": rf"Which {i // 4}? End with \boxed{{}}.",
                "response": rf"{name} says \( {i} \)", "grade": "correct" if right else ("wrong", "truncated")[i % 2],
                "reward": Reward(float(right)).row(), "diversity": {}, "length": 10 + i,
            }
            for i, right in enumerate(solved)
        ]  # fmt: skip
        (folder / name / "rollouts").mkdir()
        write_rows(folder / name / "rollouts" / "step_0009.jsonl", rollouts)
    return folder


@pytest.mark.parametrize("context", [{}, PHONE, DARK, {**PHONE, **DARK}])
@pytest.mark.parametrize("several", [False, True])
def test_the_verdict_is_on_the_first_screen_in_two_colours(chromium, rivals, tmp_path, several, context):
    runs = [rivals / "clip-higher", *[rivals / "diver-mix"] * several]
    visit = Visit(chromium, write_several(*runs, path=tmp_path / "page.html"), **context)
    verdict = visit.page.locator("h1")
    if several:
        said = (
            "diver-mix against clip-higher: ▼\xa0Pass@1 is lower by 21.9 points, ▲\xa0Pass@16 is higher by 50.0 points"
        )
    else:
        said = "After 9 steps, ▲\xa0Pass@1 rose by 31.2 points, ▼\xa0Pass@16 fell by 50.0 points"
    assert verdict.inner_text() == said
    last = visit.page.locator(".changes li").last.bounding_box()
    assert last["y"] + last["height"] <= visit.page.viewport_size["height"]
    assert visit.page.locator("section h2").first.inner_text() == "Pass@k over k"
    colours = verdict.locator("span").evaluate_all("l => l.map(e => getComputedStyle(e).color)")
    assert len({*colours, verdict.evaluate("e => getComputedStyle(e).color")}) == 3
    assert visit.fits() and visit.quiet()


def test_a_table_that_is_cut_shows_a_shadow_where_columns_are_hidden(chromium, rivals, tmp_path):
    both = write_several(rivals / "clip-higher", rivals / "diver-mix", path=tmp_path / "page.html")

    def edges(table):
        """The red of the first and of the last pixel below the header of the table."""
        picture = Image.open(io.BytesIO(table.screenshot())).convert("RGB")
        return [picture.getpixel((x, 4))[0] for x in (0, picture.width - 1)]

    wide = Visit(chromium, both).page.locator("section .scroll").first
    assert edges(wide) == [255, 255]
    visit = Visit(chromium, both, **PHONE)
    table = visit.page.locator("section .scroll").first
    left, right = edges(table)
    assert left == 255 and right < 225
    table.evaluate("e => { e.scrollLeft = e.scrollWidth }")
    left, right = edges(table)
    assert left < 225 and right == 255
    change = visit.page.locator(".change").first.bounding_box()
    assert change["x"] + change["width"] <= visit.page.viewport_size["width"] and visit.fits()


def test_a_link_to_a_group_restores_it_with_its_filters(chromium, rivals, tmp_path):
    both = write_several(rivals / "clip-higher", rivals / "diver-mix", path=tmp_path / "page.html")
    visit = Visit(chromium, both)
    assert "#" not in visit.page.url  # nothing was chosen yet
    visit.page.get_by_label("Search").fill("diver-mix says")
    visit.page.get_by_label("Grade", exact=True).select_option("truncated")
    visit.page.locator(".groups button").nth(1).click()
    visit.page.get_by_label("Responses", exact=True).select_option("truncated")
    visit.page.get_by_label("Order").select_option("length down")
    expected = visit.page.locator(".detail").inner_text()
    link = visit.page.locator(".link").get_attribute("href")
    assert visit.page.url.endswith(link) and "diver-mix+%2F+9+%2F+p1" in link
    visit.page.reload()
    visit.page.wait_for_selector("html[data-ready]")
    assert visit.page.locator(".detail").inner_text() == expected
    assert visit.page.get_by_label("Search").input_value() == "diver-mix says"
    assert visit.page.locator(".groups button").count() == 3
    assert visit.page.locator("#groups").bounding_box()["y"] < 900
    lengths = visit.page.locator(".cards .size").all_inner_texts()
    assert lengths == ["17 tokens", "15 tokens"] and "Step 9 · p1" in expected
    visit.page.evaluate("location.hash = '#groups?grade=<img src=x>&run=7&group=none&show=x&beside=y'")
    visit.page.wait_for_function("document.querySelectorAll('.groups button').length === 6")
    assert visit.page.get_by_label("Grade", exact=True).input_value() == ""
    assert visit.said == []


def test_two_runs_on_one_problem_side_by_side(chromium, rivals, tmp_path):
    both = write_several(rivals / "clip-higher", rivals / "diver-mix", path=tmp_path / "page.html")
    visit = Visit(chromium, both)
    assert visit.page.locator(".prompt").inner_text() == r"Which 0? End with \boxed{}."  # not an empty box
    visit.page.get_by_label("Side by side with").select_option(index=1)
    sides = visit.page.locator(".detail .sides > div")
    names = sides.locator("> .label").all_inner_texts()
    assert names == ["clip-higher, step 9, 1 of 4 correct", "diver-mix, step 9, 1 of 4 correct"]
    for side, name in enumerate(("clip-higher", "diver-mix")):
        texts = sides.nth(side).locator(".text").all_inner_texts()
        assert len(texts) == 4 and all(text.startswith(f"{name} says") for text in texts)
    a, b = (sides.nth(side).bounding_box() for side in (0, 1))
    assert a["y"] == b["y"] and a["x"] + a["width"] <= b["x"]
    visit.page.get_by_label("Responses", exact=True).select_option("correct")
    assert sides.locator("article").count() == 2 and visit.fits() and visit.quiet()


def test_a_large_group_is_folded_and_filtered(chromium, tmp_path):
    grades = [Grade.CORRECT, Grade.WRONG, Grade.WRONG, Grade.TRUNCATED]
    rollouts = tuple(Rollout(f"text {i}", grade=grades[i % 4], num_tokens=i) for i in range(64))
    visit = Visit(chromium, write_groups(tmp_path / "page.html", [Group(Problem("p", "?", "3"), rollouts)]))
    assert visit.page.locator("article").count() == 16
    visit.page.get_by_role("button", name="Show all 64").click()
    assert visit.page.locator("article").count() == 64 and visit.page.locator(".all").count() == 0
    shown = visit.page.get_by_label("Responses", exact=True)
    assert shown.locator("option").all_inner_texts() == [
        *["all 64", "correct (16)", "wrong (32)", "truncated (16)", "with the words of the search"],
    ]
    shown.select_option("truncated")
    assert visit.page.locator("article .grade").all_inner_texts() == ["truncated"] * 16
    visit.page.get_by_label("Order").select_option("length down")
    assert visit.page.locator("article .badge").first.inner_text() == "64"
    visit.page.get_by_label("Search").fill("text 63")
    visit.page.get_by_label("Responses", exact=True).select_option("search")
    assert visit.page.locator("article .text").all_inner_texts() == ["text 63"] and visit.quiet()
