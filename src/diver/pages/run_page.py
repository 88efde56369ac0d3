"""The page of one run, or of several side by side. Text of any origin is escaped here."""

import dataclasses
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from diver.core.files import read_json, table, write_text
from diver.core.run_folder import trained_counts, trained_note
from diver.core.statistics import UNKNOWN
from diver.core.tables import Table, counted
from diver.core.types import DiverError
from diver.diversity import Until
from diver.evaluate.comparison import BEFORE, Compared, Comparison, legend, over_k, pass_estimates
from diver.evaluate.evaluate import duration
from diver.pages import page
from diver.pages.band_figure import band_figures, pass_figure
from diver.pages.curves import curves_data
from diver.pages.front_figure import UNTRAINED, front_svg
from diver.pages.groups import GROUPS, Shown, browser_data
from diver.pages.over_seeds import by_variant, check_evaluated, compare_runs, settings_of
from diver.pages.run_record import (
    RunRecord,
    conclusions,
    conditions,
    model_and_method,
    progress,
    run_alerts,
)
from diver.pages.verdict import SIGNS, changes, headline, kind, verdict

STEPS = 20  # steps of a run whose groups are shown
COLUMNS = 4  # maximum variants in a table with one row per quantity: wider tables do not fit the page
NO_ALERTS = (
    "No alerts: gradients, the reward and the advantage, log-probabilities, entropy, response length, truncation, "
    "groups without a correct response and verifier failures stayed within their limits, and diversity did not rise "
    "while the outcome reward fell."
)


def write_report(folder: str | Path) -> Path:
    """Write the page of a run into its folder, and return its path.

    The run may still be training. An existing page is replaced completely or not at all.

    Raises:
        DiverError: `folder` is no run folder.
    """
    path = Path(folder) / "report.html"
    write_text(path, render([RunRecord.read(Path(folder))]))
    return path


def render(runs: Sequence[RunRecord], groups: int = GROUPS, version: str = "") -> str:
    """The page of one run, or of several side by side; a served page has a `version`.

    `groups` is the maximum number of groups that are shown, evenly spaced over the runs.
    """
    names, of_runs = labels(runs), [run_alerts(run) for run in runs]
    shown: list[Shown] = []
    for i, run in enumerate(runs):
        problem_ids = {s.group.problem.id for s in shown if s.run == 0}
        shown += _shown(run, i, groups // len(runs), problem_ids)
    notes = [trained_note(trained_counts(s.group for s in shown if s.run == i), r.folder) for i, r in enumerate(runs)]
    browser = browser_data(shown, groups)
    title = " · ".join(model_and_method(runs[0]) if len(runs) == 1 else names)
    parts = (
        *(of_one(runs[0], title) if len(runs) == 1 else of_several(runs, names)),
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
    forms = (names for names in (methods, seeds, *paths) if len({*names}) == len(runs) and "–" not in names)
    unique = next(forms, [str(run.folder) for run in runs])  # a folder that is named twice has no form
    name_counts = Counter(run.name for run in runs)
    return [
        name if not run.name else run.name if name_counts[run.name] == 1 else f"{run.name}/{run.folder.name}"
        for run, name in zip(runs, unique, strict=True)
    ]


def of_one(run: RunRecord, title: str) -> tuple[str, str]:
    """The head of the page of one run, its verdict first, and Pass@k over k."""
    rows = [row for row in run.before_and_after if row.is_pass]
    head = page.header(title, headline(conclusions(run)), f"{changes(rows)}{page.facts(_facts(run))}")
    lines = {BEFORE: [row.base for row in rows], "after training": [row.trained for row in rows]}
    figures = pass_figure([int(row.label.removeprefix("Pass@")) for row in rows], lines)
    if run.base and run.trained and (band := over_k([run.base], [run.trained])):
        name = "After minus before training"
        figures += band_figures({name: band}, {name: f"{band.about}: {band.text('after training', BEFORE)}"})
    return head, _figures(figures)


def of_several(runs: Sequence[RunRecord], names: Sequence[str]) -> tuple[str, str, str]:
    """The head of the page of several runs, Pass@k over k, and each variant against the first, as in `diver compare`.

    Runs that differ in the seed alone are one variant; others have the names of the page. If only one variant is found,
    it is shown against the policy before training. Where runs cannot be compared, the last section gives the reason.
    """
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
        return page.header(f"{len(runs)} runs", page.text(" · ".join(names)), ""), "", page.section(title, note)
    baseline, by_name = _against(compared)
    sentences = {name: headline(verdict(rows, baseline == BEFORE)) for name, rows in by_name.items()}
    lead = "".join(f"{page.text(name)} against {page.text(baseline)}: {words}" for name, words in sentences.items())
    if len(by_name) != 1:  # each variant has a line of changes below
        lead = page.text(f"{len(by_name)} variants against {baseline}" if by_name else " · ".join(names))
    tiles = "".join(changes(rows, f"<h3>{page.text(name)}</h3>" * (len(by_name) > 1)) for name, rows in by_name.items())
    by_k = [*pass_estimates(compared.tables["levels"]).values()]
    lines = {name: [*estimates.values()] for name, estimates in zip(compared.evaluations, by_k, strict=True)}
    trained = [name for name in lines if name != BEFORE]
    figures = pass_figure([*by_k[0]], lines)
    figures += band_figures(compared.bands, compared.words, trained, f"minus {baseline}")
    notes = "".join(f"{page.text(note)}. " for note in compared.notes)
    note = f"Pass@k in percent, differences in points. Brackets hold 95 % intervals over seeds and problems. {notes}"
    return (
        page.header(f"{len(runs)} runs", lead, tiles),
        _figures(figures),
        page.section(title, f'<p class="note">{note}</p>\n{_side_by_side(compared.tables)}'),
    )


def _against(compared: Compared) -> tuple[str, dict[str, list[Comparison]]]:
    """The baseline, and the differences of Pass@k from it of each other variant."""
    if not (differences := compared.tables.get("differences")):
        return "", {}
    return differences.of.removeprefix("minus "), {
        name.rpartition(" (")[0]: [  # without the number of seeds
            Comparison(f"Pass@{k}", UNKNOWN, UNKNOWN, change) for k, change in by_k.items()
        ]
        for name, by_k in pass_estimates(differences).items()
    }


def _side_by_side(tables: Mapping[str, Table]) -> str:
    """Levels and differences: the rows of one quantity together, or two tables if the variants are many."""
    levels, differences = tables["levels"], tables.get("differences")
    if differences is None or len(levels.rows) > COLUMNS:
        return "".join(page.text_table(table.text()) for table in tables.values())
    header, *rows = levels.upright()
    (_, *names), *others = differences.upright()
    more = {title: cells for title, *cells in others}
    lines = [[title, *more.get(title, [""] * len(names)), *cells] for title, *cells in rows]
    return page.text_table([["", *(f"{name} {differences.of}" for name in names), *header[1:]], *lines])


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
    """Before and after training, the rows of one quantity together."""
    pairs = [(i, row) for i, run in enumerate(runs) for row in run.before_and_after]
    if not pairs:
        return ""
    quantities = [row.label.partition(" (")[0] for _, row in pairs]
    lines = []
    for _, (i, row) in sorted(zip(quantities, pairs, strict=True), key=lambda item: quantities.index(item[0])):
        run = f"<small>{page.swatch(i)}{page.text(names[i])}</small>" if len(runs) > 1 else ""
        change, base, trained = map(page.cell, (row.show(row.change, "+"), row.show(row.base), row.show(row.trained)))
        coloured = f'<span class="change {kind(row)}">{SIGNS.get(kind(row), "")}{change}</span>'
        lines.append([f"{page.text(row.label)}{run}", coloured, base, trained])
    note = (
        f"{'; '.join(dict.fromkeys(filter(None, map(conditions, runs))))}. Pass@k in percent. "
        f"{legend([row for _, row in pairs])} Brackets hold 95 % intervals over problems; that of the change is paired "
        "by problem. ▲ and ▼ mark a change whose interval excludes 0."
    )
    html = page.html_table(["", "Change", "Before", "After"], lines)
    return page.section("Before and after training", f'<p class="note">{page.text(note)}</p>\n{html}')


def fronts(run: RunRecord) -> str:
    """Pass@1 against Pass@k of the weights between the base and the trained model, by `diver eval RUN --alphas`; empty
    if they were not evaluated."""
    file = run.folder / "eval" / "front.json"
    if not file.exists():
        return ""
    front = read_json(file)
    (benchmark,) = front["benchmarks"].values()  # the held-out problems of the run
    highest = f"pass@{max(benchmark['k'])}"
    lines: dict[str, list[tuple[float, float, str]]] = {}
    for row in benchmark["rows"]:
        if "alpha" in row and None not in (point := (row["pass@1"], row[highest])):
            label = f"{row['alpha']:g}" if row["alpha"] else UNTRAINED
            lines.setdefault(f"temperature {row['temperature']:g}", []).append((*point, label))
    models = f"Weights base + alpha (trained - base) of {front['base']} and {front['trained']}, each with its alpha"
    sizes = f"{counted(benchmark['problems'], 'held-out problem')} with {counted(benchmark['samples'], 'sample')} each"
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
        facts = {"Run": name} if len(runs) == 1 else {"Run": name, **_facts(run)}
        facts |= {"Command": run.config.get("command"), "Commit": run.config.get("commit")}
        recipe = json.dumps(run.config.get("recipe"), indent=2, ensure_ascii=False, default=str)
        parts.append(
            f"{page.facts({**facts, 'Versions': versions})}\n"
            f'<details><summary>The resolved recipe</summary><pre class="text">{page.text(recipe)}</pre></details>'
        )
    return page.section("Provenance", "".join(parts))
