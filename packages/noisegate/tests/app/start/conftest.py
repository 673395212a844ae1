from tests.shared.cli_room import *  # noqa: F403
