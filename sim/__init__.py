"""Closed loop: light CARLA-compatible server, routes, criteria, suites; all driving goes through `carla`."""
