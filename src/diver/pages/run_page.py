"""The page of one run, or of several side by side. All text of others is escaped here."""

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from diver.core.files import read_json, table, write_text
from diver.core.run_folder import trained_counts, trained_note
from diver.core.tables import counted
from diver.core.types import DiverError
from diver.diversity import Until
from diver.evaluate.comparison import Comparison, legend, over_k
from diver.evaluate.evaluate import duration
from diver.pages import page
from diver.pages.band_figure import band_figures
from diver.pages.curves import curves_data
from diver.pages.front_figure import UNTRAINED, front_svg
from diver.pages.groups import GROUPS, Shown, browser_data
from diver.pages.over_seeds import by_variant, check_evaluated, compare_runs, settings_of
from diver.pages.run_record import RunRecord, compare, conclusion, conditions, model_and_method, progress, run_alerts

STEPS = 20  # steps of a run whose groups are shown
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
    shown = [s for i, run in enumerate(runs) for s in _shown(run, i, groups // len(runs))]
    notes = [trained_note(trained_counts(s.group for s in shown if s.run == i), r.folder) for i, r in enumerate(runs)]
    browser = browser_data(shown, groups)
    title = " · ".join(model_and_method(runs[0]) if len(runs) == 1 else names)
    parts = (
        head(runs, names),
        comparison(runs, names),
        against_each_other(runs, names) if len(runs) > 1 else fronts(runs[0]),
        page.alerts_section(of_runs, names, NO_ALERTS),
        page.CURVES if any(len(run.metrics) or run.evaluations for run in runs) else "",
        page.groups_section(browser, drawn="; ".join(filter(None, ["evenly spaced", *notes]))),
        provenance(runs, names),
    )
    data = {"runs": names, "curves": curves_data(runs, of_runs), "browser": browser, "version": version}
    return page.document(title, parts, data)


def labels(runs: Sequence[RunRecord]) -> list[str]:
    """A name for each run, no two alike: the one that the user gives it, else the end of its path."""
    folders = [run.folder.resolve().parts for run in runs]
    for depth in range(1, max(map(len, folders)) + 1):
        ends = ["/".join(parts[-depth:]) for parts in folders]
        if len({*ends}) == len(ends):
            break
    else:  # one folder given twice
        ends = [str(run.folder) for run in runs]
    given = Counter(run.name for run in runs)
    return [
        end if not run.name else run.name if given[run.name] == 1 else f"{run.name}/{run.folder.name}"
        for run, end in zip(runs, ends, strict=True)
    ]


def head(runs: Sequence[RunRecord], names: Sequence[str]) -> str:
    """The headline, and under it what the runs are: facts of one, a table of several."""
    of_runs = [_facts(run) for run in runs]
    if len(runs) == 1:
        return page.header(" · ".join(model_and_method(runs[0])), conclusion(runs[0]), page.facts(of_runs[0]))
    columns = [key for key in of_runs[0] if any(row[key] != "" for row in of_runs)]
    rows = [
        [f"{page.swatch(i)}{page.text(name)}", *(page.text(row[key]) for key in columns)]
        for i, (name, row) in enumerate(zip(names, of_runs, strict=True))
    ]
    details = page.html_table(["Run", *map(page.text, columns)], rows, "words")
    return page.header(f"{len(runs)} runs", " · ".join(names), details)


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
    body = ""
    for label, number in Counter(row.label for _, row in every).items():
        span = f' rowspan="{number}"' if number > 1 else ""
        start, first = ' class="first"', f'<th scope="rowgroup"{span}>{page.text(label)}</th>'
        for i, row in ((i, row) for i, row in every if row.label == label):
            run_cell = f'<th scope="row">{page.swatch(i)}{page.text(names[i])}</th>' if several else ""
            body += f"<tr{start}>{first}{run_cell}{_cells(row, 1.0 if row.percent else scale, i)}</tr>"
            start = first = ""
    basis = "; ".join(dict.fromkeys(filter(None, map(conditions, runs))))
    return (
        f'<section><h2>Before and after training</h2>\n<p class="note">{page.text(basis)}. Pass@k in percent. '
        f"{page.text(legend([row for _, row in every]))} Brackets hold 95 % intervals over problems; that of the "
        "change is paired by problem. A change is coloured if its interval excludes 0.</p>\n"
        f'<div class="scroll"><table class="{"many" if several else "one"}"><thead><tr><th></th>'
        f"{'<th>Run</th>' if several else ''}"
        '<th>Before</th><th>After</th><th>Change</th><th class="plot"></th></tr></thead>'
        f"<tbody>{body}</tbody></table></div>{_over_k(runs[0]) if not several else ''}</section>"
    )


def _over_k(run: RunRecord) -> str:
    """The change of Pass@k over k; empty if it is not known for several problems and k."""
    band = over_k([run.base], [run.trained]) if run.base and run.trained else None
    if band is None:
        return ""
    words = f"{band.about}: {band.text('after training', 'before training')}"
    return band_figures({"After minus before training": band}, {"After minus before training": words})


def _cells(row: Comparison, scale: float, run: int) -> str:
    shown = (row.show(row.base), row.show(row.trained), row.show(row.change, "+"))
    parts = (estimate.replace("-", "−").partition(" ") for estimate in shown)
    base, trained, change = (f"{mean}<small>{interval}</small>" for mean, _, interval in parts)
    return (
        f'<td>{base}</td><td>{trained}</td><td class="change{" significant" * row.significant}">{change}</td>'
        f'<td class="plot">{_interval_plot(row, scale, run)}</td>'
    )


def _interval_plot(row: Comparison, scale: float, run: int) -> str:
    """Two intervals above each other, the base's grey, on 0..scale."""
    marks = ""
    for estimate, y, kind in ((row.base, 6, "base"), (row.trained, 14, f"r{run % 6}")):
        if math.isnan(estimate.mean):
            continue
        low, high = (e if not math.isnan(e) else estimate.mean for e in (estimate.low, estimate.high))
        x1, x2, x = (f"{100 * value / scale:.2f}%" for value in (low, high, estimate.mean))
        marks += (
            f'<line class="{kind}" x1="{x1}" x2="{x2}" y1="{y}" y2="{y}"/>'
            f'<circle class="{kind}" cx="{x}" cy="{y}" r="3"/>'
        )
    ends = "".join(f'<line x1="{x}" x2="{x}" y1="1" y2="19"/>' for x in ("0", "100%"))
    return f'<svg aria-hidden="true">{ends}{marks}</svg>'


def against_each_other(runs: Sequence[RunRecord], names: Sequence[str]) -> str:
    """Each variant against the first, paired over seeds and problems, as `diver compare` does.

    Runs that differ in the seed alone are one variant; others have the names of the page. If only one variant is found,
    it is shown against the policy before training. Where runs cannot be compared, the section gives the reason.
    """
    try:
        for run in runs:
            check_evaluated(run)
        recipes = [repr(sorted(settings_of(run).items())) for run in runs]
        seeds = {(recipe, run.recipe("run").get("seed", 0)) for recipe, run in zip(recipes, runs, strict=True)}
        if not len({*recipes}) < len(runs) == len(seeds):
            runs = [dataclasses.replace(run, name=name) for run, name in zip(runs, names, strict=True)]
        compared = compare_runs(by_variant(runs))
    except DiverError as error:
        note, shown = f"Not compared with each other: {page.text(error)}.", ""
    else:
        shown = "".join(page.text_table(table.text()) for table in compared.tables.values())
        shown += band_figures(compared.bands, compared.words)
        said = "".join(f"{page.text(note)}. " for note in compared.notes)
        note = (
            "Pass@k in percent, differences in points, after training. In brackets 95 % intervals over seeds and "
            f"problems, paired in differences. {said}"
        )
    return page.section("Against each other", f'<p class="note">{note}</p>\n{shown}')


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


def _shown(run: RunRecord, index: int, limit: int) -> list[Shown]:
    """At most `limit` groups of a run, from up to STEPS evenly spaced steps. Each step has equally many."""
    recorded = list(run.rollout_files)
    steps = [recorded[i] for i in page.evenly_spaced(len(recorded), min(STEPS, limit))]
    diversity = table(run.config, "recipe", "method", "diversity")
    tokenize = str(diversity.get("tokenize", ""))
    until: Until = "answer" if diversity.get("until") == "answer" else "end"
    return [
        Shown(groups[i], index, step, tokenize, until)
        for step, groups in ((step, run.groups(step)) for step in steps)
        for i in page.evenly_spaced(len(groups), limit // len(steps))
    ]


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
