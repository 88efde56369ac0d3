"""What the paper says, claim by claim, as differences between variants; beside each what the paper itself prints of it.

The variants are those of an experiment (catalogue.py). DIVER without a suffix is DIVER-MIX. `kl-cov` stands for the paper's
Entropy-RL (docs/method.md); of `clip-cov`, the other technique of the work that it is from, the paper claims nothing.
"""

from __future__ import annotations

from typing import NamedTuple

INITIAL = "before training"
"""The untrained policy, as a variant."""


class Claim(NamedTuple):
    """`more` has more of `measure` than `less`."""

    text: str
    measure: str
    more: str
    less: str
    paper: str = ""
    """The difference of what the paper prints, in points (scores: of its averages in-domain); often none."""
    beyond: tuple[str, str] | None = None
    """Instead: `more` exceeds `less` by more than the first of these exceeds the second."""
    within: float | None = None
    """Instead: `more` and `less` differ by less than this, either way."""


PAPER_NAMES = {
    "clip-higher": "GRPO with clip-higher",
    "kl-cov": "Entropy-RL (kl-cov)",
    "pass-at-k": "Pass@k Training",
}
BASELINES = tuple(PAPER_NAMES)
DIVER_GAINS = 0.024
"""Of Avg@k, over GRPO with clip-higher (Table 1): what the paper takes for a difference."""


def _over_baselines(text: str, measure: str, paper: tuple[str, ...], names: tuple[str, ...] = BASELINES) -> list[Claim]:
    """DIVER has more of it than each; `text` ends where the name comes."""
    return [
        Claim(f"{text} {PAPER_NAMES[name]}", measure, "diver-mix", name, told)
        for name, told in zip(names, paper, strict=True)
    ]


MAIN = (
    Claim("DIVER-MIX answers better than GRPO with clip-higher", "pass@1", "diver-mix", "clip-higher", "+2.4"),
    Claim("DIVER-TD answers better than GRPO with clip-higher", "pass@1", "diver-td", "clip-higher", "+1.6"),
    Claim("DIVER-ED answers better than GRPO with clip-higher", "pass@1", "diver-ed", "clip-higher", "+2.3"),
    *_over_baselines("DIVER answers better than", "pass@1", ("+1.3", "+1.6"), BASELINES[1:]),
    Claim("both metrics together are better than TD alone", "pass@1", "diver-mix", "diver-td", "+0.8"),
    Claim("both metrics together are better than ED alone", "pass@1", "diver-mix", "diver-ed", "+0.1"),
)

DYNAMICS = (
    *_over_baselines("DIVER stays more diverse (TD) than", "diversity/textual", ("", ""), BASELINES[1:]),
    *_over_baselines("DIVER stays more diverse (ED) than", "diversity/equational", ("", ""), BASELINES[1:]),
    Claim("GRPO with clip-higher ends with more entropy than DIVER", "policy/entropy", "clip-higher", "diver-mix"),
    *(Claim(f"fewer groups all correct with DIVER than with {told}", "group/solve_all", name, "diver-mix")
      for name, told in PAPER_NAMES.items()),
    *(Claim(f"fewer groups with none correct with DIVER than with {told}", "group/solve_none", name, "diver-mix")
      for name, told in PAPER_NAMES.items()),
)  # fmt: skip

DIVERSITY_FILTER = (
    Claim("fewer groups all correct with the most diverse half", "group/solve_all", "least diverse", "most diverse", "+1.1"),
    Claim("fewer groups with none correct with the most diverse half", "group/solve_none", "least diverse", "most diverse", "+3.1"),
    Claim("training on the most diverse half answers better", "pass@1", "most diverse", "least diverse", "+1.8"),
)  # fmt: skip

PASS_AT_K = (
    *_over_baselines("DIVER solves more within 2 samples than", "pass@2", ("+4.4", "+3.7", "+4.1")),
    *_over_baselines("DIVER solves more within 8 samples than", "pass@8", ("+3.4", "+2.8", "+4.5")),
    *_over_baselines("DIVER solves more within 32 samples than", "pass@32", ("+2.9", "+2.8", "+4.8")),
    *_over_baselines("the gap grows from 2 to 32 samples: DIVER over", "pass@32 - pass@2", ("-1.5", "-0.9", "+0.7")),
)

PASS_AT_K_LARGE = (
    *_over_baselines("DIVER solves more within 1,024 samples than", "pass@1024", ("+6.0", "+4.9", "+3.4")),
    *_over_baselines("the gap grows from 128 to 1,024 samples: DIVER over", "pass@1024 - pass@128", ("+1.8", "+2.6", "+0.7")),
    *_over_baselines("DIVER finds more different correct solutions than", "distinct@1024", ("",) * 3),
    Claim("DIVER solves more within 1,024 samples than the untrained policy", "pass@1024", "diver-mix", INITIAL, "+6.4"),
    *(Claim(f"{PAPER_NAMES[name]} solves more within 1,024 samples than the untrained policy", "pass@1024", name, INITIAL, told)
      for name, told in zip(BASELINES, ("+0.4", "+1.5", "+3.0"), strict=True)),
)  # fmt: skip

_PAID = {"all": "all", "wrong": "only wrong ones", "all, length penalty": "all with a length penalty"}
REWARD_HACKING = (
    *(Claim(f"training answers better that pays only correct responses than one that pays {told}", "pass@1", "correct", name)
      for name, told in _PAID.items()),
    *(Claim(f"responses become longer when it pays {_PAID[name]}", "response/length_mean", name, "correct")
      for name in ("all", "wrong")),
    Claim("a length penalty keeps responses shorter where all are paid", "response/length_mean", "all", "all, length penalty"),
)  # fmt: skip

HORIZON = (
    *(Claim(f"whole responses answer better than the first {name} tokens", "pass@1", "all", name) for name in ("4", "7", "14")),
    Claim("the first 7 tokens answer better than the first 4", "pass@1", "7", "4"),
    Claim("the first 14 tokens answer better than the first 7", "pass@1", "14", "7"),
    *(Claim(f"whole responses keep more entropy than the first {name} tokens", "policy/entropy", "all", name)
      for name in ("4", "7", "14")),
)  # fmt: skip

SHAPING_RATIO = (
    *(Claim(f"λ {ratio} answers as well as λ 0.1, within the 2.4 points that DIVER gains in Table 1", "pass@1", f"λ {ratio}",
            "λ 0.1", within=DIVER_GAINS)
      for ratio in ("0.05", "0.2", "0.5")),
    Claim("a large λ costs a little: λ 0.1 answers better than λ 0.5", "pass@1", "λ 0.1", "λ 0.5"),
)  # fmt: skip

G4, COOL = ", group = 4", ", temperature = 0.6"
ROBUSTNESS = (
    Claim("DIVER answers better than GRPO with clip-higher at G 4", "pass@1", f"diver-mix{G4}", f"clip-higher{G4}", "+2.5"),
    Claim("DIVER answers better than GRPO with clip-higher at temperature 0.6", "pass@1", f"diver-mix{COOL}",
          f"clip-higher{COOL}", "+3.3"),
    Claim("GRPO with clip-higher loses more than DIVER from G 8 to G 4", "pass@1", "clip-higher", f"clip-higher{G4}", "+0.1",
          beyond=("diver-mix", f"diver-mix{G4}")),
    Claim("GRPO with clip-higher loses more than DIVER from temperature 1 to 0.6", "pass@1", "clip-higher",
          f"clip-higher{COOL}", "+0.9", beyond=("diver-mix", f"diver-mix{COOL}")),
)  # fmt: skip

_ORDER = (("clip-higher", "diver-mix"), ("diver-mix", "kl-cov"), ("kl-cov", "pass-at-k"))
_PRINTED = {
    "kept/textual": ("more diverse by TD", ("+0.103", "+0.153", "+0.108")),
    "kept/equational": ("more diverse by ED", ("+0.098", "+0.183", "+0.094")),
    "kept/hidden-state": ("more diverse by hidden states", ("+0.020", "+0.011", "+0.012")),
    "kept/embedding": ("more diverse by embeddings", ("+0.040", "+0.073", "+0.013")),
}
METRIC_VALIDITY = tuple(
    Claim(
        f"{PAPER_NAMES.get(more, 'DIVER')} is {text} than {PAPER_NAMES.get(less, 'DIVER')}", measure, more, less, told
    )
    for measure, (text, printed) in _PRINTED.items()
    for (more, less), told in zip(_ORDER, printed, strict=True)
)
