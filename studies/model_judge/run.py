"""`diver judge`: read the answers, request the missing replies, decide, report, write the results."""

import functools
import math
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from diver.core.files import JsonlLog, lock, to_json, write_jsonl, write_text
from diver.core.progress import progress_bar
from diver.core.settings import NonNegative, Positional, PositiveInt, settings
from diver.core.tables import Log, counted
from diver.core.types import DiverError
from diver.evaluate.config import read_json_flag
from diver.rollouts.files import check_out
from diver.sample.base import Generation, Request, SamplingParams
from diver.sample.endpoint import Endpoint, EndpointGenerator
from model_judge.answers import Case, read_cases
from model_judge.comparisons import (
    Comparison,
    Decision,
    Replies,
    comparisons,
    decide,
    requests_for,
    stored,
    whole_rounds,
)
from model_judge.prompt import LETTERS, MAX_STRUCTURED, response_format
from model_judge.ranks import OVERALL, Blocks, Standing, by_position, ranks_latex, ranks_markdown, standings

FILES = ("table.md", "table.tex", "ranks.json", "comparisons.jsonl", "replies.jsonl")  # written to --out


@settings
class Judge:
    """Let a language model rank the answers of several models to the same problems.

        diver judge base=runs/eval/base diver=runs/eval/diver --benchmarks math500

    It judges completeness, logical consistency, relevance and efficiency, and does not know which model wrote which
    answer. Each answer is shown once at every position. The same command resumes a stopped run.
    """

    models: Positional[tuple[str, ...]]
    """NAME=PATH of each model, a file or folder that `diver measure` reads."""
    benchmarks: str = ""
    """Benchmarks or problem files that have the texts of the problems. Rollouts of `diver eval` do not have them."""
    answer: Literal["first", "correct"] = "first"
    """Which of several answers is judged: the first, or the first correct one."""
    limit: PositiveInt | None = None
    """Maximum number of problems."""
    judge: str = ""
    """Name of the judge on its server. Default: the only model that the server has."""
    url: str = "http://127.0.0.1:8000/v1"
    """Address of an OpenAI-compatible server. Its key is read from OPENAI_API_KEY."""
    extra: str = ""
    """Further keys of the request body, as JSON."""
    structured_output: bool = False
    """Constrain every reply to a JSON schema, for a small judge. The request has `response_format`. Up to 5 models."""
    rounds: PositiveInt = 1
    """Number of rounds. In a round the answers to a problem are compared once per model, in different orders."""
    temperature: NonNegative = 0.0
    """Sampling temperature of the judge."""
    max_tokens: PositiveInt = 2048
    """Maximum length of a reply in tokens. The judge may think before it ranks."""
    concurrency: PositiveInt = 16
    """Number of simultaneous requests."""
    max_chars: PositiveInt = 12_000
    """Maximum length of an answer in characters. A longer one is cut in its middle."""
    price: str = ""
    """IN,OUT: dollars per million tokens of prompt and of reply. The cost is then reported."""
    seed: int = 0
    """Random seed for the orders of answers."""
    out: Path = Path("runs/judge")
    """Folder of replies and results."""

    def __post_init__(self) -> None:
        if not 2 <= len(self.named) <= len(LETTERS):
            raise DiverError(f"name 2 to {len(LETTERS)} models as NAME=PATH; {len(self.named)} are named")
        if not self.url.startswith(("http://", "https://")):
            raise DiverError(f"--url {self.url}: must begin with http:// or https://")
        if self.structured_output and len(self.named) > MAX_STRUCTURED:
            raise DiverError(
                f"--structured-output: takes at most {MAX_STRUCTURED} models, since its schema lists all their "
                f"rankings; {len(self.named)} are named"
            )
        if self.structured_output and "response_format" in self.body:
            raise DiverError("--extra: has response_format, which --structured-output sets; leave one of them out")
        _ = self.body, self.prices

    @property
    def named(self) -> dict[str, Path]:
        paths: dict[str, Path] = {}
        for text in self.models:
            name, equals, path = text.partition("=")
            if not equals or not name or not path:
                raise DiverError(f"{text}: must be NAME=PATH, such as base=runs/eval/base")
            if name in paths:
                raise DiverError(f"{text}: another model is named {name!r}")
            paths[name] = Path(path)
        return paths

    @property
    def body(self) -> dict[str, Any]:
        """`extra` as sent to the server."""
        return read_json_flag("--extra", self.extra)

    @property
    def prices(self) -> list[float]:
        """`price` as numbers; empty without a price."""
        try:
            prices = [float(number) for number in self.price.split(",")] if self.price else []
        except ValueError:
            prices = [math.nan]
        if prices and (len(prices) != 2 or not all(0 <= price < 1e6 for price in prices)):
            raise DiverError(f"--price {self.price}: must be two numbers, such as 0.28,0.42")
        return prices


class Counting(EndpointGenerator):
    """An endpoint that records the length of each prompt, where the server reports it."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.prompt_tokens: dict[str, int | None] = {}

    def _generation(self, request: Request, answer: Any, max_tokens: int) -> Generation:
        self.prompt_tokens[request.problem_id] = getattr(answer.usage, "prompt_tokens", None)
        return super()._generation(request, answer, max_tokens)


def run(judge: Judge, log: Log = print) -> None:
    """Let the judge rank the answers, and write FILES."""
    cases = read_cases(judge.named, judge.benchmarks, judge.answer, judge.limit, log)
    check_out(judge.out, FILES, judge.named.values(), mine=(judge.out / "replies.jsonl").exists())
    judge.out.mkdir(parents=True, exist_ok=True)
    with lock(judge.out):
        with JsonlLog(judge.out / "replies.jsonl") as replies_log:
            requested, replies, name = _ask(judge, cases, replies_log, log)
        decisions = [decide(c, replies) for c in requested]
        keys = {c.key for c in requested}
        rows = [row for row in replies.values() if row["key"] in keys]
        result = {"judge": name, "models": list(judge.named), "answer": judge.answer, **_counts(judge, decisions, rows)}
        blocks = _blocks(cases, decisions)
        table = ranks_markdown(blocks, list(judge.named))
        _write(judge, result, blocks, decisions, table)
    log(f"\n{table}\n{_summary(result, decisions)}")
    log(f"written: {', '.join(FILES)} in {judge.out}")


def _ask(judge: Judge, cases: Sequence[Case], replies_log: JsonlLog, log: Log) -> tuple[list[Comparison], Replies, str]:
    """All comparisons, each requested once and its reply stored as it arrives; all replies; and the judge's name."""

    @functools.cache
    def connect(attempt: int) -> Counting:
        # The schema of a repair has no thoughts, so that a judge that was cut off in its thoughts still has a verdict.
        extra = judge.body
        if judge.structured_output:
            extra |= {"response_format": response_format(len(judge.named), thinking=not attempt)}
        return Counting(Endpoint(url=judge.url, model=judge.judge, concurrency=judge.concurrency, extra=extra))

    name = judge.judge or connect(0).name
    config = {"judge": name, "temperature": judge.temperature, "max_tokens": judge.max_tokens, "extra": judge.body}
    config |= {"structured_output": True} if judge.structured_output else {}
    requested = comparisons(cases, judge.rounds, judge.max_chars, config, judge.seed)
    replies, by_key = stored(replies_log), {c.key: c for c in requested}
    missing = len(requests_for(requested, replies, 0))
    log(
        f"{len(cases)} problems, {len(judge.named)} answers to each in {judge.rounds * len(judge.named)} orders: "
        f"{len(requested)} comparisons by {name}; {missing} to request, {len(by_key) - missing} replies stored"
    )
    with progress_bar(missing, "judge", "reply") as bar:
        for attempt in (0, 1):
            if not (requests := requests_for(requested, replies, attempt)):
                continue
            endpoint = connect(attempt)
            for g in endpoint.generate(requests, SamplingParams(judge.temperature, judge.max_tokens)):
                c = by_key[g.problem_id]
                row = {
                    "key": c.key,
                    "attempt": attempt,
                    "benchmark": c.case.benchmark,
                    "problem": c.case.problem_id,
                    "round": c.round,
                    "order": c.order,
                    "reply": g.rollout.response,
                    "tokens": g.rollout.length,
                    "prompt_tokens": endpoint.prompt_tokens.pop(c.key, None),
                    "truncated": g.rollout.truncated,
                }
                replies_log.append(row)
                replies[c.key, attempt] = row
                bar.update(1)
    return requested, replies, name


def _blocks(cases: Sequence[Case], decisions: Sequence[Decision]) -> dict[str, list[Standing]]:
    """Overall, then each benchmark if there are several; empty without a complete round."""
    ranks: dict[Case, list[tuple[int, ...]]] = {}
    for d in whole_rounds(decisions):
        ranks.setdefault(d.comparison.case, []).append(d.ranks or ())

    def block(benchmark: str | None) -> list[Standing]:
        case_ranks = {case: np.array(r) for case, r in ranks.items() if benchmark in (None, case.benchmark)}
        return standings(case_ranks, {case: case.benchmark for case in case_ranks}, len(cases[0].answers))

    names = list(dict.fromkeys(case.benchmark for case in cases))
    return {OVERALL: block(None)} | ({name: block(name) for name in names} if len(names) > 1 else {})


def _counts(judge: Judge, decisions: Sequence[Decision], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Numbers of problems, comparisons, requests and tokens, and the cost."""
    spent = [sum(row[name] or 0 for row in rows) for name in ("prompt_tokens", "tokens")]
    complete = whole_rounds(decisions)
    return {
        "problems": len({d.comparison.case for d in decisions}),
        "problems_ranked": len({d.comparison.case for d in complete}),
        "comparisons": len(decisions),
        "no_verdict": sum(d.ranks is None for d in decisions),
        "in_whole_rounds": len(complete),
        "requests": len(rows),
        "repairs": sum(row["attempt"] for row in rows),
        "prompt_tokens": spent[0],
        "tokens": spent[1],
        "prompts_not_counted": sum(row["prompt_tokens"] is None for row in rows),
        "dollars": sum(map(operator.mul, spent, judge.prices)) / 1e6 if judge.prices else None,
        "mean_rank_by_position": by_position([d.shown for d in complete]),
    }


def _write(judge: Judge, result: Mapping[str, Any], blocks: Blocks, decisions: Sequence[Decision], table: str) -> None:
    models = list(judge.named)
    ranked = {
        benchmark: {
            model: {"rank": s.rank._asdict(), "shares": [share._asdict() for share in s.shares]}
            for model, s in zip(models, standings, strict=True)
        }
        for benchmark, standings in blocks.items()
    }
    rows = [
        {
            "benchmark": d.comparison.case.benchmark,
            "problem": d.comparison.case.problem_id,
            "round": d.comparison.round,
            "shown": [models[m] for m in d.comparison.order],
            "ranks": None if d.ranks is None else dict(zip(models, d.ranks, strict=True)),
            "no_verdict": d.reason or None,
            "key": d.comparison.key,
        }
        for d in decisions
    ]
    write_jsonl(judge.out / "comparisons.jsonl", rows)
    write_text(judge.out / "ranks.json", to_json({**result, "standings": ranked}) + "\n")
    write_text(judge.out / "table.md", table)
    write_text(judge.out / "table.tex", ranks_latex(blocks, models))


def _summary(result: Mapping[str, Any], decisions: Sequence[Decision]) -> str:
    """The summary under the table."""
    lines = [
        "Lower is better; 95 % intervals over problems. Equal ranks are allowed, so shares of a rank need not add "
        "up to 100 %.",
        f"{result['problems_ranked']} of {result['problems']} problems ranked, {result['comparisons']} comparisons, "
        f"{result['no_verdict']} without a verdict; a round counts only where all its orders have one",
        f"{result['requests']} requests, {result['repairs']} of them repairs: {result['prompt_tokens']:,} tokens of "
        "prompt, "
        f"{result['tokens']:,} of reply" + ("" if result["dollars"] is None else f", ${result['dollars']:.4f}"),
    ]
    if uncounted := result["prompts_not_counted"]:
        lines[-1] += f"; the server did not count the prompts of {counted(uncounted, 'request')}, which cost more"
    if mean_ranks := result["mean_rank_by_position"]:
        shown = ", ".join(f"{rank:.2f}" for rank in mean_ranks)
        lines.append(f"mean rank of the answer shown first, second, ...: {shown}; equal without position bias")
    if reasons := Counter(d.reason for d in decisions if d.ranks is None):
        reason, times = reasons.most_common(1)[0]
        lines.append(f"no verdict, most often ({times} times): {reason}; the replies are in replies.jsonl")
    return "\n".join(lines)
