from tests.shared.training_room import *  # noqa: F403
