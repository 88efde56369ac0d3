#!/bin/sh
# clip-higher against diver-mix on Qwen2.5-1.5B and GSM8K, in one hour of one GPU of 80 GB, with verl or TRL and vLLM.
#
#     sh scripts/one_hour.sh verl             # or trl
#     sh scripts/one_hour.sh verl --dry-run   # checks the recipe for both runs, and prints what the engine is given
#
# NOT RUN: no GPU was at hand. The hour, by arithmetic: a step has 64 x 8 responses of about 250 tokens after prompts of about
# 100, 0.18 M tokens. At 10,000 sampled tokens a second they take 13 s; old log-probs and the update, 8 operations a parameter
# and token, 1.5 B x 8 x 0.18 M = 2.2 PFLOP, 9 s at 250 TFLOP/s; with 3 s to bring the weights to vLLM 25 s, so that 60 steps of
# both methods are 50 minutes. An evaluation, 300 problems x 8 samples, has 0.6 M tokens: a minute, and one to load the model.
# The same command resumes.
set -e
engine=$1
shift
runs="runs/$engine-clip-higher runs/$engine-diver-mix"
for run in $runs; do
  diver train recipes/qwen2.5-1.5b-gsm8k.toml --engine "$engine" --method "${run#runs/"$engine"-}" --run.folder "$run" "$@"
done
case " $* " in *" --dry-run "*) exit 0 ;; esac
for run in $runs; do
  diver eval "$run" --generator vllm # before and after training, compared
done
diver compare "runs/eval/$engine-clip-higher/step_0060" "runs/eval/$engine-diver-mix/step_0060"
