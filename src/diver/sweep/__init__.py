"""A comparison of settings over seeds in one command: `diver sweep`, and the studies that run by it.

Its nouns are the setting, the run, the record and the pair. A *setting* is a method with its changes of the recipe. A
*run* is a setting with a seed. The *record* of a run has its recipe, commit, cost, and the correct samples of each
problem at every pair of its front. A *pair* is weights between the untrained and the trained policy, and a temperature.

For each setting and each k, the pair with the highest Pass@k on the selection problems is chosen, and judged on the
held-out problems.

Entry points: `plan.Plan` (what is compared), `run.sweep` (makes the runs that have no record), `page.write_page`.
"""
