"""The mask decoder of DeBERTa: the layers of transformers put together as the paper does, and what it costs each objective."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import DebertaV2Config, DebertaV2Model

from harness.measure import size
from harness.models.batch import Batch
from harness.models.config import Activation, EncoderConfig, NormPlace, Position
from harness.models.encoder import Encoder, initialise, set_activation_checkpointing
from harness.models.heads import MaskDecoder, MaskedLMHead
from harness.models.huggingface import config_of, family_of
from harness.models.objectives.base import Objective, Vocabulary
from harness.models.objectives.build import OBJECTIVES
from harness.models.objectives.causal import BidirectionalLM, CausalLM
from harness.models.objectives.config import ObjectiveConfig
from harness.models.objectives.distillation import Distillation, Teacher
from harness.models.objectives.masked_lm import MaskedLM, NextSentence, Probe, evaluate
from harness.models.objectives.replaced_tokens import ReplacedTokenDetection
from harness.plugins.export.publish import exported, published

V, T = 50, 20
VOCABULARY = Vocabulary(V, pad=0, cls=2, sep=3, mask=4, word_start=torch.ones(V, dtype=torch.bool))
SIZES = {"vocab_size": V, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
SIZES |= {"max_position_embeddings": 24, "type_vocab_size": 0, "position": Position.disentangled, "position_buckets": 8}
SIZES |= {"share_position_projections": True, "norm_relative_embeddings": True, "mask_decoder": True}
SIZES |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
SHAPE = EncoderConfig(**SIZES)
FIRST = replace(SHAPE, position_buckets=None, share_position_projections=False, key_bias=False)
MASKING = {"mlm": MaskedLM, "pairs": NextSentence, "rtd": ReplacedTokenDetection, "distillation": Distillation}
READING_ON = {"clm": CausalLM, "bidirectional_lm": BidirectionalLM}


def texts(rows: int = 4) -> Batch:
    generator = torch.Generator().manual_seed(2)
    return Batch(torch.randint(5, V, (rows, T), generator=generator), labels=torch.arange(rows) % 2)


def objective(kind: type[Objective], shape: EncoderConfig = SHAPE) -> Objective:
    encoder = Encoder(replace(shape, mask_decoder=False))
    head = MaskedLMHead(shape, encoder.embeddings.token_embedding)
    initialise(nn.ModuleList([encoder, head]), 0.3, 1)
    teacher = (Teacher(encoder, head),) if kind is Distillation else ()
    made = kind(ObjectiveConfig(), shape, VOCABULARY, *teacher)
    initialise(made, 0.3, 0)
    return made


def decoder_of(made: Objective) -> MaskDecoder:
    (decoder,) = (module for module in made.modules() if isinstance(module, MaskDecoder))
    return decoder


@pytest.mark.parametrize("changes", [{}, {"position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm"}])
def test_decoder_is_the_last_layer_of_transformers_run_again_with_positions(changes):
    """Keys and values are what the last layer reads; queries begin as these with absolute positions added."""
    torch.manual_seed(0)
    sizes = {key: getattr(SHAPE, key) for key in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")}
    relative = {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["c2p", "p2c"]}
    config = DebertaV2Config(**sizes, **relative, **changes, intermediate_size=48, max_position_embeddings=24)
    theirs = DebertaV2Model(config).eval()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.25)
    shape = config_of(theirs.config.to_dict())
    encoder, decoder = Encoder(shape).eval(), MaskDecoder(shape)
    tensors = family_of(theirs.config.to_dict()).tensors(theirs.state_dict(), shape)
    encoder.load_state_dict({name.removeprefix("encoder."): tensor for name, tensor in tensors.items()})
    mask = torch.arange(T) < torch.tensor([T, 13, 7, 1])[:, None]
    batch = Batch(texts().input_ids.masked_fill(~mask, 0), None, mask)

    states = theirs(batch.input_ids, attention_mask=mask.long(), output_hidden_states=True).hidden_states
    stack, keys = theirs.encoder, states[-2]
    query = keys + decoder.position_embedding.weight[:T]
    around = {"relative_pos": stack.get_rel_pos(keys), "rel_embeddings": stack.get_rel_embedding()}
    for _ in range(2):
        query, _ = stack.layer[-1](keys, stack.get_attention_mask(mask.long()), query_states=query, **around)
    head = MaskedLMHead(shape, encoder.embeddings.token_embedding, decoder)
    hidden, read = head.read(encoder, batch)
    torch.testing.assert_close(hidden[mask], states[-1][mask], rtol=0, atol=1e-5)
    torch.testing.assert_close(read[mask], query[mask], rtol=0, atol=1e-5)
    assert (read - hidden)[mask].abs().max() > 0.1


@pytest.mark.parametrize("kind", MASKING)
@pytest.mark.parametrize("shape", [SHAPE, FIRST, replace(SHAPE, norm_place=NormPlace.pre)], ids=["v3", "first", "pre-norm"])
def test_positions_reach_the_loss_and_every_weight_its_gradient(kind, shape):
    made = objective(MASKING[kind], shape)
    batch = made.make_batch(texts(), list(range(4)))
    torch.manual_seed(1)
    loss = made(batch)
    loss.backward()
    assert [name for name, parameter in made.named_parameters() if parameter.grad is None or not parameter.grad.any()] == []
    with torch.no_grad():
        decoder_of(made).position_embedding.weight.zero_()
    torch.manual_seed(1)
    assert abs(made(batch) - loss) > 1e-4


@pytest.mark.parametrize("kind", [name for name in MASKING if name != "rtd"])
def test_what_is_measured_is_what_is_trained(kind):
    made = objective(MASKING[kind])
    batch = made.make_batch(texts(), list(range(4)))
    summed, _, count = evaluate(made.encoder, made.masked_head, batch)
    _, read = made.masked_head.read(made.encoder, batch.inputs)
    logits = made.masked_head(read).gather(1, batch.positions[..., None].expand(-1, -1, V))
    assert summed / count == pytest.approx(nn.functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten()).item())


@pytest.mark.parametrize("kind", MASKING)
def test_its_table_alone_is_added_and_counts_as_a_head(kind):
    plain, with_decoder = (objective(MASKING[kind], replace(SHAPE, mask_decoder=wanted)) for wanted in (False, True))
    before, after = size.of_objective(plain), size.of_objective(with_decoder)
    table = decoder_of(with_decoder).position_embedding.weight
    assert after["model/params_head"] - before["model/params_head"] == table.numel()
    assert after["model/params_total"] - before["model/params_total"] == table.numel()
    assert after["model/params_encoder"] == before["model/params_encoder"]
    assert size.count(Encoder(SHAPE)) == size.count(Encoder(replace(SHAPE, mask_decoder=False)))


@pytest.mark.long
@pytest.mark.parametrize("kind", MASKING)
@pytest.mark.parametrize("shape", [SHAPE, FIRST], ids=["v3", "first"])
def test_formula_is_what_is_counted(kind, shape):
    made = objective(MASKING[kind], shape)
    batch = made.make_batch(texts(1), [0]).to("meta")
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        copy.deepcopy(made).to("meta").train()(batch)
    assert made.flops(T) == pytest.approx(counter.get_total_flops(), rel=1e-3)
    plain = objective(MASKING[kind], replace(shape, mask_decoder=False))
    encoder = made.generator if kind == "rtd" else made.encoder
    assert made.flops(T) - plain.flops(T) == decoder_of(made).flops(encoder, T) > 0


@pytest.mark.parametrize("kind", READING_ON)
def test_objectives_without_masks_and_probes_have_none(kind):
    made = objective(READING_ON[kind])
    probe = Probe(SHAPE, made.encoder, 0)
    assert not [module for module in (*made.modules(), *probe.modules()) if isinstance(module, MaskDecoder)]
    assert set(OBJECTIVES.values()) > {*MASKING.values(), *READING_ON.values()}


def test_activations_that_are_computed_again_give_the_same_gradients():
    gradients = []
    for again in (False, True):
        made = objective(MaskedLM)
        set_activation_checkpointing(made, again)
        made(made.make_batch(texts(), list(range(4)))).backward()
        gradients.append({name: parameter.grad for name, parameter in made.named_parameters()})
    assert all(torch.equal(gradient, gradients[1][name]) for name, gradient in gradients[0].items())


def test_positions_are_those_of_the_batch_and_end_with_the_table():
    encoder, decoder = Encoder(SHAPE), MaskDecoder(SHAPE)
    batch, keys = texts(), torch.randn(4, T, 32)
    given = replace(batch, position_ids=torch.arange(T).expand(4, T))
    torch.testing.assert_close(decoder(encoder, keys, batch), decoder(encoder, keys, given), rtol=0, atol=0)
    moved = replace(batch, position_ids=(torch.arange(T) + 1).expand(4, T))
    assert not torch.allclose(decoder(encoder, keys, batch), decoder(encoder, keys, moved), atol=1e-3)
    with pytest.raises(ValueError, match=r"25 tokens exceed model.max_position_embeddings=24"):
        decoder(encoder, torch.randn(1, 25, 32), Batch(torch.ones(1, 25, dtype=torch.int64)))


def test_head_that_reads_it_is_left_out_of_an_export():
    shape = replace(SHAPE, pooler=Activation.gelu)
    state = objective(MaskedLM, shape).state_dict()
    del state["masked_head.output.weight"]
    given = published(shape)
    assert given["model_type"] == "deberta-v2"
    head = {name for name in state if name.startswith("masked_head.")}
    tensors, homeless = exported(state, shape, given)
    assert set(homeless) == head
    assert "masked_head.decoder.position_embedding.weight" in head
    assert len(tensors) == len(state) - len(head)
