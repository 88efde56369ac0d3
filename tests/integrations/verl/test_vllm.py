"""vLLM as verl's rollout, on a CPU: what it learns in 8 steps of an easy task. By hand: `make test-verl-vllm`."""

import pytest

pytest.importorskip("vllm", reason="in the environment of `make test-verl-vllm` only")

import stock

from diver.methods import method_named

STEPS = 8
OPTIONS = {
    "data.train_batch_size": 32,
    "actor_rollout_ref.rollout.n": 8,
    "actor_rollout_ref.actor.ppo_mini_batch_size": 8,
    "actor_rollout_ref.actor.optim.lr": 1e-4,
    "actor_rollout_ref.rollout.name": "vllm",
    "actor_rollout_ref.rollout.dtype": "float32",
    "actor_rollout_ref.rollout.enforce_eager": True,
    "actor_rollout_ref.rollout.max_model_len": 96,
    "actor_rollout_ref.rollout.max_num_seqs": 64,
    "+actor_rollout_ref.rollout.enable_sleep_mode": False,
    "+actor_rollout_ref.rollout.engine_kwargs.vllm.compilation_config.cudagraph_mode": "NONE",
}
CPU = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}


def test_the_mean_reward_rises(tmp_path):
    stock.prepare(tmp_path, problems=32, mix={"three": 1.0})  # all of them in every step
    method = method_named("diver-mix")
    stock.run(tmp_path, stock.command(tmp_path, method, STEPS, **OPTIONS), seconds=1500, **CPU)
    logged = stock.metrics(tmp_path)
    print("\nstep  reward   TD    ED   lambda  entropy  tokens/s")
    for step, row in logged.items():
        tokens = row["response_length/mean"] * 32 * 8
        print(
            f"{step:4}  {row['critic/score/mean']:6.3f}  {row['diver/diversity/textual']:.2f}  "
            f"{row['diver/diversity/equational']:.2f}  {row['diver/shaping/coef']:6.3f}  {row['actor/entropy']:7.3f}  "
            f"{tokens / row['timing_s/gen']:8.0f}"
        )
    assert list(logged) == list(range(1, STEPS + 1))
    reward = [row["critic/score/mean"] for row in logged.values()]
    assert sum(reward[-2:]) > sum(reward[:2]), reward
    assert all(
        abs(row["training/rollout_probs_diff_mean"]) < 1e-3 for row in logged.values()
    )  # vLLM has the new weights
