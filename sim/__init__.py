"""Closed loop: light CARLA-compatible server, routes, criteria, suites; all drive through `carla`."""
