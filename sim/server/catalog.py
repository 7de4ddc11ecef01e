"""Sizes and filter attributes of the road users that can be spawned (half sizes in metres).

Source of the sizes: the boxes that a CARLA 0.9.16 server reports for its own blueprints, see prop_sizes.py.
"""

from dataclasses import dataclass

from sim.server.prop_sizes import DEFAULT_PARKED_CAR, DEFAULT_PROP, PARKED_CARS, PROPS, HalfSize


@dataclass(frozen=True)
class VehicleType:
    """One vehicle blueprint.

    Attributes:
        half_size_m: Half length, half width, half height.
        wheels, base_type, special_type, generation, has_lights, has_doors: What scenario code filters on.
    """

    half_size_m: HalfSize
    wheels: int = 4
    base_type: str = "car"
    special_type: str = ""
    generation: int = 1
    has_lights: bool = False
    has_doors: bool = False


VEHICLES = {
    "vehicle.audi.a2": VehicleType((1.8527, 0.8944, 0.7728)),
    "vehicle.audi.etron": VehicleType((2.4278, 1.0163, 0.8242)),
    "vehicle.audi.tt": VehicleType((2.0906, 0.997, 0.6926), has_lights=True),
    "vehicle.bmw.grandtourer": VehicleType((2.3055, 1.1208, 0.8336)),
    "vehicle.chevrolet.impala": VehicleType((2.6787, 1.0166, 0.7055), has_lights=True),
    "vehicle.citroen.c3": VehicleType((1.9938, 0.9255, 0.8085)),
    "vehicle.dodge.charger_2020": VehicleType(
        (2.5039, 0.9408, 0.7674), generation=2, has_lights=True, has_doors=True
    ),
    "vehicle.dodge.charger_police": VehicleType(
        (2.4871, 1.0192, 0.7711), special_type="emergency", has_lights=True
    ),
    "vehicle.dodge.charger_police_2020": VehicleType(
        (2.6188, 0.9649, 0.8192), special_type="emergency", generation=2, has_lights=True, has_doors=True
    ),
    "vehicle.ford.crown": VehicleType(
        (2.6828, 0.9006, 0.788), special_type="taxi", generation=2, has_lights=True, has_doors=True
    ),
    "vehicle.ford.mustang": VehicleType((2.3588, 0.9474, 0.6505), has_lights=True),
    "vehicle.jeep.wrangler_rubicon": VehicleType((1.9331, 0.9526, 0.9389)),
    "vehicle.lincoln.mkz_2017": VehicleType((2.4508, 1.0641, 0.7553), has_lights=True),
    "vehicle.lincoln.mkz_2020": VehicleType(
        (2.4462, 0.9184, 0.7451), generation=2, has_lights=True, has_doors=True
    ),
    "vehicle.mercedes.coupe": VehicleType((2.5134, 1.0758, 0.8253), has_lights=True),
    "vehicle.mercedes.coupe_2020": VehicleType(
        (2.3368, 0.9059, 0.721), generation=2, has_lights=True, has_doors=True
    ),
    "vehicle.micro.microlino": VehicleType((1.1035, 0.7404, 0.6881), special_type="electric"),
    "vehicle.mini.cooper_s": VehicleType((1.9029, 0.9853, 0.7376)),
    "vehicle.mini.cooper_s_2021": VehicleType(
        (2.2764, 1.0485, 0.8836), generation=2, has_lights=True, has_doors=True
    ),
    "vehicle.nissan.micra": VehicleType((1.8167, 0.9226, 0.7506)),
    "vehicle.nissan.patrol": VehicleType((2.3022, 0.9657, 0.9274)),
    "vehicle.nissan.patrol_2021": VehicleType(
        (2.7828, 1.0749, 1.0225), generation=2, has_lights=True, has_doors=True
    ),
    "vehicle.seat.leon": VehicleType((2.0964, 0.9082, 0.7369)),
    "vehicle.tesla.model3": VehicleType((2.3959, 1.0817, 0.7439), special_type="electric", has_lights=True),
    "vehicle.toyota.prius": VehicleType((2.2568, 1.0034, 0.7624)),
    "vehicle.carlamotors.carlacola": VehicleType(
        (2.6013, 1.3134, 1.2337), base_type="truck", has_lights=True
    ),
    "vehicle.carlamotors.european_hgv": VehicleType(
        (3.9679, 1.4455, 1.731), base_type="truck", generation=2, has_lights=True
    ),
    "vehicle.carlamotors.firetruck": VehicleType(
        (4.234, 1.4455, 1.9137),
        base_type="truck",
        special_type="emergency",
        generation=2,
        has_lights=True,
        has_doors=True,
    ),
    "vehicle.tesla.cybertruck": VehicleType(
        (3.1368, 1.1946, 1.0493), base_type="truck", special_type="electric"
    ),
    "vehicle.ford.ambulance": VehicleType(
        (3.1828, 1.1756, 1.2157),
        base_type="van",
        special_type="emergency",
        generation=2,
        has_lights=True,
        has_doors=True,
    ),
    "vehicle.mercedes.sprinter": VehicleType(
        (2.9575, 0.9944, 1.2802), base_type="van", generation=2, has_lights=True, has_doors=True
    ),
    "vehicle.volkswagen.t2": VehicleType((2.2402, 1.0346, 1.0188), base_type="van", has_lights=True),
    "vehicle.volkswagen.t2_2021": VehicleType(
        (2.2211, 0.8873, 0.9936), base_type="van", generation=2, has_lights=True, has_doors=True
    ),
    "vehicle.mitsubishi.fusorosa": VehicleType(
        (5.1364, 1.9721, 2.1264), base_type="bus", generation=2, has_lights=True, has_doors=True
    ),
    "vehicle.harley-davidson.low_rider": VehicleType(
        (1.1751, 0.3831, 0.8247), wheels=2, base_type="motorcycle"
    ),
    "vehicle.kawasaki.ninja": VehicleType(
        (1.0218, 0.3985, 0.7616), wheels=2, base_type="motorcycle", has_lights=True
    ),
    "vehicle.vespa.zx125": VehicleType(
        (0.9086, 0.433, 0.795), wheels=2, base_type="motorcycle", has_lights=True
    ),
    "vehicle.yamaha.yzf": VehicleType(
        (1.0954, 0.433, 0.7652), wheels=2, base_type="motorcycle", has_lights=True
    ),
    "vehicle.bh.crossbike": VehicleType((0.7547, 0.433, 0.8062), wheels=2, base_type="bicycle"),
    "vehicle.diamondback.century": VehicleType((0.8281, 0.2912, 0.8099), wheels=2, base_type="bicycle"),
    "vehicle.gazelle.omafiets": VehicleType((0.9217, 0.3295, 0.8879), wheels=2, base_type="bicycle"),
}
DEFAULT_VEHICLE = "vehicle.tesla.model3"
FIXED_COLOUR = (
    "vehicle.carlamotors.firetruck",
    "vehicle.ford.ambulance",
    "vehicle.dodge.charger_police_2020",
)
COLOURS = ("180,180,180", "17,37,103", "137,0,0", "0,0,0", "255,255,255")

ADULT: HalfSize = (0.19, 0.19, 0.93)
CHILDREN: dict[int, HalfSize] = {
    **dict.fromkeys((9, 10, 11, 48, 49), (0.25, 0.25, 0.55)),
    **dict.fromkeys((12, 13, 14), (0.19, 0.19, 0.65)),
}
WALKER_COUNT = 52


def half_size_of(type_id: str, mesh_path: str = "") -> HalfSize | None:
    """Half size (x, y, z) [m] of a spawnable type; None for things without a body (sensors, controllers)."""
    kind = type_id.split(".")[0]
    if kind == "vehicle":
        return VEHICLES.get(type_id, VEHICLES[DEFAULT_VEHICLE]).half_size_m
    if kind == "walker":
        number = type_id.rpartition(".")[2]
        return CHILDREN.get(int(number), ADULT) if number.isdecimal() else ADULT
    if type_id == "static.prop.mesh":
        return next((size for key, size in PARKED_CARS.items() if key in mesh_path), DEFAULT_PARKED_CAR)
    if type_id.startswith("static.prop."):
        return PROPS.get(type_id.removeprefix("static.prop."), DEFAULT_PROP)
    return None
