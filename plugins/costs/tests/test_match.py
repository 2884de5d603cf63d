"""Variants resized to the cost of the baseline: every variant of conf/, and what cannot be matched."""

import math
from dataclasses import replace

import pytest
from variant_files import variant

from harness.config.choices import MatchBy, MatchOn
from harness.config.resolve import Found, resolve, with_vocabulary
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.measure import flops, size, subject
from harness.models.heads import build_classifier, on_meta
from harness.paths import conf_directory
from harness.plugins.costs import match
from harness.study import plan

MODELS = sorted(path.stem for path in conf_directory().glob("model/*.yaml"))
COMMAND = ("match=params", "scale=tiny", "task=bag")


@pytest.fixture
def runs(compose) -> list[RunConfig]:
    """A run of every variant, as the command composes it; Hydra would take a minute for all of them."""
    (base,) = compose(*COMMAND)
    return [_of(base, name) for name in MODELS]


def _of(base: RunConfig, name: str) -> RunConfig:
    model = replace(base.model, **vars(variant(name, "tiny")))
    return replace(base, model=model, model_name=name, arm=name, overrides=[*base.overrides, f"model={name}"])


def only(runs: list[RunConfig], *names: str) -> list[RunConfig]:
    return [one for one in runs if one.model_name in names]


def resolved(config: RunConfig) -> RunConfig:
    return with_vocabulary(resolve(config, Found()), 2000, 0)


def matched(runs: list[RunConfig], **changes: object) -> dict[str, RunConfig]:
    """Resized as `match` says, by model."""
    found = match.resized([replace(one, match=replace(one.match, **changes)) for one in runs], resolved)
    return {one.model_name: one for one in found}


def cost(on: MatchOn, config: RunConfig) -> float:
    """By the counters that a run uses, apart from the search."""
    shape = subject.step_shape(resolved(config), 4)
    if on is MatchOn.params:
        return size.sizes(on_meta(shape.config, shape.num_outputs, shape.head))["model/params_total"]
    return flops.counted(replace(shape, batch_size=1), backward=False)


@pytest.mark.long
@pytest.mark.parametrize("on", [MatchOn.params, MatchOn.flops])
def test_every_variant_is_matched_or_refused_with_its_nearest_shape(runs, on):
    """A bag of vectors has next to no FLOPs: it alone cannot be matched in them."""
    if on is MatchOn.flops:
        with pytest.raises(InputError, match=r"static cannot have the cost of base, [0-9.]+ MFLOP, by hidden_size"):
            matched(only(runs, "base", "static"), cost=on)
        runs = only(runs, *{*MODELS} - {"static"})
    found = matched(runs, cost=on)
    target = cost(on, found["base"])
    assert [*found] == [one.model_name for one in runs]
    off = {name: cost(on, config) / target - 1 for name, config in found.items()}
    assert all(abs(miss) < 0.03 for miss in off.values()), off
    assert sum(abs(miss) <= 0.01 for miss in off.values()) >= 15, off
    for name, config in found.items():
        assert config.matched.get("reached", target) == pytest.approx(cost(on, config), rel=0.02), name


@pytest.mark.long
def test_no_neighbouring_step_is_nearer(runs):
    published = {one.model_name: one for one in runs}
    target = cost(MatchOn.params, published["base"])
    for name, config in matched(runs).items():
        ladder = match.Ladder(resolved(published[name]).model, MatchBy.hidden_size)
        steps = config.model.hidden_size // ladder.step
        assert steps * ladder.step == config.model.hidden_size
        for beside in (steps - 1, steps + 1):
            other = replace(config, model=replace(config.model, **ladder.keys(beside)))
            ours, theirs = (abs(math.log(cost(MatchOn.params, one) / target)) for one in (config, other))
            assert ours <= theirs, name


@pytest.mark.long
@pytest.mark.parametrize("name", ["albert", "bilstm", "modern", "xlnet"])
def test_a_matched_shape_can_be_built_and_heads_divide_its_width(runs, name):
    config = matched(only(runs, "base", name))[name]
    assert config.model.hidden_size != 128
    assert config.model.hidden_size % config.model.num_attention_heads == 0 or name == "bilstm"
    build_classifier(resolved(config).model, 2, 0)


@pytest.mark.long
def test_the_recorded_overrides_compose_the_same_model_without_a_search(compose):
    config = matched(compose("-m", *COMMAND, "model=base,albert"))["albert"]
    assert config.label == "albert (params as base)"
    assert not any(one.startswith("match") for one in config.overrides)
    (again,) = compose(*config.overrides)
    assert (again.model, again.arm) == (config.model, config.arm)
    assert again.overrides == config.overrides


def test_a_key_that_does_not_change_the_cost_stays_as_published(runs):
    """All layers of `albert` share one set of parameters, so that any number of them costs as much."""
    changes = {"cost": MatchOn.params, "by": MatchBy.num_hidden_layers, "tolerance": 0.9}
    found = matched(only(runs, "base", "albert"), **changes)
    assert found["albert"].model.num_hidden_layers == found["base"].model.num_hidden_layers


def test_the_baseline_keeps_its_shape_and_its_name(runs):
    base = matched(only(runs, "base", "albert"))["base"]
    assert (base.label, base.matched) == ("base", {})


def test_a_variant_that_stays_as_published_says_its_cost_next_to_the_published_run(compose, output):
    """Its FLOPs are nearest as they are, so that `match=none,flops` makes one arm of both."""
    small = ("task.grammar.train_examples=40", "task.grammar.validation_examples=20", f"output={output}", "seed=0")
    planned = plan.plan(compose("-m", "scale=tiny", "task=bag", "model=base,albert", "match=none,flops", *small))
    assert sorted(run.config.label for run in planned) == ["albert", "base"]
    (said,) = (note for run in planned for note in run.notes if "as published" in note)
    assert said.startswith("albert: hidden_size=128 intermediate_size=512, 118 MFLOP, +0.67 % of the 117 MFLOP of base")


def test_a_feed_forward_alone_can_be_resized(runs):
    runs = only(runs, "base", "distilbert")
    small = matched(runs, by=MatchBy.intermediate_size)["distilbert"]
    assert (small.model.hidden_size, small.model.intermediate_size % 8) == (128, 0)
    assert small.model.intermediate_size > 512
    assert abs(match.miss(small.matched)) < 0.01


@pytest.mark.long
def test_a_miss_beyond_the_step_is_said_and_beyond_the_tolerance_refused(runs):
    runs = only(runs, "base", "factorized")
    deeper = matched(runs, by=MatchBy.num_hidden_layers, tolerance=0.4)["factorized"]
    said = match.note(resolved(deeper))
    assert f"num_hidden_layers={deeper.model.num_hidden_layers}" in said
    assert "the key allows nothing nearer" in said
    with pytest.raises(
        InputError, match=r"cannot have the cost of base.*by num_hidden_layers: the nearest is .*match\.tolerance"
    ):
        matched(runs, by=MatchBy.num_hidden_layers, tolerance=0.001)


def test_what_cannot_be_matched_is_refused(runs):
    without = [one for one in runs if one.model_name != "base"]
    with pytest.raises(InputError, match=r"needs the baseline in the same command: expected model=base"):
        matched(without)
    static = only(runs, "base", "static")
    with pytest.raises(
        InputError, match=r"match\.by=intermediate_size: model\.intermediate_size=512 has no effect in this model"
    ):
        matched(static, by=MatchBy.intermediate_size)
    weights = [replace(one, model=replace(one.model, init_from="somewhere")) for one in static]
    with pytest.raises(InputError, match=r"cannot resize the weights of model\.init_from=somewhere"):
        matched(weights)
    bilstm = only(runs, "base", "bilstm")
    with pytest.raises(InputError, match=r"the training memory of bilstm is not known without training"):
        matched(bilstm, cost=MatchOn.memory)


def test_a_command_without_the_plug_in_says_so(runs, monkeypatch):
    monkeypatch.setattr(plan, "SHAPES", "harness.nothing")
    with pytest.raises(InputError, match=r"^match=params needs a plug-in that is not installed: expected match=none$"):
        plan.with_sizes(only(runs, "base", "albert"))
    published = [replace(one, match=replace(one.match, cost=MatchOn.none)) for one in only(runs, "base", "albert")]
    assert plan.with_sizes(published) == published


@pytest.mark.long
def test_a_model_without_products_is_refused_by_flops(compose):
    (config,) = compose("scale=tiny", "model=static", "task=retrieval", "finetune=contrastive")
    with pytest.raises(InputError, match="match=flops: static multiplies no matrices here"):
        match.counted_cost(MatchOn.flops, resolved(config), config.model)


@pytest.mark.long
def test_memory_is_that_of_the_formula(runs):
    runs = only(runs, "base", "albert")
    found = matched(runs, cost=MatchOn.memory)
    own, base = (match.counted_cost(MatchOn.memory, one, one.model) for one in map(resolved, (found["albert"], found["base"])))
    assert own == found["albert"].matched["reached"]
    assert abs(own / base - 1) < 0.02
