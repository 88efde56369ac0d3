"""Broken samplers, each as the generator of a trainer: `trainer` of a kind of runs in study.toml."""

from __future__ import annotations

from diver.core.run_folder import RunFolder
from diver.recipe.recipe import Recipe
from diver.sample.hf import HFGenerator
from diver.sample.policy import load_policy
from diver.train.trainer import Trainer


class FrozenSampler(Trainer):
    """The sampler never gets the new weights: every step trains on samples of the policy before training."""

    def __init__(self, recipe: Recipe, folder: RunFolder) -> None:
        super().__init__(recipe, folder)
        self.sampler = HFGenerator(load_policy(recipe.model), recipe.model.path, recipe.sample.max_num_seqs)


class NoEndToken(Trainer):
    """The sampler does not know the end token, so that every response goes on to the length limit."""

    def __init__(self, recipe: Recipe, folder: RunFolder) -> None:
        super().__init__(recipe, folder)
        self.generator.ends = []
