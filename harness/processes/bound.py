"""Becomes another command, which ends with the process that started it.

python -m harness.processes.bound PARENT COMMAND [ARGUMENT ...]     PARENT: process id of the caller
"""

import os
import sys

from harness import processes

if __name__ == "__main__":
    processes.end_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
