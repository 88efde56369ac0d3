"""A run folder, and the result of its run in words. An unfinished run is reported up to its last step."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diver.core.files import number, read_json, read_jsonl, table
from diver.core.run_folder import by_step, groups_from_rows, metrics_table, runs_in
from diver.core.tables import clean, counted, markdown
from diver.core.types import DiverError, Group
from diver.evaluate.comparison import Comparison, comparisons, legend
from diver.evaluate.evaluate import duration
from diver.integrations.keys import also_named
from diver.pages.page import evenly_spaced, span_text
from diver.pages.verdict import Part, verdict
from diver.rollouts.dependence import Dependence, dependence
from diver.train.alerts import Alert, alerts, rate

if TYPE_CHECKING:
    import pandas as pd

NARROWER, LEVEL = "Pass@1 rises while Pass@k falls", 0.95  # the alert of evaluations, and the level of its intervals
COMPARED_STEPS = 5  # maximum steps of a run whose rollouts are tested for repetition
STAGES = ("sample", "verify", "diversity", "update")  # parts of a step whose times are logged


def run_folders(path: Path) -> list[Path]:
    """The run folder `path`, or the run folders in it, such as those of `diver train --seeds`; none for a dump.

    A folder with a config.json may also be that of an evaluation, of grades or of a model.
    """
    folders = [path] if (path / "config.json").is_file() else runs_in(path)
    return [f for f in folders if (f / "metrics.jsonl").exists() or "recipe" in read_json(f / "config.json")]


@dataclass(frozen=True)
class RunRecord:
    """The contents of a run folder. `config` is a plain dict: any key may be missing."""

    folder: Path
    config: Mapping[str, Any]
    metrics: pd.DataFrame
    """float64, one row per step, one column per metric; NaN if it is unknown."""
    evaluations: dict[int, dict[str, Any]]
    """Each eval/step_NNNN.json by its step."""
    rollout_files: dict[int, Path]
    name: str = ""
    """The name given by the user for tables (NAME=PATH); empty: its method."""

    @classmethod
    def read(cls, folder: Path) -> RunRecord:
        """The run in `folder`, without its rollouts. DiverError if config.json is missing or cannot be read."""
        if not (folder / "config.json").is_file():
            hint = f"; name a run in it: {runs[0]}" if (runs := runs_in(folder)) else ""
            raise DiverError(f"{folder}: not a run folder, it has no config.json{hint}")
        other_files = ("results.json", "grades.jsonl")  # written by diver eval and diver grade
        if not (folder / "metrics.jsonl").exists() and any((folder / name).exists() for name in other_files):
            raise DiverError(f"{folder}: has an evaluation or grades and no run; diver browse shows its responses")
        metrics = metrics_table(row for _, row in read_jsonl(folder / "metrics.jsonl", appended=True))
        evaluations = {step: read_json(file) for step, file in by_step(folder / "eval", ".json").items()}
        rollouts = by_step(folder / "rollouts", ".jsonl")
        return cls(folder, read_json(folder / "config.json"), metrics, evaluations, rollouts)

    @property
    def changed(self) -> list[tuple[str, int, int]]:
        """The current files with their times and sizes; if they change, the page of the run changes."""
        files = [self.folder / "metrics.jsonl", *(self.folder / "eval").glob("*"), *self.rollout_files.values()]
        return sorted((str(f), f.stat().st_mtime_ns, f.stat().st_size) for f in files if f.exists())

    @property
    def engine(self) -> str:
        """The engine of the training: built-in, trl or verl; empty if unknown."""
        return str(self.config.get("engine", ""))

    def recipe(self, section: str) -> dict[str, Any]:
        return table(self.config, "recipe", section)

    def column(self, name: str) -> pd.Series:
        """A metric by step, if it is known."""
        return self.metrics.reindex(columns=[name])[name].dropna()

    @property
    def last_step(self) -> int:
        return int(max(self.metrics.index, default=0))

    @property
    def planned_steps(self) -> int:
        planned = (number(self.recipe("train").get("steps")), number(self.config.get("schedule_steps")))
        return int(next((p for p in planned if p >= self.last_step), self.last_step))

    def step_seconds(self) -> pd.Series:
        """The seconds of each step with a known time, without evaluation."""
        return self.metrics.reindex(columns=[f"time/{name}" for name in STAGES]).sum(axis=1, min_count=1).dropna()

    @property
    def seconds(self) -> float:
        """The time of all steps, without evaluation; NaN if no time was recorded."""
        return float(self.step_seconds().sum(min_count=1))

    @property
    def base(self) -> dict[str, Any]:
        """The evaluation before the first step; empty if it is missing."""
        return self.evaluations.get(0, {})

    @property
    def trained(self) -> dict[str, Any]:
        """The evaluation of the largest step after 0; empty if it is missing."""
        last = max(self.evaluations, default=0)
        return self.evaluations[last] if last > 0 else {}

    @property
    def missing(self) -> list[str]:
        """The files of evaluations that metrics.jsonl has a row of, and that are no longer in the folder."""
        steps = self.column("eval/pass@1").index.difference(list(self.evaluations))
        return [f"eval/step_{step:04d}.json" for step in steps]

    def groups(self, step: int) -> list[Group]:
        return groups_from_rows(read_jsonl(self.rollout_files[step]))

    @cached_property
    def before_and_after(self) -> list[Comparison]:
        """The policy before and after training, on the held-out problems."""
        return comparisons(self.base, self.trained)


# ---- the result of a run


def run_alerts(run: RunRecord) -> list[Alert]:
    """All alerts of a run, those of its evaluations and of its responses last; an empty list without any."""
    return [*alerts(run.metrics, also_named(run.engine)), *filter(None, [_narrower(run), _repeats(run)])]


def repeated(run: RunRecord) -> Dependence | None:
    """The repetition beyond chance among the rollouts of at most `COMPARED_STEPS` steps, evenly spaced."""
    steps = list(run.rollout_files)
    chosen = [steps[i] for i in evenly_spaced(len(steps), COMPARED_STEPS)]
    return dependence(group.responses for step in chosen for group in run.groups(step))


def _repeats(run: RunRecord) -> Alert | None:
    repetition = repeated(run)
    return repetition and Alert(
        "Responses repeat beyond chance",
        f"Among the rollouts {repetition}.",
        "Then the effective number of samples is lower than it seems: give each request and each rank another seed.",
        "",
    )


def _narrower(run: RunRecord) -> Alert | None:
    """Pass@1 rose and Pass@k of the largest k fell, both beyond their paired intervals."""
    rows = [row for row in run.before_and_after if row.is_pass]
    if len(rows) < 2 or not (rows[0].change.low > 0 and rows[-1].change.high < 0):
        return None
    first, last = rows[0], rows[-1]
    rise, fall = 100 * first.change.mean, -100 * last.change.mean
    return Alert(
        f"{first.label} rises while {last.label} falls",
        f"{first.label} rose by {rise:.1f} points while {last.label} fell by {fall:.1f}: given many samples, the "
        f"policy solves fewer problems after training than before.{rate(NARROWER, LEVEL)}",
        "Evaluate earlier checkpoints (diver eval), or reward diversity more.",
        f"eval/{last.label.lower()}",
    )


def model_and_method(run: RunRecord) -> tuple[str, str]:
    return clean(run.recipe("model").get("path", "–")), clean(run.recipe("method").get("name", "–"))


def conclusion(run: RunRecord) -> str:
    """The result of the run so far in one sentence."""
    return ", ".join(words for _, words in conclusions(run))


def conclusions(run: RunRecord) -> list[Part]:
    """The parts of the sentence: each is rose, fell or nothing, with its words."""
    norms = run.column("policy/grad_norm")
    if len(norms) and not norms.any():
        why = (why := obstacle(run, 0.0)) and f": {why}"
        return [("", f"None of the {counted(len(norms), 'step')} had a gradient, so nothing was learned{why}")]
    parts = verdict(run.before_and_after)
    if not parts:
        return [("", f"A run of {progress(run)}, not evaluated after training yet")]
    return [("", f"After {counted(max(run.evaluations), 'step')}"), *parts]


def obstacle(run: RunRecord, most: float = 0.8) -> str:
    """Why more than `most` of the groups had no difference in outcome, and what to change; else empty.

    The default is the limit of the alert on groups without a correct response.
    """
    correct, none = (run.column(f"group/solve_{kind}").mean() for kind in ("all", "none"))
    if correct > max(most, none):
        return f"in {correct:.0%} of the groups every response was correct: take harder problems"
    if not none > most:  # also where it is not known
        return ""
    truncated, blank, wrong, error, timeout = (
        run.column(f"grade/{grade}").mean() for grade in ("truncated", "no_answer", "wrong", "error", "timeout")
    )
    causes = [
        (truncated, f"reached {run.recipe('sample').get('max_tokens')} tokens unfinished: raise sample.max_tokens"),
        (blank, "have no answer that the verifier finds: data.template must ask for what data.verifier reads"),
        (error + timeout, "made the verifier fail: repair the function that data.verifier names"),
        (wrong, "are wrong: take easier problems or a stronger model, and read some, since they may be right"),
    ]
    share, words = max((cause for cause in causes if cause[0] > 0), default=(0.0, ""))
    why = f"; {share:.0%} of the responses {words}" if share else ""
    return f"in {none:.0%} of the groups no response was correct{why}"


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
    sampling = f"{samples} sample{'' if samples == '1' else 's'} each at temperature {last['temperature']:g}"
    words = f"{counted(last['problems'], 'held-out problem')}, {sampling}"
    return "; ".join(filter(None, (words, missing)))


def result_lines(run_folder: Path) -> list[str]:
    """One line for the result of the run and one for each alert. A line begins with the name of the folder."""
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
    lines = [f"{model} trained with {method}{engine}: {progress(run)}{took}", conclusion(run)]
    why = obstacle(run)
    lines += [f"I{why[1:]}.", ""] if why and why not in lines[-1] else [""]
    rows = run.before_and_after
    if settings := conditions(run):
        lines += [settings]
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
