"""Tests; `builders` has hand-made scenes that every part may use."""
