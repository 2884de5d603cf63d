"""What became of the weights that a training starts from."""

from collections.abc import Mapping

from torch import nn

from harness import records
from harness.checkpoints import huggingface
from harness.config.schema import RunConfig
from harness.measure import size
from harness.models.derive import Origin
from harness.tracking.run_log import RunLog


def write_origins(config: RunConfig, model: nn.Module, origins: Mapping[str, Origin], run_log: RunLog | None) -> None:
    """Prints where the tensors of a model come from; the first rank also records metrics and `weights.json`."""
    if config.model.init_from is not None:
        what = "shape and tokenizer" if config.model.random_weights else "weights"
        print(f"{what}: read from {huggingface.folder_of(config.model.init_from)}")
    groups = size.by_origin(model, origins)
    for part, group, _ in groups:
        error = "" if group.origin.error is None else f", relative error up to {group.origin.error:.3g}"
        print(f"weights: {part}, {len(group.names)} tensors {group.text}{error}", flush=True)
    if run_log is None:
        return
    run_log.values(size.of_weights(model, origins))
    rows = [
        {"component": part, **group.origin._asdict(), "parameters": numbers, "tensors": list(group.names)}
        for part, group, numbers in groups
    ]
    records.write(run_log.folder / "weights.json", rows)
