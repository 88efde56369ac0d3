"""A pretrained language model trained for real: SmolLM2-135M-Instruct on GSM8K, clip-higher against diver-mix.

study.toml      sizes, split, warm-up, and the recipe of the runs
data.py         GSM8K's training set in three parts; solutions as expressions
warm_up.py      the supervised warm-up on the first part
__main__.py     python -m smollm2_gsm8k: all stages, resumed where it was stopped
page.py         docs/results/smollm2-gsm8k.md from the records
"""
