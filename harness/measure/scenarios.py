"""Latency under load, by the scenarios of MLPerf Inference (arXiv:1911.02549, section IV-A). N texts.

single_stream: a text comes when the one before is answered. offline: all texts are there at once, in batches by length. server:
a client asks for texts at random moments (Poisson), and those that wait share a batch. It runs for real, with the client in a
process of its own, and again as a simulation that knows the times of the other two alone: each checks the other.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import Pipe

import numpy as np

from harness.config.choices import Scenario
from harness.config.schema import MeasureConfig
from harness.hardware.device import Machine
from harness.measure import load_client
from harness.measure.records import LoadTimes
from harness.models.batch import Batch
from harness.tasks.base import Split
from harness.tasks.batches import collate

Work = Callable[[list[int]], float]
"""Answers these texts in one batch, or says how long that takes: milliseconds."""


def random_texts(vocab_size: int, settings: MeasureConfig) -> Split:
    """Texts of random ids of one to measure.length tokens."""
    stream = np.random.default_rng(0)
    lengths = stream.integers(1, settings.length, size=settings.load_texts, endpoint=True)
    ids = stream.integers(vocab_size, size=lengths.sum(), dtype=np.int32)
    starts, labels = np.concatenate([[0], lengths.cumsum()]), np.zeros(len(lengths), dtype=np.int64)
    return Split(ids, np.zeros(len(ids), dtype=np.uint8), starts, labels, [])


def measure(
    call: Callable[[Batch], object], split: Split, pad_token_id: int, settings: MeasureConfig, machine: Machine
) -> LoadTimes:
    """The scenarios of measure.load over measure.load_texts texts of the split, the same in every launch."""
    stream = np.random.default_rng(0)
    rows = stream.integers(len(split), size=settings.load_texts)
    lengths, taken = split.lengths[rows], []

    def answer(texts: list[int]) -> float:
        started = time.perf_counter()
        call(collate(split, rows[texts], pad_token_id).to(machine.device))
        machine.synchronise()
        milliseconds = 1e3 * (time.perf_counter() - started)
        taken.append((1, len(texts) * lengths[texts].max(), milliseconds))
        return milliseconds

    order = lengths.argsort(kind="stable").tolist()
    batches = [order[first : first + settings.batch_size] for first in range(0, len(order), settings.batch_size)]
    for texts in batches:  # unmeasured: new shapes are slow
        answer(texts)
    taken.clear()
    rate = 1e3 * len(rows) / sum(answer(texts) for texts in batches)
    rates, latencies = {"offline": rate}, {"single_stream": [answer([text]) for text in range(len(rows))]}
    if Scenario.server in settings.load:
        known, rates["server"] = np.array(taken), settings.load_share * rate
        fixed, of_token = np.linalg.lstsq(known[:, :2], known[:, 2])[0]  # ms of a call, ms of a token with padding
        least = known[:, 2].min()

        def takes(texts: list[int]) -> float:
            return max(least, fixed + of_token * len(texts) * lengths[texts].max())

        arrivals = stream.exponential(1 / rates["server"], size=len(rows)).cumsum()
        latencies["server"] = serve(arrivals, settings.batch_size, answer)
        latencies["simulated_server"] = simulate(arrivals, settings.batch_size, takes)
    asked = [scenario.name for scenario in settings.load]
    return LoadTimes(
        {name: rate for name, rate in rates.items() if name in asked},
        {name: times for name, times in latencies.items() if name.removeprefix("simulated_") in asked},
    )


def serve(arrivals: np.ndarray, most: int, answer: Work) -> list[float]:
    """(N,) seconds at which a client asks for texts -> milliseconds until it has each answer, in batches of at most `most`.

    EOFError or ConnectionResetError if the client ends early.
    """
    client, theirs = Pipe()
    with theirs:
        command = [sys.executable, "-P", load_client.__file__, str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    with process, client:
        client.send(arrivals.tolist())
        done = 0
        while done < len(arrivals):
            texts = [client.recv()]
            while len(texts) < most and client.poll():
                texts.append(client.recv())
            answer(texts)
            client.send(texts)
            done += len(texts)
        return client.recv()


def simulate(arrivals: np.ndarray, most: int, takes: Work) -> list[float]:
    """What `serve` returns, if each batch takes so long."""
    answered, done, now = np.empty(len(arrivals)), 0, 0.0
    while done < len(arrivals):
        now = max(now, arrivals[done])
        texts = list(range(done, min(done + most, np.searchsorted(arrivals, now, side="right"))))
        now += takes(texts) / 1e3
        answered[texts] = now
        done += len(texts)
    return (1e3 * (answered - arrivals)).tolist()
