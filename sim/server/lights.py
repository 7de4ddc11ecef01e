"""Traffic-light controllers: cycling, manual changes, resets. Phases start anew with every episode."""

from collections.abc import Iterable, Sequence

from sim.server.actors import Controller, LightGroup, TrafficLight
from sim.server.wire import GREEN, RED, YELLOW


def build_groups(
    groups: Sequence[Sequence[Sequence[str]]], lights: dict[str, TrafficLight]
) -> list[LightGroup]:
    """Controllers of every junction; the first one of each starts green, all others red."""
    out = []
    for row in groups:
        group = LightGroup([Controller([lights[sign_id] for sign_id in ids]) for ids in row])
        pole = 0
        for controller in group.controllers:
            for light in controller.lights:
                light.controller, light.group, light.pole = controller, group, pole
                pole += 1
        out.append(group)
        reset(group)
    return out


def reset(group: LightGroup) -> None:
    """First controller green, the others red."""
    group.active = 0
    for i, controller in enumerate(group.controllers):
        _show(controller, GREEN if i == 0 else RED)


def step(groups: Iterable[LightGroup], dt: float) -> list[TrafficLight]:
    """Advance all cycles (green, yellow, red, next controller); returns lights that show something new."""
    changed = []
    for group in groups:
        controller = group.controllers[group.active]
        if group.held:
            continue
        controller.elapsed_s += dt
        if controller.elapsed_s < controller.times_s[controller.state] - 1e-9:
            continue
        changed += controller.lights
        if controller.state == GREEN:
            _show(controller, YELLOW)
        elif controller.state == YELLOW:
            _show(controller, RED)
        else:
            group.active = (group.active + 1) % len(group.controllers)
            following = group.controllers[group.active]
            _show(following, GREEN)
            changed += following.lights
    return changed


def _show(controller: Controller, state: int) -> None:
    controller.state, controller.elapsed_s = state, 0.0
    for light in controller.lights:
        light.state = state
