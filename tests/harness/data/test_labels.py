"""Several labels of a text: every written form gives the same labels, or is refused with the key to change."""

import pytest

from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig
from harness.data import labels
from harness.errors import InputError


def read(column: list, **keys: object) -> tuple[list, list[str]]:
    task = TaskConfig(name="own", kind=TaskKind.multilabel, label="y", **keys)
    return labels.several(task, column, lambda row: f"file, line {row + 1}")


NAMES = [["joy", "fear"], [], ["fear"], ["joy"]]


@pytest.mark.parametrize(
    "column",
    [
        NAMES,
        ["joy|fear", "", "fear", "joy"],
        ["['joy', 'fear']", "[]", "['fear']", "['joy']"],
        ['["joy", "fear"]', "[]", '["fear"]', '["joy"]'],
        ["('joy', 'fear')", "[]", "('fear',)", "joy"],
    ],
)
@pytest.mark.parametrize("known", [[], ["fear", "joy"]])
def test_every_form_of_names_gives_them(column, known):
    assert read(column, labels=known) == (NAMES, [])


@pytest.mark.parametrize(
    "column",
    [
        [[1, 0, 1], [0, 0, 0]],
        [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]],
        [[True, False, True], [False, False, False]],
        ["[1, 0, 1]", "[0, 0, 0]"],
        ["[1.0, 0.0, 1.0]", "[False, False, False]"],
        ["1 0 1", "0 0 0"],
    ],
)
def test_zeros_and_ones_say_which_labels_a_text_has(column):
    assert read(column) == ([["0", "2"], []], ["0", "1", "2"])
    assert read(column, labels=["a", "b", "c"]) == ([["a", "c"], []], ["a", "b", "c"])
    with pytest.raises(InputError, match=r"lists of 3 zeros and ones in 'y' \(task\.label\), but task\.labels has 2"):
        read(column, labels=["a", "b"])


def test_two_places_are_zeros_and_ones_where_a_row_has_two_equal_ones():
    assert read([[0, 1], [0, 0]]) == ([["1"], []], ["0", "1"])


def test_numbers_of_classes_are_no_zeros_and_ones():
    assert read([[1], [0, 1], [2]], labels=["a", "b", "c"]) == ([[1], [0, 1], [2]], [])


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([[1, 0, 1], [0, 0]], r"line 1: a row names a label twice, \[1, 0, 1\]; .* task\.labels=\[...\]"),
        (["joy|joy"], "line 1: a row names a label twice"),
        ([["joy", None]], "line 1: expected names of labels in a list"),
        ([["joy", float("nan")]], "line 1: expected names of labels in a list"),
        ([[["joy"]]], "line 1: expected names of labels in a list"),
        ([[0.3, 0.7]], "line 1: expected names of labels in a list"),
        ([[0, 1], [1, 0]], r"line 1: \[0, 1\] in 'y' .* may be two labels, or a 0 or 1 for each: expected names"),
        (["[0, 1]", "0 1"], "may be two labels"),
        (["['joy' 'fear']"], r"line 1: .* is not a list: expected \[\"a\", \"b\"\], \['a', 'b'\] or a\|b"),
        (["[1 0 1]"], "line 1: .* is not a list"),
        (["[joy, fear]"], "line 1: .* is not a list"),
        (["[" * 9000 + "]"], "line 1: .* is not a list"),
        (["arts, crafts", "toys, games"], r"is ambiguous \(','\?\): set task\.label_separator=','"),
        (["joy, fear", "fear", "joy"], r"is ambiguous \(','\?\): set task\.label_separator=','"),
        (["joy, fear", "fear; joy", "joy"], r"is ambiguous \(';' or ','\?\): set task\.label_separator=';'"),
    ],
)
def test_what_is_ambiguous_is_refused(column, expected):
    with pytest.raises(InputError, match=expected):
        read(column)


def test_a_stated_separator_decides():
    column = ["arts, crafts", "toys, games"]
    assert read(column, label_separator="")[0] == [["arts, crafts"], ["toys, games"]]
    assert read(column, label_separator=",")[0] == [["arts", "crafts"], ["toys", "games"]]
    assert read(["joy, fear", "", "joy"], labels=["joy", "fear"])[0] == [["joy", "fear"], [], ["joy"]]
    assert read(column, labels=column)[0] == [["arts, crafts"], ["toys, games"]]
    assert read(["arts, crafts|toys"])[0] == [["arts, crafts", "toys"]]


def test_missing_labels_stay_missing():
    assert read([["joy"], None, float("nan")]) == ([["joy"], None, None], [])


def test_a_column_for_each_label_says_which_a_text_has():
    columns = {"joy": ["1", "0.0", 1.0], "fear": ["0", "True", False]}
    assert labels.of_columns(["joy", "fear"], columns, str) == [["joy"], ["fear"], ["joy"]]
    with pytest.raises(InputError, match=r"2: expected 0 or 1 in column 'joy' \(task\.labels\), got 2"):
        labels.of_columns(["joy"], {"joy": [1, 0, 2]}, str)


@pytest.mark.parametrize("seed", range(5))
def test_every_part_has_the_classes_in_their_shares(seed):
    strata = ["a"] * 60 + ["b"] * 30 + ["c"] * 10
    order = labels.order(strata, seed)
    assert sorted(order) == [*range(100)]
    assert {strata[row] for row in order[:3]} == {"a", "b", "c"}
    for first, end in ((0, 20), (0, 80), (80, 100), (40, 60)):
        part = [strata[row] for row in order[first:end]]
        for name, share in (("a", 0.6), ("b", 0.3), ("c", 0.1)):
            assert abs(part.count(name) - share * len(part)) <= 2


def test_rows_of_several_labels_are_stratified_by_the_rarest():
    task = TaskConfig(name="own", kind=TaskKind.multilabel, label="y")
    assert labels.strata(task, ["a|b", "a", "a", ""], str) == ["b", "a", "a", ""]
