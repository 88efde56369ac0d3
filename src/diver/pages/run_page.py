"""The page of one run, or of several side by side. All text of others is escaped here."""

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from diver.core.files import read_json, table, write_text
from diver.core.run_folder import trained_counts, trained_note
from diver.core.statistics import Estimate
from diver.core.tables import Table, counted
from diver.core.types import DiverError
from diver.diversity import Until
from diver.evaluate.comparison import BEFORE, Compared, Comparison, legend, over_k
from diver.evaluate.evaluate import duration
from diver.pages import page
from diver.pages.band_figure import band_figures, pass_figure
from diver.pages.curves import curves_data
from diver.pages.front_figure import UNTRAINED, front_svg
from diver.pages.groups import GROUPS, Shown, browser_data
from diver.pages.over_seeds import by_variant, check_evaluated, compare_runs, settings_of
from diver.pages.run_record import RunRecord, compare, conclusions, conditions, model_and_method, progress, run_alerts
from diver.pages.verdict import SIGNS, changes, headline, kind, verdict

STEPS = 20  # steps of a run whose groups are shown
COLUMNS = 4  # variants, of which a table with a row for each quantity fits the page
UNKNOWN = "–"  # the name of a method that a run does not record
NO_ALERTS = (
    "No alerts: gradients, the reward and the advantage, log-probabilities, entropy, response length, truncation, "
    "groups without a correct response and verifier failures stayed within their limits, and diversity did not rise "
    "while the outcome reward fell."
)


def write_report(*folders: Path, path: Path | None = None, groups: int = GROUPS) -> Path:
    """Write the page of one run, or of several side by side, and return its path; by default into the one run's folder.

    The runs may still be training. An existing page is replaced completely or not at all.

    Args:
        groups: the maximum number of groups that are shown, evenly spaced over the runs.

    Raises:
        DiverError: one of `folders` is no run folder.
    """
    runs = [RunRecord.read(Path(folder)) for folder in folders]
    if not runs or (len(runs) > 1 and path is None):
        raise ValueError("give one run folder, or several and the path of the page")
    path = runs[0].folder / "report.html" if path is None else Path(path)
    write_text(path, render(runs, groups))
    return path


def render(runs: Sequence[RunRecord], groups: int = GROUPS, version: str = "") -> str:
    """The page of one or more runs; one that is served has a `version`."""
    names, of_runs = labels(runs), [run_alerts(run) for run in runs]
    shown: list[Shown] = []
    for i, run in enumerate(runs):
        first = {s.group.problem.id for s in shown if s.run == 0}
        shown += _shown(run, i, groups // len(runs), first)
    notes = [trained_note(trained_counts(s.group for s in shown if s.run == i), r.folder) for i, r in enumerate(runs)]
    browser = browser_data(shown, groups)
    title = " · ".join(model_and_method(runs[0]) if len(runs) == 1 else names)
    parts = (
        *(of_one(runs[0]) if len(runs) == 1 else of_several(runs, names)),
        comparison(runs, names),
        fronts(runs[0]) if len(runs) == 1 else "",
        page.alerts_section(of_runs, names, NO_ALERTS),
        page.CURVES if any(len(run.metrics) or run.evaluations for run in runs) else "",
        page.groups_section(browser, drawn="; ".join(filter(None, ["evenly spaced", *notes]))),
        provenance(runs, names),
    )
    data = {"runs": names, "curves": curves_data(runs, of_runs), "browser": browser, "version": version}
    return page.document(title, parts, data)


def labels(runs: Sequence[RunRecord]) -> list[str]:
    """A name for each run, no two alike: the one that the user gives it, else its method with its seed where needed,
    else the end of its path."""
    methods = [model_and_method(run)[1] for run in runs]
    seeds = [f"{method}, seed {run.recipe('run').get('seed', 0)}" for method, run in zip(methods, runs, strict=True)]
    folders = [run.folder.resolve().parts for run in runs]
    depths = range(1, max(map(len, folders)) + 1)
    paths = [["/".join(parts[-depth:]) for parts in folders] for depth in depths]
    last = [str(run.folder) for run in runs]  # one folder given twice
    known = [names for names in (methods, seeds, *paths) if len({*names}) == len(runs) and UNKNOWN not in names]
    found = [*known, last][0]
    given = Counter(run.name for run in runs)
    return [
        name if not run.name else run.name if given[run.name] == 1 else f"{run.name}/{run.folder.name}"
        for run, name in zip(runs, found, strict=True)
    ]


def of_one(run: RunRecord) -> tuple[str, str]:
    """The head of the page of one run, its verdict first, and Pass@k over k."""
    rows = [row for row in compare(run) if row.is_pass]
    details = f"{changes(rows)}{page.facts(_facts(run))}"
    band = over_k([run.base], [run.trained]) if run.base and run.trained else None
    bands, words = {}, {}
    if band:
        bands = {"After minus before training": band}
        words = {"After minus before training": f"{band.about}: {band.text('after training', BEFORE)}"}
    lines = {BEFORE: [row.base for row in rows], "after training": [row.trained for row in rows]}
    ks = [int(row.label.removeprefix("Pass@")) for row in rows]
    head = page.header(" · ".join(model_and_method(run)), headline(conclusions(run)), details)
    return head, _figures(pass_figure(ks, lines) + band_figures(bands, words))


def of_several(runs: Sequence[RunRecord], names: Sequence[str]) -> tuple[str, str, str]:
    """The head of the page of several runs, Pass@k over k, and each variant against the first, as in `diver compare`.

    Runs that differ in the seed alone are one variant; others have the names of the page. If only one variant is found,
    it is shown against the policy before training. Where runs cannot be compared, the last section gives the reason.
    """
    details = [_facts(run) for run in runs]
    columns = [key for key in details[0] if any(row[key] != "" for row in details)]
    rows = [
        [f"{page.swatch(i)}{page.text(name)}", *(page.text(row[key]) for key in columns)]
        for i, (name, row) in enumerate(zip(names, details, strict=True))
    ]
    facts = page.html_table(["Run", *map(page.text, columns)], rows, "words")
    title = "Against each other"
    try:
        for run in runs:
            check_evaluated(run)
        recipes = [repr(sorted(settings_of(run).items())) for run in runs]
        seeds = {(recipe, run.recipe("run").get("seed", 0)) for recipe, run in zip(recipes, runs, strict=True)}
        if not len({*recipes}) < len(runs) == len(seeds):
            runs = [dataclasses.replace(run, name=name) for run, name in zip(runs, names, strict=True)]
        compared = compare_runs(by_variant(runs))
    except DiverError as error:
        note = f'<p class="note">Not compared with each other: {page.text(error)}.</p>'
        return page.header(f"{len(runs)} runs", page.text(" · ".join(names)), facts), "", page.section(title, note)
    baseline, found = _against(compared)
    sentences = [
        f"{page.text(name)} against {page.text(baseline)}: {headline(verdict(rows, baseline == BEFORE))}"
        for name, rows in found.items()
    ]
    if len(found) != 1:  # each has its own line of changes below
        sentences = [page.text(f"{len(found)} variants against {baseline}" if found else " · ".join(names))]
    tiles = "".join(changes(rows, f"<h3>{page.text(name)}</h3>" * (len(found) > 1)) for name, rows in found.items())
    levels = compared.tables["levels"]
    ks = [int(m.name.removeprefix("pass@")) for m in levels.measures if m.name.startswith("pass@")]
    lines = {
        name: [cell for cell in cells[: len(ks)] if isinstance(cell, Estimate)]
        for name, cells in zip(compared.evaluations, levels.rows.values(), strict=True)
    }
    trained = [name for name in lines if name != BEFORE]
    figures = pass_figure(ks, lines) + band_figures(compared.bands, compared.words, trained)
    said = "".join(f"{page.text(note)}. " for note in compared.notes)
    note = (
        "Pass@k in percent, differences in points, after training. In brackets 95 % intervals over seeds and "
        f"problems, paired in differences. {said}"
    )
    return (
        page.header(f"{len(runs)} runs", "".join(sentences), f"{tiles}{facts}"),
        _figures(figures),
        page.section(title, f'<p class="note">{note}</p>\n{_side_by_side(compared.tables)}'),
    )


def _against(compared: Compared) -> tuple[str, dict[str, list[Comparison]]]:
    """The baseline, and the changes of Pass@k from it of each other variant."""
    levels = dict(zip(compared.evaluations, compared.tables["levels"].rows.values(), strict=True))
    if not (differences := compared.tables.get("differences")):
        return "", {}
    baseline = differences.of.removeprefix("minus ")
    others = [label for label in levels if label not in (baseline, BEFORE)]
    return baseline, {
        label: [
            Comparison(measure.title, base, trained, change)
            for measure, base, trained, change in zip(
                differences.measures, levels[baseline], levels[label], cells, strict=False
            )  # levels have the effective number, too
            if isinstance(base, Estimate) and isinstance(trained, Estimate) and isinstance(change, Estimate)
            if measure.name.startswith("pass@")
        ]
        for label, cells in zip(others, differences.rows.values(), strict=True)
    }


def _side_by_side(tables: Mapping[str, Table]) -> str:
    """Levels and differences: the rows of one quantity together, or a table each where there are many variants."""
    levels, differences = tables["levels"], tables.get("differences")
    if differences is None or len(levels.rows) > COLUMNS:
        return "".join(page.text_table(table.text()) for table in tables.values())
    header, *rows = levels.upright()
    (_, *names), *others = differences.upright()
    more = {title: cells for title, *cells in others}
    lines = [[*row, *more.get(row[0], [""] * len(names))] for row in rows]
    return page.text_table([[*header, *(f"{name} {differences.of}" for name in names)], *lines])


def _figures(figures: str) -> str:
    return page.section("Pass@k over k", f'<div class="panels two">{figures}</div>') if figures else ""


def _facts(run: RunRecord) -> dict[str, object]:
    model, method = model_and_method(run)
    return {
        "Model": model,
        "Method": method,
        "Engine": run.engine,
        "Steps": progress(run).removesuffix("s").removesuffix(" step"),
        "Training time": duration(run.seconds),
        "Started": str(run.config.get("started", "–"))[:16].replace("T", " "),
        "Seed": run.config.get("seed", "–"),
        "DIVER": table(run.config, "versions").get("diver-rl", ""),
    }


def comparison(runs: Sequence[RunRecord], names: Sequence[str]) -> str:
    every = [(i, row) for i, run in enumerate(runs) for row in compare(run)]
    if not every:
        return ""
    counts = [e for _, row in every if not row.percent for e in (row.base, row.trained)]
    scale = 1.1 * max((end for e in counts for end in (e.mean, e.high) if end > 0), default=1.0)
    several = len(runs) > 1
    quantities: dict[str, list[tuple[int, Comparison]]] = {}
    for i, row in every:
        quantities.setdefault(row.label.partition(" (")[0] if several else row.label, []).append((i, row))
    body = ""
    for label, rows in quantities.items():
        start, first = ' class="first"', f'<th scope="rowgroup" rowspan="{len(rows)}">{page.text(label)}</th>'
        for i, row in rows:
            few = f"<small>{row.label.partition(' (')[2].rstrip(')')}</small>"
            run_cell = f'<th scope="row">{page.swatch(i)}{page.text(names[i])}{few}</th>' if several else ""
            body += f"<tr{start}>{first}{run_cell}{_cells(row, 1.0 if row.percent else scale, i)}</tr>"
            start = first = ""
    basis = "; ".join(dict.fromkeys(filter(None, map(conditions, runs))))
    return (
        f'<section><h2>Before and after training</h2>\n<p class="note">{page.text(basis)}. Pass@k in percent. '
        f"{page.text(legend([row for _, row in every]))} Brackets hold 95 % intervals over problems; that of the "
        "change is paired by problem. ▲ and ▼ mark a change whose interval excludes 0.</p>\n"
        f'<div class="scroll"><table class="{"many" if several else "one"}"><thead><tr><th></th>'
        f"{'<th>Run</th>' if several else ''}"
        '<th>Change</th><th>Before</th><th>After</th><th class="plot">Before (grey) and after</th></tr></thead>'
        f"<tbody>{body}</tbody></table></div></section>"
    )


def _cells(row: Comparison, scale: float, run: int) -> str:
    shown = (row.show(row.base), row.show(row.trained), row.show(row.change, "+"))
    parts = (estimate.replace("-", "−").partition(" ") for estimate in shown)
    base, trained, change = (f"{mean}<small>{interval}</small>" for mean, _, interval in parts)
    return (
        f'<td class="change {kind(row)}">{SIGNS.get(kind(row), "")}{change}</td><td>{base}</td><td>{trained}</td>'
        f'<td class="plot">{_interval_plot(row, scale, run)}</td>'
    )


def _interval_plot(row: Comparison, scale: float, run: int) -> str:
    """Two intervals above each other, the base's grey, on an axis of 0..scale."""
    marks = ""
    for estimate, y, colour in ((row.base, 6, "base"), (row.trained, 14, f"r{run % 6}")):
        if math.isnan(estimate.mean):
            continue
        low, high = (e if not math.isnan(e) else estimate.mean for e in (estimate.low, estimate.high))
        x1, x2, x = (f"{100 * value / scale:.2f}%" for value in (low, high, estimate.mean))
        marks += (
            f'<line class="{colour}" x1="{x1}" x2="{x2}" y1="{y}" y2="{y}"/>'
            f'<circle class="{colour}" cx="{x}" cy="{y}" r="3"/>'
        )
    marks += "".join(f'<line x1="{x}" x2="{x}" y1="1" y2="19"/>' for x in ("0", "50%", "100%"))
    last = "100 %" if row.percent else f"{scale:.2g}"
    return (
        f'<svg aria-hidden="true"><text x="-5" y="14">0</text>{marks}<text x="100%" dx="5" y="14">{last}</text></svg>'
    )


def fronts(run: RunRecord) -> str:
    """Pass@1 against Pass@k of the weights between the base and the trained model, by `diver eval RUN --alphas`; empty
    if they were not evaluated."""
    file = run.folder / "eval" / "front.json"
    if not file.exists():
        return ""
    front = read_json(file)
    (found,) = front["benchmarks"].values()  # the held-out problems of the run
    highest = f"pass@{max(found['k'])}"
    lines: dict[str, list[tuple[float, float, str]]] = {}
    for row in found["rows"]:
        if "alpha" in row and None not in (point := (row["pass@1"], row[highest])):
            label = f"{row['alpha']:g}" if row["alpha"] else UNTRAINED
            lines.setdefault(f"temperature {row['temperature']:g}", []).append((*point, label))
    models = f"Weights base + alpha (trained - base) of {front['base']} and {front['trained']}, each with its alpha"
    sizes = f"{counted(found['problems'], 'held-out problem')} with {counted(found['samples'], 'sample')} each"
    figure = f'<div class="panels">{front_svg(lines, "Pass@1", highest.capitalize())}</div>'
    return page.section("Weights between", f'<p class="note">{page.text(f"{models}. {sizes}.")}</p>\n{figure}')


def _shown(run: RunRecord, index: int, limit: int, first: Collection[str]) -> list[Shown]:
    """At most `limit` groups of a run, from up to STEPS evenly spaced steps. Each step has equally many, the problems
    of `first` before others, so that two runs can be read side by side."""
    recorded = list(run.rollout_files)
    steps = [recorded[i] for i in page.evenly_spaced(len(recorded), min(STEPS, limit))]
    diversity = table(run.config, "recipe", "method", "diversity")
    tokenize = str(diversity.get("tokenize", ""))
    until: Until = "answer" if diversity.get("until") == "answer" else "end"
    shown = []
    for step in steps:
        groups, count = run.groups(step), limit // len(steps)
        chosen = [i for i, group in enumerate(groups) if group.problem.id in first]
        chosen = [*dict.fromkeys([*chosen, *page.evenly_spaced(len(groups), count)])][:count]
        shown += [Shown(groups[i], index, step, tokenize, until) for i in sorted(chosen)]
    return shown


def provenance(runs: Sequence[RunRecord], names: Sequence[str]) -> str:
    """Command, commit, versions and recipe of each run."""
    parts = []
    for run, name in zip(runs, names, strict=True):
        versions = " · ".join(f"{key} {version}" for key, version in table(run.config, "versions").items())
        about = {"Run": name, "Command": run.config.get("command"), "Commit": run.config.get("commit")}
        recipe = json.dumps(run.config.get("recipe"), indent=2, ensure_ascii=False, default=str)
        parts.append(
            f"{page.facts({**about, 'Versions': versions})}\n"
            f'<details><summary>The resolved recipe</summary><pre class="text">{page.text(recipe)}</pre></details>'
        )
    return page.section("Provenance", "".join(parts))
