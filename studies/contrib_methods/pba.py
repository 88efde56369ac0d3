"""After Per-Problem Base Anchoring (arXiv 2607.20543): the starting policy is kept where it solves nothing."""

import numpy as np

from diver.core.settings import ZeroToOne, settings
from diver.methods.dph_rl import DphRl


@settings
class Pba(DphRl):
    """Reward only where the start solves.

    Before training, the policy samples 8 responses to each problem. Those with a correct one are trained on as by
    clip-higher. On the others each update adds coef times the forward KL to the starting policy over its 8
    responses. dph-rl does so on one response of the problems that it solves. The rule (1 of 8) and the direction of
    the divergence are second-hand: summaries of the paper (hence "after"), of which another has thresholds of its
    own. coef is ours.
    """

    name: str = "pba"
    solved: ZeroToOne = 1 / 8
    """A problem is rewarded if this part of the starting policy's responses is correct."""

    def anchors(self, correct: np.ndarray) -> np.ndarray:
        return np.full(len(correct), correct.mean() < self.solved)
