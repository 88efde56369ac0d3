"""`diver blend`."""

from collections.abc import Sequence
from pathlib import Path

from diver.core.settings import Positional, ZeroToOne, settings
from diver.core.types import DiverError
from diver.recipe.flags import parse


@settings
class BlendArguments:
    """Write the model between an untrained and a trained one: weights base + alpha (trained - base).

        diver blend runs/quickstart --alpha 0.5 --out models/quickstart-half

    The folder is a model in Hugging Face layout. LoRA adapters are scaled. `diver eval RUN --alphas
    0,0.25,0.5,0.75,1` shows what each alpha gains and costs.
    """

    run: Positional[Path | None] = None
    """A run folder, or a checkpoint folder in it. Without a run, name two models."""
    alpha: ZeroToOne = 0.5
    """0 is the base model, 1 the trained one."""
    out: Path | None = None
    """Folder of the model."""
    model: str = ""
    """The trained model, a folder in Hugging Face layout."""
    base: str = ""
    """The base model: folder, or id on the hub."""

    def __post_init__(self) -> None:
        if self.out is None:
            raise DiverError("--out: name the folder of the model")
        if bool(self.run) == bool(self.model or self.base) or bool(self.model) != bool(self.base):
            raise DiverError("name a run, or --base and --model")


def command(args: Sequence[str]) -> None:
    """Write the model between an untrained and a trained one."""
    from diver.evaluate.of_run import trained_model
    from diver.recipe.sections import Model
    from diver.sample.blend import blend, model_folder

    arguments = parse(BlendArguments, "diver blend", args)
    ends = trained_model(arguments.run) if arguments.run else (Model(path=arguments.base), Model(path=arguments.model))
    out = arguments.out or Path()
    blend(model_folder(ends[0]), model_folder(ends[1]), arguments.alpha, out)
    print(f"{out}: {ends[0].path} + {arguments.alpha:g} ({ends[1].path} - {ends[0].path})")
