"""Open-loop benchmarks and their blind floors; meets a planner only as `Policy`."""
