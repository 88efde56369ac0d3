"""Exploration methods side by side on testbeds that are not solved at the start: `diver reproduce methods`.

study.toml      testbeds with their frozen regimes, variants, and the stages in which they are run; plan.py reads it
problems.py     problems to choose learning rates on, which no other run sees
ablations.py    variants of DIVER that only this study needs, as methods of one's own
worker.py       one run: train, then sample from its checkpoints at several temperatures
rates.py        the learning rate of each variant, chosen from the same values
results.py      from the records to curves, fronts and paired differences
page.py         the page and its pictures
command.py      the command
"""
