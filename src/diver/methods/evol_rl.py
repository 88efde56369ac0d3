"""After EVOL-RL (arXiv 2509.15194): among the correct responses, and among the wrong, the novel have more reward."""

import numpy as np

from diver.core.rounding import ROUNDING, alike
from diver.core.settings import settings
from diver.core.types import UNANSWERED, Group, Reward
from diver.diversity import Diversity, Embedding
from diver.diversity.vectors import cosines, embeddings
from diver.losses import ClipLoss, PolicyLoss
from diver.methods.base import Context, with_diversity_reward
from diver.methods.grpo import ClipHigher


@settings
class EvolRl(ClipHigher):
    """More reward for novel responses.

    The reward is 0.5 to 1 if correct and -1 to -0.5 if wrong, by how little a response resembles the others. A response
    without an answer has -1 and does not count among the others; with fewer than two answers all have -1. Read in the
    authors' release (hence "after"). Departures: the verifier decides what is correct. The source, without labels,
    takes a majority vote of 64 responses, 32 of which are trained on. The verifier also decides what counts as an
    answer, where the release asks for a digit in a box.
    """

    name: str = "evol-rl"
    diversity: Diversity = Diversity(embedding=Embedding(model="Qwen/Qwen3-Embedding-4B"))
    """How the diversity metrics are measured; `embedding` is the encoder of this method."""
    loss: PolicyLoss = ClipLoss(kl_coef=0.001, entropy_coef=0.003)

    any_size = False  # the largest similarity grows with the others
    counts_correct = True
    formula_needs = frozenset({"responses", "grades"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.divisor == "mean":
            raise ValueError("divisor = 'mean' needs rewards of at least 0; that of a wrong response is negative")

    def rewards(self, group: Group, context: Context) -> list[Reward]:
        r = group.outcomes
        shaped = np.full(len(group), -1.0)
        answered = np.array([rollout.grade not in UNANSWERED for rollout in group.rollouts])
        if answered.sum() > 1:
            texts = [text.rpartition("</think>")[2].strip() for text in self.diversity.texts(group, context.decode)]
            vectors = embeddings([text for text, a in zip(texts, answered, strict=True) if a], self.diversity.embedding)
            shaped[answered] = novelty_rewards(cosines(vectors), self.correct(group)[answered], self.tolerance)
        return with_diversity_reward(r, shaped - r)


def novelty_rewards(cosine: np.ndarray, correct: np.ndarray, tolerance: float = ROUNDING) -> np.ndarray:
    """0.5 + n / 2 of a correct response, -1 + n / 2 of a wrong one: float64 [G], G >= 2, of cosines [G, G], bool [G].

    n is the novelty, 1 - (m + s) / 2, scaled to 0 .. 1 within the correct ones and within the wrong ones. m is the mean
    similarity to the others of the same class (to all others, if it is alone). s is the largest similarity to any
    other response. Cosines below 0 are taken as 0. n is 1 for a response that is alone in its class, and 1/2 where all
    of a class are `alike`.
    """
    others = ~np.eye(len(correct), dtype=bool)
    same_class = others & (correct[:, None] == correct)
    peers = np.where(same_class.any(axis=1, keepdims=True), same_class, others)
    similarity = np.clip(cosine, 0.0, 1.0)
    mean = (similarity * peers).sum(axis=1) / peers.sum(axis=1)
    novelty = 1 - (mean + (similarity * others).max(axis=1)) / 2
    rewards = np.empty(len(correct))
    for members, lowest in ((correct, 0.5), (~correct, -1.0)):
        values = novelty[members]
        if len(values) < 2:
            scaled = np.ones_like(values)
        elif alike(values, tolerance):
            scaled = np.full_like(values, 0.5)
        else:
            scaled = (values - values.min()) / np.ptp(values)
        rewards[members] = lowest + scaled / 2
    return rewards
