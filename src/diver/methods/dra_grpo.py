"""DRA-GRPO (arXiv 2505.09655): the reward of a response is divided by its similarity to the group."""

import numpy as np

from diver.core.settings import settings
from diver.core.types import Group, Reward
from diver.diversity.vectors import cosines, embeddings
from diver.losses import ClipLoss, PolicyLoss
from diver.methods.base import Context, with_diversity_reward
from diver.methods.grpo import ClipHigher


@settings
class DraGrpo(ClipHigher):
    """Reward over similarity to the group.

    r'_i = r_i / (sum over j of cos(e_i, e_j) + 1e-6), j = i included. A response like all G of its group has r / G, one
    like none has r. Departures: a cosine below 0 counts as 0, since a sum below 0 would change the sign of the reward.
    The authors' release sums over the responses of one process, whose prompts are mixed, where the paper has the group.
    Its rewards are one of format and twice a cosine of the length. Its encoder, jinaai/jina-embeddings-v2-small-en,
    runs code from the hub, which is not done here. It updates once for each batch, so no clip acts.
    """

    name: str = "dra-grpo"
    loss: PolicyLoss = ClipLoss(aggregation="sequence-mean", kl_coef=0.04)

    any_size = False  # the similarities are summed
    unit_outcomes = True
    formula_needs = frozenset({"responses"})

    def rewards(self, group: Group, context: Context) -> list[Reward]:
        r = group.outcomes
        texts = self.diversity.texts(group, context.decode)
        similarity = np.maximum(cosines(embeddings(texts, self.diversity.embedding)), 0)
        return with_diversity_reward(r, r / (similarity.sum(axis=1) + 1e-6) - r)
