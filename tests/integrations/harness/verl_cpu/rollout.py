"""rollout.name=transformers: `generate` behind verl's contract of an inference server, token ids in and out."""

import asyncio
import os

import ray
import torch
from transformers import AutoModelForCausalLM
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

SERVER = "transformers_server"


class Server:
    """Requests that arrive together are generated together."""

    def __init__(self, config, model_config):
        self.model = AutoModelForCausalLM.from_pretrained(model_config.path, dtype=torch.float32).eval()
        self.end, self.pad = self.model.generation_config.eos_token_id, self.model.generation_config.pad_token_id
        self.limit = config.response_length
        self.step = None
        self.waiting, self.task = [], None
        torch.manual_seed(0)

    async def generate(self, prompt_ids, sampling_params, request_id, **_):
        answer = asyncio.get_running_loop().create_future()
        self.waiting.append((list(prompt_ids), dict(sampling_params), answer))
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self.serve())
        return await answer

    async def serve(self):
        await asyncio.sleep(0.05)  # for the rest of a batch
        while self.waiting:
            how = self.waiting[0][1]
            now = [request for request in self.waiting if request[1] == how]
            self.waiting = [request for request in self.waiting if request[1] != how]
            outputs = await asyncio.to_thread(self.run, [prompt for prompt, _, _ in now], how)
            for (*_, answer), output in zip(now, outputs, strict=True):
                answer.set_result(output)

    @torch.no_grad()
    def run(self, prompts, how):
        width = max(map(len, prompts))
        ids = torch.tensor([[self.pad] * (width - len(p)) + p for p in prompts])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
        hot = how.get("temperature", 1.0) > 0
        sampling = {"do_sample": True, "temperature": how["temperature"], "top_k": 0} if hot else {"do_sample": False}
        out = self.model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=how.get("max_tokens", self.limit),
            pad_token_id=self.pad,
            eos_token_id=self.end,
            return_dict_in_generate=True,
            output_logits=True,
            **sampling,
        )
        tokens = out.sequences[:, width:]
        logits = torch.stack(out.logits, 1).float() / (how["temperature"] if hot else 1.0)
        logprobs = logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
        return [
            self.output(row, lp, bool(how.get("logprobs"))) for row, lp in zip(tokens.tolist(), logprobs, strict=True)
        ]

    def output(self, row, logprobs, wanted):
        length = row.index(self.end) + 1 if self.end in row else len(row)
        return TokenOutput(
            token_ids=row[:length],
            log_probs=logprobs[:length].tolist() if wanted else None,
            stop_reason="completed",
            extra_fields={"global_steps": self.step},
        )

    async def load(self, weights, step):
        missing, unexpected = self.model.load_state_dict(weights, strict=False)
        assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)  # that one is tied
        self.step = step

    async def ready(self):
        return True

    async def _nothing(self, *_, **__):
        pass

    wake_up = sleep = abort_all_requests = resume_generation = clear_kv_cache = _nothing
    release_kv_cache = resume_kv_cache = start_profile = stop_profile = _nothing


class Replica(RolloutReplica):
    async def launch_servers(self):
        server = ray.remote(Server).options(name=SERVER, max_concurrency=1000, num_cpus=0)
        self._server_handle = server.remote(self.config, self.model_config)
        await self._server_handle.ready.remote()
        self.servers, self._server_address = [self._server_handle], SERVER


class Adapter(BaseRollout):
    """In the trainer's process: sends the weights to the server."""

    def __init__(self, config, model_config, device_mesh, *_, **__):
        super().__init__(config, model_config, device_mesh)

    async def resume(self, tags):
        pass

    async def release(self):
        pass

    async def update_weights(self, weights, global_steps=None, **_):
        state = {name: getattr(w, "full_tensor", lambda w=w: w)().detach().float().cpu().clone() for name, w in weights}
        if int(os.environ["RANK"]) == 0:
            await ray.get_actor(SERVER).load.remote(state, global_steps)
