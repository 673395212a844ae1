from tests.shared.streams import *  # noqa: F403
