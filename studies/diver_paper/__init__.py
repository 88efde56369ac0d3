"""The paper's tables and figures by name, at laptop scale and at the paper's.

experiments.toml, claims.toml, tiny.toml, paper.toml: what each experiment varies and measures, the paper's claims on
it, the regime of all runs, the paper's numbers; experiments.py and paper.py read them

runs.py             the recipes of the runs of all studies, and the records of finished ones
plan.py             an experiment as a sweep (`diver.sweep`), and its finished runs
measure.py          what the record of a run has: the metrics of the training, samples from its checkpoints
again.py            runs of a finished study, made again by `diver.sweep`
aggregate.py        from the records of many runs to numbers with paired intervals, and the status of each claim
saved_responses.py  the responses that a record keeps, measured by metrics that need a model
pages.py            numbers as Markdown; figures.py: as curves; custom_pages.py: pages of another kind
paper_table.py      results of `diver eval` beside the paper's main table
reproduce.py        `diver reproduce`
"""
