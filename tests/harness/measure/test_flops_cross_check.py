"""FLOPs of BERT-base against a counter with nothing in common with ours: the one in torch's profiler.

Ours decomposes the model on the meta device and sums the products of matrices; the profiler records the operators of a real
forward pass and takes FLOPs from their recorded shapes. Both count a multiply-add as 2, as others count it as 1. The profiler
adds one FLOP for each element of a sum or an elementwise product, and nothing for softmax, GELU and layer norm; ours leaves
all of those out, as less than a thousandth of the whole. Attention's products are in both.
"""

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile
from transformers import BertConfig, BertModel

from harness.measure import flops
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.heads import SequenceClassifier

pytestmark = pytest.mark.long

PRODUCTS = ("aten::addmm", "aten::mm", "aten::bmm", "aten::baddbmm")
LENGTHS = (128, 512)
OUTPUTS = 2
HEAD = 2 * 768 * OUTPUTS


def profiled(model: nn.Module, *given: object) -> tuple[int, int]:
    """FLOPs of the products, and of everything that the profiler counts."""
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), profile(activities=[ProfilerActivity.CPU], with_flops=True) as recorded:
        model(*given)
    events = [event for event in recorded.events() if event.flops]
    return sum(event.flops for event in events if event.name in PRODUCTS), sum(event.flops for event in events)


@pytest.fixture(scope="module")
def published() -> nn.Module:
    return BertModel(BertConfig()).eval()


@pytest.fixture(scope="module")
def own() -> nn.Module:
    return SequenceClassifier(EncoderConfig(), OUTPUTS).eval()


@pytest.mark.parametrize("length", LENGTHS)
def test_products_of_the_published_model_are_ours_but_for_the_head(published, length):
    ids = torch.zeros(1, length, dtype=torch.int64)
    products, everything = profiled(published, ids, torch.ones_like(ids))
    ours = flops.counted(flops.Shape(EncoderConfig(), OUTPUTS, 1, length), backward=False)
    assert products == ours - HEAD
    assert products < everything < 1.001 * products


@pytest.mark.parametrize("length", LENGTHS)
def test_products_of_our_own_model_are_what_we_count(own, length):
    products, _ = profiled(own, Batch(torch.zeros(1, length, dtype=torch.int64)))
    assert products == flops.counted(flops.Shape(EncoderConfig(), OUTPUTS, 1, length), backward=False)
