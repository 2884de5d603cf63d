"""`python -m harness.describe`."""

import sys

from harness.commands.describe.command import main

sys.exit(main())
