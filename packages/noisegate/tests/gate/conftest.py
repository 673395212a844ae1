from tests.shared.gate_room import *  # noqa: F403
