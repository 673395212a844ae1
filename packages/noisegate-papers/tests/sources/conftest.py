from tests.shared.data_room import *  # noqa: F403
