"""`python -m harness.inspect`."""

import sys

from harness.commands.inspect.command import main

sys.exit(main())
