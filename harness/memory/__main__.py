"""`python -m harness.memory`."""

import sys

from harness.memory.command import main

sys.exit(main())
