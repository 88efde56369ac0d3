"""The sections of a run's page, of one run or of several side by side. All text of others is escaped here."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from diver.report.page import NOTHING, facts
from diver.report.reading import RunRecord, number, part
from diver.report.signs import Sign, where
from diver.report.summary import Comparison, compare, duration, held_out, named, progress
from diver.report.text import minus, text


def labels(runs: Sequence[RunRecord]) -> list[str]:
    """A short name for each run, no two alike."""
    folders = [run.folder.resolve().parts for run in runs]
    for kept in range(1, max(map(len, folders)) + 1):
        short = ["/".join(parts[-kept:]) for parts in folders]
        if len(set(short)) == len(short):
            return short
    return [str(run.folder) for run in runs]  # one folder given twice


def model_and_method(run: RunRecord) -> tuple[str, str]:
    recipe = part(run.config, "recipe")
    return named(recipe.get("model")), named(recipe.get("method"))


# --- head


def head(runs: Sequence[RunRecord], names: Sequence[str]) -> str:
    if len(runs) == 1:
        eyebrow, headline, about = " · ".join(model_and_method(runs[0])), one_line(runs[0]), facts(_facts(runs[0]))
    else:
        eyebrow, headline, about = f"{len(runs)} runs", _best(runs, names), _runs_table(runs, names)
    return f'<header><p class="eyebrow">{text(eyebrow)}</p>\n<h1>{text(headline)}</h1>\n{about}</header>'


def _facts(run: RunRecord) -> dict[str, object]:
    model, method = model_and_method(run)
    versions = part(run.config, "versions")
    told = {
        "Model": model,
        "Method": method,
        "Steps": progress(run).removesuffix(" steps"),
        "Training time": duration(run.seconds),
        "Started": str(run.config.get("started", "–"))[:16].replace("T", " "),
        "Seed": run.config.get("seed", "–"),
    }
    if "diver" in versions or "diver-rl" in versions:
        told["DIVER"] = versions.get("diver", versions.get("diver-rl"))
    return told


def _runs_table(runs: Sequence[RunRecord], names: Sequence[str]) -> str:
    told = [_facts(run) for run in runs]
    columns = list(dict.fromkeys(key for row in told for key in row))
    header = "".join(f"<th>{text(key)}</th>" for key in columns)
    rows = "".join(
        f'<tr><th scope="row">{swatch(i)}{text(name)}</th>'
        + "".join(f"<td>{text(row.get(key, ''))}</td>" for key in columns)
        + "</tr>"
        for i, (name, row) in enumerate(zip(names, told, strict=True))
    )
    return f'<div class="scroll"><table class="words"><thead><tr><th>Run</th>{header}</tr></thead><tbody>{rows}</tbody></table></div>'


def swatch(run: int) -> str:
    return f'<i class="swatch r{run % 6}"></i>'


def one_line(run: RunRecord) -> str:
    """The run in one sentence, as far as it has got."""
    first = next((row for row in compare(run) if row.percent and not math.isnan(row.change)), None)
    if first is None:
        return f"A run of {progress(run)}, not evaluated after training yet"
    way = "went from" if not first.separate else "rose from" if first.change > 0 else "fell from"
    base, trained = first.show(first.base.mean), first.show(first.trained.mean)
    hedge = "" if first.separate else "; the intervals overlap"
    return f"{first.label} {way} {base}\u00a0% to {trained}\u00a0% in {max(run.evaluations):,} steps{hedge}"


def _best(runs: Sequence[RunRecord], names: Sequence[str]) -> str:
    """Which run ends highest in the first measure that all of them have, and whether that can be told apart."""
    tables = [{row.label: row for row in compare(run) if row.percent} for run in runs]
    for label in tables[0]:
        rows = [table.get(label) for table in tables]
        ends = [row.trained for row in rows if row and not math.isnan(row.trained.mean)]
        if len(ends) < len(runs):
            continue
        best = max(range(len(ends)), key=lambda i: ends[i].mean)
        apart = all(ends[best].low > e.high for i, e in enumerate(ends) if i != best)
        hedge = "" if apart else "; the intervals overlap"
        return f"{names[best]} ends highest in {label}, at {100 * ends[best].mean:.1f}\u00a0%{hedge}"
    return "Not all of these runs are evaluated after training yet"


# --- base against trained


def comparison(runs: Sequence[RunRecord], names: Sequence[str]) -> str:
    tables = [{row.label: row for row in compare(run)} for run in runs]
    order = list(dict.fromkeys(label for table in tables for label in table))
    if not order:
        return ""
    every = [row for table in tables for row in table.values() if not row.percent]
    scale = 1.1 * max((e.high for r in every for e in (r.base, r.trained) if e.high > 0), default=1.0)
    many = len(runs) > 1
    body = ""
    for label in order:
        shown = [(i, table[label]) for i, table in enumerate(tables) if label in table]
        for place, (i, row) in enumerate(shown):
            span = f' rowspan="{len(shown)}"' if len(shown) > 1 else ""
            first = f'<th scope="rowgroup"{span}>{text(label)}</th>' if place == 0 else ""
            which = f'<th scope="row">{swatch(i)}{text(names[i])}</th>' if many else ""
            start = ' class="first"' if place == 0 else ""
            body += f"<tr{start}>{first}{which}{_cells(row, 1.0 if row.percent else scale, i)}</tr>"
    said = "; ".join(dict.fromkeys(filter(None, map(held_out, runs))))
    return (
        f'<section><h2>Base against trained</h2>\n<p class="note">{text(said)}. Pass@k in percent; Distinct of n: '
        "different correct solutions among n samples. In brackets 95 % intervals over problems; that of the change "
        "compares each problem with itself. A coloured change: those of base and trained do not overlap.</p>\n"
        f'<div class="scroll"><table class="{"many" if many else "one"}"><thead><tr><th></th>{"<th>Run</th>" if many else ""}'
        '<th>Base</th><th>Trained</th><th>Change</th><th class="plot"></th></tr></thead>'
        f"<tbody>{body}</tbody></table></div>{'' if many else _grades(runs[0])}</section>"
    )


def _cells(row: Comparison, scale: float, run: int) -> str:
    cells = "".join(
        f"<td>{minus(row.show(e.mean))}<small>{row.interval(e)}</small></td>" for e in (row.base, row.trained)
    )
    kind = "change separate" if row.separate else "change"
    return (
        f'{cells}<td class="{kind}">{minus(row.show(row.change, "+"))}<small>{minus(row.interval(row.paired))}</small></td>'
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


def _grades(run: RunRecord) -> str:
    lines = []
    for name, row in (("base", run.base), ("trained", run.trained)):
        counts = {key: count for key, value in part(row, "grades").items() if (count := number(value)) > 0}
        total = sum(counts.values())
        words = [f"{100 * count / total:.1f} % {key.replace('_', ' ')}" for key, count in counts.items()]
        lines += [f"{name}: {', '.join(words)}"] if words else []
    return f'<p class="note grades">Verdicts, {text("; ".join(lines))}.</p>' if lines else ""


# --- what to look at, curves, how it was made


def look_at(found: Sequence[Sequence[Sign]], names: Sequence[str]) -> str:
    """The warning signs of all runs, each with its steps and a link to its curve."""
    rows = "".join(
        f"<li>{_whose(i, names)}<h3>{text(sign.title)}{_place(sign)}</h3><p class='note'>{text(sign.text)}</p></li>"
        for i, signs in enumerate(found)
        for sign in signs
    )
    said = f'<ul class="signs">{rows}</ul>' if rows else f'<p class="note">{text(CALM)}</p>'
    return f"<section><h2>What to look at</h2>\n{said}</section>"


CALM = (
    "No warning sign: entropy, response length, truncation, groups without a right answer and the verifier stayed within "
    "their bounds, and diversity did not rise while the outcome fell."
)


def _whose(run: int, names: Sequence[str]) -> str:
    return f'<p class="run">{swatch(run)}{text(names[run])}</p>' if len(names) > 1 else ""


def _place(sign: Sign) -> str:
    target = "curve-" + "".join(c if c.isalnum() else "-" for c in sign.metric)
    return f' <a href="#{text(target)}">{text(where(sign.spans) or "curve")}</a>' if sign.metric else ""


def curves() -> str:
    return (
        '<section><h2>Curves</h2>\n<p class="note">By training step, all on the same steps. Point at a curve, or use the '
        "arrow keys in it, to read every value of a step.</p>\n"
        f'<div id="curves"></div>{NOTHING}</section>'
    )


def making(runs: Sequence[RunRecord], names: Sequence[str]) -> str:
    return f"<section><h2>How it was made</h2>\n{''.join(map(_made, runs, names))}</section>"


def _made(run: RunRecord, name: str) -> str:
    versions = " · ".join(f"{key} {version}" for key, version in part(run.config, "versions").items())
    told = {"Run": name, "Command": run.config.get("command"), "Commit": run.config.get("commit"), "Versions": versions}
    recipe = json.dumps(run.config.get("recipe"), indent=2, ensure_ascii=False, default=str)
    return (
        f"{facts({key: value for key, value in told.items() if value})}\n"
        f'<details><summary>The recipe, resolved</summary><pre class="text">{text(recipe)}</pre></details>'
    )
