"""Planted bugs in how linked tables are read: whose a record is, in which order, and what a unit weighs."""

from __future__ import annotations

from tests.planted.patches import table

table("""
children-in-the-order-of-the-file: Children of one day stand in the order in which the file has them.
    by test_where_records_stand_changes_nothing
        test_children_without_an_order_stand_in_one_that_their_place_does_not_tell
    rewrite families.families: np.lexsort((ties, rank, any_keys, any_others)) => np.lexsort((rank, any_keys,
        any_others))
every-child-counts-whole: A child counts as much as if it were the only one.
    by test_weights_of_a_unit_come_to_the_grid_and_never_to_more test_rows_are_those_of_a_slow_reading
        test_right_linked_tables_stay_below_their_claim_and_are_seen
    rewrite families.Families: _split(any_shares, np.maximum(self.counts, 1)) => any_shares
grandchildren-count-by-their-parents-alone: The share of a visit is not split among the visits of its person.
    by test_weights_of_a_unit_come_to_the_grid_and_never_to_more
        test_codes_of_a_visit_count_by_the_visits_of_its_person
    rewrite families.Families: _split(self.parents['share'], self.counts) => self.parents['share']
shares-that-wrap: Shares are multiplied in 64 bits, beyond which they begin again.
    by test_shares_beyond_64_bits_count_nothing
    wrap families._split: lambda right, share, among: share * among
weights-that-nobody-adds-up: What the rows of a unit count together is not looked at.
    by test_a_unit_that_counted_more_than_the_grid_would_stop_the_run_before_it_is_asked_anything
    wrap families.Families.add_weights: lambda right, found, totals: None
families-in-every-share: A share has the families of all others too.
    by test_workers_that_have_shares_of_the_parents_add_up_to_one_machine
    wrap families.Families.share: lambda right, families, number, of: families
two-units-of-one-key: Two parents may have one key, and the children of both go to the first.
    by test_two_parents_with_one_key_are_refused
    rewrite families.families: (~new & ~child).any() => False
keys-run-together: A key of several columns is their text, one behind the other.
    by test_a_key_of_several_columns_is_that_of_another_record_only_where_all_of_them_are
    rewrite names.joined_names: zip(lengths, names, strict=True) => zip(names, strict=True)
gaps-from-one-family-to-the-next: The first child of a parent is taken for one that follows the last of another.
    by test_a_person_more_or_less_changes_no_row_of_the_others
    rewrite families.Families: self.of[1:] == self.of[:-1] => self.of[1:] >= 0
private-records-under-a-name: What does not fit into memory is kept in a file that stays.
    by test_what_is_kept_on_disk_has_no_name_and_goes
    rewrite families.Spill.write: tempfile.TemporaryFile(prefix=any_name) => tempfile.NamedTemporaryFile()
""")
