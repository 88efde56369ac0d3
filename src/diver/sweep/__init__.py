"""A comparison of settings over seeds in one command: `diver sweep`, and the studies that run by it.

Its nouns are a *setting* (a method with its changes of the recipe), a *run* (a setting with a seed), the *record* of a
run (recipe, commit, cost, and the correct samples of each problem at every pair of its front), and a *pair* (weights
between the untrained and the trained policy, and a temperature). For each setting and each k the pair with the highest
Pass@k on selection problems is chosen, and judged on other problems.

Entry points: `plan.Plan` (what is compared), `run.sweep` (makes the runs that have no record), `page.write_page`.
"""
