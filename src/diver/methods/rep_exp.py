"""RepExp (arXiv 2510.11686): a bonus for a response whose hidden state is far from those of its group."""

import math

import numpy as np

from diver.core.settings import NonNegative, Positive, PositiveInt, settings
from diver.core.types import Group, Progress, Reward
from diver.diversity.vectors import hidden_states
from diver.methods.base import Context, random_stream, with_diversity_reward
from diver.methods.grpo import Grpo


@settings
class RepExp(Grpo):
    """Bonus for a remote hidden state.

    r'_i = r_i + beta h_i' (lambda I + sum over j of h_j h_j')^-1 h_i, where any response of the group is correct. h is
    the mean over the response of the last layer's states of the frozen base model, `diversity.hidden_state.model`. The
    prompt comes before the response if the engine gives it (built-in, verl, TRL). h is projected to d dimensions by
    a sparse random matrix. The mean of the group is subtracted, which the release does and the paper does not write.
    The matrix is drawn anew each step,
    if the engine tells the step. Departure: it is the same in every run.

    Where d is at least G - 1 and lambda is small beside the distances, the bonus is near 1/n - 1/G. n is the number of
    responses with the same h, and the distance of the others does not matter. What separates different responses, and
    in a group all correct is scaled up by the standard deviation, is then lambda.
    """

    name: str = "rep-exp"
    beta: NonNegative = 0.01
    """The coefficient of the bonus."""
    ridge: Positive = 0.01
    """lambda."""
    dimensions: PositiveInt = 32
    """d: 32 for MATH and GSM8K, 128 for the harder problems of the source."""

    any_size = False  # the bonus is near 1/n - 1/G
    unit_outcomes = True  # beta is in units of reward
    formula_needs = frozenset({"responses"})

    def shaping_coef(self, progress: Progress | float) -> float:
        return self.beta

    def rewards(self, group: Group, context: Context) -> list[Reward]:
        r, bonus = group.outcomes, np.zeros(len(group))
        if self.correct(group).any():
            h = hidden_states(self.diversity.texts(group, context.decode), self.diversity.hidden_state, group.prompt)
            step = context.progress.step if isinstance(context.progress, Progress) else context.progress
            projection = sparse_projection(h.shape[1], self.dimensions, random_stream("rep-exp", step))
            bonus = self.shaping_coef(context.progress) * elliptical_bonus(h @ projection, self.ridge)
        return with_diversity_reward(r, bonus)


def elliptical_bonus(features: np.ndarray, ridge: float) -> np.ndarray:
    """h_i' (ridge I + sum h_j h_j')^-1 h_i of each row h of features [G, d] minus their mean: float64 [G] in [0, 1)."""
    x = np.asarray(features, np.float64)
    x = x - x.mean(axis=0)
    gram = x @ x.T  # X (ridge I + X'X)^-1 X' = XX' (ridge I + XX')^-1, which is [G, G]
    return np.diagonal(np.linalg.solve(gram + ridge * np.eye(len(x)), gram)).copy()


def sparse_projection(features: int, dimensions: int, random: "np.random.Generator") -> np.ndarray:
    """A sparse random projection (Li, Hastie and Church 2006), [features, dimensions].

    It is the identity if `dimensions` is at least `features`.

    A fraction 1 / sqrt(features) of its entries is not 0. These have the size features^(1/4) / sqrt(dimensions) with
    either sign, so squared distances are preserved in the mean.
    """
    if features <= dimensions:
        return np.eye(features)
    density = 1 / math.sqrt(features)
    signs = random.choice([-1.0, 0.0, 1.0], (features, dimensions), p=[density / 2, 1 - density, density / 2])
    return signs / math.sqrt(density * dimensions)
