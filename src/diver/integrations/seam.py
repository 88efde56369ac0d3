"""Where another trainer lets the advantage of a group be replaced, and which methods it carries there."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diver.api import advantages
from diver.losses import CispoLoss, ClipLoss, GspoLoss, HighEntropyLoss, PolicyLoss
from diver.methods import Method, check_needs, method_named
from diver.types import DiverError, Progress


@dataclass(frozen=True)
class Seam:
    """What an engine gives a method, and what it does with the advantage.

    `carries` are those of `diver.methods.NEEDS` that are known there; where the engine `subtracts_mean` of a group from
    what it is given, only advantages that sum to 0 come through; `per_token`, whether it takes one for each token;
    `losses`, those that the engine has, with those of the `terms` "kl_coef" and "entropy_coef" that can be added to them;
    `knows_limit`, whether the length limit is known there.
    """

    engine: str
    carries: tuple[str, ...] = ("responses",)
    subtracts_mean: bool = False
    per_token: bool = False
    losses: tuple[type[PolicyLoss], ...] = (ClipLoss,)
    terms: tuple[str, ...] = ()
    knows_limit: bool = False

    def usable(self, method: str | Method) -> Method:
        """The method, or DiverError in one line where this seam cannot carry it."""
        method = method_named(method) if isinstance(method, str) else method
        name, elsewhere = f"method {method.name!r}", "choose another engine"
        check_needs(method, self.engine, self.carries)
        if self.subtracts_mean and not method.zero_mean:
            raise DiverError(
                f"{name}: its advantages do not sum to 0 in a group, and {self.engine} subtracts their mean; {elsewhere}"
            )
        if method.per_token and not self.per_token:
            raise DiverError(
                f"{name} has an advantage for each token, and {self.engine} takes one for a response; {elsewhere}"
            )
        if method.selection.drops:
            raise DiverError(f"{name}: a selection drops rollouts, and {self.engine} trains on every one; {elsewhere}")
        if method.overlong and not method.overlong.max_tokens and not self.knows_limit:
            raise DiverError(
                f"method.overlong.max_tokens: {self.engine} does not say what the length limit is; give it here"
            )
        if type(method.loss) not in self.losses:
            raise DiverError(
                f"method.loss.name = {method.loss.name!r}: the {self.engine} adapter does not support this loss; train this method with another engine"
            )
        for term in ("kl_coef", "entropy_coef"):
            if getattr(method.loss, term) and term not in self.terms:
                raise DiverError(
                    f"method.loss.{term} = {getattr(method.loss, term)}: {self.engine}'s loss has no such term; set it to 0, or "
                    "choose another engine"
                )
        return method

    def check_settings(self, method: Method, wanted: Mapping[str, Any], given: Callable[[str], Any]) -> None:
        """DiverError that names every setting of the engine that is not what `method` wants; `given` reads one by name."""
        wrong = [f"{name}={value!r} (it is {given(name)!r})" for name, value in wanted.items() if given(name) != value]
        if wrong:
            raise DiverError(f"{self.engine} is not configured for method {method.name!r}: set {', '.join(wrong)}")

    def of_group(
        self,
        method: Method,
        texts: Sequence[str],
        outcomes: Sequence[float | None],
        progress: Progress | float = 0.0,
        **columns: Any,
    ) -> list[float]:
        """The advantage of each response of one group, for a seam that is asked group by group; columns as of `diver.advantages`.

        0 for a response that is alone: there is nothing to compare it with.
        """
        known = [outcome for outcome in outcomes if outcome is not None]
        if len(known) != len(texts):
            raise DiverError(f"{self.engine}: a response of a group has no reward, and an advantage needs that of all")
        if len(texts) < 2:
            return [0.0] * len(texts)
        return np.asarray(advantages(texts, known, [0] * len(texts), method, progress, **columns)).tolist()


_TEXTS, _TOKENS = ("responses",), ("responses", "tokens")
_SAMPLED = ("responses", "tokens", "logprobs")
_DECODED = (*_SAMPLED, "decode")
_SWIFT_LOSSES = (ClipLoss, GspoLoss, HighEntropyLoss)
_TRL_LOSSES = (*_SWIFT_LOSSES, CispoLoss)
_KL, _BOTH = ("kl_coef",), ("kl_coef", "entropy_coef")
SEAMS = {
    seam.engine: seam
    for seam in (
        Seam("TRL", (*_TOKENS, "decode", "grades", "keys"), True, losses=_TRL_LOSSES, terms=_BOTH, knows_limit=True),
        Seam("ms-swift", (*_TEXTS, "grades", "keys"), True, losses=_SWIFT_LOSSES, terms=_KL, knows_limit=True),
        Seam("slime", _SAMPLED, losses=(ClipLoss, GspoLoss), terms=_BOTH, knows_limit=True),
        Seam("SkyRL", _DECODED, per_token=True, losses=(ClipLoss, GspoLoss), terms=_BOTH),
        Seam("rLLM", _SAMPLED, terms=_KL),
        Seam("torchtitan-rl", _SAMPLED),
        Seam("tinker-cookbook", _DECODED, subtracts_mean=True),
        Seam("NeMo-RL", _TEXTS, terms=_KL),
        Seam("AReaL", _DECODED),
        Seam("ROLL", (*_TOKENS, "decode"), terms=_BOTH),
    )
}
"""What each adapter can give; a `state` none, for none can save it with the engine's checkpoint."""


def no_schedule() -> float:
    """How far the run is, for a seam that does not know it: coefficients that a method anneals keep their first value."""
    return 0.0


def written_by_policy(loss_mask: Sequence[float] | None, length: int) -> np.ndarray:
    """Which tokens of a response the policy wrote, bool [T]; the others are what tools answered.

    A mask without any token leaves a whole response out of the loss, which it may be for other reasons: then all are.
    """
    mask = np.ones(length, dtype=bool) if loss_mask is None else np.asarray(loss_mask, dtype=bool)
    return mask if mask.any() else ~mask


def decoder(tokenizer: Any) -> Callable[[Sequence[int]], str]:
    """What turns tokens into the text of a response, without an end token."""
    return functools.partial(tokenizer.decode, skip_special_tokens=True)
