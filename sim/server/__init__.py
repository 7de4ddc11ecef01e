"""Light headless server that speaks CARLA 0.9.16's wire protocol on CARLA's towns."""
