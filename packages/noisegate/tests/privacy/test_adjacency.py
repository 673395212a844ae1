"""The neighbouring relations are a closed set, known by their names."""

import pytest

from noisegate.errors import OptionError
from noisegate.privacy.events import Adjacency


@pytest.mark.parametrize("relation", list(Adjacency))
def test_a_relation_is_found_by_its_name_and_by_itself(relation):
    assert Adjacency.parse(relation.value) is relation and Adjacency.parse(relation) is relation


@pytest.mark.parametrize("name", ["add_remove", "", "ADD-REMOVE", None, 3])
def test_another_name_is_refused_with_the_choices(name):
    with pytest.raises(OptionError, match=r"adjacency=.*'add-remove', 'replace-one'"):
        Adjacency.parse(name)
