"""Which way is better, as a table written by hand: by unit, and by name where the unit does not say it."""

import pytest

from harness import metrics

BY_UNIT = {
    "parameters": "lower",
    "bytes": "lower",
    "FLOP": "lower",
    "operators": "lower",
    "s": "lower",
    "ms": "lower",
    "J": "lower",
    "J/token": "lower",
    "loss": "lower",
    "ratio": "lower",
    "nats": "lower",
    "bits/byte": "lower",
    "tokens/s": "higher",
    "samples/s": "higher",
    "pairs/s": "higher",
    "score": "higher",
    "share": "higher",
    "FLOP/s": "neither",
    "FLOP/byte": "neither",
    "processes": "neither",
    "MHz": "neither",
    "CPUs": "neither",
    "tokens": "neither",
    "epochs": "neither",
    "examples": "neither",
    "steps": "neither",
    "1": "neither",
    "documents": "neither",
}
NO_MERIT = {
    "model/params_head",  # belongs to the task
    "model/params_effective",  # counts shared layers at each use
    *(f"model/params_{kind}" for kind in ("kept", "derived", "random")),  # where values come from
    "model/weights_error",
    "setup/import_s",
    "inference/padding_share",
    "finetune/padding_share",
    *(f"timing/{of}reference_{clock}ms" for of in ("", "throughput_", "train_") for clock in ("", "device_")),
    "pretrain/unigram_entropy",
    "pretrain/evaluation_s",
    "timing/launch_s",
    "load/server_samples_per_s",  # a rate that is set
    "corpus/overlap",
    "eval/majority_score",
    "eval/majority_loss",
    "eval/unigram_score",
    *(f"eval/{name}_{end}" for name in (*metrics.SCORE_TITLES, "loss") for end in ("low", "high")),  # ends of intervals
}
BY_NAME = {
    "inference/peak_memory_bytes": "lower",
    "finetune/peak_memory_bytes": "lower",
    "pretrain/peak_memory_bytes": "lower",
    "scaling/peak_memory_bytes": "lower",
    "model/weights_bytes": "lower",
    "inference/latency_device_ms": "lower",
    "inference/device_tokens_per_s": "higher",
    "train_step/device_tokens_per_s": "higher",
    "inference/latency_ms_min": "lower",
    "inference/latency_ms_p50": "lower",
    "inference/latency_ms_p90": "lower",
    "inference/latency_ms_p99": "lower",
    "timing/latency_ms": "lower",
    "inference/first_call_ms": "lower",
    "inference/tokens_per_s": "higher",
    "finetune/tokens_per_s": "higher",
    "finetune/samples_per_s": "higher",
    "finetune/duration_s": "lower",
    "finetune/energy_j": "lower",
    "inference/energy_j_per_token": "lower",
    "inference/mfu": "higher",
    "model/params_total": "lower",
    "model/flops_forward": "lower",
    "finetune/loss": "lower",
    "pretrain/masked_loss": "lower",
    "pretrain/masked_accuracy": "higher",
    "pretrain/pair_accuracy": "higher",
    "pretrain/detection_loss": "lower",
    "pretrain/next_token_loss": "lower",
    "pretrain/heldout_bits_per_byte": "lower",
    "eval/score": "higher",
    "eval/loss": "lower",
}
"""What readers compare by, said once more by name, so that a wrong unit cannot hide a wrong direction."""


def test_direction_of_every_metric_follows_its_unit_or_is_listed():
    expected = {name: "neither" if name in NO_MERIT else BY_UNIT[metric.unit] for name, metric in metrics.METRICS.items()}
    assert {name: metric.direction.value for name, metric in metrics.METRICS.items()} == expected
    assert metrics.METRICS.keys() >= NO_MERIT


@pytest.mark.parametrize(("name", "direction"), BY_NAME.items())
def test_direction_of_what_readers_compare_by(name: str, direction: str):
    assert metrics.get(name).direction.value == direction
