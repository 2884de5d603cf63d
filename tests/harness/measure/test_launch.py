"""The measuring process: what it was asked comes back as records, also what came before a failure."""

import pytest

from harness.config.choices import Device
from harness.measure.launch import launch
from harness.measure.records import Request


@pytest.fixture
def config(compose):
    (config,) = compose("scale=tiny", "task=bag", "hardware.threads=1", "model.vocab_size=300", "measure.length=16")
    return config


def test_an_instrument_that_fails_loses_none_before_it(config, tmp_path):
    outcome = launch(config, Request(("sizes", "flops", "training_step", "trace")), tmp_path)  # without a step
    measured = outcome.measured
    assert outcome.code == 1
    assert "Error" in outcome.last_line
    assert measured.sizes["model/params_total"] == sum(
        value for name, value in measured.sizes.items() if name.startswith("model/params_component_")
    )
    assert 2 * config.finetune.batch_size * measured.flops.forward < measured.flops.train_step
    assert measured.training_step is measured.trace is measured.timing is None


def test_results_of_an_earlier_process_in_the_folder_are_not_those_of_one_that_fails(config, tmp_path):
    (tmp_path / "measured.json").write_text('{"sizes": {"model/params_total": 1}}')
    config.hardware.device = Device.cuda
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("the missing device is there")
    outcome = launch(config, Request(("sizes",)), tmp_path)
    assert (outcome.code, outcome.measured.sizes) == (1, None)
    assert "torch sees no CUDA device" in outcome.last_line
