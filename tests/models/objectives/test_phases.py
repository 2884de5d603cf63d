"""Several objectives train one encoder one after the other. B sequences, T tokens, V vocabulary."""

from dataclasses import replace

import pytest
import torch

from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.objectives.base import PretrainBatch, Vocabulary
from harness.models.objectives.build import Phases, build
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName

V, T = 40, 12
VOCABULARY = Vocabulary(V, pad=0, cls=2, sep=3, mask=4, word_start=torch.ones(V, dtype=torch.bool))
SIZES = {"vocab_size": V, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
SIZES |= {"max_position_embeddings": 32, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
SHAPE = EncoderConfig(**SIZES)
IDS = torch.randint(5, V, (2, T), generator=torch.Generator().manual_seed(0))


def built(*names: str, shape: EncoderConfig = SHAPE) -> Phases:
    phases = [ObjectiveName(name) for name in names]
    return build(ObjectiveConfig(phases[-1], phases=phases), shape, VOCABULARY, seed=3)


def test_causal_phase_ignores_the_future_and_the_masked_one_after_it_reads_it():
    model = built("clm", "mlm").eval()
    early = torch.tensor([[1, 2, 3]] * 2)
    changed = IDS.index_fill(1, torch.tensor([7]), 5)
    for phase, sees in enumerate((False, True)):
        batches = [
            PretrainBatch(Batch(ids), early, IDS.gather(1, early + 1), total_predictions=6, total_sequences=2, phase=phase)
            for ids in (IDS, changed)
        ]
        assert all(batch.micro_batch(slice(0, 1)).to("cpu").phase == phase for batch in batches)
        before, after = (model(batch) for batch in batches)
        assert (before != after) == sees


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    "names", [("clm", "mlm"), ("plm", "clm", "mlm_nsp"), ("rtd", "mlm"), ("clm", "rtd"), ("mlm", "clm", "mlm")], ids="-".join
)
def test_phases_train_one_encoder_and_one_head(names, tied):
    model = built(*names, shape=replace(SHAPE, tie_masked_lm_head=tied))
    encoders = [set(phase.encoder.parameters()) for phase in model.phases]
    assert all(one == set(model.encoder.parameters()) for one in encoders)
    for phase in model.phases:
        heads = {name: getattr(phase, name, None) for name in ("lm_head", "masked_head", "generator_head")}
        for name, head in heads.items():
            if head is not None:
                assert (head.output.weight is model.encoder.embeddings.token_embedding.weight) == (tied or name[0] == "g")
    full = {phase.masked_head or getattr(phase, "lm_head", None) for phase in model.phases} - {None}
    for part in ("dense", "norm", "output"):
        assert len({id(getattr(head, part)) for head in full}) == 1
    for number, phase in enumerate(model.phases):
        batch = replace(phase.make_batch(Batch(IDS, labels=torch.tensor([0, 1])), [0, 1]), phase=number)
        model.zero_grad()
        model(batch).backward()
        reached = {parameter for parameter in model.parameters() if parameter.grad is not None}
        assert reached == {parameter for parameter in phase.parameters() if parameter.grad is not None}
        assert set(model.encoder.layers.parameters()) <= reached


def test_phases_begin_with_the_values_of_the_first_one_alone():
    alone = build(ObjectiveConfig(ObjectiveName.clm), SHAPE, VOCABULARY, seed=3).state_dict()
    first = built("clm", "mlm").phases[0].state_dict()
    assert first.keys() == alone.keys()
    assert all(torch.equal(first[name], alone[name]) for name in alone)


def test_a_body_that_one_phase_cannot_train_is_refused():
    with pytest.raises(ValueError, match=r"pretrain\.objective=plm cannot be combined with model.causal=true"):
        built("mlm", "plm", shape=replace(SHAPE, causal=True))
