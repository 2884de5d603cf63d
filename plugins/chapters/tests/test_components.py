"""Parameters by component, and where those of arms on changed weights come from."""

import pytest
from texts import md

from harness import tags
from harness.comparison.compare import compare
from harness.document import markdown
from harness.plugins.chapters import components
from harness.reports.writing.concise import concise

BASE = {"token_embedding": 4_000_000.0, "layers": 2_000_000.0, "position_embedding": 16_384.0, "head": 258.0}

OURS = {"model.attention_window": "32", "model.num_hidden_groups": "None", "published.num_hidden_groups": "1"}


def counted(parts: dict[str, float]) -> dict[str, float]:
    values = {f"model/params_component_{part}": count for part, count in parts.items()}
    return values | {"model/params_total": sum(parts.values())}


@pytest.mark.long
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


def test_components_show_their_changes_the_total_and_effective(make_run):
    part, total = "model/params_component_", "model/params_total"
    big = {f"{part}token_embedding": 800.0, f"{part}layers": 200.0, f"{part}embedding_projection": 0.0}
    big |= {total: 1000.0, "model/params_effective": 1000.0}
    small = {f"{part}token_embedding": 100.0, f"{part}layers": 200.0, f"{part}embedding_projection": 50.0, total: 350.0}
    section = compare("s", [make_run(values=big), make_run("new", values=small)]).sections[0]
    _, _, base, new = md(components.components(section, "model")).splitlines()
    assert base == "| base | 800 | 0 | 200 | 1.00 k | 1.00 k |"
    assert new == "| new | 100<br>−87.5 % | 50<br>+50 | 200 | 350<br>−65.0 % | – |"
    assert components.components(section, "published").rows == []


def test_equal_arms_have_one_sentence(make_run, study_of):
    comparison = compare("s", [make_run(arm, values=counted(BASE)) for arm in ("base", "tuned")])
    (part,) = components.chapter(study_of(comparison)).sections
    assert [*markdown(concise(part, comparison.labels))] == [
        "## Parameters by component",
        "### At the trained size",
        "Equal for all arms: token embeddings 4.00 M; position embeddings 16.4 k; layers 2.00 M; head 258; total 6.02 M.",
    ]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"options.attention_window": "[512, 512]"}, "windows of 512 tokens"),
        (
            {"options.text_config.layer_types": "['full_attention', 'sliding', 'sliding']", "options.local_attention": "128"},
            "layers: 1 full_attention and 2 sliding, windows of 128 tokens",
        ),
        ({"options.num_hidden_groups": "1"}, "sets of weights that layers share: 1"),
        ({"options.sliding_window": "4096", "options.use_sliding_window": "False"}, None),
        ({"options.sliding_window": "None"}, None),
    ],
)
def test_windows_and_sharing_of_another_package_stand_beside_the_parameters(make_run, settings, said):
    """Beside ours, whose keys say them; no column where no such config does."""
    foreign = {"model.encoder": "transformers"} | {f"model.{key}": value for key, value in settings.items()}
    runs = [make_run(arm, values=counted(BASE), params=params) for arm, params in (("base", OURS), ("hub", foreign))]
    tables = [components.components(compare("s", of).sections[0], "model") for of in (runs, runs[:1])]
    assert [row[-1].text for row in tables[0].rows] == (["windows of 32 tokens", said] if said else ["6.02 M", "6.02 M"])
    assert tables[1].head[-1] == "total"
