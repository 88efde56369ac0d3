"""The experiments: what each varies, over how many seeds, what it measures, and which claims of the paper it looks at.

Changes are nested tables over the regime (tiny.toml) or over the paper's recipe. DIVER without a suffix is DIVER-MIX.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from diver_paper import claims
from diver_paper.claims import Claim

Changes = Mapping[str, Mapping[str, Any]]
IN_DOMAIN = "aime24,aime25,amc,math500,minerva,olympiad"
KS = tuple(1 << i for i in range(11))


class Panel(NamedTuple):
    """One small picture, a line a variant. x: "step", or "k" (then `measure` is pass or distinct, at each of `ks`)."""

    title: str
    measure: str
    x: str = "step"
    ks: tuple[int, ...] = KS


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper."""

    name: str
    title: str
    answers: str
    """The tables and figures, by the paper's numbers."""
    varied: str
    variants: Mapping[str, Changes] = field(default_factory=dict)
    """Label -> changes, at tiny scale."""
    seeds: int = 3
    against: str | Mapping[str, str] = "clip-higher"
    """The variant that the others are compared with, or variant -> that which it is compared with."""
    measures: tuple[str, ...] = ()
    """The columns of its tables (`reading.values`)."""
    panels: tuple[Panel, ...] = ()
    claims: tuple[Claim, ...] = ()
    paper: Mapping[str, Changes] | None = None
    """The variants at paper scale, where they differ."""
    recipes: tuple[str, ...] = ("qwen2.5-math-7b",)
    """recipes/paper/*.toml that the paper ran it with."""
    asked: str = f"--benchmarks {IN_DOMAIN},arc-c,gpqa,mmlu-pro"
    """Options of `diver eval`, which every model of the paper's scale is evaluated with."""
    afterwards: str = ""
    """A command on the `results` of all of them, NAME=FOLDER each."""
    tiny: str = ""
    """What tiny scale changes or cannot show."""

    def baseline(self, variant: str) -> str | None:
        """What it is compared with; None for that itself, or where it is compared with nothing."""
        if isinstance(self.against, str):
            return None if variant == self.against else self.against
        return self.against.get(variant)


def _method(name: str, **more: Any) -> dict[str, Any]:
    return {"method": {"name": name, **more}}


METHODS = ("clip-higher", "grpo", "clip-cov", "kl-cov", "pass-at-k", "diver-td", "diver-ed", "diver-mix")
_MAIN = {name: _method(name) for name in METHODS}
_COMPARED = {name: _MAIN[name] for name in ("clip-higher", "clip-cov", "kl-cov", "pass-at-k", "diver-mix")}


def _shaped(**shaping: Any) -> dict[str, Any]:
    return _method("diver-mix", shaping=shaping)


def _horizon(tokens: int) -> dict[str, Any]:
    return _method("diver-mix", diversity={"horizon": tokens})


def _filter(keep: str) -> dict[str, Any]:
    return _method("clip-higher", selection={"keep": keep})


def _robust(**sample: Any) -> dict[str, Any]:
    told = ", ".join(f"{k} = {v}" for k, v in sample.items())
    return {f"{name}, {told}": {**_MAIN[name], "sample": sample} for name in ("clip-higher", "diver-mix")}


_CURVES = (
    Panel("Pass@1, held out", "eval/pass@1"),
    Panel("Pass@16, held out", "eval/pass@16"),
    Panel("Distinct correct of 16", "eval/distinct@16"),
)
_AFTER = (Panel("Pass@k after training", "pass", "k"), Panel("Distinct correct of k", "distinct", "k"))
_SOLVED = (Panel("Groups all correct", "group/solve_all"), Panel("Groups with none correct", "group/solve_none"))
_SPREAD = (
    Panel("Textual diversity", "diversity/textual"),
    Panel("Equational diversity", "diversity/equational"),
    Panel("Entropy, nats a token", "policy/entropy"),
)

_ENTRIES = (
    Experiment(
        name="main",
        title="Main results",
        answers="Table 1",
        varied="the method",
        variants=_MAIN,
        seeds=5,
        measures=("pass@1", "pass@4", "pass@16", "pass@64", "pass@256", "distinct@16", "distinct@256"),
        panels=(*_CURVES, *_AFTER, _SOLVED[0]),
        claims=claims.MAIN,
        tiny="one task and its held-out problems in place of six in-domain and three out-of-domain benchmarks",
    ),
    Experiment(
        name="dynamics",
        title="Training dynamics",
        answers="Figure 4",
        varied="the method",
        variants=_COMPARED,
        seeds=5,
        measures=(
            "diversity/equational", "diversity/textual", "policy/entropy", "group/solve_all", "group/solve_none",
            "signal/all_correct", "signal/mixed",
        ),
        panels=(*_SPREAD, *_SOLVED, _CURVES[0]),
        claims=claims.DYNAMICS,
    ),
    Experiment(
        name="diversity-filter",
        title="Training on the most or the least diverse half of 2G responses",
        answers="Figure 3",
        varied="which G of 2G sampled responses are kept; no diversity is paid",
        variants={"most diverse": _filter("most"), "least diverse": _filter("least"), "all of G": _MAIN["clip-higher"]},
        against="least diverse",
        measures=("pass@1", "pass@16", "pass@256", "distinct@256", "held-out/textual", "group/solve_all", "group/solve_none"),
        panels=(*_SOLVED, *_CURVES, _AFTER[1]),
        claims=claims.DIVERSITY_FILTER,
        tiny="groups are counted before the choice, so out of 16 responses; of `all of G` out of 8, which are more easily all correct or "
        "all wrong and not to be compared with the others in that",
    ),
    Experiment(
        name="models",
        title="Other models to start from",
        answers="Figure 5, Table 9",
        varied="the model",
        paper={name: _MAIN[name] for name in ("clip-higher", "diver-mix")},
        recipes=("qwen2.5-math-1.5b", "qwen2.5-7b", "llama-3.1-8b-instruct", "deepseek-r1-distill-qwen-7b"),
        tiny="there is one bundled policy, so nothing to vary",
    ),
    Experiment(
        name="pass-at-k",
        title="Pass@k for k from 2 to 32",
        answers="Figure 6, Table 4",
        varied="the method",
        variants=_COMPARED,
        seeds=5,
        measures=("pass@2", "pass@4", "pass@8", "pass@16", "pass@32"),
        panels=tuple(panel._replace(ks=KS[1:6]) for panel in _AFTER),
        claims=claims.PASS_AT_K,
        asked=f"--benchmarks {IN_DOMAIN} --protocol paper --runs 3 --samples 96 --k 2,4,8,16,32",
    ),
    Experiment(
        name="pass-at-k-large",
        title="Pass@k for k from 128 to 1,024",
        answers="Table 5",
        varied="the method",
        variants=_COMPARED,
        seeds=5,
        measures=("pass@128", "pass@256", "pass@512", "pass@1024", "distinct@1024"),
        panels=tuple(panel._replace(ks=KS[7:]) for panel in _AFTER),
        claims=claims.PASS_AT_K_LARGE,
        asked="--benchmarks aime24,aime25,amc --samples 1024 --k 128,256,512,1024",
        tiny="the policy before training solves every problem within 1,024 samples, so nothing can solve more than it does",
    ),
    Experiment(
        name="reward-hacking",
        title="Which responses are paid for diversity",
        answers="Figure 7",
        varied="the condition of the diversity reward",
        variants={
            "correct": _MAIN["diver-mix"],
            "all": _shaped(condition="all"),
            "wrong": _shaped(condition="wrong"),
            "all, length penalty": _shaped(condition="all-length-penalty", length_limit=40),
        },
        paper={
            "correct": _MAIN["diver-mix"],
            "all": _shaped(condition="all"),
            "wrong": _shaped(condition="wrong"),
            "all, length penalty": _shaped(condition="all-length-penalty"),
        },
        against="correct",
        measures=("pass@1", "pass@16", "pass@256", "distinct@256", "held-out/textual", "reward/outcome", "response/length_mean"),
        panels=(_CURVES[0], Panel("Training accuracy", "reward/outcome"), Panel("Response length, tokens", "response/length_mean"),
                _CURVES[1], _CURVES[2], _SPREAD[0]),
        claims=claims.REWARD_HACKING,
        tiny="a Countdown answer has a fixed form of 18 or 25 tokens and may have 40 at most, so length has little room",
    ),
    Experiment(
        name="horizon",
        title="How much of a response diversity looks at",
        answers="Figures 8 and 11",
        varied="the horizon, in tokens",
        variants={"4": _horizon(4), "7": _horizon(7), "14": _horizon(14), "all": _MAIN["diver-mix"]},
        paper={"200": _horizon(200), "500": _horizon(500), "1,000": _horizon(1000), "all": _MAIN["diver-mix"]},
        against="all",
        measures=("pass@1", "pass@16", "pass@256", "distinct@256", "held-out/textual", "policy/entropy", "response/length_mean"),
        panels=(_CURVES[0], _SPREAD[2], Panel("Response length, tokens", "response/length_mean"), *_CURVES[1:], _AFTER[1]),
        claims=claims.HORIZON,
        tiny="half a step, one step, two steps or all of an answer, in place of 200, 500, 1,000 tokens or all. 4 tokens hold no whole "
        "formula, so ED is 0 there; 14 tokens are all of most answers but the box at their end; and the shorter the horizon, the more "
        "often sigma bounds what is paid",
    ),
    Experiment(
        name="shaping-ratio",
        title="Sensitivity to lambda and sigma",
        answers="Figure 10",
        varied="lambda, and sigma at lambda 0.1",
        variants={
            "λ 0": _MAIN["clip-higher"],
            "λ 0.05": _shaped(ratio=0.05),
            "λ 0.1": _MAIN["diver-mix"],
            "λ 0.2": _shaped(ratio=0.2),
            "λ 0.5": _shaped(ratio=0.5),
            "σ 0.3": _shaped(bound=0.3),
            "σ 1": _shaped(bound=1.0),
        },
        against="λ 0.1",
        measures=("pass@1", "pass@16", "pass@256", "distinct@256", "held-out/textual", "diversity/textual", "policy/entropy"),
        panels=(*_CURVES, *_SPREAD),
        claims=claims.SHAPING_RATIO,
        tiny="three seeds leave about three points of Pass@1 open, more than the 2.4 of the claims of no difference, so these cannot be "
        "seen to hold here. In a group all correct the advantage does not depend on λ, as long as there is one",
    ),
    Experiment(
        name="robustness",
        title="Group size and training temperature",
        answers="Table 10",
        varied="G and the temperature, with and without DIVER",
        variants={**{k: _MAIN[k] for k in ("clip-higher", "diver-mix")}, **_robust(group=4), **_robust(temperature=0.6)},
        against={
            **{f"diver-mix{at}": f"clip-higher{at}" for at in ("", claims.G4, claims.COOL)},
            **{f"clip-higher{at}": "clip-higher" for at in (claims.G4, claims.COOL)},
        },
        measures=("pass@1", "pass@4", "pass@16", "pass@64", "pass@256", "distinct@256", "held-out/textual"),
        panels=(*_CURVES, *_AFTER),
        claims=claims.ROBUSTNESS,
        tiny="temperature 0.6 is that of the training; all policies are evaluated at temperature 1, the paper's at 0.6",
    ),
    Experiment(
        name="overhead",
        title="What diversity costs",
        answers="Table 2",
        varied="the method",
        variants=_MAIN,
        seeds=5,
    ),
    Experiment(
        name="equation-extraction",
        title="How well formulas are found",
        answers="Table 6",
        varied="the extractor",
        asked="--benchmarks math500",
        variants={name: _MAIN[name] for name in ("clip-higher", "diver-mix")},
        seeds=5,
    ),
    Experiment(
        name="metric-validity",
        title="Do the metrics of diversity agree?",
        answers="Table 7",
        varied="the method",
        variants=_COMPARED,
        seeds=5,
        measures=("kept/textual", "kept/equational", "kept/hidden-state", "kept/embedding", "kept/pass@1", "kept/pass@8"),
        claims=claims.METRIC_VALIDITY,
        asked=f"--benchmarks {IN_DOMAIN} --samples 8 --k 1,8",
        afterwards="diver measure {results} --validity --out runs/metric-validity",
    ),
    Experiment(
        name="judge",
        title="Quality of reasoning, ranked by a language model",
        answers="Figure 9, Table 8",
        varied="the method",
        paper={name: changes for name, changes in _COMPARED.items() if name != "clip-cov"},
        asked=f"--benchmarks {IN_DOMAIN} --samples 1",
        afterwards=f"diver judge {{results}} --problems {IN_DOMAIN} --judge deepseek-chat --url https://api.deepseek.com/v1 --out runs/judge",
        tiny="a Countdown answer is right or wrong, so there is no quality to judge",
    ),
    Experiment(
        name="case-study",
        title="Answers to read",
        answers="Appendix, case study",
        varied="the method",
        variants=_COMPARED,
        seeds=1,
        asked="--benchmarks math500 --samples 8",
        afterwards="diver measure {results} --out runs/case-study",
    ),
)  # fmt: skip

EXPERIMENTS: dict[str, Experiment] = {entry.name: entry for entry in _ENTRIES}
