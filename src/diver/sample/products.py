"""Linear layers in float32 on a CPU with AVX-512, by oneDNN.

torch multiplies float32 matrices by MKL. torch also has oneDNN, which takes 0.8 of the CPU seconds of a rollout batch
and its update on an AMD processor with AVX-512. On the same processor without AVX-512 both take the same
(benchmarks/engine.py, "without products by oneDNN"). The two differ by rounding, so a choice by a measurement at the
start could change the numbers of a run that is resumed. What the processor can do is the same at each start.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def available() -> bool:
    """Whether this torch has both: elsewhere its own products are those of the processor's vendor."""
    both = torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()
    return both and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def is_faster(model: torch.nn.Module) -> bool:
    """Whether the module is on a CPU with AVX-512, and this torch has oneDNN. ATEN_CPU_CAPABILITY=avx2 says no."""
    on_cpu = next(model.parameters()).device.type == "cpu"
    return on_cpu and available() and torch.backends.cpu.get_cpu_capability() == "AVX512"


def by_onednn(model: torch.nn.Module) -> None:
    """The module's linear layers, itself included, compute by oneDNN."""
    for module in model.modules():
        if type(module) is torch.nn.Linear:
            module.__class__ = Linear


class Linear(torch.nn.Linear):
    """torch's layer with another product: the same weights, and results but for rounding."""

    def forward(self, x: Tensor) -> Tensor:
        in_float32 = x.dtype == self.weight.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
        if not in_float32 or not x.numel():  # oneDNN has no product without rows
            return super().forward(x)
        return (
            _Product.apply(x, self.weight, self.bias)
            if torch.is_grad_enabled()
            else _product(x, self.weight, self.bias)
        )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [..., i] times weight [o, i] transposed, plus bias [o]: [..., o]."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _Product(torch.autograd.Function):
    """`_product` with its gradient, which is two more."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        rows = dy.flatten(0, -2)
        return (
            _product(dy, weight.T) if ctx.needs_input_grad[0] else None,
            _product(rows.T, x.flatten(0, -2).T) if ctx.needs_input_grad[1] else None,
            rows.sum(0) if ctx.needs_input_grad[2] else None,
        )
