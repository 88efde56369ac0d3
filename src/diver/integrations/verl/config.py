"""What the plugin reads in verl's configuration, and what a method requires of verl's own settings.

Neither verl nor torch is imported here: `diver train` also imports this module.

`algorithm.diver` is the only key of the plugin: the name of a method, or the sections [method], [verify] and [run] of a
recipe, each as a struct or as JSON:

    +algorithm.diver=diver-td
    +algorithm.diver.method.name=diver-td +algorithm.diver.method.shaping.coef=0.2
    +algorithm.diver.method=diver-td "+algorithm.diver.verify='{\\"timeout_s\\": 2.0}'"
    +algorithm.diver.run.folder=/runs/td
"""

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from diver.core.settings import choose, read, settings
from diver.core.types import DiverError
from diver.grading.settings import Verification
from diver.integrations.seam import Seam
from diver.losses import CispoLoss, ClipCovLoss, ClipLoss, DppoLoss, GspoLoss, KlCovLoss, PolicyLoss, SapoLoss
from diver.methods import Method
from diver.methods.diver import DiverMix
from diver.methods.registry import DEFAULT, method_named
from diver.recipe.sections import Run

NAME = "diver"  # names the trainer mode, the reward manager and the estimator
KEY = "algorithm.diver"
ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
GROUP = f"{ROLLOUT}.n"
FILTERS = "algorithm.filter_groups.enable"
FILTER = {FILTERS: True, "algorithm.filter_groups.metric": "acc"}
"""verl itself replaces groups without a signal by newly sampled ones, without a limit; acc is the outcome."""
AGGREGATIONS = {
    "token-mean": "token-mean",
    "sequence-mean": "seq-mean-token-mean",
    "token-sum": "seq-mean-token-sum",  # as in eq. 1: the sum over tokens, the mean over responses
}
_CLIP = {"clip_ratio_low": "clip_low", "clip_ratio_high": "clip_high"}
_COVARIANCES = {
    "policy_loss.clip_cov_ratio": "fraction",
    "policy_loss.clip_cov_lb": "low",
    "policy_loss.clip_cov_ub": "high",
}
POLICY_LOSSES: dict[type[PolicyLoss], tuple[str, dict[str, str]]] = {
    ClipLoss: ("vanilla", _CLIP),
    ClipCovLoss: ("clip_cov", _CLIP | _COVARIANCES),
    CispoLoss: ("cispo", _CLIP),
    GspoLoss: ("gspo", _CLIP),
    SapoLoss: ("sapo", {"tau_pos": "tau_positive", "tau_neg": "tau_negative"}),
    DppoLoss: ("dppo_tv", {"clip_ratio_low": "delta", "clip_ratio_high": "delta", "clip_ratio_c": "max_ratio"}),
    KlCovLoss: ("kl_cov", {"policy_loss.kl_cov_ratio": "fraction", "policy_loss.ppo_kl_coef": "coef"}),
}
"""The losses that verl has: its loss_mode, and option -> our setting. verl selects tokens in each micro-batch, the
built-in trainer in each mini-batch. GMPO is left out: verl sums the means of its micro-batches (geo_mean), so that
their number scales the loss."""
NO_THIRD_BOUND = {"clip_ratio_c": 1e6}
"""verl's `vanilla` gives a token with A < 0 no gradient where its ratio is above 3; our losses have no such bound."""
SEAM = Seam(
    "verl",
    carries=("responses", "tokens", "decode", "logprobs", "grades", "keys", "state", "replay"),
    per_token=True,
    drops=True,
    losses=(*POLICY_LOSSES,),
    aggregations_of={SapoLoss: ("sequence-mean",)},
)
OFF_WITH_REPLAY = {
    f"{ACTOR}.shuffle": "every mini-batch has its share of the replayed responses, in an order that must stay",
    "algorithm.rollout_correction.bypass_mode": "replayed responses have no log-probs of this step's sampler",
    f"{ROLLOUT}.enable_rollout_routing_replay": "the bank does not keep the experts of a response",
    "critic.enable": "a critic would learn from replayed responses, which have no reward",
}
"""What verl cannot do in a run with `method.replay`, and why."""
REWARDS = ("reward.custom_reward_function.path", "reward.reward_model.enable")
"""Where rewards come from with another reward manager than ours."""


@settings
class Plugin:
    """What the plugin does: the method, how answers are graded, and the run folder, which `diver train` makes."""

    method: Method = DiverMix()
    outcome: str = "acc"
    """What a reward manager calls the outcome, beside its score; the rest of the score is a further reward."""
    verify: Verification = Verification()
    run: Run = Run()


def read_plugin(value: Any) -> Plugin:
    """The settings in `algorithm.diver`. Raises DiverError with the key that is wrong."""
    sections = {"method": value} if isinstance(value, str) else value
    if not isinstance(sections, Mapping):
        raise DiverError(f"{KEY}: must name a method, such as +{KEY}=diver-mix, or be a table, not {value!r:.60}")
    for section in sections:
        choose(section, [field.name for field in dataclasses.fields(Plugin)], KEY)
    tables = {name: _table(name, sections.get(name, {})) for name in ("method", "verify", "run")}
    try:
        return Plugin(
            method=method_named(tables["method"].pop("name", DEFAULT), **tables["method"]),
            outcome=read(str, sections.get("outcome", Plugin.outcome), "outcome"),
            verify=read(Verification, tables["verify"], "verify"),
            run=read(Run, tables["run"], "run"),
        )
    except DiverError as error:
        raise DiverError(f"{KEY}.{error}") from None


def _table(section: str, value: Any) -> dict[str, Any]:
    """A section as a table, from a table, JSON, or the name of a method."""
    if isinstance(value, str) and section == "method" and not value.lstrip().startswith("{"):
        return {"name": value}
    try:
        return dict(json.loads(value) if isinstance(value, str) else value)
    except (TypeError, ValueError) as error:
        raise DiverError(f"{KEY}.{section}: is neither a table nor JSON ({error})") from None


def overrides(method: Method) -> dict[str, Any]:
    """The settings of verl that `method` requires, by dotted key. Raises DiverError for what verl does not have."""
    SEAM.usable(method)
    replays = "replay" in method.needs
    for term in ("kl_coef", "entropy_coef") if replays else ():
        if coef := getattr(method.loss, term):
            reason = "verl would take this term over replayed responses, too; set it to 0"
            raise DiverError(f"method.loss.{term} = {coef}: {reason}")
    return {
        "trainer.v1.trainer_mode": NAME,
        "reward.reward_manager.name": NAME,
        "algorithm.adv_estimator": NAME,
        "algorithm.use_kl_in_reward": False,  # a KL term in the reward would change the advantage
        **({f"{ROLLOUT}.calculate_log_probs": True} if replays or "logprobs" in method.needs else {}),
        **(FILTER if method.selection.filter_groups else {}),
        **{f"{ACTOR}.{key}": value for key, value in _actor(method.loss).items()},
    }


def _actor(loss: PolicyLoss) -> dict[str, Any]:
    mode, options = POLICY_LOSSES[type(loss)]
    return {
        "policy_loss.loss_mode": mode,
        **{option: getattr(loss, setting) for option, setting in options.items()},
        **(NO_THIRD_BOUND if type(loss) is ClipLoss else {}),
        "loss_agg_mode": AGGREGATIONS[loss.aggregation],
        "entropy_coeff": loss.entropy_coef,
        "use_kl_loss": loss.kl_coef > 0,
        **({"kl_loss_coef": loss.kl_coef, "kl_loss_type": "low_var_kl"} if loss.kl_coef > 0 else {}),
    }


def check_config(method: Method, select: Callable[[str], Any]) -> None:
    """Raises DiverError, with the options to give, if verl's configuration is not what `method` requires.

    `select` gives the value at a dotted key of verl's configuration, None if the key is missing. Any reward manager
    is allowed.
    """
    required = {key: value for key, value in overrides(method).items() if not key.startswith("reward.")}
    wrong = [f"{key}={hydra(value)}" for key, value in required.items() if select(key) != value]
    faults = [f"verl is not configured for method {method.name!r}; add: {' '.join(wrong)}"] if wrong else []
    off = {"distillation.enabled": (f"method {method.name!r}", "the method's loss has no term of a teacher")}
    if "replay" in method.needs:
        off |= {key: ("method.replay", reason) for key, reason in OFF_WITH_REPLAY.items()}
    if not method.selection.filter_groups:
        reason = "verl would leave out groups that the method trains on (method.selection.filter_groups)"
        off[FILTERS] = f"method {method.name!r}", reason
    if select("reward.reward_manager.name") == NAME:
        reason = "only one of them would give the rewards, and another manager, such as naive, reads it"
        off |= dict.fromkeys(REWARDS, (f"reward.reward_manager.name={NAME}", reason))
    faults += [
        f"{key}={hydra(select(key))} with {what}: {reason}; set {key}={'null' if key.endswith('.path') else 'false'}"
        for key, (what, reason) in off.items()
        if select(key)
    ]
    batch, mini_batch = select("data.train_batch_size"), select(f"{ACTOR}.ppo_mini_batch_size")
    if method.loss.aggregation != "token-mean" and batch and mini_batch and mini_batch > batch:
        # verl would divide the loss by the problems of a mini-batch, which are more than it has.
        faults.append(f"{ACTOR}.ppo_mini_batch_size={mini_batch}: must be at most data.train_batch_size={batch}")
    if (size := select(GROUP)) == 1:
        faults.append(f"{GROUP}=1, verl's default: a response alone teaches nothing; set {GROUP}=8")
    if faults:
        raise DiverError(*faults)
    if size is not None:
        method.check_group_size(size, GROUP)


def hydra(value: Any) -> str:
    """A value as hydra's grammar of overrides writes it."""
    if isinstance(value, str):
        plain = re.fullmatch(r"[A-Za-z0-9/_.@-]+", value)
        # A quote is escaped, and the backslashes before it or the end are doubled; hydra reads others unchanged.
        return value if plain else "'" + re.sub(r"(\\*)('|\Z)", lambda m: 2 * m[1] + "\\'" * bool(m[2]), value) + "'"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(hydra, value))}]"
    return json.dumps(value)
