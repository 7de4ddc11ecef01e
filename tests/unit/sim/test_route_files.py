"""Route files: what was written is read, the real ones are read whole, and damage is one clear line."""

import math
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drive.contracts import UserError
from sim.frames import pose_from_carla
from sim.route_files import WEATHER, FileRoute, Scenario, Weather, grouped, read_routes
from sim.scenario_types import KNOWN
from tests.route_xml import route_xml

FILES = {  # file: routes, waypoints, weathers, scenarios, scenario types that were not in Bench2Drive's 44
    "bench2drive220.xml": (220, 9112, 440, 220, 0),
    "bench2drive_0.0.4_val.xml": (220, 10258, 432, 220, 0),
    "drivetransformer_bench2drive_dev10.xml": (10, 474, 20, 10, 0),
    "longest6.xml": (36, 1466, 36, 0, 0),
    "routes_devtest.xml": (2, 62, 4, 119, 0),
    "routes_training.xml": (90, 2298, 180, 4629, 0),
    "routes_validation.xml": (20, 602, 40, 1786, 0),
    "leaderboard1_neat/eval_routes.xml": (14, 28, 0, 0, 0),
    "leaderboard1_neat/eval_routes_weathers.xml": (42, 84, 42, 0, 0),
    "leaderboard1_neat/routes_town01_long.xml": (8, 122, 0, 0, 0),
    "leaderboard1_neat/routes_town02_long.xml": (4, 125, 0, 0, 0),
    "leaderboard1_neat/routes_town03_long.xml": (18, 598, 0, 0, 0),
    "leaderboard1_neat/routes_town04_long.xml": (18, 905, 0, 0, 0),
    "leaderboard1_neat/routes_town05_long.xml": (8, 247, 0, 0, 0),
    "leaderboard1_neat/routes_town06_long.xml": (8, 301, 0, 0, 0),
}
STRAIGHT = tuple((10.0 * k, 1.0, 0.0) for k in range(6))

finite = st.floats(-1e4, 1e4).map(lambda v: v + 0.0)  # no negative zero: it has no other text
words = st.text("abcdefgh", min_size=1, max_size=8)
points = st.lists(st.tuples(finite, finite, finite), min_size=2, max_size=6)
angles = st.floats(-180.0, 179.0).map(lambda degrees: pose_from_carla(0.0, 0.0, degrees)[2])
places = st.tuples(finite, finite, finite, angles)
values = st.one_of(words, finite, st.tuples(finite, finite), st.tuples(finite, finite, finite))
scenarios = st.builds(
    Scenario,
    name=words,
    type=st.sampled_from(sorted(KNOWN)),
    trigger_world=places,
    parameters=st.dictionaries(words.filter(lambda w: w != "trigger_point"), values, max_size=4),
)
weathers = st.builds(
    Weather, st.floats(0, 100), st.dictionaries(st.sampled_from(WEATHER), finite, max_size=3)
)
routes = st.builds(
    FileRoute,
    route_id=st.from_regex(r"[A-Za-z0-9_.-]{1,8}", fullmatch=True),
    town=words,
    points_world=points.map(tuple),
    weathers=st.lists(weathers, max_size=2).map(tuple),
    scenarios=st.lists(scenarios, max_size=2).map(tuple),
)


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "routes.xml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def near(ours: FileRoute, theirs: FileRoute) -> bool:
    """Equal but for the rounding of yaw in degrees."""
    ours_at, theirs_at = ([s.trigger_world for s in r.scenarios] for r in (ours, theirs))
    gaps = [
        abs(math.remainder(a - b, 2 * math.pi)) if k == 3 else abs(a - b)
        for one, two in zip(ours_at, theirs_at, strict=True)
        for k, (a, b) in enumerate(zip(one, two, strict=True))
    ]
    rest = [
        (
            r.route_id,
            r.town,
            r.points_world,
            r.weathers,
            [(s.name, s.type, s.parameters) for s in r.scenarios],
        )
        for r in (ours, theirs)
    ]
    return rest[0] == rest[1] and max(gaps, default=0.0) < 1e-9


@given(st.lists(routes, min_size=1, max_size=3, unique_by=lambda r: r.route_id))
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, given_routes: list[FileRoute]
) -> None:
    file = read_routes(written(tmp_path_factory.mktemp("xml"), route_xml(given_routes)))
    assert len(file.routes) == len(given_routes)
    assert all(near(ours, theirs) for ours, theirs in zip(file.routes, given_routes, strict=True))
    assert not [p for p in file.problems if p.kind != "fewer than 2 different waypoints"]


@given(routes)
def test_leaderboard_1_form_gives_the_same_waypoints(
    tmp_path_factory: pytest.TempPathFactory, route: FileRoute
) -> None:
    (read,) = read_routes(written(tmp_path_factory.mktemp("xml"), route_xml([route], leaderboard=1))).routes
    assert read.points_world == route.points_world
    assert [w.values for w in read.weathers] == [w.values for w in route.weathers]
    assert read.kind == "none"


@given(
    st.integers(0, 10**6),
    st.integers(0, 60),
    st.binary(max_size=12),
    st.sampled_from(["utf-8", "utf-16", "latin-1"]),
)
def test_any_damage_is_told_apart_or_refused_but_never_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, at: int, length: int, instead: bytes, encoding: str
) -> None:
    whole = route_xml(
        [FileRoute("7", "Town01", STRAIGHT, scenarios=(Scenario("A_1", "Accident", (0, 0, 0, 0)),))]
    )
    text = f"<?xml version='1.0' encoding='{encoding}'?>{whole}".encode(encoding)
    at %= len(text)
    path = written(tmp_path_factory.mktemp("xml"), text[:at] + instead + text[at + length :])
    with suppress(UserError):
        assert read_routes(path).routes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not valid XML"),
        (b"\x00\xff\xfe", "not valid XML"),
        (b"{}", "not valid XML"),
        (b"<routes>", "not valid XML"),
        (b"<routes/>", "holds no routes"),
        (b"<route id='1' town='Town01'/>", r"holds no routes .* got <route>"),
        (b"<weathers><weather/></weathers>", r"holds no routes .* got <weathers>"),
        (b"<?xml version='1.0' encoding='nonsense'?><routes/>", "not valid XML"),
        (b"<routes><route town='Town01' id='\x80'/></routes>", "not valid XML"),
    ],
)
def test_a_file_without_routes_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_routes(written(tmp_path, content))


@pytest.mark.parametrize("name", ["absent.xml", "."])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_routes(tmp_path / name)


ROUTE = "<routes><route id='7' town='Town01'>{}</route></routes>"
TWO = "<waypoint x='0' y='0' z='0'/><waypoint x='9' y='0' z='0'/>"
TRIGGER = "trigger_point x='0' y='0' z='0'"
SCENARIO = "<scenarios><scenario name='A_1' type='{}'>{}<{}/></scenario></scenarios>"


@pytest.mark.parametrize(
    ("inside", "kind", "detail"),
    [
        ("", "fewer than 2 different waypoints", "0 given"),
        ("<waypoint x='0' y='0' z='0'/>" * 5, "fewer than 2 different waypoints", "5 given"),
        (TWO.replace("9", "nan"), "not a number", "waypoint 1: x is 'nan'"),
        (TWO.replace("9", "1e999"), "not a number", "waypoint 1: x is '1e999'"),
        (TWO.replace("9", "nine"), "not a number", "waypoint 1: x is 'nine'"),
        (TWO.replace("x='9'", ""), "not a number", "waypoint 1: x is None"),
        (TWO + "<weather wetness='wet'/>", "not a number", "weather: wetness is 'wet'"),
        (TWO + SCENARIO.format("Accident", "", "other"), "scenario without trigger_point", "A_1"),
        (TWO + SCENARIO.format("Accident", "", TRIGGER), "not a number", "A_1: trigger_point: yaw is None"),
    ],
)
def test_what_makes_a_route_unusable(tmp_path: Path, inside: str, kind: str, detail: str) -> None:
    (problem,) = read_routes(written(tmp_path, ROUTE.format(inside))).problems
    assert (problem.route_id, problem.kind, problem.detail) == ("7", kind, detail)


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ("town='Town01'", "unusable id"),
        ("id='' town='Town01'", "unusable id"),
        ("id='../7' town='Town01'", "unusable id"),
        ("id='7'", "no town"),
    ],
)
def test_a_route_without_name_or_town(tmp_path: Path, attributes: str, kind: str) -> None:
    file = read_routes(written(tmp_path, f"<routes><route {attributes}>{TWO}</route></routes>"))
    assert [p.kind for p in file.problems] == [kind]


def test_repeated_ids_are_a_problem(tmp_path: Path) -> None:
    route = FileRoute("7", "Town01", STRAIGHT)
    assert [p.kind for p in read_routes(written(tmp_path, route_xml([route, route]))).problems] == [
        "repeated id"
    ]


@pytest.mark.parametrize(
    ("inside", "kind", "detail"),
    [
        (TWO + "<waypoint x='9' y='0' z='0'/>", "repeated waypoints", "1"),
        (
            "".join(f"<waypoint x='{x}' y='0' z='0'/>" for x in (0, 2, 4, 6, 46, 48)),
            "gaps between waypoints",
            "40 m (usual 2.0 m)",
        ),
        (TWO + SCENARIO.format("Acident", "", TRIGGER + " yaw='0'"), "unknown scenario type", "'Acident'"),
        (TWO + "<weather wet='1'/>", "unknown weather parameter, ignored", "wet"),
        (TWO + "<sun/>", "unknown element, ignored", "<sun>"),
        (
            TWO + SCENARIO.format("Accident", "<speed kmh='1'/>", TRIGGER + " yaw='0'"),
            "scenario parameter of unknown form, ignored",
            "A_1: speed {'kmh': '1'}",
        ),
        (
            TWO + SCENARIO.format("Accident", "<speed value='1'/>" * 2, TRIGGER + " yaw='0'"),
            "repeated scenario parameter, the last one counts",
            "A_1: speed",
        ),
    ],
)
def test_what_a_driver_should_know(tmp_path: Path, inside: str, kind: str, detail: str) -> None:
    file = read_routes(written(tmp_path, ROUTE.format(inside)))
    (warning,) = file.warnings
    assert (warning.kind, warning.detail) == (kind, detail)
    assert not file.problems


def test_findings_are_grouped_by_kind(tmp_path: Path) -> None:
    many = [FileRoute(str(n), "Town01", (STRAIGHT[0],)) for n in range(4)]
    problems = read_routes(written(tmp_path, route_xml(many))).problems
    (all_of_them,) = grouped(problems)
    assert all(f"route {n}: 1 given" in all_of_them for n in range(4))
    (some,) = grouped(problems, 1)
    assert some == "fewer than 2 different waypoints (4 routes): route 0: 1 given; and 3 more"


@pytest.mark.parametrize("name", sorted(FILES))
def test_real_files_are_read_whole(shared_data: Path, name: str) -> None:
    path = shared_data / "carla" / "routes" / name
    if not path.is_file():
        pytest.skip(f"no {name} in ../shared/data")
    file = read_routes(path)
    counts = [len(file.routes)]
    counts += [
        sum(len(getattr(r, part)) for r in file.routes) for part in ("points_world", "weathers", "scenarios")
    ]
    unknown = [w for w in file.warnings if w.kind.startswith("unknown")]
    assert (*counts, len(unknown)) == FILES[name]
    assert not file.problems
    places = [s.trigger_world for r in file.routes for s in r.scenarios]
    assert all(math.isfinite(v) for place in places for v in place)
