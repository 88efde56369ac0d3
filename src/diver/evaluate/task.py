"""What is evaluated: a set of problems, how they are prompted, sampled and graded."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diver.data.benchmarks import Benchmark, Loaded, load
from diver.data.templates import TEMPLATES, check_used
from diver.evaluate.config import EvalConfig, parse_ks
from diver.evaluate.grade import AUTO, grader_for
from diver.evaluate.samplers import SamplerHandle, sampler_metadata
from diver.io.seeds import digest
from diver.types import DiverError, Problem


@dataclass(frozen=True, kw_only=True)
class Task:
    """`name` names the benchmark: files and random streams are keyed by it."""

    name: str
    problems: Sequence[Problem]
    template: str
    temperature: float
    max_tokens: int
    stop_token_ids: Sequence[int] = ()
    samples: int
    """Responses to each problem."""
    ks: Sequence[int]
    """Values of k of Pass@k, distinct@k and maj@k."""
    seed: int = 0
    grader: str = AUTO
    keys: Mapping[str, str] = field(default_factory=dict)
    """By problem id, a digest of all that a response depends on; stored rows with another key belong to other settings."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """What the results say besides: title, source, ..."""

    def settings(self) -> dict[str, Any]:
        """The settings as the results have them."""
        return {
            "title": self.name,
            **self.info,
            "problems": len(self.problems),
            "samples": self.samples,
            "seed": self.seed,
            "template": self.template,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            **({"stop_token_ids": list(self.stop_token_ids)} if self.stop_token_ids else {}),
            "graders": sorted({str(grader_for(p, self.grader)) for p in self.problems}),
            "k": list(self.ks),
        }


def make_tasks(config: EvalConfig, model: SamplerHandle, benchmarks: Sequence[Loaded] | None = None) -> list[Task]:
    """`benchmarks`, by default those of the settings, for a model; DiverError for whatever cannot be evaluated."""
    names = [name for part in (config.benchmarks or "countdown").split(",") if (name := part.strip())]
    loaded = [load(name, config.seed or 0, config.limit) for name in names] if benchmarks is None else benchmarks
    tasks = [_task(config, benchmark, model) for benchmark in loaded]
    if not tasks:
        raise DiverError("--benchmarks: names none")
    if repeated := [name for name, n in Counter(task.name for task in tasks).items() if n > 1]:
        raise DiverError(f"--benchmarks: {repeated[0]!r} is there twice")
    return tasks


def _task(config: EvalConfig, loaded: Loaded, model: SamplerHandle) -> Task:
    if not loaded.problems:
        raise DiverError(f"{loaded.benchmark.name}: no problems are left")
    flags = {field: getattr(config, field) for field in ("template", "temperature", "max_tokens", "grader")}
    benchmark = dataclasses.replace(
        loaded.benchmark, **{field: value for field, value in flags.items() if value not in ("", None)}
    )
    for problem in loaded.problems:
        grader_for(problem, benchmark.grader).check(problem, f"{benchmark.name}: ")
    template = benchmark.template or model.template(loaded.problems)
    check_used(config.template_variables, template, loaded.problems, "--chat-template-kwargs")
    variables = {"chat_template_kwargs": model.template_variables} if model.template_variables else {}
    samples, ks = _samples(config, benchmark)
    depends_on = {
        "model": model.model,
        "template": dataclasses.asdict(TEMPLATES[template]),
        **variables,
        "temperature": benchmark.temperature,
        "max_tokens": benchmark.max_tokens,
        **({"stop_token_ids": config.stop_token_ids} if config.stop_token_ids else {}),
        "seed": config.seed or 0,
        "extra": config.extra_options if config.generator == "endpoint" else {},  # of vLLM: see samplers.vllm
    }
    return Task(
        name=benchmark.name,
        problems=loaded.problems,
        template=template,
        temperature=benchmark.temperature,
        max_tokens=benchmark.max_tokens,
        stop_token_ids=config.stop_token_ids,
        samples=samples,
        ks=ks,
        seed=config.seed or 0,
        grader=benchmark.grader,
        keys={p.id: digest(depends_on, p.prompt) for p in loaded.problems},
        info={
            "title": benchmark.title,
            "domain": benchmark.domain,
            "source": {"path": benchmark.source.path, "notes": loaded.notes},
            "skipped": 0,
            "random_baseline": loaded.random_baseline,
            **variables,
            **sampler_metadata(config),
        },
    )


def _samples(config: EvalConfig, benchmark: Benchmark) -> tuple[int, list[int]]:
    """How many samples of each problem, and the values of k."""
    ks = parse_ks(config.k)
    if benchmark.temperature == 0 and max(config.samples or 1, *ks, 1) > 1:
        raise DiverError(
            f"{benchmark.name}: temperature 0 is greedy, so a problem has one response; leave out --samples and --k, or give "
            "another --temperature"
        )
    samples = 1 if benchmark.temperature == 0 else config.samples or max([benchmark.samples, *ks])
    if ks and max(ks) > samples:
        raise DiverError(f"{benchmark.name}: k = {max(ks)} needs more than {samples} samples; raise --samples")
    return samples, ks or [1 << i for i in range(samples.bit_length())]
