"""Tests of the reward field."""
