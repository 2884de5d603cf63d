"""Names that fit into a picture, and never two arms under one name."""

from harness.reports.writing.plots import LONGEST, short_names

MIDDLES = [f"base {'learning_rate=1e-4 ' * 3}mask_rate=0.{index} {'warmup_share=0.1 ' * 3}end" for index in range(3)]


def test_names_that_fit_stay_whole():
    assert short_names(["base", "b" * LONGEST]) == {"base": "base", "b" * LONGEST: "b" * LONGEST}


def test_the_middle_of_a_longer_one_is_left_out():
    label = "a" * 30 + "b" * 11
    assert short_names([label]) == {label: "a" * 20 + "…" + "a" * 8 + "b" * 11}
    assert len(short_names([label])[label]) == LONGEST


def test_names_that_would_be_the_same_end_in_a_hash():
    names = short_names(["base", *MIDDLES])
    assert len(set(names.values())) == 4
    assert all(len(names[label]) <= LONGEST and " #" in names[label] for label in MIDDLES)


def test_a_name_is_the_same_beside_other_names():
    """Where it needs a hash in two pictures, that is the same one."""
    assert short_names(MIDDLES)[MIDDLES[0]] == short_names([MIDDLES[2], MIDDLES[0], "base"])[MIDDLES[0]]


def test_settings_are_cut_between_words():
    label = "albert learning_rate=1e-4 warmup_share=0.1 attention_window=32 batch_size=64"
    assert short_names([label])[label] == "albert learning_rate=1e-4…batch_size=64"


def test_no_space_stands_beside_what_is_left_out():
    label = f"{'a' * 19} {'b' * 50} {'c' * 18}"
    assert short_names([label])[label] == f"{'a' * 19}…{'c' * 18}"


def test_a_short_name_that_reads_like_a_shortened_one_is_told_apart():
    label = "a" * 30 + "b" * 30
    cut = short_names([label])[label]
    assert len(set(short_names([label, cut]).values())) == 2


def test_arms_that_continue_the_baseline_are_named_by_what_they_add():
    baseline, others = "minilm pooling=mean", ["trains=head", "trains=head precision=int8_dynamic", "precision=int8_dynamic"]
    assert short_names([baseline, *(f"{baseline} {other}" for other in others)]) == {baseline: baseline} | {
        f"{baseline} {other}": other for other in others
    }


def test_short_labels_and_those_of_other_models_stay_whole():
    assert short_names(["base", "base trains=head"])["base trains=head"] == "base trains=head"
    long = f"albert {'a' * LONGEST}"
    assert short_names(["base", "base trains=head", long])["base trains=head"] == "base trains=head"
