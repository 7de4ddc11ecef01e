"""The mining benchmark measures what it says."""

from tools.bench.mining import measure


def test_rates_and_memory_of_a_small_set() -> None:
    result = measure(6_000, 4, 1)
    assert result["rows"] == 6_000
    assert result["found"]["agents"] > 0
    assert min(result[key] for key in ("ego_rows_per_s", "agent_rows_per_s", "baseline_rows_per_s")) > 0
    assert 0 < result["peak_gb"] < 4
