"""The settings of `diver eval`, checked before anything is sampled."""

import json
import sys
from pathlib import Path
from typing import Any, Literal

from diver.core.settings import NonNegative, NonNegativeInt, Positional, Positive, PositiveInt, choose, settings
from diver.core.tables import Export, Figure
from diver.core.types import DiverError
from diver.grading.grading import AUTO, get_grader
from diver.sample.endpoint import Address, Endpoint
from diver.tasks.templates import TEMPLATES


@settings
class EvalConfig(Export):
    """Sample many responses to each problem, grade them, and estimate Avg@k and Pass@k.

        diver eval runs/quickstart
        diver eval --model countdown --samples 64 --k 1,...,64

    A run is evaluated before and after training, with its settings and the same random streams, and compared. The same
    command resumes a stopped evaluation. A larger --samples adds to the stored responses.
    """

    run: Positional[Path | None] = None
    """A run folder, or a checkpoint folder in it. Without a run, name a model."""
    step: int | None = None
    """Step of the checkpoint to evaluate (runs only). Default: the last."""
    all_steps: bool = False
    """Evaluate every checkpoint (runs only)."""
    alphas: str = ""
    """Weights between base (0) and trained model (1), such as 0,0.5,1. Their front is evaluated: each at every
    temperature. The models are those of a run, or --base and --model."""
    temperatures: str = ""
    """Temperatures of a front. Default: the run's, or --temperature."""
    base: str = ""
    """The base model of a front: folder, or id on the hub (--model only)."""
    model: str = ""
    """Folder of the model, or its id on the hub. Folders are in Hugging Face layout. `countdown` is the policy that
    comes with DIVER."""
    benchmarks: str = ""
    """Names or problem files, separated by commas. Files are .jsonl, .json, .csv or .parquet. Default: the held-out
    problems of a run, else countdown."""
    samples: PositiveInt | None = None
    """Number of responses to each problem. Default: the run's, else the benchmark's, or as many as --k needs."""
    k: str = ""
    """Values of k for Pass@k, such as 1,8,64 or 1,...,1024. Default: 1, 2, 4 and so on. `...` doubles in between."""
    limit: PositiveInt | None = None
    """Maximum number of problems of each benchmark. The first ones are taken."""
    skip_long_prompts: bool = False
    """Skip and count problems whose prompts are too long for the model. Without this, they stop the evaluation."""
    out: Path | None = None
    """Folder of the results. Default: runs/eval/ and the name of the model or run. A run of several seeds has
    PARENT/seed_N there. A comparison is written only where this is given."""
    generator: Literal["transformers", "tree", "vllm", "endpoint"] = "transformers"
    """Sampler: a library in this process, or an OpenAI-compatible server. `tree` counts equal responses and runs their
    common beginnings once (transformers). It is the fastest for a small policy that repeats itself."""
    max_num_seqs: NonNegativeInt = 0
    """Number of responses sampled at a time; 0: automatic. With transformers, automatic is what fits into a
    GPU, and 512 or fewer on a CPU. With an endpoint it is 64 requests, which is few for a large server. vLLM in this
    process and the prefix tree decide themselves."""
    url: Address | None = None
    """Address of the server (endpoint only): http://127.0.0.1:8000/v1. Its key is read from OPENAI_API_KEY."""
    timeout: Positive | None = None
    """Timeout per request in seconds (endpoint only). A request that times out is retried once. Default: 900, or the
    time that --max-tokens take at 10 a second."""
    retries: NonNegativeInt = Endpoint.retries
    """Number of retries after a transient failure (endpoint only). A request that the server still refuses, while it
    answers others, is unscored. The response is left out, counted, and not requested again."""
    extra: str = ""
    """Options of the endpoint or of vLLM's engine, as JSON. An endpoint has them in the request body: '{"top_k": -1}'.
    An engine option is '{"tensor_parallel_size": 2}'."""
    grader: str = ""
    """Grader of all benchmarks. Default: the benchmark's or the run's. Names are those of
    diver.grading.GRADERS."""
    seed: NonNegativeInt | None = None
    """Random seed. Default: the run's, else 0. It decides the samples and the order of options."""
    template: str = ""
    """Prompt template: plain, chat, boxed, paper, paper-chat, paper-llama, ... Default: the run's, else the chat
    template of a chat model or endpoint, and `plain` for Countdown. An unknown name lists all."""
    chat_template_kwargs: str = ""
    """Variables of the model's chat template as JSON, such as '{"enable_thinking": false}'. Default: the run's."""
    temperature: NonNegative | None = None
    """Sampling temperature; 0: greedy. Default: the run's, else 0.6, and 1.0 for Countdown. A greedy evaluation has one
    response to each problem."""
    max_tokens: PositiveInt | None = None
    """Maximum length of a response in tokens. Default: the run's, else 8,192, and 40 for Countdown."""
    stop_token_ids: tuple[int, ...] = ()
    """Tokens that end a response, besides those of the model. Default: the run's. A server must know this key, as vLLM
    does."""
    figures: tuple[Figure, ...] = ("png", "svg")
    """Kinds of the figure of Pass@k: png, svg, pdf. It is written to the folder of the results. Commas or spaces
    separate the kinds."""

    def __post_init__(self) -> None:
        self.check_export(Path())
        run, endpoint = self.run is not None, self.generator == "endpoint"
        both_models = run or (self.base and (self.temperatures or self.temperature is not None))
        for name, fits, reason in (
            ("format", self.out or not run or self.format != "parquet", "parquet is a file; name a folder with --out"),
            ("step", run, "is for a run; name it: diver eval runs/quickstart"),
            ("all_steps", run and self.step is None and not self.alphas, "is for a run, without --step and --alphas"),
            ("model", not run, "is not for a run, whose checkpoints are evaluated"),
            ("generator", not (run and endpoint), "endpoint is not for a run, whose checkpoints are loaded here"),
            ("url", endpoint, "is used only with --generator endpoint"),
            ("timeout", endpoint, "is used only with --generator endpoint"),
            ("extra", endpoint or self.generator == "vllm", "is used only with --generator endpoint or vllm"),
            ("base", self.model and self.alphas, "is the base model of a front; give --model and --alphas, too"),
            ("temperatures", self.alphas, "is for a front; give --alphas, too"),
            ("temperatures", self.temperature is None, "has all temperatures of a front; omit --temperature"),
            ("alphas", both_models and not endpoint, "name a run, or --base, --model and --temperatures to load here"),
        ):
            if getattr(self, name) != getattr(EvalConfig, name) and not fits:
                raise DiverError(f"--{name.replace('_', '-')}: {reason}")
        if self.template:
            choose(self.template, TEMPLATES, "--template")
        if self.grader not in ("", AUTO):
            get_grader(self.grader, "--grader")
        parse_numbers("--alphas", self.alphas, most=1)
        parse_numbers("--temperatures", self.temperatures)
        read_json_flag("--extra", self.extra)
        read_json_flag("--chat-template-kwargs", self.chat_template_kwargs)

    @property
    def extra_options(self) -> dict[str, Any]:
        """The options of --extra. An endpoint has --chat-template-kwargs among them, which go with each request."""
        extra, variables = read_json_flag("--extra", self.extra), self.template_variables
        if variables and self.generator == "endpoint":
            return {**extra, "chat_template_kwargs": variables}
        return extra

    @property
    def template_variables(self) -> dict[str, Any]:
        return read_json_flag("--chat-template-kwargs", self.chat_template_kwargs)


def parse_numbers(flag: str, text: str, most: float = sys.float_info.max) -> list[float]:
    """Different numbers from 0 to `most`, separated by commas, in rising order."""
    try:
        numbers = sorted({float(item) for item in text.split(",") if item.strip()})
    except ValueError:
        numbers = [-1]
    if not all(0 <= number <= most for number in numbers) or (text and not numbers):
        bounds = f"from 0 to {most}" if most < sys.float_info.max else "of at least 0"
        raise DiverError(f"{flag} {text}: must be numbers {bounds} separated by commas, such as 0,0.5,1")
    return numbers


def read_json_flag(flag: str, text: str) -> dict[str, Any]:
    """The value of a flag that is a JSON object or nothing."""
    try:
        body = json.loads(text or "{}")
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise DiverError(f"{flag} {text}: must be a JSON object, such as '{{\"top_k\": -1}}'")
    return body
