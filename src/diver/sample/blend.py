"""Weights between two policies: base + alpha (trained - base), written as a model folder (WiSE-FT, arXiv 2109.01903;
for reasoning models arXiv 2504.10478).

Weights between an untrained and a trained policy trade Pass@1 for Pass@k without training. Tensors are read and written
in slices, so a model that does not fit into memory can be blended.
"""

import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open

from diver.core.files import lock, make_folder, read_json, table, to_json, write_parts, write_text
from diver.core.seeds import fingerprint
from diver.core.types import DiverError
from diver.recipe.sections import Model
from diver.sample.policy import ADAPTERS, load_configuration
from diver.tasks import hub
from diver.tasks.testbeds import policy_folder

SLICE = 1 << 22  # numbers of a tensor in memory at a time: 16 MB in float32, of each policy and of the result
RECORD = "blend.json"
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
COPIED = (".json", ".model", ".jinja", ".txt")  # configuration, tokenizer and chat template
NOT_COPIED = {"method.json", "checksums.json", "trainer_state.json"}  # files of a checkpoint, not of the model
FACTOR_A, FACTOR_B = {"lora_A", "lora_embedding_A"}, {"lora_B", "lora_embedding_B"}  # in names of LoRA's matrices
PLAIN_STARTS = (True, False, "gaussian", "eva")  # values of init_lora_weights that do not change the base model


class Stored(NamedTuple):
    """Where a tensor is stored: its file, its first byte, its dtype as named by safetensors, and its shape."""

    file: Path
    start: int
    dtype: str
    shape: tuple[int, ...]


def blend(base: Path, trained: Path, alpha: float, out: Path) -> None:
    """Write the policy at `alpha` between `base` (0) and `trained` (1) to the new folder `out`, complete or not at all.

    Weights have the dtype and the files of `trained`, from which configuration and tokenizer are copied. Alpha 0 copies
    the model `base`, and 1 copies `trained`. LoRA adapters are scaled: B is multiplied by alpha, and so is the product
    of the two matrices. blend.json has the sources.

    Raises:
        DiverError: `out` exists, or the policies cannot be blended (`check`).
    """
    if out.exists():
        raise DiverError(f"{out}: exists; choose another --out, or delete it")
    check_blend(base, trained)
    adapters = (trained / ADAPTERS).is_file()
    source = base if alpha == 0 and not adapters else trained
    before, after = ({} if adapters else tensors(base)), tensors(trained)
    partial = out.with_name(f".{out.name}.partial")
    make_folder(partial)
    with lock(partial) as locked:
        for path in partial.iterdir():  # files of a blend that was killed
            if path != Path(locked.name):
                path.unlink()
        for path in source.iterdir():
            if path.suffix in COPIED and path.name not in NOT_COPIED:
                write_parts(partial / path.name, [path.read_bytes()])
        for file in weight_files(source):
            copied = alpha == 1 or source == base
            write_parts(partial / file.name, _bytes(file) if copied else _blended(file, before, after, alpha))
        sources = {name: f"{p.resolve()}@{fingerprint(p)}" for name, p in (("base", base), ("trained", trained))}
        write_text(partial / RECORD, to_json({"alpha": alpha, **sources}, indent=1) + "\n")
        Path(locked.name).unlink()
        partial.rename(out)


def check_blend(base: Path, trained: Path) -> None:
    """Refuse two policies that cannot be blended.

    Raises:
        DiverError: Their tensors, shapes or tokenizers differ, weights are in packed formats, or adapters cannot be
            scaled.
    """
    if (trained / ADAPTERS).is_file():
        _check_adapters(base, trained)
        return
    base_tensors, hint = tensors(base), "name the model that was trained"
    for name, stored in tensors(trained).items():
        if name not in base_tensors:
            raise DiverError(f"{base}: has no tensor {name}, which {trained} has; {hint}")
        if base_tensors[name].shape != stored.shape or not {base_tensors[name].dtype, stored.dtype} <= DTYPES.keys():
            kinds = " and ".join(f"{list(tensor.shape)} in {tensor.dtype}" for tensor in (base_tensors[name], stored))
            raise DiverError(f"{base} and {trained}: {name} is {kinds}, not one shape in F32, F16 or BF16; {hint}")
    before, after = (load_configuration(Model(path=str(p))).tokenizer.get_vocab() for p in (base, trained))
    if before != after:
        raise DiverError(f"{base} and {trained}: their tokenizers differ; {hint}")


def _check_adapters(base: Path, folder: Path) -> None:
    """DiverError for adapters of another base model, or whose effect is not linear in the B matrices alone."""
    config = read_json(folder / ADAPTERS)
    plain = config.get("init_lora_weights", True) in PLAIN_STARTS
    if not plain or any((FACTOR_A | FACTOR_B).isdisjoint(name.split(".")) for name in tensors(folder)):
        more = "more than LoRA's A and B matrices (DoRA, biases, modules, PiSSA)"
        raise DiverError(f"{folder}: has {more}; merge the adapters into the model (merge_and_unload), and blend that")
    named_base = Path(config.get("base_model_name_or_path") or base)
    if (base / ADAPTERS).is_file() or (named_base.is_dir() and fingerprint(named_base) != fingerprint(base)):
        raise DiverError(f"{folder}: has adapters of {named_base}, not of {base}; name the model that was trained")


def model_folder(model: Model) -> Path:
    """The folder of a policy on this machine. A policy on the hub is downloaded, or taken from the cache."""
    folder = policy_folder(model.path) or Path(model.path).expanduser()
    return folder if folder.is_dir() else hub.download(model.path, model.revision)


def weight_files(folder: Path) -> list[Path]:
    """The weight files that transformers loads from a folder, which may contain others.

    Raises:
        DiverError: The folder has no weight file, or lacks one that its index names.
    """
    single = folder / ("adapter_model.safetensors" if (folder / ADAPTERS).is_file() else "model.safetensors")
    index = folder / "model.safetensors.index.json"
    if single.is_file() or not index.is_file():
        files = [single]
    else:
        files = sorted({folder / name for name in table(read_json(index), "weight_map").values()})
    if missing := [file.name for file in files if not file.is_file()]:
        raise DiverError(f"{folder}: has no {missing[0]}; model.save_pretrained(FOLDER) writes it")
    return files


def tensors(folder: Path) -> dict[str, Stored]:
    """The tensors of the weights of a folder by name. DiverError if a file is damaged."""
    by_name = {}
    for file in weight_files(folder):
        try:
            with safe_open(file, "np"):  # checks the header, and the size of the file
                pass
        except SafetensorError as error:
            raise DiverError(f"{file}: is damaged ({hub.one_line(error)}); copy it again") from None
        with file.open("rb") as stream:
            size = struct.unpack("<Q", stream.read(8))[0]
            header = json.loads(stream.read(size))
        header.pop("__metadata__", None)  # the only entry that is no tensor
        for name, entry in header.items():
            by_name[name] = Stored(file, 8 + size + entry["data_offsets"][0], entry["dtype"], tuple(entry["shape"]))
    return by_name


def _bytes(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        yield from iter(lambda: stream.read(SLICE), b"")


def _blended(file: Path, base: Mapping[str, Stored], trained: Mapping[str, Stored], alpha: float) -> Iterator[bytes]:
    """The bytes of `file`, a file of `trained`, with blended numbers: the same header, then slice after slice."""
    in_file = sorted((stored.start, name) for name, stored in trained.items() if stored.file == file)
    with file.open("rb") as stream:
        yield stream.read(in_file[0][0] if in_file else -1)
    for _, name in in_file:
        stored = trained[name]
        total = math.prod(stored.shape)
        for first in range(0, total, SLICE):
            count = min(SLICE, total - first)
            trained_slice = _read(stored, first, count)
            if not base:
                blended = trained_slice if FACTOR_B.isdisjoint(name.split(".")) else trained_slice * alpha
            else:
                exact = torch.promote_types(trained_slice.dtype, torch.float32)
                base_slice = _read(base[name], first, count).to(exact)
                blended = torch.lerp(base_slice, trained_slice.to(exact), alpha).to(trained_slice.dtype)
            yield blended.view(torch.uint8).numpy().tobytes()


def _read(tensor: Stored, first: int, count: int) -> torch.Tensor:
    """Read `count` numbers of a tensor from number `first` on. It is not mapped: touched pages count as memory."""
    dtype = DTYPES[tensor.dtype]
    with tensor.file.open("rb") as stream:
        stream.seek(tensor.start + first * dtype.itemsize)
        return torch.frombuffer(bytearray(stream.read(count * dtype.itemsize)), dtype=dtype)
