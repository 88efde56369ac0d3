r"""Make the bundled Countdown policy: `python scripts/countdown_policy.py OUT [--steps N]`.

A word-level Llama of about 0.9 M parameters is taught to write derivations: random numbers in, random true steps,
and the target is whatever came out. It so learns arithmetic and the form, and only a little of how to hit a target:
that is what reinforcement learning is then for. Held-out problems are left out here, too.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from diver.data import countdown


def tokenizer() -> PreTrainedTokenizerFast:
    """One token a number, sign or word; decoding puts a space between any two."""
    words = ["<pad>", "<eos>", "<unk>", "Use", "and", "to", "make", ",", ".", r"\(", r"\)", "=", r"\boxed{", "}"]
    words += [*countdown.OPERATIONS, *map(str, range(countdown.LARGEST_RESULT + 1))]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    word = Regex(r"\\[a-z]+\{?|\\.|[A-Za-z]+|\d+|[^\s]")
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(word, "isolated")]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=96,
    )


def example(rng: random.Random, tok: PreTrainedTokenizerFast) -> tuple[list[int], int]:
    """Token ids of a problem with its derivation, and the length of the prompt."""
    while True:
        numbers, steps = countdown.draw(countdown.LEVELS[rng.choice(list(countdown.LEVELS))], rng)
        target = steps[-1].result
        if not countdown.is_held_out(numbers, target):
            break
    prompt = tok(countdown.question(numbers, target))["input_ids"]
    return prompt + tok(countdown.response(steps))["input_ids"] + [tok.eos_token_id], len(prompt)


def batch(rng: random.Random, tok: PreTrainedTokenizerFast, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [example(rng, tok) for _ in range(size)]
    width = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([r + [tok.pad_token_id] * (width - len(r)) for r, _ in rows])
    position = torch.arange(width)
    taught = torch.stack([(position >= p) & (position < len(r)) for r, p in rows])
    return ids, ids.masked_fill(~taught, -100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save-every", type=int, default=0, help="also save OUT-NNNN every so many steps")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    rng, tok = random.Random(args.seed), tokenizer()
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tok),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=96,
            tie_word_embeddings=True,
            pad_token_id=tok.pad_token_id,
            bos_token_id=None,
            eos_token_id=tok.eos_token_id,
        )
    )
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters, {len(tok)} words")
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.98), weight_decay=0.01)

    def rate(step: int) -> float:
        return min(1, step / 100) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / args.steps)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    start = time.time()
    for step in range(1, args.steps + 1):
        ids, labels = batch(rng, tok, args.batch)
        loss = model(input_ids=ids, attention_mask=ids != tok.pad_token_id, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step}  loss {loss.item():.3f}  {time.time() - start:.0f} s", flush=True)
        if args.save_every and step % args.save_every == 0:
            save(model, tok, args.out.with_name(f"{args.out.name}-{step:04d}"))
    save(model, tok, args.out)


def save(model: LlamaForCausalLM, tok: PreTrainedTokenizerFast, folder: Path) -> None:
    model.save_pretrained(folder)
    tok.save_pretrained(folder)


if __name__ == "__main__":
    main()
