"""What readings measure, against the project's own published counts and against hand computation."""

import pytest

from harness.errors import InputError
from harness.plugins.audit import claims
from harness.plugins.audit.measures import Instruments, measure

TINY = "model=base scale=tiny"


@pytest.fixture(scope="module")
def tools() -> Instruments:
    return Instruments(timed=True)


def values(reading: claims.Reading, tools: Instruments) -> list:
    return [point.value for point in measure(reading, tools).points]


@pytest.mark.long
def test_parts_of_a_model_are_those_of_its_shapes(tools):
    def count(*parts: str, of: str = "model=base scale=larger_bert pretrain=mlm", **more) -> float:
        return values(claims.Parameters(of=of, parts=list(parts), **more), tools)[0]

    attention, feed_forward = 4 * (384 * 384 + 384), 2 * 384 * 1536 + 1536 + 384
    assert count("layer_attention") == attention
    assert count("layer_feed_forward") == feed_forward
    assert count("layer") == attention + feed_forward + 4 * 384
    assert count("layers") == 6 * count("layer")
    assert count("masked_lm_output") == 50_000 * 384
    assert count("masked_lm_output", of="model=base scale=mini_bert") == 0  # tied
    assert count("pretraining") == count("encoder") + 50_000 * 385 + 384 * 385 + 2 * 384
    assert count("encoder", "pooler") == count("encoder_and_pooler")
    assert count("encoder", bytes_each=4) == 4 * count("encoder")
    apart = claims.Parameters(of=TINY, parts=["pooler", "head"], apart=True)
    assert [(one.value, one.where) for one in measure(apart, tools).points] == [
        (128 * 129, {"part": "pooler"}),
        (2 * 129, {"part": "head"}),
    ]
    assert count("layers", of="model=shared scale=base", against="model=base scale=base") == pytest.approx(1 / 12 - 1)
    with pytest.raises(InputError, match="did you mean 'encoder'"):
        count("encodr")


@pytest.mark.long
def test_flops_of_parts_are_the_products_of_their_shapes(tools):
    def flops(part: str, of: str = TINY, length: int = 32, **more) -> float:
        return values(claims.Flops(of=of, part=claims.ModelPart[part], lengths=[length], **more), tools)[0]

    products = 2 * 2 * (2 * 32 * 32 * 128)  # two layers, queries with keys and with values
    assert flops("attention_products") == products
    assert flops("attention") == products + 2 * 2 * 32 * 4 * 128 * 128
    assert flops("attention_products", training=True) == 3 * products
    assert flops("model") > flops("attention")
    assert flops("visible_pairs") == 2 * 32 * 32
    assert flops("visible_pairs", of="model=gpt scale=tiny") == 32 * 33
    windowed = sum(min(place, 4) + min(31 - place, 4) + 1 for place in range(32))
    assert flops("visible_pairs", of="model=windowed scale=tiny") == 2 * windowed
    for model in ("bilstm", "encoder_decoder", "longformer", "transformer_xl"):
        with pytest.raises(InputError, match="part: visible_pairs counts layers of attention without global tokens"):
            flops("visible_pairs", of=f"model={model} scale=tiny")
    half = {"of": "model=distilbert scale=tiny", "against": TINY}
    assert flops("attention", **half) == pytest.approx(-0.5)
    assert flops("attention", rate=True, **half) == pytest.approx(1.0)


@pytest.mark.long
def test_training_memory_has_four_parts(tools):
    reading = claims.TrainingMemory(of=TINY, lengths=[16], batch_sizes=[2, 8])
    small, large = measure(reading, tools).points
    parameters = values(claims.Parameters(of=TINY), tools)[0]
    assert small.value > 16 * parameters
    assert 3.9 < (large.value - 16 * parameters) / (small.value - 16 * parameters) < 4.1
    assert large.where == {"length": 16, "batch": 8}
    activations = claims.TrainingMemory(of=TINY, part=claims.MemoryPart.activations, lengths=[16], batch_sizes=[2])
    assert values(activations, tools) == [pytest.approx(small.value - 16 * parameters, rel=1e-3)]


@pytest.mark.long
def test_outputs_and_functions_have_their_values(tools):
    assert values(claims.OutputBytes(of=TINY, lengths=[3, 5]), tools) == [3 * 128 * 4, 5 * 128 * 4]
    (gap,) = values(claims.ActivationDifference(of="gelu", against="gelu_tanh"), tools)
    assert gap == pytest.approx(4.73e-4, rel=1e-2)
    with pytest.raises(InputError, match="expected one of gelu"):
        values(claims.ActivationDifference(of="gellu", against="relu"), tools)


def test_keys_and_what_follows_from_them_are_read(tools):
    assert values(claims.Config(of="model=roberta scale=base", keys=["longest_text"]), tools) == [512]
    several = measure(claims.Config(of=TINY, keys=["depth", "body"]), tools).points
    assert [(one.value, one.where) for one in several] == [(2, {"key": "depth"}), ("transformer", {"key": "body"})]
    with pytest.raises(InputError, match="keys: expected keys of the model"):
        values(claims.Config(of=TINY, keys=["longest"]), tools)


@pytest.mark.long
def test_each_stack_reads_to_the_sides_that_its_gradients_say(tools):
    def sides(model: str) -> dict:
        points = measure(claims.Directions(of=f"model={model} scale=tiny"), tools).points
        return {one.where.get("stack", "encoder"): one.value for one in points}

    assert sides("t5_full") == {"encoder": "bidirectional", "decoder": "causal"}
    assert sides("encoder_decoder") == {"encoder": "bidirectional", "decoder": "causal"}
    assert [sides(model)["encoder"] for model in ("base", "t5", "gpt", "bilstm", "static")] == [
        *("bidirectional", "bidirectional", "causal", "bidirectional", "none")
    ]


def test_ids_are_at_least_words_and_two(tools, tmp_path):
    assert values(claims.Ids(texts=["The bank was robbed"]), tools) == [6]
    without = measure(claims.Encoded(texts=["The bank"]), tools)
    assert without.points == ()
    assert "vocab_file=FILE" in without.missing
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "ba", "##nk"]))
    known = Instruments(vocab_file=str(path))
    assert values(claims.Encoded(texts=["The bank"]), known) == ["2 5 6 7 3"]
    pieces = measure(claims.Encoded(texts=["The bank", "the"], pieces=True), known).points
    assert [(one.value, one.where) for one in pieces] == [("the ba ##nk", {"text": "The bank"}), ("the", {"text": "the"})]


def test_what_a_paper_states_is_its_own_figure(tools):
    found = measure(claims.Published(stated="arXiv:0", values={"validation": 96.4, "test": 92.4}, by="split", unit="%"), tools)
    assert [(one.value, one.where) for one in found.points] == [(96.4, {"split": "validation"}), (92.4, {"split": "test"})]
    assert (found.origin, found.unit) == ("stated in arXiv:0", "%")
    assert values(claims.Published(stated="arXiv:0", values={"x": "none"}), tools) == ["none"]
    assert values(claims.Published(stated="arXiv:0", values={"x": 5}, against={"x": 3}), tools) == [2]
    assert values(claims.Published(stated="arXiv:0", values={"x": 410}, against={"x": 668}, rate=True), tools) == [
        pytest.approx(668 / 410 - 1)
    ]


@pytest.mark.long
def test_days_of_pretraining_are_flops_over_rate(tools):
    def days(**more) -> list[float]:
        return values(claims.PretrainingDays(of=f"{TINY} pretrain=mlm", tokens=1e9, **more), tools)

    one, other = days(flops_per_s=[1e9, 2e9])
    assert one == 2 * other
    assert days(flops_per_s=[1e9], devices=4) == [one / 4]
    assert days(flops_per_s=[1e9], shares={128: 0.5, 512: 0.5})[0] > one
    steps = {"steps": 1e9 / 256 / 166.4, "batch_size": 256, "shares": {128: 0.9, 512: 0.1}}  # 166.4 tokens on average
    assert days(flops_per_s=[1e9], **steps) == days(flops_per_s=[1e9], shares=steps["shares"])
    (here,) = days()
    assert 0 < here < 1000


@pytest.mark.long
def test_a_speed_is_timed_on_request_alone(tools):
    shallow = claims.Speed(of=f"{TINY} model.num_hidden_layers=1", against=f"{TINY} model.num_hidden_layers=6", lengths=[64])
    untimed = Instruments()
    assert "--measure" in measure(shallow, untimed).missing
    (point,) = measure(shallow, tools).points
    assert -1 < point.low <= point.value <= point.high
    assert point.value < -0.5
    with pytest.raises(InputError, match=r"attention of a model with model\.body=transformer"):
        measure(claims.Speed(of="model=bilstm scale=tiny", against=TINY, part=claims.ModelPart.attention), tools)


@pytest.mark.long
def test_equal_models_are_within_the_noise(tools):
    for more in ({"part": claims.ModelPart.attention, "training": True}, {"rate": True}):
        (point,) = measure(claims.Speed(of=TINY, against=TINY, lengths=[64], **more), tools).points
        assert point.low <= 0 <= point.high or abs(point.value) < 0.3


@pytest.mark.long
def test_stated_lengths_take_the_place_of_the_usual_one(tools):
    """They were added to it: twice as many tokens as stated."""
    (claim,) = claims.read_all(["roberta-days"], None)
    reading = claim.readings["at so many FLOP/s each"]
    assert reading.shares == {512: 1.0}
    assert reading.sequences() == 500e3 * 8192


@pytest.mark.long
def test_bert_was_trained_on_the_tokens_of_its_steps(tools):
    """1,000,000 steps of 256 texts, nine tenths of them of 128 tokens: not 132e9 tokens, which are those of 512 alone."""
    (claim,) = claims.read_all(["bert-base-4-days"], None)
    measured = measure(claim.readings["at so many FLOP/s each"], tools)
    assert "4.26e+10 tokens" in measured.note
    days = {point.where["TFLOP/s of a device"]: point.value for point in measured.points}
    assert (days[10], days[20]) == (pytest.approx(1.8, abs=0.05), pytest.approx(0.9, abs=0.02))
