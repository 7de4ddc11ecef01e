"""The planner and everything it is judged by; see the file tree in README.md."""
