"""Every variant by the objective of its paper: what the worker of a pretraining does before and in its first step."""

from dataclasses import replace

import pytest
import torch
from omegaconf import OmegaConf
from variant_files import variant
from variants import VARIANTS

from harness.measure import flops, size
from harness.models.batch import Batch
from harness.models.config import Body
from harness.models.encoder import Encoder
from harness.models.heads import MaskedLMHead
from harness.models.objectives.base import Vocabulary
from harness.models.objectives.build import OBJECTIVES, build, refuse_misfit
from harness.models.objectives.config import ObjectiveName
from harness.models.objectives.distillation import Teacher
from harness.paths import conf_directory

CONF = conf_directory() / "model"
V, T, B = 60, 40, 3
SENTINELS = (59, 58, 57)  # two spans of forty tokens, and the final one
VOCABULARY = Vocabulary(V, pad=0, cls=2, sep=3, mask=4, word_start=torch.ones(V, dtype=torch.bool), sentinels=SENTINELS)
UNREACHED = {
    "xlnet": {"segment_"},  # one segment alone
    "longformer": {"global_query_key_value"},  # of the last layer, whose first token is never predicted
}


def shape_of(compose, model: str, objective: str):
    """The settings of the objective, which depend on the model where it is the model's own, and a small shape of the model."""
    if objective == "own":
        objective = OmegaConf.load(CONF / f"{model}.yaml").get("objective", "mlm_nsp")
    teacher = ["pretrain.teacher=somewhere"] if objective == "distillation" else []
    (composed,) = compose(f"pretrain={objective}", "scale=tiny", "task=bag", *teacher)
    shape = variant(model, hidden_size=48, num_attention_heads=4, intermediate_size=64, vocab_size=V, pad_token_id=0)
    return composed.pretrain, replace(shape, max_position_embeddings=64 + shape.position_offset)


def batch_of(objective, name: ObjectiveName):
    ids = torch.randint(5, V, (B, T), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, 17], ids[:, -1] = 2, 3, 3
    pairs = OBJECTIVES[name].segment_pairs is not None
    types = (torch.arange(T) > 17).long().repeat(B, 1) if pairs else None
    return objective.make_batch(Batch(ids, types, labels=torch.arange(B) % 2 if pairs else None), list(range(B)))


def built(options, shape):
    teacher = None
    if options.objective is ObjectiveName.distillation:
        encoder = Encoder(shape)
        teacher = Teacher(encoder, MaskedLMHead(shape, encoder.embeddings.token_embedding))
    return build(options, shape, VOCABULARY, 0, teacher)


@pytest.mark.long
@pytest.mark.parametrize("model", VARIANTS)
def test_every_variant_takes_a_step_by_its_own_objective(compose, model):
    options, shape = shape_of(compose, model, "own")
    objective = built(options, shape).train()
    data = batch_of(objective, options.objective)
    assert flops.of_objective(objective, data, T) > 0
    assert size.of_objective(objective)["model/params_total"] == sum(p.numel() for p in objective.parameters())
    torch.manual_seed(0)
    loss = objective(data)
    loss.backward()
    assert torch.isfinite(loss)
    unreached = {name for name, p in objective.named_parameters() if p.grad is None or not p.grad.any()}
    assert all(any(part in name for part in UNREACHED.get(model, ())) for name in unreached), unreached
    assert all(torch.isfinite(p.grad).all() for p in objective.parameters() if p.grad is not None)


@pytest.mark.parametrize("model", VARIANTS)
def test_in_half_precision_every_variant_learns_almost_as_in_single_precision(compose, model):
    """Loss and gradients of its own objective, without dropout; on any processor, with bfloat16 instructions or not."""
    options, shape = shape_of(compose, model, "own")
    objective = built(options, shape).eval()
    data, found = batch_of(objective, options.objective), []
    for half in (False, True):
        objective.zero_grad()
        torch.manual_seed(0)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            loss = objective(data)
        loss.backward()
        found.append((loss.item(), torch.cat([p.grad.flatten() for p in objective.parameters() if p.grad is not None])))
    (loss, gradient), (half_loss, half_gradient) = found
    assert half_loss == pytest.approx(loss, rel=1e-2)
    assert (half_gradient - gradient).norm() <= 0.1 * gradient.norm()


def test_who_has_no_layers_or_two_directions_has_objectives_of_its_own(compose):
    for model, objective in (("static", "cbow"), ("bilstm", "bidirectional_lm")):
        options, shape = shape_of(compose, model, "own")
        assert options.objective.value == objective
        assert shape.body in (Body.static, Body.lstm)
    options, _ = shape_of(compose, "base", "cbow")
    with pytest.raises(ValueError, match=r"cannot be combined with model\.body=transformer"):
        refuse_misfit(options, shape_of(compose, "base", "cbow")[1])
