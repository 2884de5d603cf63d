"""`python -m harness.features`."""

import sys

from harness.features.command import main

sys.exit(main())
