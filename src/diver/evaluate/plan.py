"""What `diver eval` is asked to do, checked before anything is drawn."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any, Literal, NamedTuple

from diver.data.benchmarks import Benchmark, Loaded, load
from diver.data.templates import TEMPLATES, Template
from diver.evaluate.grade import check_grader
from diver.generate.endpoint import read_extra
from diver.io.seeds import digest
from diver.settings import settings
from diver.types import DiverError, Problem


@settings
class Plan:
    """Draw many samples of each problem, grade them, and estimate Avg@k and Pass@k.

    The same command goes on where a stopped one was; more --samples later are added to those that are there.
    Try: diver eval --model countdown --samples 64 --k 1,...,64
    """

    model: str = ""
    """A folder in Hugging Face layout, a hub name, or `countdown` for the bundled policy."""
    benchmarks: str = "countdown"
    """Names with commas between, or problem files (.jsonl, .parquet)."""
    samples: int | None = None
    """Responses to each problem: the paper's 32 or 1, or as many as --k needs. More of them later are added."""
    k: str = ""
    """Values of k for Pass@k, such as 1,8,64; `...` doubles on the way: 1,...,1024. Nothing: 1, 2, 4 up to samples."""
    runs: int = 3
    """Runs of k fresh samples each, with --protocol paper."""
    protocol: Literal["unbiased", "paper"] = "unbiased"
    """paper: besides, the best of k fresh samples, mean and deviation over the runs; needs runs x k samples."""
    problems: int | None = None
    """Only so many problems of each benchmark, from its beginning."""
    leave_out_long: bool = False
    """Leave out, and count, problems whose prompts are too long for the model; otherwise they stop the evaluation."""
    out: Path | None = None
    """The folder of the results; nothing: runs/eval/MODEL."""
    sampler: str = "embedded"
    """embedded, vllm, or endpoint (any OpenAI-compatible server)."""
    rows: int = 0
    """Responses that the embedded sampler has in flight; 0 is 512, or fewer where they may be long. Less takes less memory."""
    url: str = ""
    """Of --sampler endpoint, such as http://127.0.0.1:8000/v1; its key is in OPENAI_API_KEY."""
    extra: str = ""
    """As JSON: with --sampler endpoint further keys of the request body, such as '{"top_k": -1}'; with --sampler vllm options
    of its engine, such as '{"tensor_parallel_size": 2}'."""
    grader: str = ""
    """Judges all benchmarks, by a name of diver.verify.graders."""
    seed: int = 0
    """Of the samples and of the order of options."""
    template: str = ""
    """How a problem becomes a prompt: plain, chat, boxed, paper, paper-chat, paper-llama, qwen-math, qwen-boxed,
    open-reasoner-zero or prime-zero. Nothing: `paper`, a system prompt of about 150 tokens and a response that begins with
    <think>; `plain` for Countdown."""
    temperature: float | None = None
    """Of the samples. Nothing: 0.6, and 1.0 for Countdown."""
    max_tokens: int | None = None
    """The longest response. Nothing: 8,192, and 40 for Countdown."""
    compare: tuple[Path, ...] = ()
    """Draw nothing; compare these result folders, each with the first, problem by problem."""

    def __post_init__(self) -> None:
        for name in ("samples", "runs", "problems", "max_tokens"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise DiverError(f"--{name.replace('_', '-')}: must be at least 1, is {value}")
        if self.rows < 0:
            raise DiverError(f"--rows: must be at least 1, or 0 for as many as suit, is {self.rows}")
        if self.temperature is not None and not self.temperature > 0:
            raise DiverError(f"--temperature: must be above 0, is {self.temperature}")
        if self.template and self.template not in TEMPLATES:
            raise DiverError(f"--template: unknown {self.template!r}; choose one of {', '.join(TEMPLATES)}")
        if self.grader:
            check_grader(self.grader)
        if self.url and self.sampler != "endpoint":
            raise DiverError(
                f"--url {self.url}: is asked only with --sampler endpoint, not {self.sampler!r}; add that, or leave --url out"
            )
        if self.extra and self.sampler == "embedded":
            raise DiverError(
                f"--extra {self.extra}: is for --sampler endpoint (keys of a request) or vllm (options of its engine), not "
                "'embedded'; add one of them, or leave --extra out"
            )
        if self.url and not self.url.startswith(("http://", "https://")):
            raise DiverError(f"--url {self.url}: must begin with http:// or https://")
        _ = self.body

    @property
    def body(self) -> dict[str, Any]:
        """`extra` as it is sent, or given to vLLM's engine."""
        return read_extra(self.extra)


class Task(NamedTuple):
    """One benchmark as it will be done: `keys` names, by problem, all that its responses depend on;
    `left_out` problems are no longer among them."""

    loaded: Loaded
    template: Template
    samples: int
    ks: list[int]
    grader: str
    keys: dict[str, str]
    left_out: int = 0

    @property
    def benchmark(self) -> Benchmark:
        return self.loaded.benchmark


def make_tasks(plan: Plan, model: str) -> list[Task]:
    """The benchmarks of a plan; `model` is the model's name for good. DiverError for whatever cannot be done."""
    tasks = [_task(plan, name, model) for name in plan.benchmarks.split(",") if name]
    if not tasks:
        raise DiverError("--benchmarks: names none")
    if repeated := [name for name, n in Counter(task.benchmark.name for task in tasks).items() if n > 1]:
        raise DiverError(f"--benchmarks: {repeated[0]!r} is there twice")
    return tasks


def _task(plan: Plan, name: str, model: str) -> Task:
    loaded = load(name, plan.seed, plan.problems)
    if not loaded.problems:
        raise DiverError(f"{loaded.benchmark.name}: no problems are left")
    benchmark, template = _as_asked(plan, loaded.benchmark)
    samples, ks = _samples(plan, benchmark)
    how = {
        "model": model,
        "template": dataclasses.asdict(template),
        "temperature": benchmark.temperature,
        "max_tokens": benchmark.max_tokens,
        "seed": plan.seed,
        "extra": plan.body if plan.sampler == "endpoint" else {},  # of vllm: see samplers.offline
    }
    keys = {p.id: digest(how, _prompt(p)) for p in loaded.problems}
    return Task(loaded._replace(benchmark=benchmark), template, samples, ks, benchmark.grader, keys)


def _prompt(problem: Problem) -> str | list[dict[str, str]]:
    return problem.prompt if isinstance(problem.prompt, str) else [dict(message) for message in problem.prompt]


def _as_asked(plan: Plan, benchmark: Benchmark) -> tuple[Benchmark, Template]:
    """The flags come first, then the benchmark's own."""
    over = {field: getattr(plan, field) for field in ("template", "temperature", "max_tokens", "grader")}
    benchmark = dataclasses.replace(benchmark, **{field: value for field, value in over.items() if value})
    return benchmark, TEMPLATES[benchmark.template]


def _samples(plan: Plan, benchmark: Benchmark) -> tuple[int, list[int]]:
    """How many samples of each problem, and the values of k."""
    asked = parse_ks(plan.k)
    each = plan.runs if plan.protocol == "paper" else 1
    samples = plan.samples or max([benchmark.samples, each, *(k * each for k in asked)])
    if asked and max(asked) * each > samples:
        told = f"{plan.runs} runs of k = {max(asked)} fresh samples" if each > 1 else f"k = {max(asked)}"
        raise DiverError(
            f"{benchmark.name}: {told} cannot be had from {samples} samples; raise --samples, or lower --k"
        )
    if samples < each:
        raise DiverError(f"{benchmark.name}: {plan.runs} runs need as many --samples or more, {samples} were asked for")
    return samples, asked or [1 << i for i in range((samples // each).bit_length())]


def parse_ks(text: str) -> list[int]:
    """1,8,64 as it is; `...` doubles from the number before it to below the number after it: 1,...,1024."""
    ks: list[int] = []
    parts = [part.strip() for part in text.split(",") if part.strip()]
    try:
        for i, part in enumerate(parts):
            if part in ("...", "…"):
                k, end = 2 * ks[-1], int(parts[i + 1])
                while 0 < k < end:
                    ks.append(k)
                    k *= 2
            else:
                ks.append(int(part))
    except (ValueError, IndexError):
        raise DiverError(f"--k {text}: must be numbers with commas between, such as 1,8,64 or 1,...,1024") from None
    if any(k < 1 for k in ks):
        raise DiverError(f"--k {text}: every k must be at least 1")
    return sorted(set(ks))
