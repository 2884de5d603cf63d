"""`python -m harness.inspect`."""

import sys

from harness.inspect.command import main

sys.exit(main())
