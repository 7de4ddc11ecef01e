"""Planar geometry shared by scores, simulation and models; numpy only."""
