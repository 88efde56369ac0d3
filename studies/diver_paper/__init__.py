"""The paper's tables and figures by name, at laptop scale and at the paper's.

experiments.toml, claims.toml, tiny.toml, paper.toml: what each experiment varies and measures, the paper's claims on
it, the regime of all runs, the paper's numbers; experiments.py and paper.py read them

job.py              a run to be made, and its recipe
records.py          the results of a study's runs in one compressed file, found again by their recipes
worker.py           one run: train, then sample from its checkpoints
sweep.py            many runs in parallel, resumed after a kill
aggregate.py        from the records of many runs to numbers with paired intervals, and the status of each claim
saved_responses.py  the responses that a record keeps, measured by metrics that need a model
pages.py            numbers as Markdown; figures.py: as curves; custom_pages.py: pages of another kind
paper_table.py      results of `diver eval` beside the paper's main table
reproduce.py        `diver reproduce`
"""
