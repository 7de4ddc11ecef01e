"""Scenarios of route files: small behaviours, staged through the client while a route is driven."""
