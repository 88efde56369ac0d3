"""Evaluation: sample, grade, reduce, store, compare. Training, `diver eval` and studies all use `evaluate`."""
