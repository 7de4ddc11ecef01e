"""The ego's camera and collision sensor, matched to ticks by frame id."""

import queue
import time
from dataclasses import dataclass

import carla
import numpy as np

from drive.contracts import U8
from sim.frames import CAMERA_FOV_DEG, CAMERA_SIZE_PX, camera_mount

PLAN_PERIOD_S = 0.2
IMAGE_WAIT_S = 5.0
SAME_CONTACT_S = 5.0


@dataclass(frozen=True)
class Contact:
    """One collision of the ego: frame, the other actor, its type."""

    frame: int
    other_id: int
    other_type: str


class FrontCamera:
    """RGB camera that delivers one picture per planning step."""

    def __init__(self, world: carla.World, ego: carla.Vehicle) -> None:
        blueprint = world.get_blueprint_library().find("sensor.camera.rgb")
        width, height = CAMERA_SIZE_PX
        for name, value in (
            ("image_size_x", width),
            ("image_size_y", height),
            ("fov", CAMERA_FOV_DEG),
            ("sensor_tick", PLAN_PERIOD_S),
        ):
            blueprint.set_attribute(name, str(value))
        self._actor = world.spawn_actor(blueprint, camera_mount(), attach_to=ego)
        self._images: queue.SimpleQueue[carla.Image] = queue.SimpleQueue()
        self._last: U8 | None = None
        self._pending: list[carla.Image] = []
        self.late = 0
        self._actor.listen(self._images.put)

    def poll(self, frame: int, wait_s: float) -> U8 | None:
        """The picture of `frame` as uint8 (H, W, 3) RGB, or None if it has not come within wait_s."""
        until = time.monotonic() + wait_s
        while True:
            for image in self._pending:
                if image.frame == frame:
                    self._pending = [i for i in self._pending if i.frame >= frame]
                    self._last = _rgb(image)
                    return self._last
            left = until - time.monotonic()
            if left <= 0 and self._images.empty():
                return None
            try:
                self._pending.append(self._images.get(timeout=max(left, 0.001)))
            except queue.Empty:
                return None

    def at(self, frame: int) -> U8:
        """The picture of `frame`; if it does not come in time the previous one again, counted in `late`."""
        image = self.poll(frame, IMAGE_WAIT_S)
        if image is None:
            self.late += 1
            image = self._last
        if image is None:
            raise TimeoutError(f"no camera image of frame {frame} within {IMAGE_WAIT_S:.0f} s")
        return image

    def close(self) -> None:
        """Stop and remove the sensor."""
        self._actor.stop()
        self._actor.destroy()


def _rgb(image: carla.Image) -> U8:
    bgra = np.frombuffer(image.raw_data, np.uint8).reshape(image.height, image.width, 4)
    return np.ascontiguousarray(bgra[..., 2::-1])


class CollisionSensor:
    """Collects the ego's collisions; repeated contact with the same actor within 5 s counts once."""

    def __init__(self, world: carla.World, ego: carla.Vehicle) -> None:
        blueprint = world.get_blueprint_library().find("sensor.other.collision")
        self._actor = world.spawn_actor(blueprint, carla.Transform(), attach_to=ego)
        self._raw: queue.SimpleQueue[Contact] = queue.SimpleQueue()
        self._actor.listen(self._on_event)

    def _on_event(self, event: carla.CollisionEvent) -> None:
        self._raw.put(Contact(event.frame, event.other_actor.id, event.other_actor.type_id))

    def contacts(self, tick_s: float) -> list[Contact]:
        """All separate contacts so far in frame order; call once, at the end of a drive."""
        raw: list[Contact] = []
        while not self._raw.empty():
            raw.append(self._raw.get())
        last: dict[int, int] = {}
        separate: list[Contact] = []
        for contact in sorted(raw, key=lambda c: (c.frame, c.other_id)):
            before = last.get(contact.other_id)
            if before is None or (contact.frame - before) * tick_s > SAME_CONTACT_S:
                separate.append(contact)
            last[contact.other_id] = contact.frame
        return separate

    def close(self) -> None:
        """Stop and remove the sensor."""
        self._actor.stop()
        self._actor.destroy()
