"""How different the responses of one group are: see `metrics`."""

from diver.diversity.equational import equational_diversity, formulas
from diver.diversity.metrics import (
    METRICS,
    Diversity,
    Metric,
    Until,
    measure,
    needs_of,
    resolve,
    with_diversity,
    with_diversity_when_read,
)
from diver.diversity.ngrams import spaced, unspaced_note
from diver.diversity.textual import (
    bleu_matrix,
    distinct_n,
    self_bleu_diversity,
    textual_dissimilarity,
    textual_diversity,
)
from diver.diversity.vectors import Embedding, HiddenState, embedding_diversity, hidden_state_diversity

__all__ = [
    "METRICS",
    "Diversity",
    "Embedding",
    "HiddenState",
    "Metric",
    "Until",
    "bleu_matrix",
    "distinct_n",
    "embedding_diversity",
    "equational_diversity",
    "formulas",
    "hidden_state_diversity",
    "measure",
    "needs_of",
    "resolve",
    "self_bleu_diversity",
    "spaced",
    "textual_dissimilarity",
    "textual_diversity",
    "unspaced_note",
    "with_diversity",
    "with_diversity_when_read",
]
