"""`python -m harness.memory`."""

import sys

from harness.commands.memory.command import main

sys.exit(main())
