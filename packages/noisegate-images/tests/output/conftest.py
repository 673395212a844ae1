from tests.shared.models_output_room import *  # noqa: F403
