"""One of the processes that execute a run on several devices, started by torch's launcher.

python -m harness.study.rank FOLDER
"""

import contextlib
import os
import sys
from pathlib import Path

from torch.distributed.elastic.multiprocessing.errors import record

from harness.config import resolve
from harness.config.choices import Device, DeviceSharding
from harness.study import worker
from harness.training import distributed

BACKENDS = {Device.cpu: "gloo", Device.cuda: "cpu:gloo,cuda:nccl"}
"""Libraries of collective calls, on a GPU also for tensors on its CPU."""


@record  # leaves the exception to the launcher
def main(folder: Path) -> None:
    """Executes the run as one of its ranks; only the first one prints."""
    hardware = resolve.load(folder / "config.yaml").hardware
    ranks = distributed.join(BACKENDS[hardware.device], hardware.sharding is DeviceSharding.full)
    with Path(os.devnull).open("w") as nothing, contextlib.redirect_stdout(sys.stdout if ranks.first else nothing):
        worker.execute(folder, ranks)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
