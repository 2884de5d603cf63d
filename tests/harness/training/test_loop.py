"""The training loop: what a step does, its random streams, its callbacks, and divergence."""

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from harness.config.choices import Schedule
from harness.config.resolve import DECAY
from harness.config.schema import FinetuneConfig, HardwareConfig, PretrainConfig
from harness.hardware.device import Machine
from harness.measure import flops
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.heads import SequenceClassifier, build_classifier
from harness.tracking.run_log import Reader, RunLog
from harness.training.finetune import step_of
from harness.training.loop import DivergedError, Limit, Position, Training, learning_rate_factor, train, warmup_fraction
from harness.training.optimiser import make_optimiser
from harness.training.pretrain import Evaluation

SHAPE = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine(HardwareConfig(threads=1))


def classifier(dropout: float = 0.0, seed: int = 0) -> SequenceClassifier:
    config = EncoderConfig(**SHAPE, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    return build_classifier(config, 2, seed)


def batches(size: int = 16, seed: int = 0) -> Iterator[Batch]:
    """Texts of 8 tokens; the label says whether the second token is an even one."""
    stream = torch.Generator().manual_seed(seed)
    while True:
        ids = torch.randint(1, 50, (size, 8), generator=stream)
        mask = torch.arange(8) < torch.randint(3, 9, (size, 1), generator=stream)
        yield Batch(ids, attention_mask=mask, labels=1 - ids[:, 1] % 2, tokens=int(mask.sum()))


def training(model: nn.Module, steps: int, seed: int = 0, **keys) -> Training:
    keys = {"learning_rate": 3e-3, "warmup_fraction": 0.1} | keys
    loss = lambda batch: model.loss(model(batch), batch.labels)  # noqa: E731
    return training_on(model, loss, batches(), steps, FinetuneConfig(**keys), seed)


def training_on(
    model: nn.Module, loss: Callable, source: Iterator[Batch], steps: int, config: FinetuneConfig, seed: int
) -> Training:
    """A training of so many steps over these batches."""
    following = lambda position: step_of(next(source), config.accumulation)  # noqa: E731
    return Training(model, loss, following, Limit("step", steps), steps, "finetune", config, seed)


def losses(folder: Path) -> list[dict]:
    """The points of the loss curve, as the log has them."""
    return [entry for entry in Reader(folder).new_entries() if entry.get("key") == "finetune/loss"]


def run(training: Training, machine: Machine, run_log: RunLog) -> Position:
    """From the first step to the last."""
    position = Position()
    train(training, make_optimiser(training.model, training.config), position, machine, run_log)
    return position


@pytest.fixture
def curve(machine: Machine, tmp_path: Path) -> Callable[[Training], list[float]]:
    """Trains and gives the losses in the order of the steps."""
    made = []

    def trained(training: Training) -> list[float]:
        made.append(training)
        folder = tmp_path / str(len(made))
        folder.mkdir()
        run_log = RunLog(folder)
        try:
            run(training, machine, run_log)
        finally:
            run_log.finish("finished")
        points = losses(folder)
        assert [point["step"] for point in points] == list(range(1, training.planned_steps + 1))
        return [point["value"] for point in points]

    return trained


@pytest.mark.long
@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_step_costs_the_flops_of_its_padded_micro_batches(accumulation):
    batch = next(batches(16))
    step = step_of(batch, accumulation, cost=flops.of_training(classifier()))
    padded = flops.counted(flops.Shape(EncoderConfig(**SHAPE), 2, 16 // accumulation, 8), backward=True)
    assert batch.tokens < batch.input_ids.numel()
    assert step.flops == pytest.approx(accumulation * padded, rel=flops.TOLERANCE)


def test_a_training_costs_the_flops_of_its_steps(machine, tmp_path):
    model, step = classifier(), step_of(next(batches(16)), 1, cost=lambda rows, length: rows * length)
    loss = lambda batch: model.loss(model(batch), batch.labels)  # noqa: E731
    three = Training(model, loss, lambda position: step, Limit("step", 3), 3, "finetune", FinetuneConfig(), 0)
    run_log = RunLog(tmp_path)
    assert run(three, machine, run_log).flops == 3 * 16 * 8
    run_log.finish("finished")


@pytest.fixture
def one_step(machine: Machine, tmp_path: Path) -> Callable[[Batch, int], tuple[float, dict[str, torch.Tensor]]]:
    """Makes one step of a double-precision model; its loss, and its gradients as the optimiser gets them, not clipped."""

    def stepped(batch: Batch, accumulation: int) -> tuple[float, dict[str, torch.Tensor]]:
        model, folder = classifier().double(), tmp_path / str(accumulation)
        config = FinetuneConfig(accumulation=accumulation, max_grad_norm=float("inf"))
        one = training_on(model, lambda part: model.loss(model(part), part.labels), repeat(batch), 1, config, 0)
        optimiser, gradients = make_optimiser(model, config), {}
        optimiser.register_step_pre_hook(
            lambda *_: gradients.update({name: p.grad.clone() for name, p in model.named_parameters()})
        )
        folder.mkdir()
        run_log = RunLog(folder)
        train(one, optimiser, Position(), machine, run_log)
        run_log.finish("finished")
        (loss,) = [entry["value"] for entry in losses(folder)]
        return loss, gradients

    return stepped


@pytest.mark.parametrize("accumulation", [2, 4, 16])
def test_accumulation_gives_the_gradients_of_one_batch(one_step, accumulation):
    batch = next(batches())
    (loss, gradients), (accumulated_loss, accumulated) = one_step(batch, 1), one_step(batch, accumulation)
    assert accumulated_loss == pytest.approx(loss, rel=1e-5)
    for name, gradient in gradients.items():
        torch.testing.assert_close(accumulated[name], gradient, rtol=1e-4, atol=1e-8, msg=name)


def test_uneven_micro_batches_weigh_by_their_examples(one_step):
    batch = next(batches(size=7))
    whole, cut = one_step(batch, 1)[1], one_step(batch, 2)[1]
    torch.testing.assert_close(cut["head.weight"], whole["head.weight"], rtol=1e-4, atol=1e-8)


def test_schedule_equals_the_hand_worked_one():
    factors = [learning_rate_factor(step, 10, 0.2) for step in range(11)]
    assert factors == pytest.approx([1 / 2, 1, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8, 0])


def test_a_decay_of_the_last_steps_follows_a_constant_rate():
    factors = [learning_rate_factor(step, 10, 0.2, decay_fraction=0.4) for step in range(11)]
    assert factors == pytest.approx([1 / 2, 1, 1, 1, 1, 1, 1, 3 / 4, 2 / 4, 1 / 4, 0])
    assert [learning_rate_factor(step, 10, 0.5, decay_fraction=0.9) for step in range(11)] == [
        learning_rate_factor(step, 10, 0.5) for step in range(11)
    ]


def test_other_schedules_equal_the_hand_worked_ones():
    def factors(schedule: Schedule, steps: int, warmup: float = 0.0) -> list[float]:
        decay = DECAY[schedule]
        return [learning_rate_factor(step, steps, warmup, decay_fraction=decay, schedule=schedule) for step in range(steps + 1)]

    assert factors(Schedule.cosine, 4) == pytest.approx([1, (1 + 0.5**0.5) / 2, 1 / 2, (1 - 0.5**0.5) / 2, 0])
    assert factors(Schedule.constant, 4, 0.5) == [1 / 2, 1, 1, 1, 1]
    assert factors(Schedule.wsd, 10, 0.2) == pytest.approx([1 / 2, 1, 1, 1, 1, 1, 1, 1, 1, 1 / 2, 0])
    assert factors(Schedule.linear, 7, 0.2) == [learning_rate_factor(step, 7, 0.2) for step in range(8)]


@pytest.mark.parametrize("total", [0.5, 5.0, 12.0])
def test_a_budget_in_seconds_rises_over_its_share_of_them(total):
    shares = [learning_rate_factor(share * total, total, 0.1, size=0) for share in (0.05, 0.1, 0.55, 0.991)]
    assert shares == pytest.approx([0.5, 1.0, 0.5, 0.01])


@pytest.mark.parametrize(("steps", "fraction"), [(1, 0.1), (1, 1.0), (7, 1.0), (100, 0.06)])
def test_no_step_has_a_rate_of_zero_or_above_one(steps, fraction):
    assert all(0 < learning_rate_factor(step, steps, fraction) <= 1 for step in range(steps))


@pytest.mark.parametrize(
    ("keys", "examples", "steps"),
    [
        ({"epochs": 2, "batch_size": 32}, 100, 8),
        ({"epochs": 0.5, "batch_size": 10}, 100, 5),
        ({"epochs": 0.001, "batch_size": 10}, 100, 1),
        ({"epochs": 2, "batch_size": 32, "max_steps": 5}, 100, 5),
        ({"epochs": 2, "batch_size": 32, "max_steps": 50}, 100, 8),
    ],
)
def test_budget_is_counted_in_steps(keys, examples, steps):
    assert FinetuneConfig(**keys).planned_steps(examples) == steps


@pytest.mark.parametrize(
    ("config", "planned", "share"),
    [
        (PretrainConfig(warmup_fraction=0.1), 1000, 0.1),
        (PretrainConfig(warmup_fraction=0.1, warmup_steps=500), 10_000, 0.1),  # 1,000 steps are enough
        (PretrainConfig(warmup_fraction=0.1, warmup_steps=500), 2_000, 0.25),
        (PretrainConfig(warmup_fraction=0.1, warmup_steps=500), 600, 0.5),  # no more than half of them
        (PretrainConfig(warmup_fraction=0.1, warmup_steps=500), 0, 0.1),  # a budget in seconds
        (FinetuneConfig(warmup_fraction=0.2), 1000, 0.2),
    ],
)
def test_a_short_pretraining_has_the_warm_up_that_its_recipe_needs(config, planned, share):
    assert warmup_fraction(config, planned) == share


def test_a_warm_up_of_steps_has_as_many_at_any_length():
    """7 / 25 x 25 is a little more than 7, and the next whole number is 8."""
    for warmup in (3, 7, 14):
        config = PretrainConfig(warmup_fraction=0.0, warmup_steps=warmup)
        for steps in range(2 * warmup, 200):
            share = warmup_fraction(config, steps)
            assert learning_rate_factor(warmup - 2, steps, share) == pytest.approx((warmup - 1) / warmup), steps


def test_no_evaluation_is_left_out():
    """29 / 100 x 100 is a little less than 29."""
    nothing = SimpleNamespace(paused=nullcontext)
    evaluation, done = Evaluation(dict, 100, Limit("step", 100), Position(), nothing, None), []
    for step in range(1, 101):
        if evaluation.is_due(position := Position(step=step)):
            evaluation.run(position)
            done.append(step)
    assert done == [*range(1, 101)]


@pytest.mark.parametrize("factor", [1.0, 0.25])
def test_the_rate_rises_over_as_many_steps_as_were_asked_for(machine, tmp_path, factor: float):
    """A tensor with a factor of the rate decays by as much as the others."""
    model = Sampling(0)
    config = PretrainConfig(learning_rate=1 / factor, warmup_fraction=0.1, warmup_steps=6, weight_decay=0.1)
    rates = []
    optimiser = make_optimiser(model, config, {"weight": factor})
    assert [group["weight_decay"] for group in optimiser.param_groups] == [0.1 / factor]
    update = optimiser.update
    optimiser.update = lambda: (rates.append(optimiser.param_groups[0]["lr"]), update())[1]
    training = training_on(model, model.step_loss, repeat(next(batches())), 20, config, 0)
    run_log = RunLog(tmp_path)
    train(training, optimiser, Position(), machine, run_log)
    run_log.finish("finished")
    assert rates[:7] == pytest.approx([1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1.0, 1.0])
    assert rates[-1] == pytest.approx(1 / 14)


class Sampling(nn.Module):
    """Samples one random number per step, and `more` after it, as dropout would in a larger model."""

    def __init__(self, more: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 2))
        self.more, self.sampled = more, []

    def step_loss(self, batch: Batch) -> torch.Tensor:
        self.sampled.append(torch.rand(()).item())
        torch.rand(self.more)
        return self.weight.sum()


def samples(curve: Callable, more: int, seed: int, steps: int = 4) -> list[float]:
    model = Sampling(more)
    curve(training_on(model, model.step_loss, repeat(next(batches())), steps, FinetuneConfig(), seed))
    return model.sampled


def test_random_numbers_of_a_step_depend_on_seed_and_step_alone(curve):
    first = samples(curve, more=0, seed=1)
    assert len(set(first)) == 4
    torch.manual_seed(99)
    assert samples(curve, more=1000, seed=1) == first
    assert samples(curve, more=0, seed=1, steps=2) == first[:2]
    assert not set(samples(curve, more=0, seed=2)) & set(first)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_loss_that_is_not_finite_is_divergence_at_its_step(machine, tmp_path, value):
    model = Sampling(0)
    scale = iter([1.0, 1.0, value, 1.0])
    endless = repeat(next(batches()))
    failing = training_on(model, lambda batch: model.weight.sum() * next(scale), endless, 4, FinetuneConfig(), 0)
    run_log = RunLog(tmp_path)
    with pytest.raises(DivergedError, match="the loss of step 3 is"):
        run(failing, machine, run_log)
    run_log.finish("diverged")
    assert [entry["step"] for entry in losses(tmp_path)] == [1, 2]


class Every:
    """A callback after every `steps` steps, which leaves the model in evaluation mode."""

    def __init__(self, steps: int, model: nn.Module) -> None:
        self.steps, self.model, self.ran = steps, model, []

    def is_due(self, position: Position) -> bool:
        return position.step % self.steps == 0

    def run(self, position: Position) -> None:
        self.ran.append((position.step, position.seconds))
        self.model.eval()
        time.sleep(0.2)


@pytest.mark.long
def test_callbacks_run_after_their_steps_and_take_no_training_time(machine, tmp_path):
    model = classifier(dropout=0.1)
    two, three = Every(2, model), Every(3, model)
    run_log = RunLog(tmp_path)
    started = time.perf_counter()
    done = run(replace(training(model, 6), callbacks=(two, three)), machine, run_log)
    elapsed = time.perf_counter() - started
    run_log.finish("finished")
    assert [step for step, _ in two.ran] == [2, 4, 6]
    assert [step for step, _ in three.ran] == [3, 6]
    assert two.ran[-1][1] == three.ran[-1][1] == done.seconds
    assert done.seconds < elapsed - 5 * 0.2


def test_losses_are_written_before_a_callback_runs(machine, tmp_path):
    model, written = classifier(), []
    run_log = RunLog(tmp_path)

    class Reading(Every):
        def run(self, position: Position) -> None:
            written.append([entry["step"] for entry in losses(tmp_path)])

    run(replace(training(model, 6), callbacks=(Reading(3, model),)), machine, run_log)
    run_log.finish("finished")
    assert written == [[1, 2, 3], [1, 2, 3, 4, 5, 6]]


@pytest.mark.long
def test_callbacks_do_not_change_what_is_trained(curve):
    plain, watched = classifier(dropout=0.1), classifier(dropout=0.1)
    losses = curve(training(plain, 6))
    assert curve(replace(training(watched, 6), callbacks=(Every(2, watched),))) == losses
