"""`python -m harness.describe`."""

import sys

from harness.describe.command import main

sys.exit(main())
