"""The keys and words of `export` and `submission`."""

from pathlib import Path

from harness.errors import InputError
from harness.grammar import arguments, key, word
from harness.plugins.shared.options import RUN, Store

EXPORTS = ("transformers", "onnx")


@arguments
class Export(Store):
    """Writes a model that was trained here as a checkpoint of transformers or an ONNX file, or into MLflow's model registry."""

    run: str = word("RUN", meaning=f"{RUN.capitalize()}.")
    to: Path | None = key(None, "New folder. Default: RUN/export or RUN/onnx.")
    format: str = key("transformers", "Format: transformers, or onnx (needs the extra [serve]).", choices=EXPORTS)
    family: str | None = key(None, "model_type to write. Default: the first that can express the model.")
    license: str = key("unknown", "License of the weights in the model card, as named by the hub.")
    register: str | None = key(None, "Name in MLflow's model registry; adds a version there instead of a folder.")

    def __post_init__(self) -> None:
        """InputError also for a folder or format with a name in the registry."""
        super().__post_init__()
        for name in ("to", "format", "family") if self.register is not None else ():
            if (value := getattr(self, name)) != Export.__dataclass_fields__[name].default:
                raise InputError(f"{name}={value} applies to a folder: leave it out, or register={self.register}")


@arguments
class Submission:
    """Packs the test predictions of runs with finetune.submit=true for the GLUE leaderboard."""

    folders: tuple[Path, ...] = word("RUN...", meaning="Folders of runs with finetune.submit=true.")
    to: Path = key(Path("submission.zip"), "Zip file to write.")
