"""Scores, numpy only: reward terms, collisions, open- and closed-loop protocols, intervals."""
