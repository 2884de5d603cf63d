"""Which way is better, as a table written by hand: by unit, and what has no better and no worse in spite of its unit."""

from harness import metrics

BY_UNIT = {
    "lower": ["parameters", "bytes", "FLOP", "operators", "s", "ms", "J", "J/token", "loss", "ratio", "nats", "bits/byte"],
    "higher": ["tokens/s", "samples/s", "pairs/s", "score", "share"],
    "neither": ["FLOP/s", "FLOP/byte", "processes", "MHz", "CPUs", "tokens", "epochs", "examples", "steps", "1", "documents"],
}
NO_MERIT = {
    *(f"model/params_{kind}" for kind in ("head", "effective", "kept", "derived", "random")),
    *("model/weights_error", "setup/import_s", "inference/padding_share", "finetune/padding_share", "timing/launch_s"),
    *(f"timing/{of}reference_{clock}ms" for of in ("", "throughput_", "train_") for clock in ("", "device_")),
    *("pretrain/unigram_entropy", "pretrain/evaluation_s", "corpus/overlap", "load/server_samples_per_s"),  # a rate that is set
    *(f"eval/{name}" for name in ("majority_score", "majority_loss", "unigram_score")),
    *(f"eval/most_frequent_{of}_share" for of in ("prediction", "label")),
    *(f"eval/{name}_{end}" for name in (*metrics.SCORE_TITLES, "loss") for end in ("low", "high")),  # ends of intervals
}
READ_BY_MOST = {
    "eval/score": "score",
    "inference/tokens_per_s": "tokens/s",
    "inference/latency_ms_p50": "ms",
    "inference/mfu": "share",
}
"""A wrong unit would hide a wrong direction."""


def test_direction_of_every_metric_follows_its_unit_or_is_listed():
    by_unit = {unit: direction for direction, units in BY_UNIT.items() for unit in units}
    expected = {name: "neither" if name in NO_MERIT else by_unit[metric.unit] for name, metric in metrics.METRICS.items()}
    assert {name: metric.direction.value for name, metric in metrics.METRICS.items()} == expected
    assert metrics.METRICS.keys() >= NO_MERIT
    assert {name: metrics.get(name).unit for name in READ_BY_MOST} == READ_BY_MOST
