"""`python -m harness.features`."""

import sys

from harness.commands.features.command import main

sys.exit(main())
