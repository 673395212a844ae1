from tests.shared.models_room import *  # noqa: F403
