"""`python -m dac_rocm`: the command."""

import sys

from dac_rocm.cli.main import main

sys.exit(main())
