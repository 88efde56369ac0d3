"""vLLM's plugin for training on a CPU: weights stay as they are stored, and a float32 model is sampled in float32."""

import torch


def keep_weights(layer, remove_weight):
    """Multiply with the weights of the layer themselves.

    vLLM packs them for its CPU kernels and drops the originals, and a trainer could load no later weights into them.
    """
    layer.cpu_linear = torch.nn.functional.linear


def register():
    from vllm.model_executor.layers import utils
    from vllm.platforms.cpu import CpuPlatform

    utils.dispatch_cpu_unquantized_gemm = keep_weights
    # vLLM casts a float32 model to the first of these. Few CPUs compute bfloat16 fast, and it rounds log-probs to 1e-2.
    CpuPlatform.supported_dtypes = [torch.float32, torch.bfloat16, torch.float16]
