"""`diver judge`: read the answers, ask what was not asked yet, decide, tell, write down."""

from __future__ import annotations

import functools
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tyro.conf import Positional

from diver.generate.endpoint import Endpoint, read_extra
from diver.io.files import lock, write_text
from diver.io.jsonl import JsonlLog, to_json
from diver.settings import settings
from diver.types import DiverError
from diver_paper.judge.answers import Case, read_cases
from diver_paper.judge.comparisons import Comparison, Counting, Decision, ask, comparisons, decide, stored, whole_rounds
from diver_paper.judge.prompt import LETTERS, MOST_HELD, response_format
from diver_paper.judge.ranks import Standing, by_position, standing_of_none, standings
from diver_paper.judge.tables import OVERALL, Blocks, ranks_latex, ranks_markdown

Tell = Callable[[str], Any]


@settings
class Judge:
    """Let a language model rank the answers of several models to the same problems.

    It judges completeness, logical consistency, relevance and efficiency, and does not see whose answer is whose. Each
    answer is shown once at every place. The same command goes on where a stopped one was. Try:
    diver judge base=runs/eval/base diver=runs/eval/diver --problems math500 --url http://127.0.0.1:8000/v1
    """

    models: Positional[tuple[str, ...]]
    """NAME=PATH of each model: a file or folder of its rollouts, of any origin that `diver measure` reads."""
    problems: str = ""
    """Benchmarks or problem files that have the problems' texts, for rollouts of `diver eval`, which do not."""
    answer: Literal["first", "correct"] = "first"
    """Which answer of several: the first, or the first correct one."""
    limit: int | None = None
    """Only so many problems."""
    judge: str = ""
    """The judge's name on its server; may be left out where that serves one model only."""
    url: str = "http://127.0.0.1:8000/v1"
    """Its server, any that speaks OpenAI's protocol; the key is in OPENAI_API_KEY."""
    extra: str = ""
    """Further keys of the request body, as JSON."""
    hold: bool = False
    """Its server holds every reply to a form, by `response_format`: for a judge too small to keep to one. Up to 5 models."""
    rounds: int = 1
    """In a round the answers to a problem are compared as often as there are models, in different orders."""
    temperature: float = 0.0
    """Of the judge."""
    max_tokens: int = 2048
    """The longest reply; it may think before it ranks."""
    concurrency: int = 16
    """Requests in flight at a time."""
    longest: int = 12_000
    """Characters of an answer that are shown; a longer one is cut in its middle."""
    price: str = ""
    """IN,OUT: dollars for a million tokens of prompt and of reply, to tell what it cost."""
    seed: int = 0
    """Of the orders."""
    out: Path = Path("runs/judge")
    """The folder of replies and results."""

    def __post_init__(self) -> None:
        if not 2 <= len(self.named) <= len(LETTERS):
            raise DiverError(f"name 2 to {len(LETTERS)} models as NAME=PATH; {len(self.named)} are named")
        for name in ("limit", "rounds", "max_tokens", "concurrency", "longest"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise DiverError(f"--{name.replace('_', '-')}: must be at least 1, is {value}")
        if not 0 <= self.temperature < math.inf:
            raise DiverError(f"--temperature: must be a finite number of at least 0, is {self.temperature}")
        if not self.url.startswith(("http://", "https://")):
            raise DiverError(f"--url {self.url}: must begin with http:// or https://")
        if self.hold and len(self.named) > MOST_HELD:
            raise DiverError(
                f"--hold: takes up to {MOST_HELD} models, for it lists all their rankings; {len(self.named)} are named"
            )
        if self.hold and "response_format" in self.body:
            raise DiverError("--extra: has response_format, which is what --hold sets; leave one of them out")
        _ = self.body, self.prices

    @property
    def named(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for text in self.models:
            name, equals, path = text.partition("=")
            if not equals or not name or not path:
                raise DiverError(f"{text}: must be NAME=PATH, such as base=runs/eval/base")
            if name in found:
                raise DiverError(f"{text}: there is another model {name!r}")
            found[name] = Path(path)
        return found

    @property
    def body(self) -> dict[str, Any]:
        """`extra` as it is sent."""
        return read_extra(self.extra)

    @property
    def prices(self) -> tuple[float, float] | None:
        try:
            prices = tuple(float(part) for part in self.price.split(",")) if self.price else None
        except ValueError:
            prices = ()
        if prices is not None and (len(prices) != 2 or not all(0 <= p < 1e6 for p in prices)):
            raise DiverError(f"--price {self.price}: must be two numbers, such as 0.28,0.42")
        return prices  # type: ignore[return-value]


def run(how: Judge, tell: Tell = print) -> None:
    """Have the answers ranked; write replies.jsonl, comparisons.jsonl, ranks.json, table.md and table.tex."""
    cases = read_cases(how.named, how.problems, how.answer, how.limit, tell)
    if how.out.exists() and not how.out.is_dir():
        raise DiverError(f"--out {how.out}: is a file; name a folder")
    how.out.mkdir(parents=True, exist_ok=True)
    held = lock(how.out)
    try:
        with JsonlLog(how.out / "replies.jsonl") as journal:
            wanted, judge = _ask(how, cases, journal, tell)
            replies = stored(journal)
        decisions = [decide(c, replies) for c in wanted]
        keys = {c.key for c in wanted}
        rows = [row for row in replies.values() if row["key"] in keys]
        result = {"judge": judge, "models": list(how.named), "answer": how.answer, **_counts(how, decisions, rows)}
        blocks = _blocks(cases, decisions)
        table = ranks_markdown(blocks, list(how.named))
        _write(how, result, blocks, decisions, table)
    finally:
        held.close()
    tell(f"\n{table}\n{_told(result, decisions)}")
    tell(f"written: table.md, table.tex, ranks.json, comparisons.jsonl, replies.jsonl in {how.out}")


def _ask(how: Judge, cases: Sequence[Case], journal: JsonlLog, tell: Tell) -> tuple[list[Comparison], str]:
    """All comparisons, asked; and the judge's name."""
    from tqdm import tqdm

    @functools.cache
    def connect(attempt: int) -> Counting:
        # A repair leaves no room to think: a judge that was cut off in its thoughts has a verdict all the same.
        form = {"response_format": response_format(len(how.named), thinking=not attempt)} if how.hold else {}
        extra = how.body | form
        return Counting(Endpoint(url=how.url, model=how.judge, concurrency=how.concurrency, extra=extra))

    judge = how.judge or connect(0).name
    asked_with = {"judge": judge, "temperature": how.temperature, "max_tokens": how.max_tokens, "extra": how.body}
    asked_with |= {"hold": True} if how.hold else {}  # keys of replies that are not held stay what they were
    wanted = comparisons(cases, how.rounds, how.longest, asked_with, how.seed)
    there = stored(journal)
    keys = {c.key for c in wanted}
    left = sum((key, 0) not in there for key in keys)
    tell(
        f"{len(cases)} problems, {len(how.named)} answers to each in {how.rounds * len(how.named)} orders: "
        f"{len(wanted)} comparisons by {judge}; {left} to ask, {len(keys) - left} replies were there"
    )
    with tqdm(total=left, desc="judge", unit="reply", leave=False, dynamic_ncols=True, file=sys.stderr) as bar:
        ask(wanted, journal, connect, asked_with, bar.update)
    return wanted, judge


def _blocks(cases: Sequence[Case], decisions: Sequence[Decision]) -> dict[str, list[Standing]]:
    """Overall, then each benchmark where there are several; what has no whole round is empty."""
    ranks: dict[int, list[tuple[int, ...]]] = {}
    number = {case: i for i, case in enumerate(cases)}
    for d in whole_rounds(decisions):
        ranks.setdefault(number[d.comparison.case], []).append(d.ranks or ())
    models = len(cases[0].answers)

    def block(benchmark: str | None) -> list[Standing]:
        of = {str(i): np.array(r) for i, r in ranks.items() if benchmark in (None, cases[i].benchmark)}
        found = standings(of, {p: cases[int(p)].benchmark for p in of})
        return found or [standing_of_none(models)] * models

    names = list(dict.fromkeys(case.benchmark for case in cases))
    return {OVERALL: block(None)} | ({name: block(name) for name in names} if len(names) > 1 else {})


def _counts(how: Judge, decisions: Sequence[Decision], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What was decided and what it took."""
    spent = {
        "prompt_tokens": sum(row["prompt_tokens"] or 0 for row in rows),
        "tokens": sum(row["tokens"] for row in rows),
        "prompts_not_counted": sum(row["prompt_tokens"] is None for row in rows),
    }
    dollars = None
    if how.prices:
        dollars = (spent["prompt_tokens"] * how.prices[0] + spent["tokens"] * how.prices[1]) / 1e6
    whole = whole_rounds(decisions)
    return {
        "problems": len({d.comparison.case for d in decisions}),
        "problems_ranked": len({d.comparison.case for d in whole}),
        "comparisons": len(decisions),
        "no_verdict": sum(d.ranks is None for d in decisions),
        "in_whole_rounds": len(whole),
        "requests": len(rows),
        "repairs": sum(row["attempt"] for row in rows),
        **spent,
        "dollars": dollars,
        "mean_rank_by_place": by_position([d.shown for d in whole]),
    }


def _write(how: Judge, result: Mapping[str, Any], blocks: Blocks, decisions: Sequence[Decision], table: str) -> None:
    models = list(how.named)
    ranked = {
        benchmark: {
            model: {"rank": s.rank._asdict(), "shares": [share._asdict() for share in s.shares]}
            for model, s in zip(models, found, strict=True)
        }
        for benchmark, found in blocks.items()
    }
    write_text(how.out / "comparisons.jsonl", "".join(to_json(_row(d, models)) + "\n" for d in decisions))
    write_text(how.out / "ranks.json", to_json({**result, "standings": ranked}) + "\n")
    write_text(how.out / "table.md", table)
    write_text(how.out / "table.tex", ranks_latex(blocks, models))


def _row(d: Decision, models: Sequence[str]) -> dict[str, Any]:
    case = d.comparison.case
    return {
        "benchmark": case.benchmark,
        "problem": case.problem_id,
        "round": d.comparison.round,
        "shown": [models[m] for m in d.comparison.order],
        "ranks": None if d.ranks is None else dict(zip(models, d.ranks, strict=True)),
        "no_verdict": d.reason or None,
        "key": d.comparison.key,
    }


def _told(result: Mapping[str, Any], decisions: Sequence[Decision]) -> str:
    """The summary under the table."""
    lines = [
        "Lower is better; 95 % bootstrap intervals over problems. Equal ranks are allowed, so shares of a rank need not add "
        "up to 100 %.",
        f"{result['problems_ranked']} of {result['problems']} problems ranked, {result['comparisons']} comparisons, "
        f"{result['no_verdict']} without a verdict; a round counts only where all its orders have one",
        f"{result['requests']} requests, {result['repairs']} of them repairs: {result['prompt_tokens']:,} tokens of prompt, "
        f"{result['tokens']:,} of reply" + ("" if result["dollars"] is None else f", ${result['dollars']:.4f}"),
    ]
    if places := result["mean_rank_by_place"]:
        shown = ", ".join(f"{rank:.2f}" for rank in places)
        lines.append(
            f"mean rank of the answer shown first, second, ...: {shown}; a judge blind to places gives all the same"
        )
    if reasons := Counter(d.reason for d in decisions if d.ranks is None):
        reason, times = reasons.most_common(1)[0]
        lines.append(f"no verdict, most often ({times} times): {reason}; the replies are in replies.jsonl")
    return "\n".join(lines)
