"""Planted bugs in how linked tables are read: whose a record is, in which order, and what a unit weighs."""

from __future__ import annotations

from tests.planted.patches import Plant, bug

STANDS = "test_where_records_stand_changes_nothing"
AUDIT = "test_right_linked_tables_stay_below_their_claim_and_are_seen"
WEIGHTS = "test_weights_of_a_unit_come_to_the_grid_and_never_to_more"


@bug(STANDS, "test_children_without_an_order_stand_in_one_that_their_place_does_not_tell")
def children_in_the_order_of_the_file(plant: Plant) -> None:
    """Children of one day stand in the order in which the file has them."""
    plant.rewrite(
        "families.families",
        "np.lexsort((ties, rank, any_keys, any_others))",
        "np.lexsort((rank, any_keys, any_others))",
    )


@bug(WEIGHTS, "test_rows_are_those_of_a_slow_reading", AUDIT)
def every_child_counts_whole(plant: Plant) -> None:
    """A child counts as much as if it were the only one."""
    plant.rewrite("families.Families", "_split(any_shares, np.maximum(self.counts, 1))", "any_shares")


@bug(WEIGHTS, "test_codes_of_a_visit_count_by_the_visits_of_its_person")
def grandchildren_count_by_their_parents_alone(plant: Plant) -> None:
    """The share of a visit is not split among the visits of its person."""
    plant.rewrite("families.Families", "_split(self.parents['share'], self.counts)", "self.parents['share']")


@bug("test_shares_beyond_64_bits_count_nothing")
def shares_that_wrap(plant: Plant) -> None:
    """Shares are multiplied in 64 bits, beyond which they begin again."""
    plant.wrap("families._split")(lambda right, share, among: share * among)


@bug("test_a_unit_that_counted_more_than_the_grid_would_stop_the_run_before_it_is_asked_anything")
def weights_that_nobody_adds_up(plant: Plant) -> None:
    """What the rows of a unit count together is not looked at."""
    plant.wrap("families.Families.add_weights")(lambda right, found, totals: None)


@bug("test_workers_that_have_shares_of_the_parents_add_up_to_one_machine")
def families_in_every_share(plant: Plant) -> None:
    """A share has the families of all others too."""
    plant.wrap("families.Families.share")(lambda right, families, number, of: families)


@bug("test_two_parents_with_one_key_are_refused")
def two_units_of_one_key(plant: Plant) -> None:
    """Two parents may have one key, and the children of both go to the first."""
    plant.rewrite("families.families", "(~new & ~child).any()", "False")


@bug("test_a_person_more_or_less_changes_no_row_of_the_others")
def gaps_from_one_family_to_the_next(plant: Plant) -> None:
    """The first child of a parent is taken for one that follows the last of another."""
    plant.rewrite("families.Families", "self.of[1:] == self.of[:-1]", "self.of[1:] >= 0")


@bug("test_what_is_kept_on_disk_has_no_name_and_goes")
def private_records_under_a_name(plant: Plant) -> None:
    """What does not fit into memory is kept in a file that stays."""
    plant.rewrite("spill.Spill.write", "tempfile.TemporaryFile(prefix=any_name)", "tempfile.NamedTemporaryFile()")
