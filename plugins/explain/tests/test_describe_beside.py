"""`python -m harness describe model=base,gpt`: several variants beside each other. The whole command runs, in this process."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from variants import VARIANTS, variant

from harness.config.compose import outside_of_a_command
from harness.corpus import sequences
from harness.models.config import Body, EncoderConfig
from harness.plugins.explain import describe_beside
from harness.plugins.explain.describe_beside import Seen, draw_seen, pretraining, seen_by
from harness.plugins.shared import pretraining_heads as heads
from harness.study.plan import plan
from harness.terminal import duration
from harness.training.loop import Position
from harness.training.pretrain import build
from harness.training.pretrain_steps import steps_of

WORDS = ["The", "bank", "was", "robbed", "by", "night"]


def rows_of(out: str) -> dict[str, list[str]]:
    """Row -> its columns, of a table of one block."""
    lines = out.split("\n\n")[0].splitlines()[2:]
    return {name: columns for name, *columns in (re.split(r"\s{2,}", line.strip()) for line in lines)}


@pytest.mark.long
def test_commas_put_variants_beside_each_other(said):
    rows = rows_of(said("describe", "model=base,gpt,encoder_decoder", "scale=base", "to=.", "text=The bank was robbed"))
    assert rows["stack"] == ["encoder only", "decoder only", "encoder and decoder"]
    assert rows["attention"] == ["full", "causal", "full + causal + over the encoder"]
    assert rows["direction"] == ["both ways", "left to right", "both ways + left to right"]
    assert rows["pretrained by"] == ["mlm_nsp", "clm", "mlm"]
    assert rows["suited to"] == ["understanding", "generation", "one text into another"]
    assert rows["parameters"] == ["109,483,778", "116,536,320", "221,918,210"]
    assert rows["with pretraining heads"][0] == "110,106,428"
    drawn = Path("beside-base-gpt-encoder_decoder-architecture.svg").read_text()
    assert all(part in drawn for part in ("Causal self-attention", "Full self-attention", "Attention over the encoder"))
    assert Path("beside-base-gpt-encoder_decoder-seen.png").is_file()


@pytest.mark.long
def test_two_variants_have_factors(said, monkeypatch):
    monkeypatch.setattr(describe_beside, "_pictures", lambda *_: "")
    rows = rows_of(said("describe", "scale=mini_bert,larger_bert", "to=."))
    assert rows["vocabulary"] == ["8,192", "50,000", "6.1x"]
    assert rows["parameters"][2] == f"{30_046_082 / 2_957_954:.3g}x"


@pytest.mark.long
def test_vectors_of_texts_have_no_head_and_static_ones_no_flops(said):
    out = said("describe", "scale=tiny", "model=base,static", "task=similarity", "to=.")
    assert rows_of(out)["forward pass"] == ["117 MFLOP", "0 FLOP"]
    assert "mean of the real tokens" in Path("beside-base-static-architecture.svg").read_text()


@pytest.mark.long
def test_time_of_a_pretraining_is_that_of_its_counted_flops(said, monkeypatch):
    monkeypatch.setattr(describe_beside, "_pictures", lambda *_: "")
    budget = ["pretrain.steps=1000", "pretrain.batch_size=8", "pretrain.length=32"]
    arguments = ["scale=tiny", "model=base,albert", "pretrain=mlm", *budget, "flops_per_second=1e12", "to=."]
    rows = rows_of(said("describe", *arguments))
    for place, name in enumerate(("base", "albert")):
        config = outside_of_a_command([f"model={name}", "scale=tiny", "pretrain=mlm", "task=bag", *budget], None)
        expected = 3 * 1000 * 8 * heads.shapes(config.model, config.pretrain).flops(32)
        assert rows["takes"][place] == duration(expected / 1e12)
    by_tokens = [*arguments[:3], "pretrain.tokens=256000", "pretrain.length=32", *arguments[-2:]]
    assert rows_of(said("describe", *by_tokens))["takes"] == rows["takes"]


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        ["model=deberta", "pretrain=mlm", "pretrain.steps=5"],  # projects its distances once for all texts of a batch
        ["model=deberta_v3", "pretrain=rtd", "pretrain.tokens=800"],
        ["model=xlnet", "pretrain=plm", "pretrain.flops=1e8"],
        ["model=base", "pretrain=mlm", "pretrain.steps=9", "pretrain.ramp_from=1", "pretrain.ramp_fraction=0.6"],
    ],
)
def test_cost_of_a_pretraining_is_that_which_the_run_reaches(compose, output, arguments):
    text = ["corpus.documents=40", "tokenizer.vocab_size=300", "pretrain.length=16", "pretrain.batch_size=4"]
    (run,) = plan(compose("scale=tiny", "task=none", *text, *arguments, f"output={output}"))
    corpus = sequences.read(run.config.output, run.inputs.corpus)
    end = steps_of(run.config, corpus, build(run.config, corpus.vocabulary())).end(Position())
    assert pretraining(run.config) == (end.tokens, pytest.approx(end.flops, rel=1e-3))  # of xlnet targets of the first batch


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_sees_what_its_keys_say(name):
    model = variant(name)
    seen = seen_by(model, WORDS)
    assert bool(seen) == (model.body in (Body.transformer, Body.encoder_decoder))
    of_encoder = [each for each in seen if not each.title.startswith("decoder")]
    if model.causal:
        assert all(not np.triu(each.mask, 1).any() for each in of_encoder)
    elif model.attention_window is None:
        assert all(each.mask.all() for each in of_encoder)


def test_windows_of_some_layers_are_panels_of_their_own():
    model = EncoderConfig(num_hidden_layers=5, attention_window=2, global_layer_every=2)
    first, second = seen_by(model, WORDS)
    assert (first.title, second.title) == ("layers 1, 3, 5", "layers 2, 4")
    assert first.mask.all()
    places = np.arange(len(WORDS))
    assert np.array_equal(second.mask, abs(places[:, None] - places) <= 1)
    assert second.direction == "16 of 36 pairs"
    causal, _ = seen_by(replace(model, causal=True), WORDS)
    assert causal.direction == "left to right"


@pytest.mark.long
def test_no_word_leaves_the_picture_of_what_is_seen(style, boxes_inside):
    words = ["The", "incomprehensibilities", "boys", "were", "ready"]
    both = {"base": [Seen("layers 1-2", np.ones((5, 5), bool))]}
    left = {"transformer": [Seen("decoder layers 1-2, over the encoder", np.tri(5) > 0)]}
    boxes_inside(draw_seen(both | left, words))
