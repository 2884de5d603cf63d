"""Runs a module as a worker in this process, which ends with its parent from before the first of the module's imports.

python -m harness.processes.new_worker PARENT MODULE [ARGUMENT ...]     PARENT: process id of the caller
"""

import runpy
import sys

from harness import processes

if __name__ == "__main__":
    processes.end_with_parent(int(sys.argv[1]))
    module, sys.argv[1:] = sys.argv[2], sys.argv[3:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
