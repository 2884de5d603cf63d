"""The other side: transformers' BERT, tokenizer and Trainer, with the vocabulary, shape and optimiser of our side."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import transformers
from ours import PIECES, vocabulary_file
from torch import Tensor

from harness.config.schema import OptimiserConfig
from harness.models.config import EncoderConfig

LOG_EVERY = 10
"""Steps between two readings of the loss, as in our loop."""


def tokenizer() -> transformers.BertTokenizerFast:
    """BERT's tokenizer; RuntimeError unless it has the whole vocabulary.

    transformers 5 takes `vocab_file=` without an error and without reading it.
    """
    pieces = {piece: number for number, piece in enumerate(vocabulary_file().read_text(encoding="utf-8").splitlines())}
    built = transformers.BertTokenizerFast(vocab=pieces)
    if len(built) != PIECES:
        raise RuntimeError(f"the peer's vocabulary has {len(built):,} pieces, expected {PIECES:,}")
    return built


def shape(config: EncoderConfig) -> dict[str, Any]:
    """The same shape as keywords of a config of transformers."""
    if config.vocab_size != PIECES:
        raise RuntimeError(f"our model has {config.vocab_size:,} token embeddings, expected {PIECES:,}")
    names = (
        *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
        *("max_position_embeddings", "hidden_dropout_prob", "attention_probs_dropout_prob"),
    )
    return {name: getattr(config, name) for name in names}


def bert(config: EncoderConfig, **more: Any) -> transformers.BertConfig:
    """The config of transformers' BERT of the same shape."""
    return transformers.BertConfig(**shape(config), **more)


def settings(config: OptimiserConfig) -> dict[str, Any]:
    """Arguments of the Trainer: AdamW, schedule and clipping of our side; nothing is saved and no tracker is used."""
    return {
        "use_cpu": True, "report_to": [], "save_strategy": "no", "eval_strategy": "no", "disable_tqdm": True,
        "logging_steps": LOG_EVERY, "dataloader_pin_memory": False, "per_device_train_batch_size": config.batch_size,
        "optim": "adamw_torch_fused", "learning_rate": config.learning_rate, "weight_decay": config.weight_decay,
        "adam_beta1": config.adam_betas[0], "adam_beta2": config.adam_betas[1], "adam_epsilon": config.adam_eps,
        "lr_scheduler_type": "linear", "warmup_steps": config.warmup_fraction, "max_grad_norm": config.max_grad_norm,
    }  # fmt: skip


def arguments(folder: Path, config: OptimiserConfig, **more: Any) -> transformers.TrainingArguments:
    """These settings and more."""
    return transformers.TrainingArguments(output_dir=str(folder), **settings(config) | more)


class Counting:
    """A collator that keeps the number of real tokens of each batch."""

    def __init__(self, collator: Callable[[list], Any]) -> None:
        self._collator, self.tokens = collator, []

    def __call__(self, rows: list) -> Any:
        batch = self._collator(rows)
        mask: Tensor = batch["attention_mask"]
        self.tokens.append(int(mask.sum()))
        return batch


class Clock(transformers.TrainerCallback):
    """The time after two steps."""

    def __init__(self, first: int, last: int) -> None:
        self._steps, self.times = (first, last), []

    def on_step_end(self, args: Any, state: transformers.TrainerState, control: Any, **_: Any) -> None:
        """Called by the Trainer after each optimiser step."""
        if state.global_step in self._steps:
            self.times.append(time.perf_counter())


class Training:
    """`transformers.Trainer`, again and again; the model goes on learning."""

    def __init__(self, model: Any, rows: Any, collator: Any, config: OptimiserConfig, folder: Path, **more: Any) -> None:
        self._model, self._rows, self._collator = model, rows, collator
        self._config, self._folder, self._more = config, folder, more

    def run(self, steps: int, first: int, seed: int) -> float:
        """Trains so many steps; real tokens per second after step `first`."""
        clock, counting = Clock(first, steps), Counting(self._collator)
        trainer = transformers.Trainer(
            model=self._model,
            args=arguments(self._folder, self._config, max_steps=steps, seed=seed, **self._more),
            train_dataset=self._rows,
            data_collator=counting,
            callbacks=[clock],
            processing_class=tokenizer(),
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        begin, end = clock.times
        return sum(counting.tokens[first:steps]) / (end - begin)
