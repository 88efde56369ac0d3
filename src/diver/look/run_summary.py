"""The result of a run: before and after training, as rows, and as a table for the terminal."""

import math
import shlex
from pathlib import Path

from diver.core.tables import clean, counted, markdown
from diver.evaluate.comparison import Comparison, comparisons, legend
from diver.evaluate.evaluate import duration
from diver.look.page import span_text
from diver.look.run_record import RunRecord
from diver.train.alerts import Alert, alerts


def compare(run: RunRecord) -> list[Comparison]:
    """The policy before and after training, on the held-out problems."""
    return comparisons(run.base, run.trained)


def run_alerts(run: RunRecord) -> list[Alert]:
    """All alerts of a run, those of its evaluations last; an empty list without any."""
    return [*alerts(run.metrics), *filter(None, [_narrower(run)])]


def _narrower(run: RunRecord) -> Alert | None:
    """Pass@1 rose and Pass@k of the largest k fell, both beyond their paired intervals."""
    rows = [row for row in compare(run) if row.percent]
    if len(rows) < 2 or not (rows[0].change.low > 0 and rows[-1].change.high < 0):
        return None
    first, last = rows[0], rows[-1]
    rise, fall = 100 * first.change.mean, -100 * last.change.mean
    return Alert(
        f"{first.label} rises while {last.label} falls",
        f"{first.label} rose by {rise:.1f} points while {last.label} fell by {fall:.1f}: given many samples, the "
        "policy solves fewer problems after training than before.",
        "Evaluate earlier checkpoints (diver eval), or reward diversity more.",
        f"eval/{last.label.lower()}",
    )


def model_and_method(run: RunRecord) -> tuple[str, str]:
    return clean(run.recipe("model").get("path", "–")), clean(run.recipe("method").get("name", "–"))


def conclusion(run: RunRecord) -> str:
    """The result of the run so far in one sentence."""
    norms = run.column("policy/grad_norm")
    if len(norms) and not norms.any():
        shares = {words: run.column(f"group/solve_{words}").mean() for words in ("none", "all")}
        words, share = max(shares.items(), key=lambda item: -1.0 if math.isnan(item[1]) else item[1])
        which = {"none": "no response was correct", "all": "every response was correct"}[words]
        why = "" if math.isnan(share) else f": in {share:.0%} of the groups {which}"
        return f"None of the {counted(len(norms), 'step')} had a gradient, so nothing was learned{why}"
    known = [row for row in compare(run) if row.percent and not math.isnan(row.change.mean)]
    if not known:
        return f"A run of {progress(run)}, not evaluated after training yet"
    first = next((row for row in known if row.significant), None)
    shown = first or known[0]
    before, after = (f"{100 * e.mean:.1f}\u00a0%" for e in (shown.base, shown.trained))
    steps = counted(max(run.evaluations), "step")
    if first is None:
        return f"{shown.label} did not change significantly: {before} before training and {after} after {steps}"
    verb = "rose" if first.change.mean > 0 else "fell"
    others = "" if first is known[0] else f"; {known[0].label} did not change significantly"
    return f"{first.label} {verb} from {before} before training to {after} after {steps}{others}"


def progress(run: RunRecord) -> str:
    completed, planned = run.last_step, run.planned_steps
    return counted(completed, "step") if completed >= planned else f"{completed:,} of {counted(planned, 'step')}"


def conditions(run: RunRecord) -> str:
    """Problems, samples and temperature of the evaluations, and which are missing, in words; empty without any."""
    evaluations = [e for e in (run.base, run.trained) if e]
    missing = f"missing, so not compared: {', '.join(run.missing)}" if run.missing else ""
    if not evaluations:
        return missing
    samples = " then ".join(dict.fromkeys(str(e["samples"]) for e in evaluations))
    last = evaluations[-1]
    each = f"{samples} sample{'' if samples == '1' else 's'} each at temperature {last['temperature']:g}"
    words = f"{counted(last['problems'], 'held-out problem')}, {each}"
    return "; ".join(filter(None, (words, missing)))


def result_lines(run_folder: Path) -> list[str]:
    """The result of the run and each of its alerts, a line each, which begins with the folder's name."""
    run = RunRecord.read(run_folder)
    lines = [conclusion(run)]
    for alert in run_alerts(run):
        at = f" ({span_text(alert.spans)})" if alert.spans else ""
        lines.append(f"{alert.title}{at}. {alert.text} {alert.advice}".strip())
    return [f"{run_folder.name}: {line}" for line in lines]


def summary_table(run_folder: Path) -> str:
    """Before and after training as plain text of one screen, ending with the files of the run."""
    run = RunRecord.read(Path(run_folder))
    model, method = model_and_method(run)
    took = "" if math.isnan(run.seconds) else f" in {duration(run.seconds)}"
    engine = f" ({run.engine})" if run.engine not in ("", "built-in") else ""
    lines = [f"{model} trained with {method}{engine}: {progress(run)}{took}", conclusion(run), ""]
    rows = compare(run)
    if found := conditions(run):
        lines += [found]
    if rows:
        lines += ["", markdown(["", "before training", "after training", "change  "], [row.cells() for row in rows])]
        lines += [
            f"Pass@k in percent. {legend(rows)}",
            "[ ]: 95 % intervals over problems (of the change: paired); * : that of the",
            "change excludes 0.",
        ]
    page = run.folder / "report.html"
    look = page if page.is_file() else f"diver browse {shlex.quote(str(run.folder))}"
    return "\n".join([*lines, "", f"Report:   {look}", f"Metrics:  {run.folder / 'metrics.jsonl'}"])
