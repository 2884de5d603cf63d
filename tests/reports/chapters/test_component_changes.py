"""Changes of parameters by component: the table of original and variant."""

import pytest
from texts import parts

from harness import tags
from harness.comparison.compare import compare
from harness.comparison.section import Section
from harness.reports.chapters import components

BASE = {"token_embedding": 4_000_000.0, "layers": 2_000_000.0, "position_embedding": 16_384.0, "head": 258.0}


@pytest.fixture
def section(make_run) -> Section:
    """base, and variants by what they change; `tiny_head` lacks no component but changes one alone."""
    changes = {
        "base": {},
        "shared": {"layers": 500_000.0},
        "wide": {"layers": 3_000_000.0},
        "factorized": {"token_embedding": 1_000_000.0, "embedding_projection": 65_536.0},
        "same": {},
        "rotary": {"position_embedding": 0.0},
    }
    return compare("s", [make_run(arm, values=counted(BASE | parts)) for arm, parts in changes.items()]).sections[0]


def counted(parts: dict[str, float]) -> dict[str, float]:
    values = {f"model/params_component_{part}": count for part, count in parts.items()}
    return values | {"model/params_total": sum(parts.values())}


def test_the_variants_that_change_most_come_first_and_equal_ones_are_left_out(section):
    found = components.changed(section, "model")
    assert [one.label for one in found] == ["factorized", "shared", "wide", "rotary"]
    assert found[0].change == -3_000_000 + 65_536
    assert found[0].changed == ["token_embedding", "embedding_projection"]
    assert components.changed(section, "published") == []


def test_table_has_original_variant_and_both_changes_and_says_which_variants(section):
    note, table = parts(components.table_of_changes(section, "model"))
    assert note == "Of 4 variants with another number of parameters, the 3 whose total changes most."
    lines = table.splitlines()
    assert lines[0] == "| variant | component | original | variant's | change | percent |"
    assert "| factorized | token embeddings | 4.00 M | 1.00 M | −3.00 M | −75.0 % |" in lines
    assert any(line.startswith("| shared | **total** | 6.02 M | 4.52 M | −1.50 M | −24.9 %") for line in lines)
    assert "| wide | layers | 2.00 M | 3.00 M | +1.00 M | +50.0 % |" in lines
    assert not any("rotary" in line for line in lines)


def test_component_that_the_original_lacks_has_no_percentage(section):
    lines = parts(components.table_of_changes(section, "model"))[1].splitlines()
    assert sum("| 0 | 65.5 k | +65.5 k | – |" in line for line in lines) == 1


def test_chapter_shows_table_and_picture(section, make_run, study_of):
    study = study_of(
        compare("s", [make_run("base", values=counted(BASE)), make_run("small", values=counted(BASE | {"layers": 1.0}))])
    )
    made = components.chapter(study)
    assert "### At the dimensions that were run: changes by component" in made.paragraphs
    assert set(made.files) == {"parameters.svg"}  # a picture of the changes would repeat its bars


def test_arms_on_changed_weights_say_where_their_parameters_come_from(make_run, study_of):
    """Only where some are derived; an arm without weights is left out, and one whose changed weights were trained since."""

    def origin(kept: float, derived: float) -> dict[str, float]:
        return {"model/params_kept": kept, "model/params_derived": derived, "model/params_random": 770.0}

    arms = {
        "minilm": counted(BASE) | origin(6_016_384.0, 0.0),
        "minilm+half": counted(BASE | {"layers": 1e6}) | origin(4e6, 1_016_384.0) | {"model/weights_error": 0.781},
        "from scratch": counted(BASE),
    }
    runs = [make_run(arm, values=of) for arm, of in arms.items()]
    runs.append(make_run("minilm+healed", values=counted(BASE) | origin(5e6, 0.0), **{tags.PRETRAINING: "f1"}))
    paragraphs = components.chapter(study_of(compare("s", runs, "minilm"))).paragraphs
    table = paragraphs[paragraphs.index("### Where the weights come from") + 2].splitlines()
    assert table[0] == "| arm | kept | derived | random | largest relative error |"
    assert table[2:] == [
        "| minilm | 6.02 M (100 %) | 0 (0 %) | 770 (0.0128 %) | – |",
        "| minilm+half | 4.00 M (79.7 %) | 1.02 M (20.3 %) | 770 (0.0153 %) | 78.1 % |",
    ]
    alone = study_of(compare("s", [make_run("minilm", values=arms["minilm"])], "minilm"))
    assert "### Where the weights come from" not in components.chapter(alone).paragraphs
