"""A comparison as a picture: differences in units of what is detectable, and the groups."""

from pathlib import Path

from drive.bench.compare import Comparison

SHOWN = 15
COLOURS = {"better": "tab:green", "worse": "tab:red", "within noise": "tab:grey"}


def draw(found: Comparison, a: str, b: str, path: Path) -> None:
    """Write a PNG: left the metrics, right the groups in which B is worse by the primary metric."""
    from matplotlib.figure import Figure

    rows = max(len(found.metrics), min(len(found.worse_groups), SHOWN))
    figure = Figure(figsize=(12, 1.5 + 0.35 * rows), layout="constrained")
    left, right = figure.subplots(1, 2)
    for y, one in enumerate(reversed(found.metrics)):
        unit = one.detectable if one.detectable > 0 else 1.0
        good = 1.0 if one.better == "higher" else -1.0
        low, high = sorted(good * v / unit for v in (one.change.low, one.change.high))
        colour = COLOURS[one.verdict]
        left.plot([low, high], [y, y], color=colour)
        left.plot(good * one.change.mean / unit, y, "o", color=colour)
    left.set_yticks(range(len(found.metrics)), [one.metric for one in reversed(found.metrics)])
    left.axvline(0.0, color="black", linewidth=0.8)
    left.set_xlabel("to the right: B is better; unit: smallest detectable change")
    left.set_title(f"{b} against {a}")
    worst = list(reversed(found.worse_groups[:SHOWN]))
    right.barh(range(len(worst)), [part.change for part in worst], color="tab:red")
    right.set_yticks(range(len(worst)), [f"{part.name} ({part.pairs})" for part in worst])
    right.set_xlabel(f"B - A, {found.metrics[0].metric}")
    right.set_title("groups where B is worse" if worst else "no group where B is worse")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
