"""Run the light CARLA server."""

import sys

from sim.server.main import main

sys.exit(main())
