from tests.shared.data_room import people  # noqa: F401
