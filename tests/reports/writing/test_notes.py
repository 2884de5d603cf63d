"""Settings of training in which arms differ beside their names."""

import pytest

from harness.comparison.compare import compare
from harness.reports.writing import section_text

BASE = {"model.hidden_dropout_prob": "0.1", "model.initializer_range": "0.02", "model.hidden_size": "128"}
MODERN = BASE | {"model.hidden_dropout_prob": "0.0", "model.hidden_size": "64"}
SMALL = {"pretrain.dropout": "0.0", "pretrain.initializer_range": "0.07", "pretrain.learning_rate": "0.002"}
BERT = {"pretrain.dropout": "None", "pretrain.initializer_range": "None", "pretrain.learning_rate": "0.0003"}


def said(runs) -> list[str]:
    found = section_text.section_notes(compare("s", runs).sections[0])
    return [sentence for sentence in found if sentence.startswith("Also differs from")]


def test_a_fine_tuning_names_the_dropout_of_its_model_and_no_architecture(make_run):
    runs = [
        make_run(params=BASE),
        make_run("swiglu", params=BASE),
        *(make_run(arm, params=MODERN) for arm in ("modern", "new")),
    ]
    (sentence,) = said(runs)
    assert sentence == "Also differs from base in model.hidden_dropout_prob 0.1 → 0.0 (modern, new)."


def test_arms_that_train_alike_get_no_sentence(make_run):
    assert said([make_run(params=BASE), make_run("swiglu", params=BASE | {"model.hidden_act": "silu"})]) == []


def test_a_null_dropout_of_the_head_is_that_of_the_layers(make_run):
    """ALBERT states 0.1 for the head where its layers have none."""
    runs = [make_run(params=BASE | {"model.classifier_dropout": "None"})]
    runs += [make_run("albert", params=MODERN | {"model.classifier_dropout": "0.1"})]
    assert said(runs) == ["Also differs from base in model.hidden_dropout_prob 0.1 → 0.0 (albert)."]


def test_what_the_label_names_is_not_said_again(make_run):
    runs = [make_run(params=BASE), make_run("base hidden_dropout_prob=0.0", params=MODERN)]
    assert said(runs) == []


def test_a_pretraining_is_held_against_what_its_recipe_sets(pretrained):
    """The recipe replaces the dropout of both models while they are pretrained."""
    runs = [pretrained(params=BASE | SMALL), pretrained("modern+mlm", params=MODERN | SMALL)]
    assert said(runs) == []


@pytest.mark.parametrize("setting", [" recipe=bert", " learning_rate=0.0003"])
def test_a_pretraining_with_another_recipe_names_what_that_sets(pretrained, setting):
    lifted = '["pretrain.learning_rate", "pretrain.dropout", "pretrain.initializer_range"]'
    runs = [pretrained(params=BASE | SMALL, lifted=lifted)]
    runs += [pretrained(f"modern+mlm{setting}", params=MODERN | BERT, lifted=lifted)]
    (sentence,) = said(runs)
    assert "pretrain.dropout 0.0 → null" in sentence
    assert "model.hidden_dropout_prob – → 0.0" in sentence
    assert ("pretrain.learning_rate 0.002 → 0.0003" in sentence) == ("recipe" in setting)


def test_an_arm_that_was_trained_in_pieces_is_named_with_what_that_changes(make_run):
    cut = make_run("swiglu")
    cut.tags["pieces"] = "finetune 4"
    (sentence,) = (one for one in section_text.section_notes(compare("s", [make_run(), cut]).sections[0]) if "in pieces" in one)
    assert sentence.startswith("swiglu ran out of memory and trained with its batch in pieces (finetune 4)")
    whole = section_text.section_notes(compare("s", [make_run(), make_run("swiglu")]).sections[0])
    assert not any("in pieces" in one for one in whole)


def test_whose_code_and_licence_weights_have_is_said_of_each_arm_that_has_them(make_run):
    arm = make_run("fnet")
    arm.tags["weights_read"] = "computed by transformers 5.23.0; new head, as none is published; licence mit"
    arm.tags["weights_read"] += "; vectors change with padding by up to 3 %"
    comparison = compare("s", [make_run(), arm])
    notes = section_text.notes(comparison, comparison.sections[0])
    assert [one for one in notes if one.startswith("Weights")] == [
        "Weights: fnet (computed by transformers 5.23.0, licence mit, vectors change with padding by up to 3 %)."
    ]
