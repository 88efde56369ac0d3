"""Diversity of the responses of one group: see `metrics`."""

from diver.core.formulas import formulas
from diver.core.seeds import action_key
from diver.diversity.actions import action_diversity, action_edits, state_diversity
from diver.diversity.equational import equational_diversity
from diver.diversity.metrics import METRICS, Diversity, Metric, Until, measure, needs_of, resolve, with_diversity
from diver.diversity.textual import (
    bleu_matrix,
    distinct_n,
    self_bleu_diversity,
    spaced,
    textual_dissimilarity,
    textual_diversity,
    unspaced_note,
)
from diver.diversity.vectors import Embedding, HiddenState, embedding_diversity, hidden_state_diversity
