"""A pretraining in its worker: count the text, train on it, save the weights."""

from harness.config.schema import RunConfig
from harness.corpus import sequences
from harness.hardware.device import Machine
from harness.measure import flops, size
from harness.measure.memory import Baseline
from harness.study.identity import Inputs
from harness.tracking.run_log import RunLog
from harness.training.distributed import ALONE, Ranks
from harness.training.pretrain import pretrain


def run(config: RunConfig, inputs: Inputs, identity: str, machine: Machine, run_log: RunLog, ranks: Ranks = ALONE) -> None:
    """Trains from the newest checkpoint, or from the start; `identity` is that of the training that checkpoints belong to."""
    corpus = sequences.read(config.output, inputs.corpus)
    run_log.value("corpus/tokens", corpus.tokens("train"))
    run_log.value("corpus/documents", corpus.documents("train"))
    objective = pretrain(config, corpus, machine, run_log, identity, Baseline(machine), flops.of_objective, ranks)
    for key, value in size.of_objective(objective).items():
        run_log.value(key, value)
