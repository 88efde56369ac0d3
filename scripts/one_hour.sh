#!/bin/sh
# clip-higher against diver-mix on Qwen2.5-1.5B and GSM8K, in one hour of one GPU of 80 GB, with verl or TRL and vLLM.
#
#     sh scripts/one_hour.sh verl             # or trl
#     sh scripts/one_hour.sh verl --dry-run   # checks the recipe for both runs, and prints what the engine is given
#     RECIPE=mine.toml GENERATOR=transformers sh scripts/one_hour.sh trl   # another recipe, or an evaluation without vLLM
#
# runs/one-hour-ENGINE.log has all that is printed, .stages the time of each stage, and .json every measurement. The same command
# resumes after a kill: a stage that ended is not begun again, a training goes on at its last checkpoint (train.save_steps), and an
# evaluation at its last response. scripts/one_hour.py writes the summary, and docs/results/one-hour.md from files of measurements.
#
# NOT RUN with this recipe: no GPU was at hand. `make test-vllm` runs the script to its end on a CPU, with both engines, vLLM and
# a tiny model (RECIPE=tests/integrations/vllm/tiny.toml). The hour, by arithmetic: a step has 64 x 8 responses of about 250 tokens
# after prompts of about 100, 0.18 M tokens. At 10,000 sampled tokens a second they take 13 s; old log-probs and the update, 8
# operations a parameter and token, 1.5 B x 8 x 0.18 M = 2.2 PFLOP, 9 s at 250 TFLOP/s; with 3 s to bring the weights to vLLM 25 s:
# 25 minutes for the 60 steps of a method. An evaluation has twice 0.6 M tokens, 4 minutes.
set -e
case "$1" in
  trl | verl) engine=$1 ;;
  *) echo "one_hour.sh: name an engine, trl or verl: sh scripts/one_hour.sh trl" >&2 && exit 2 ;;
esac
here=$(dirname "$0")
files=runs/one-hour-$engine
if [ -z "$ONE_HOUR_LOG" ]; then # once more, with all output in a log; a pipe would hide the exit status
  mkdir -p runs
  export ONE_HOUR_LOG="$files.log"
  { sh "$0" "$@" && echo 0 > "$ONE_HOUR_LOG.status" || echo $? > "$ONE_HOUR_LOG.status"; } 2>&1 | tee -a "$ONE_HOUR_LOG"
  exit "$(cat "$ONE_HOUR_LOG.status")"
fi
shift
recipe=${RECIPE:-recipes/qwen2.5-1.5b-gsm8k.toml}
methods="clip-higher diver-mix"

stage() { # a name and its command, unless it has ended before
  name=$1
  shift
  if grep -qs "^$name end" "$files.stages"; then
    echo "== $name has ended before"
    return
  fi
  echo "== $(date +%T) $name"
  echo "$name begin $(date +%s)" >> "$files.stages"
  "$@"
  echo "$name end $(date +%s)" >> "$files.stages"
}

train() { # verl would evaluate before and after training, which the evaluation by vLLM does
  set -- "$recipe" --engine "$engine" --method "$1" --run.folder "runs/$engine-$1"
  case $engine in
    trl) diver train "$@" $dry ;;
    verl) diver train "$@" $dry -- trainer.val_before_train=false trainer.test_freq=-1 ;;
  esac
}

last() { # the evaluation after training
  ls -d "runs/eval/$engine-$1"/step_* | tail -n 1
}

compare() {
  set --
  for method in $methods; do
    set -- "$@" "$method=$(last "$method")"
  done
  diver compare "$@"
}

dry=
case " $* " in *" --dry-run "*) dry=--dry-run ;; esac
for method in $methods; do
  if [ "$dry" ]; then train "$method"; else stage "train-$method" train "$method"; fi
done
if [ "$dry" ]; then exit 0; fi
for method in $methods; do
  stage "evaluate-$method" diver eval "runs/$engine-$method" --generator "${GENERATOR:-vllm}"
done
stage compare compare
python "$here/one_hour.py" measure "$engine"
