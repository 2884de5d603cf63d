"""Memory of a training step computed from shapes, to check what is measured.

Activations are what the modules state (`activation_bytes`, models/memory.py): None for bf16 and on CUDA, whose kernels save
other tensors, and where a module has no formula. Parameters that a text does not use, such as the segment vectors of relative
attention, count with gradient and moments too.
"""

from dataclasses import dataclass

from harness.config.choices import Device, Dtype
from harness.config.schema import HardwareConfig
from models.config import EncoderConfig
from models.heads import Classifier, SequenceClassifier, on_meta
from models.memory import FLOAT


@dataclass(frozen=True)
class Parts:
    """Bytes of a training step; activations are None where there is no formula."""

    weights: int
    gradients: int
    optimiser: int
    activations: int | None

    @property
    def total(self) -> int | None:
        """Sum of all four. A step never holds them at once: activations are freed while gradients are allocated."""
        return None if self.activations is None else self.lasting + self.gradients + self.activations

    @property
    def lasting(self) -> int:
        """What stays allocated from the second step on."""
        return self.weights + self.optimiser


@dataclass(frozen=True)
class Shape:
    """A model and the batch that goes through it."""

    config: EncoderConfig
    num_outputs: int
    batch_size: int
    length: int
    head: type[Classifier] = SequenceClassifier

    @property
    def tokens(self) -> int:
        """Tokens of the batch."""
        return self.batch_size * self.length


def parts(shape: Shape, hardware: HardwareConfig, checkpointing: bool) -> Parts:
    """By formula. AdamW keeps two float32 moments of each parameter, and a float32 step count of each tensor."""
    model = on_meta(shape.config, shape.num_outputs, shape.head)
    sizes = [parameter.numel() for parameter in model.parameters()]
    weights = FLOAT * sum(sizes)
    known = hardware.device is Device.cpu and hardware.dtype is Dtype.fp32
    activations = model.activation_bytes(shape.batch_size, shape.length, checkpointing) if known else None
    return Parts(weights, weights, 2 * weights + FLOAT * len(sizes), activations)
