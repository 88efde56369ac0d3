#!/bin/sh
# clip-higher against diver-mix on Qwen2.5-1.5B and GSM8K, in one hour of one GPU of 80 GB, with verl or TRL and vLLM.
#
#     sh scripts/one_hour.sh verl             # or trl
#     sh scripts/one_hour.sh verl --dry-run   # checks the recipe for both runs, and prints what the engine is given
#     RECIPE=mine.toml sh scripts/one_hour.sh trl
#
# All that is printed is also in runs/one-hour-ENGINE.log.
#
# NOT RUN with this recipe: no GPU was at hand. `make test-vllm` runs the script to its end on a CPU, with both engines, vLLM and
# a tiny model (RECIPE=tests/integrations/vllm/tiny.toml). The hour, by arithmetic: a step has 64 x 8 responses of about 250 tokens
# after prompts of about 100, 0.18 M tokens. At 10,000 sampled tokens a second they take 13 s; old log-probs and the update, 8
# operations a parameter and token, 1.5 B x 8 x 0.18 M = 2.2 PFLOP, 9 s at 250 TFLOP/s; with 3 s to bring the weights to vLLM 25 s.
# Each step below has its estimate. The same command resumes.
set -e
case "$1" in
  trl | verl) engine=$1 ;;
  *) echo "one_hour.sh: name an engine, trl or verl: sh scripts/one_hour.sh trl" >&2 && exit 2 ;;
esac
if [ -z "$ONE_HOUR_LOG" ]; then # once more, with all output in a log; a pipe would hide the exit status
  mkdir -p runs
  export ONE_HOUR_LOG="runs/one-hour-$engine.log"
  { sh "$0" "$@" && echo 0 > "$ONE_HOUR_LOG.status" || echo $? > "$ONE_HOUR_LOG.status"; } 2>&1 | tee -a "$ONE_HOUR_LOG"
  exit "$(cat "$ONE_HOUR_LOG.status")"
fi
shift
recipe=${RECIPE:-recipes/qwen2.5-1.5b-gsm8k.toml}
methods="clip-higher diver-mix"

step() { # the time at which it begins; estimates are for the recipe above
  echo "== $(date +%T) $*"
}

for method in $methods; do
  step "train $method (estimate: 60 steps of 25 s, 25 minutes; verl also validates before and after, 2 minutes)"
  diver train "$recipe" --engine "$engine" --method "$method" --run.folder "runs/$engine-$method" "$@"
done
case " $* " in *" --dry-run "*) exit 0 ;; esac
for method in $methods; do
  step "evaluate $method before and after training (estimate: twice 0.6 M tokens, 4 minutes)"
  diver eval "runs/$engine-$method" --generator vllm
done
step "compare both methods after training"
set --
for method in $methods; do
  last=$(ls -d "runs/eval/$engine-$method"/step_* | tail -n 1)
  set -- "$@" "$method=$last"
done
diver compare "$@"
step "done"
