"""Exploration methods side by side on testbeds that are not solved at the start: `diver reproduce methods`.

study.toml      testbeds with their frozen regimes, variants, and the stages in which they are run; plan.py reads it
problems.py     problems to choose learning rates on, which no other run of the testbed has
ablations.py    variants of DIVER that only this study needs, as methods of one's own
rates.py        the learning rate of each variant, chosen from the same values
results.py      from the records to curves, fronts and paired differences
deeper.py       Pass@k of 1,024 samples, problems gained and lost
summary.py      the verdict: what is recommended, and the rule for it
tails.py        text after the answer
figure.py       Pass@1 against Pass@64
page.py         the page
command.py      the command
"""
