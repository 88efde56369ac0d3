"""What is known of the methods by their formulas, worked out by hand: their kinds, and the engines that run them.

It is compared with what the methods declare. A method that is not listed is judged by its declarations alone, so that a
new one needs no line here.
"""

from diver.integrations.engines import refusals

# A = (r - mean) / std has neither a scale nor a zero. The others have another loss, a quantile for the mean, the best
# of a set for r, or a divisor that depends on keys only.
FREE = {
    "grpo",
    "clip-higher",
    "clip-cov",
    "kl-cov",
    "cispo",
    "gspo",
    "gmpo",
    "sapo",
    "dppo",
    "qae",
    "max-at-k",
    "uniqueness-aware",
    "entropy-bonus",
    "entropy-advantage",
    "high-entropy",
}
# A = r - mean grows with the rewards, as its source has it.
PROPORTIONAL = {"dr-grpo", "siren", "gigpo"}
# A = (r - mean) / mean has no scale, but its zero is a wrong response.
NO_SCALE = {"max-rl"}
# Only which outcomes reach the threshold counts, or that and GRPO's A.
THRESHOLD = {
    *("pass-at-k", "pkpo", "w-reinforce", "f-grpo", "difficulty-weight", "ucpo", "xrpo", "ds-grpo"),
    *("bbg", "outcome-batch", "outcome-ucb-con", "outcome-ucb-mean"),
}
# A bonus, a penalty or beta is relative to the 1 that a correct response has more than a wrong one; or r is multiplied.
UNIT = {
    *("diver-td", "diver-ed", "diver-mix", "diver-annealed", "diver-actions"),
    *("rs-grpo", "mmpo", "rep-exp", "cde", "darling", "poly-epo", "dra-grpo", "unlikeliness"),
}
# `diver.advantages` refuses them, because they select responses, need grades or replay rollouts.
# The threshold counts in three; the penalty of dapo is relative to 1.
ELSEWHERE = {"psr", "nsr", "dapo", "evol-rl", "verified-replay", "dph-rl", "pba"}

KNOWN = FREE | PROPORTIONAL | NO_SCALE | THRESHOLD | UNIT | ELSEWHERE

# As `diver methods` marks them: B built-in, T TRL, D DiverTrainer, V verl, M ms-swift, S slime, K SkyRL,
# C tinker-cookbook, A diver.advantages. DiverTrainer runs all but those that sample the
# starting policy.
MARKS = dict(
    line.split(maxsplit=1)
    for line in """
grpo              B T D V M S K C A
clip-higher       B T D V M S K C A
clip-cov          B . D V . . . . A
kl-cov            B . D V . . . . A
cispo             B T D V . . . . A
gspo              B T D V M S K . A
gmpo              B . D . . . . . A
sapo              B T D V . . . . A
dppo              B . D V . . . . A
dapo              B . D V . . . . .
pass-at-k         B T D V M S K C A
max-at-k          B T D V M S K . A
max-rl            B T D V M S K C A
verified-replay   B . D V . . . . .
dr-grpo           B T D V M S K C A
rs-grpo           B T D V M S K C A
qae               B . D V . S K . A
pkpo              B . D V . S K . A
f-grpo            B T D V M S K C A
difficulty-weight B . D V . S K . A
w-reinforce       B . D V . S K . A
psr               B . D V . . . . .
nsr               B . D V . . . . .
unlikeliness      B . D V . S K . A
ucpo              B . D V . S K C A
darling           B T D V M . . . A
evol-rl           B T D V . . . . .
dra-grpo          B T D V M S K . A
rep-exp           B T D V M S K C A
entropy-bonus     B T D V . S K . A
entropy-advantage B . D . . . . . A
siren             B . D . . . . . A
high-entropy      B . D . . . . . A
diver-td          B T D V M S K C A
diver-ed          B T D V M S K C A
diver-mix         B T D V M S K C A
diver-annealed    B T D V M S K C A
diver-actions     B T D . . . . . A
gigpo             B . D . . . . . A
xrpo              B . D V . S K . A
ds-grpo           B . D V . S K . A
cde               B . D V . S K C A
poly-epo          B T D V M . . . A
uniqueness-aware  B . D V . . . . A
outcome-batch     B . D V . . . . A
outcome-ucb-con   B . D V . . . . A
outcome-ucb-mean  B . D V . . . . A
bbg               B T D V M S K C A
mmpo              B T D V M S K C A
dph-rl            B . D . . . . . .
pba               B . D . . . . . .
""".strip().splitlines()
)


def kind_of(method):
    """The set of KINDS that the method is of, by what it declares."""
    if "diver.advantages" in refusals(method):
        return "elsewhere"
    if method.unit_outcomes:
        return "unit"
    if method.counts_correct:
        return "threshold"
    divisor = getattr(method, "divisor", "std")
    return {"mean": "no scale", "none": "proportional"}.get(divisor, "free")


KINDS = {
    "free": FREE,
    "proportional": PROPORTIONAL,
    "no scale": NO_SCALE,
    "threshold": THRESHOLD,
    "unit": UNIT,
    "elsewhere": ELSEWHERE,
}
