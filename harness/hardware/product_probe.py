"""Measures the matrix products of both arithmetics, and prints them as JSON; see `faster_dtype`."""

import json
import sys
from dataclasses import asdict

from harness.config.choices import Device, Dtype
from harness.config.schema import HardwareConfig
from harness.errors import InputError
from harness.hardware.device import Machine
from harness.hardware.faster_dtype import Products
from harness.hardware.peak_flops import peak_flops_per_s

SECONDS = 0.3
"""Time of the products in each arithmetic: one is several times as fast as the other, so that little is enough."""


def measure(device: Device, threads: int) -> Products:
    """The products of both. InputError if the device is not available."""
    machines = (Machine(HardwareConfig(device=device, dtype=dtype, threads=threads)) for dtype in (Dtype.fp32, Dtype.bf16))
    return Products(*(peak_flops_per_s(machine, SECONDS) for machine in machines))


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    try:
        print(json.dumps(asdict(measure(Device(asked["device"]), asked["threads"]))))
    except InputError as error:
        sys.exit(str(error))
