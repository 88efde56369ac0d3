"""The page of a sweep: what to turn on for each k, the fronts, every setting, and what it costs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from diver.core.files import write_text
from diver.core.statistics import Estimate
from diver.core.tables import Cell, Measure, Table, markdown
from diver.evaluate.front import Pair
from diver.pages import page
from diver.pages.front_figure import front_svg
from diver.sweep import records
from diver.sweep.choose import LEVEL, SAME, Policy, Verdict, cost, gain_at, mean, policies, verdict
from diver.sweep.plan import HELD_OUT, SELECTION, UNTRAINED, Plan

DASH = "–"
FRONTS = "Fronts"


class Section(NamedTuple):
    """A part of the page: a sentence or two, and a table, whose first row is the header."""

    title: str
    text: str
    rows: Sequence[Sequence[str]] = ()


def write_page(plan: Plan) -> Path:
    """Write sweep.html and sweep.md into the folder of the sweep; returns the path of sweep.html."""
    by_label = policies(plan, records.read(plan.records))
    parts = sections(plan, by_label)
    text = "\n".join(f"## {s.title}\n\n{s.text}\n\n{markdown(s.rows[0], s.rows[1:])}" for s in parts)
    write_text(plan.out / "sweep.md", text)
    html = [page.header("diver sweep", page.text(f"{headline(plan, by_label)}."), page.facts(facts(plan, by_label)))]
    for s in parts:
        drawn = figures(plan, by_label) if s.title == FRONTS else ""
        table = page.text_table(s.rows)
        table = f"<details><summary>All pairs</summary>{table}</details>" if drawn else table
        html.append(page.section(page.text(s.title), f'<p class="note">{page.text(s.text)}</p>\n{drawn}{table}'))
    data = {"runs": [], "curves": {"steps": 1, "panels": [], "more": []}, "browser": {"groups": [], "unconverted": 0}}
    write_text(plan.out / "sweep.html", page.document(headline(plan, by_label), html, data))
    return plan.out / "sweep.html"


def facts(plan: Plan, by_label: Mapping[str, Policy]) -> dict[str, object]:
    untrained = next(iter(by_label[UNTRAINED].runs.values())) if UNTRAINED in by_label else {"fronts": {}}
    sizes = {part: len(next(iter(problems.values()), [])) for part, problems in untrained["fronts"].items()}
    return {
        "Recipe": plan.recipe,
        "Model": plan.base_recipe.model.path,
        "Baseline": plan.baseline,
        "Seeds": ", ".join(map(str, plan.seeds)),
        "Problems": f"{sizes.get(SELECTION, 0):,} choose, {sizes.get(HELD_OUT, 0):,} judge",
        "Samples": plan.samples,
    }


def headline(plan: Plan, by_label: Mapping[str, Policy]) -> str:
    """What to turn on at each k, in sentences; the full stop after the last is left out."""
    verdicts = [v for k in plan.ks if (v := verdict(plan, by_label, k))]
    if not verdicts:
        return "Not finished: the baseline and another setting need all their runs"
    return ". ".join(f"At k = {v.k}: {advised(plan, v)}" for v in verdicts)


def advised(plan: Plan, decision: Verdict, between: str = ", ", pair: Callable[[Pair], str] = str) -> str:
    """The setting to turn on and its pair, or not to train."""
    if decision.advice == UNTRAINED:
        return "do not train"
    label, best = (
        (decision.label, decision.pair) if decision.advice == decision.label else (plan.baseline, decision.baseline)
    )
    return f"{label}{between}{pair(best)}"


def sections(plan: Plan, by_label: Mapping[str, Policy]) -> list[Section]:
    """All sections of the page, without those that have no row yet."""
    verdicts = [v for k in plan.ks if (v := verdict(plan, by_label, k))]
    parts = [_answer(plan, verdicts), _fronts_table(plan, by_label), _settings(plan, by_label), _runs(plan, by_label)]
    return [part for part in parts if len(part.rows) > 1]


def _answer(plan: Plan, verdicts: Sequence[Verdict]) -> Section:
    differences = ("minus baseline", "minus untrained", "baseline minus untrained")
    measures = [
        *map(Measure, ("turn on", "best other", "alpha, T")),
        Measure("Pass@k", scale=100),
        *(Measure(name, scale=100, sign="+") for name in differences),
        Measure("seeds to decide"),
    ]
    rows: dict[str, list[Cell]] = {
        str(v.k): [
            *(advised(plan, v, " at ", _short), v.label, _short(v.pair), v.level),
            *map(_gain, (v.gain, v.over_untrained, v.baseline_over_untrained)),
            f"about {v.seeds:,}" if v.seeds else None,
        ]
        for v in verdicts
    }
    text = (
        "The weights between untrained and trained (alpha), the temperature (T) and the best other setting are chosen "
        "on the selection problems. All numbers are of the held-out problems, in per cent, with intervals of "
        f"{100 * LEVEL:g} % over seeds and problems. Those of the best other setting are corrected for the number of "
        "settings (Bonferroni). It is advised if it is significantly above both the baseline and the untrained policy. "
        "Else the baseline is advised if it is above the untrained policy, and else not to train. The last column "
        "says about how many seeds would decide a difference from the baseline that these do not."
    )
    return Section("What to turn on", text, Table("k", measures, rows).text())


def _settings(plan: Plan, by_label: Mapping[str, Policy]) -> Section:
    """Every setting at its best pair for each k."""
    measures = [Measure("seeds"), Measure("CPU time", digits=2)]
    for k in plan.ks:
        measures += [Measure(f"k = {k}: alpha, T"), Measure(f"Pass@{k}", scale=100)]
        measures.append(Measure("minus baseline", scale=100, sign="+"))
    rows: dict[str, list[Cell]] = {}
    for label, policy in by_label.items():
        rows[label] = [None, None] if label == UNTRAINED else [len(policy.runs), cost(plan, by_label, label)]
        for k in plan.ks:
            mine, base = policy.best(k), by_label[plan.baseline].best(k) if plan.baseline in by_label else None
            rows[label] += [
                _short(mine[0]) if mine else None,
                mean(policy.values(HELD_OUT, mine[0], k)) if mine else None,
                _gain(gain_at(by_label, label, plan.baseline, (mine[0], base[0]), k))
                if mine and base and label != plan.baseline
                else None,
            ]
    text = (
        f"Each setting at its best pair for k, on the held-out problems; intervals of {100 * LEVEL:g} % over seeds and "
        "problems, without correction. CPU time is that of the training over that of the baseline, paired by seed."
    )
    return Section("Every setting at its best", text, Table("setting", measures, rows).text())


def _fronts_table(plan: Plan, by_label: Mapping[str, Policy]) -> Section:
    """Pass@k of all pairs of the grid, on the selection problems."""
    rows = []
    for label, policy in by_label.items():
        for pair in policy.pairs(SELECTION):
            if label != UNTRAINED and not pair.alpha:
                continue
            means = [f"{100 * mean(policy.values(SELECTION, pair, k)):.1f}" for k in plan.ks]
            rows.append([label, f"{pair.alpha:g}", f"{pair.temperature:g}", *means])
    header = ["setting", "alpha", "temperature", *(f"Pass@{k}" for k in plan.ks)]
    text = (
        "Pass@k of the weights between untrained (alpha 0) and trained (alpha 1) at each temperature: means over seeds "
        "and selection problems, in per cent."
    )
    return Section(FRONTS, text, [header, *rows])


def _runs(plan: Plan, by_label: Mapping[str, Policy]) -> Section:
    """Every run with its steps, time and commit."""
    rows = [
        [
            label,
            str(seed),
            f"{run['steps']:,}",
            DASH if not run.get("cpu_seconds") else f"{run['cpu_seconds']:,.0f}",
            str(run.get("commit") or "")[:8],
        ]
        for label, policy in by_label.items()
        if label != UNTRAINED
        for seed, run in policy.runs.items()
    ]
    header = ["setting", "seed", "steps", "CPU seconds", "commit"]
    commands = sorted({c for policy in by_label.values() for run in policy.runs.values() if (c := run.get("command"))})
    planned = sum(len(setting.seeds) for setting in plan.settings)
    return Section("Runs", f"{len(rows)} of {planned} runs, by {'; '.join(commands)}", [header, *rows])


def _gain(estimate: Estimate) -> Cell:
    return "the same policy" if estimate is SAME else estimate


def _short(pair: Pair) -> str:
    return f"{pair.alpha:g}, {pair.temperature:g}"


def figures(plan: Plan, by_label: Mapping[str, Policy]) -> str:
    """A figure for each temperature: Pass@k of the smallest against that of the largest k, a line for each setting."""
    ks = min(plan.ks), max(plan.ks)
    settings = {label: policy for label, policy in by_label.items() if label != UNTRAINED}
    drawn = ""
    for temperature in plan.temperatures:
        series = {label: points(policy, temperature, ks) for label, policy in settings.items()}
        figure = front_svg(series, f"Pass@{ks[0]}", f"Pass@{ks[1]}")
        drawn += f"<div><h3>temperature {temperature:g}</h3>{figure}</div>" if figure else ""
    return f'<div class="panels">{drawn}</div>' if drawn else ""


def points(policy: Policy, temperature: float, ks: tuple[int, int]) -> list[tuple[float, float, str]]:
    """The line of a setting at a temperature: Pass@k of both k by rising alpha, on the selection problems."""
    line = []
    for pair in (pair for pair in policy.pairs(SELECTION) if pair.temperature == temperature):
        x, y = (mean(policy.values(SELECTION, pair, k)) for k in ks)
        line.append((x, y, f"{pair.alpha:g}" if pair.alpha else UNTRAINED))
    return line
