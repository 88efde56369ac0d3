"""The sections of the page of one run, or of several side by side. All text of others is escaped here."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

from diver.evaluate.compare import Comparison, legend
from diver.evaluate.evaluate import duration
from diver.io.jsonl import table
from diver.report.page import NOTHING, facts, html_table
from diver.report.run_record import RunRecord
from diver.report.summary import compare, conclusion, conditions, model_and_method, progress
from diver.report.text import text
from diver.train.alerts import Alert

SPANS = 4  # of an alert that are named; of more, how many there are


def labels(runs: Sequence[RunRecord]) -> list[str]:
    """A short name for each run, no two alike."""
    folders = [run.folder.resolve().parts for run in runs]
    for depth in range(1, max(map(len, folders)) + 1):
        short = ["/".join(parts[-depth:]) for parts in folders]
        if len(set(short)) == len(short):
            return short
    return [str(run.folder) for run in runs]  # one folder given twice


# --- head


def head(runs: Sequence[RunRecord], names: Sequence[str]) -> str:
    if len(runs) == 1:
        eyebrow, headline, details = " · ".join(model_and_method(runs[0])), conclusion(runs[0]), facts(_facts(runs[0]))
    else:
        eyebrow, headline, details = f"{len(runs)} runs", " · ".join(names), _runs_table(runs, names)
    return f'<header><p class="eyebrow">{text(eyebrow)}</p>\n<h1>{text(headline)}</h1>\n{details}</header>'


def _facts(run: RunRecord) -> dict[str, object]:
    model, method = model_and_method(run)
    version = table(run.config, "versions").get("diver-rl")
    return {
        "Model": model,
        "Method": method,
        **({"Engine": run.engine} if run.engine else {}),
        "Steps": progress(run).removesuffix(" steps"),
        "Training time": duration(run.seconds),
        "Started": str(run.config.get("started", "–"))[:16].replace("T", " "),
        "Seed": run.config.get("seed", "–"),
        **({} if version is None else {"DIVER": version}),
    }


def _runs_table(runs: Sequence[RunRecord], names: Sequence[str]) -> str:
    run_facts = [_facts(run) for run in runs]
    columns = list(dict.fromkeys(key for row in run_facts for key in row))
    rows = [
        [f"{swatch(i)}{text(name)}", *(text(row.get(key, "")) for key in columns)]
        for i, (name, row) in enumerate(zip(names, run_facts, strict=True))
    ]
    return html_table(["Run", *map(text, columns)], rows, "words")


def swatch(run: int) -> str:
    return f'<i class="swatch r{run % 6}"></i>'


def headline(run_folder: Path) -> str:
    """The run in one line: its folder and the result of its evaluations."""
    run = RunRecord.read(Path(run_folder))
    return f"{run.folder}: {conclusion(run)}"


# --- base vs. trained


def comparison(runs: Sequence[RunRecord], names: Sequence[str]) -> str:
    tables = [{row.label: row for row in compare(run)} for run in runs]
    order = list(dict.fromkeys(label for table in tables for label in table))
    if not order:
        return ""
    every = [row for table in tables for row in table.values() if not row.percent]
    scale = 1.1 * max((e.high for r in every for e in (r.base, r.trained) if e.high > 0), default=1.0)
    several = len(runs) > 1
    body = ""
    for label in order:
        shown = [(i, table[label]) for i, table in enumerate(tables) if label in table]
        for number, (i, row) in enumerate(shown):
            span = f' rowspan="{len(shown)}"' if len(shown) > 1 else ""
            first = f'<th scope="rowgroup"{span}>{text(label)}</th>' if number == 0 else ""
            run_cell = f'<th scope="row">{swatch(i)}{text(names[i])}</th>' if several else ""
            start = ' class="first"' if number == 0 else ""
            body += f"<tr{start}>{first}{run_cell}{_cells(row, 1.0 if row.percent else scale, i)}</tr>"
    basis = "; ".join(dict.fromkeys(filter(None, map(conditions, runs))))
    return (
        f'<section><h2>Base vs. trained</h2>\n<p class="note">{text(basis)}. Pass@k in percent. '
        f"{text(legend([row for table in tables for row in table.values()]))} In brackets 95 % intervals over problems; that "
        "of the change is paired by problem. A coloured change: its interval excludes 0.</p>\n"
        f'<div class="scroll"><table class="{"many" if several else "one"}"><thead><tr><th></th>{"<th>Run</th>" if several else ""}'
        '<th>Base</th><th>Trained</th><th>Change</th><th class="plot"></th></tr></thead>'
        f"<tbody>{body}</tbody></table></div></section>"
    )


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
        marks += f'<line class="{kind}" x1="{x1}" x2="{x2}" y1="{y}" y2="{y}"/><circle class="{kind}" cx="{x}" cy="{y}" r="3"/>'
    ends = "".join(f'<line x1="{x}" x2="{x}" y1="1" y2="19"/>' for x in ("0", "100%"))
    return f'<svg aria-hidden="true">{ends}{marks}</svg>'


# --- alerts, curves, provenance

NO_ALERTS = (
    "No alerts: gradients, the reward and the advantage, log-probabilities, entropy, response length, truncation, groups "
    "without a correct response and verifier failures stayed within their limits, and diversity did not rise while the "
    "outcome reward fell."
)


def alerts_section(alerts: Sequence[Sequence[Alert]], names: Sequence[str], none: str = NO_ALERTS) -> str:
    """The alerts of all runs, each with its steps and a link to its curve; `none` is said where there is none."""
    run_name = '<p class="run">{}{}</p>' if len(names) > 1 else ""
    rows = "".join(
        f"<li>{run_name.format(swatch(i), text(names[i]))}<h3>{text(alert.title)}{_link(alert)}</h3><p class='note'>{text(alert.text)} {text(alert.advice)}</p></li>"
        for i, of_run in enumerate(alerts)
        for alert in of_run
    )
    content = f'<ul class="alerts">{rows}</ul>' if rows else f'<p class="note">{text(none)}</p>'
    return f"<section><h2>Alerts</h2>\n{content}</section>"


def span_text(spans: tuple[tuple[int, int], ...]) -> str:
    """The intervals in words: "step 3", "steps 5–9 and 20–31"; empty without any."""
    if not spans:
        return ""
    words = [f"{a:,}" if a == b else f"{a:,}–{b:,}" for a, b in spans[:SPANS]]
    rest = [f"{len(spans) - SPANS} later intervals"] if len(spans) > SPANS else []
    *first, last = words + rest
    noun = "step" if len(spans) == 1 and spans[0][0] == spans[0][1] else "steps"
    return f"{noun} {', '.join(first)} and {last}" if first else f"{noun} {last}"


def _link(alert: Alert) -> str:
    target = "curve-" + "".join(c if c.isalnum() else "-" for c in alert.metric)
    return f' <a href="#{text(target)}">{text(span_text(alert.spans) or "curve")}</a>' if alert.metric else ""


CURVES = (
    '<section><h2>Curves</h2>\n<p class="note">By training step, all on the same axis. Point at a curve, or use the '
    f'arrow keys in it, to read every value at a step.</p>\n<div id="curves"></div>{NOTHING}</section>'
)


def provenance(runs: Sequence[RunRecord], names: Sequence[str]) -> str:
    """Command, commit, versions and recipe of each run."""
    parts = []
    for run, name in zip(runs, names, strict=True):
        versions = " · ".join(f"{key} {version}" for key, version in table(run.config, "versions").items())
        rows = {"Run": name, "Command": run.config.get("command"), "Commit": run.config.get("commit")}
        recipe = json.dumps(run.config.get("recipe"), indent=2, ensure_ascii=False, default=str)
        parts.append(
            f"{facts({key: value for key, value in {**rows, 'Versions': versions}.items() if value})}\n"
            f'<details><summary>The resolved recipe</summary><pre class="text">{text(recipe)}</pre></details>'
        )
    return f"<section><h2>Provenance</h2>\n{''.join(parts)}</section>"
