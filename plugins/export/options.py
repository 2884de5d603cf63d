"""The keys and words of `export` and `submission`."""

from dataclasses import dataclass
from pathlib import Path

from harness.errors import InputError
from harness.grammar import key, word
from harness.plugins.shared.options import RUN, Store

EXPORTS = ("transformers", "onnx")


@dataclass(frozen=True, kw_only=True)
class Export(Store):
    """Writes a model that was trained here as a checkpoint of transformers or an ONNX file, or into MLflow's model registry."""

    run: str = word("RUN", meaning=RUN)
    to: Path | None = key(None, "new folder (RUN/export, or RUN/onnx)")
    format: str = key("transformers", "transformers or onnx (the extra [serve])", choices=EXPORTS)
    family: str | None = key(None, "model_type to write (the first that expresses the model)")
    license: str = key("unknown", "licence of the weights in the model card, as the hub names it")
    register: str | None = key(None, "name in the model registry of MLflow, to which a version is added instead of a folder")

    def __post_init__(self) -> None:
        """InputError also for a folder or format with a name in the registry."""
        super().__post_init__()
        for name in ("to", "format", "family") if self.register is not None else ():
            if (value := getattr(self, name)) != Export.__dataclass_fields__[name].default:
                raise InputError(f"{name}={value} is of a folder: leave it out, or register={self.register}")


@dataclass(frozen=True, kw_only=True)
class Submission:
    """Packs the answers that runs with finetune.submit=true left for GLUE's page."""

    folders: tuple[Path, ...] = word("RUN...", meaning="folders of runs with finetune.submit=true")
    to: Path = key(Path("submission.zip"), "archive to write")
