"""The norms of a model, over the last dimension."""

from torch import Tensor, nn

from harness.models.config import EncoderConfig, Norm


class RMSNorm(nn.RMSNorm):
    """In the arithmetic of its weight: autocast sees to that for a layer norm, but does not know this one."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        return super().forward(x.to(self.weight.dtype))


def make_norm(config: EncoderConfig, size: int) -> nn.Module:
    """The configured norm over the last dimension."""
    if config.norm is Norm.rms:
        return RMSNorm(size, eps=config.layer_norm_eps)
    return nn.LayerNorm(size, eps=config.layer_norm_eps, bias=config.norm_bias)
