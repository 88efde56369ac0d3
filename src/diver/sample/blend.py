"""Weights between two policies: base + alpha (trained - base), written as a model folder (WiSE-FT, arXiv 2109.01903; of
reasoning models, arXiv 2504.10478).

Weights between an untrained and a trained policy trade Pass@1 for Pass@k without training. Tensors are read and written
in slices, so a model that does not fit into memory can be blended.
"""

import json
import math
import shutil
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import torch

from diver.core.files import read_json, to_json, write_parts, write_text
from diver.core.seeds import fingerprint
from diver.core.types import DiverError
from diver.recipe.sections import Model
from diver.sample.policy import ADAPTERS, load_configuration
from diver.tasks import hub
from diver.tasks.testbeds import policy_folder

SLICE = 1 << 22  # numbers of a tensor in memory at a time: 16 MB in float32, of each policy and of the result
RECORD = "blend.json"
DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "BOOL": torch.bool,
}  # fmt: skip
NOT_COPIED = {"trainer.pt", "method.json", "method.bin", "checksums.json"}  # a checkpoint's, which a model lacks
ADAPTER_PARTS = ("lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B")


class Stored(NamedTuple):
    """Where a tensor lies: its file, its first byte there, its dtype in safetensors' words, and its shape."""

    file: Path
    start: int
    dtype: str
    shape: tuple[int, ...]


def blend(base: Path, trained: Path, alpha: float, out: Path) -> None:
    """Write the policy at `alpha` between `base` (0) and `trained` (1) to the new folder `out`, complete or not at all.

    Weights have the dtype and the files of `trained`, from which everything else is copied. 0 and 1 copy the weights of
    `base` and `trained`. LoRA adapters are scaled: their product, so the B matrices, times alpha. blend.json has the
    sources.

    Raises:
        DiverError: `out` exists, the policies have other tensors or tokenizers, or adapters cannot be scaled.
    """
    if out.exists():
        raise DiverError(f"{out}: exists; choose another --out, or delete it")
    if not 0 <= alpha <= 1:
        raise DiverError(f"--alpha {alpha:g}: must be from 0, the base model, to 1, the trained one")
    adapters = (trained / ADAPTERS).is_file()
    _check_adapters(trained) if adapters else _check_tokenizers(base, trained)
    source = base if alpha == 0 and not adapters else trained
    weights = sorted(source.glob("*.safetensors"))
    if not weights:
        raise DiverError(f"{source}: has no *.safetensors; model.save_pretrained(FOLDER) writes them")
    mine, theirs = ({} if adapters else tensors(base)), tensors(trained)
    if not adapters:
        check_shapes(base, mine, trained, theirs)
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for path in source.iterdir():
        if path.is_file() and path.suffix not in (".safetensors", ".bin", ".pt") and path.name not in NOT_COPIED:
            shutil.copy2(path, partial)
    for file in weights:
        if alpha in (0, 1) and not adapters:
            shutil.copyfile(file, partial / file.name)
        else:
            write_parts(partial / file.name, _blended(file, mine, theirs, alpha))
    sources = {name: f"{path.resolve()}@{fingerprint(path)}" for name, path in (("base", base), ("trained", trained))}
    write_text(partial / RECORD, to_json({"alpha": alpha, **sources}, indent=1) + "\n")
    partial.rename(out)


def model_folder(model: Model) -> Path:
    """The folder of a policy on this machine; one on the hub is downloaded, or found in the cache."""
    folder = policy_folder(model.path) or Path(model.path).expanduser()
    return folder if folder.is_dir() else hub.download(model.path, model.revision)


def tensors(folder: Path) -> dict[str, Stored]:
    """The tensors of all *.safetensors of a folder by name."""
    found = {}
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as stream:
            size = struct.unpack("<Q", stream.read(8))[0]
            header = json.loads(stream.read(size))
        header.pop("__metadata__", None)
        for name, about in header.items():
            found[name] = Stored(file, 8 + size + about["data_offsets"][0], about["dtype"], tuple(about["shape"]))
    return found


def check_shapes(base: Path, mine: Mapping[str, Stored], trained: Path, theirs: Mapping[str, Stored]) -> None:
    """DiverError if a tensor of `trained` is not in `base`, or has another shape there."""
    for name, tensor in theirs.items():
        if name not in mine:
            raise DiverError(f"{base}: has no tensor {name}, which {trained} has; name the model that was trained")
        if mine[name].shape != tensor.shape:
            shapes = f"{list(mine[name].shape)} and {list(tensor.shape)}"
            raise DiverError(f"{base} and {trained}: {name} has the shapes {shapes}; name the model that was trained")


def _check_tokenizers(base: Path, trained: Path) -> None:
    first, second = (load_configuration(Model(path=str(p))).tokenizer.get_vocab() for p in (base, trained))
    if first != second:
        raise DiverError(f"{base} and {trained}: their tokenizers differ; name the model that was trained")


def _check_adapters(folder: Path) -> None:
    """DiverError for adapters whose effect is not linear in the B matrices alone."""
    config = read_json(folder / ADAPTERS)
    linear = config.get("bias", "none") == "none" and not config.get("use_dora") and not config.get("modules_to_save")
    if not linear or any(not any(part in name for part in ADAPTER_PARTS) for name in tensors(folder)):
        raise DiverError(
            f"{folder}: has more than LoRA's A and B matrices (DoRA, biases or whole modules); merge the adapters into "
            "the model (merge_and_unload), and blend that"
        )


def _blended(file: Path, base: Mapping[str, Stored], trained: Mapping[str, Stored], alpha: float) -> Iterator[bytes]:
    """The bytes of `file`, a file of `trained`, with other numbers: the same header, then slice after slice."""
    own = sorted((t.start, name) for name, t in trained.items() if t.file == file)
    with file.open("rb") as stream:
        yield stream.read(own[0][0] if own else -1)
    for _, name in own:
        stored = trained[name]
        total = math.prod(stored.shape)
        for first in range(0, total, SLICE):
            count = min(SLICE, total - first)
            there = _read(stored, first, count)
            if not there.is_floating_point():
                blended = there
            elif not base:  # adapters
                blended = there * alpha if "_B" in name else there
            else:
                here = _read(base[name], first, count).float()
                blended = torch.lerp(here, there.float(), alpha).to(there.dtype)
            yield blended.view(torch.uint8).numpy().tobytes()


def _read(tensor: Stored, first: int, count: int) -> torch.Tensor:
    """`count` numbers of a tensor from number `first` on. Read, not mapped: touched pages of a map count as memory."""
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None:
        raise DiverError(f"{tensor.file}: has weights in {tensor.dtype}, which cannot be blended; save them in BF16")
    with tensor.file.open("rb") as stream:
        stream.seek(tensor.start + first * dtype.itemsize)
        return torch.frombuffer(bytearray(stream.read(count * dtype.itemsize)), dtype=dtype)
