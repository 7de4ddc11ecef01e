"""Report of a run as one HTML file: failures first, each with its reason and its video."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from drive.files import read_json, write_atomic
from drive.score.abilities import AbilityRow
from drive.score.closedloop import TOLERATED, is_success, record_counts
from sim.results import AGENT_CRASHED, SIMULATION_CRASHED

NAME = "report.html"
TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ run.policy }} on {{ suite }}</title>
<style>
body { margin:0; background:#f3f4f6; color:#1d2630; font:15px/1.5 system-ui,"DejaVu Sans",sans-serif; }
main { max-width:1180px; margin:0 auto; padding:28px 22px 60px; }
h1 { font-size:26px; margin:0; } h2 { font-size:19px; margin:30px 0 10px; }
.soft { color:#5b6672; } .bad { color:#c92a2a; } .good { color:#128a4b; }
table { border-collapse:collapse; width:100%; font-size:14px; background:#fff; }
th, td { text-align:left; vertical-align:top; padding:5px 12px 5px 8px; border-bottom:1px solid #e3e6ea; }
td.n, th.n { text-align:right; font-variant-numeric:tabular-nums; }
ul { margin:0; padding-left:18px; }
</style>
</head>
<body><main>
<h1>{{ run.policy }} on {{ suite }}</h1>
<p class="soft">{{ protocol }}</p>
<p>{{ planned }} planned routes: {{ good | length }} without fault, {{ failed | length }} with,
<span class="{{ 'bad' if agent }}">{{ agent | length }} on which the policy failed</span>,
<span class="{{ 'bad' if simulator }}">{{ simulator | length }} on which the simulator failed</span>,
{{ planned - recorded }} not driven.
Driving score {{ "%.1f" | format(score.score_composed) }},
completion {{ "%.1f" | format(score.score_route) }} %.
{% if plan_ms %}Time per plan [ms]:
{% for name, value in plan_ms.items() %} {{ name }} {{ "%.1f" | format(value) }}{% endfor %}.{% endif %}</p>
{% macro routes(title, rows, note="") %}
{% if rows %}<h2>{{ title }} ({{ rows | length }})</h2>{% if note %}<p class="soft">{{ note }}</p>{% endif %}
<table><tr><th>route</th><th>town</th><th>kind</th><th>status</th>
<th class="n">score</th><th class="n">completion %</th>
<th>what happened</th><th></th></tr>
{% for r in rows %}<tr><td>{{ r.route_id }}</td><td>{{ r.town_name }}</td><td>{{ r.scenario_name }}</td>
<td>{{ r.status }}</td>
<td class="n">{{ "%.1f" | format(r.scores.score_composed) }}</td>
<td class="n">{{ "%.1f" | format(r.scores.score_route) }}</td>
<td>{% if r.said %}<ul>{% for line in r.said %}<li>{{ line }}</li>{% endfor %}</ul>{% endif %}</td>
<td>{% if r.video %}<a href="{{ r.video }}">video</a>{% endif %}</td></tr>
{% endfor %}</table>{% endif %}
{% endmacro %}
{% if abilities %}<h2>Abilities</h2>
<table><tr><th>ability</th><th class="n">planned</th><th class="n">recorded</th><th class="n">mastered</th>
<th class="n">% of planned</th></tr>
{% for a in abilities %}<tr><td>{{ a.ability }}</td>
<td class="n">{{ a.planned }}</td><td class="n">{{ a.recorded }}</td>
<td class="n">{{ "-" if a.mastered is none else a.mastered }}</td>
<td class="n">{{ "-" if a.rate is none else "%.1f" | format(100 * a.rate) }}</td></tr>
{% endfor %}</table>{% endif %}
{{ routes("The policy failed", agent, "These routes score 0.") }}
{{ routes("With a fault", failed) }}
{{ routes("The simulator failed", simulator, "No fault of the policy; the same command drives them again.") }}
{{ routes("Without a fault", good) }}
</main></body></html>
"""


def write_report(results: Path, abilities: Sequence[AbilityRow] = ()) -> Path:
    """Write report.html beside a results.json of `drive sim` and return its path; links are relative.

    Args:
        results: The results file.
        abilities: Of a route file; those that no route asks for are left out.
    """
    import jinja2

    data = read_json(results)
    records: Sequence[Mapping[str, Any]] = data["_checkpoint"]["records"]
    groups: dict[str, list[dict[str, Any]]] = {"agent": [], "simulator": [], "failed": [], "good": []}
    for record in records:
        video = record["meta"].get("video")
        link = quote(video) if video and (results.parent / video).is_file() else ""
        groups[_group(record)].append({**record, "said": _said(record), "video": link})
    about, overall = data["nightdrive"], data["_checkpoint"]["global_record"]
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    html = environment.from_string(TEMPLATE).render(
        run=about["run"],
        suite=about["suite"],
        protocol=about["protocol"],
        planned=about["planned"],
        recorded=len(records),
        plan_ms=about["plan_ms"],
        score=overall["scores_mean"],
        abilities=[row for row in abilities if row.recorded or row.planned],
        **groups,
    )
    path = results.with_name(NAME)
    write_atomic(path, html)
    return path


def _group(record: Mapping[str, Any]) -> str:
    special = {AGENT_CRASHED: "agent", SIMULATION_CRASHED: "simulator"}.get(record["status"])
    return special or ("good" if is_success(record["status"], record_counts(record)) else "failed")


def _said(record: Mapping[str, Any]) -> list[str]:
    """Why there is no result, or the infractions that count, in words."""
    reason = record["meta"].get("reason")
    if reason:
        return [str(reason)]
    counted = ((key, texts) for key, texts in record["infractions"].items() if key not in TOLERATED)
    return [f"{key.replace('_', ' ')}: {text}" for key, texts in counted for text in texts]
