"""The planner and everything it is judged by."""
