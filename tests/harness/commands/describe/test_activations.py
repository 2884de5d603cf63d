"""`python -m harness describe activations`: the functions of the models, their derivatives, and the picture."""

import numpy as np
import pytest
import torch

from harness.__main__ import main
from harness.commands.describe.activations import curves, draw, files, label_place, places, together, users
from models.config import Activation
from models.layers import ACTIVATIONS


def test_curves_are_those_of_the_models_and_their_slopes():
    found = {curve.name: curve for curve in curves()}
    assert list(found) == [activation.value for activation in Activation]
    x, step = places(), places()[1] - places()[0]
    for activation in Activation:
        curve = found[activation.value]
        np.testing.assert_array_equal(curve.values, ACTIVATIONS[activation](torch.tensor(x)).numpy())
        differences = np.gradient(curve.values, step)
        smooth = np.abs(x) > 2 * step
        assert np.abs(differences - curve.slopes)[smooth][1:-1].max() < 1e-2
    assert found["relu"].slopes[x > 0].min() == 1


def test_gates_are_told_with_the_models_that_have_them():
    used = users()
    assert used["silu"]["gated"] == ["enhanced", "enhanced_shallow", "swiglu"]
    assert used["gelu"]["gated"] == ["modern"]
    assert "base" in used["gelu"]["plain"]
    assert not any("bilstm" in models for models in used["gelu"].values())  # nothing in it reads hidden_act


def test_every_curve_has_a_label_on_it():
    figure = draw(curves())
    for axes, values in zip(figure.axes, ("values", "slopes"), strict=True):
        lines = {curve.name: getattr(curve, values) for curve in curves()}
        texts = {text.get_text(): text.get_position() for text in axes.texts}
        assert sorted(name for text in texts for name in text.split(", ")) == sorted(lines)
        for text, (x, y) in texts.items():
            assert np.interp(x, places(), lines[text.split(", ")[0]]) == pytest.approx(y)
        assert len({line.get_linestyle() if line.is_dashed() else line.get_linewidth() for line in axes.lines[2:]}) > 1
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


def test_curves_that_nobody_could_tell_apart_share_a_label():
    x = places()
    lines = {"one": x, "same": x + 0.001, "other": -x}
    assert together(lines) == [["one", "same"], ["other"]]
    assert abs(x[label_place(lines, ["one", "same"], [])]) == pytest.approx(2.5, abs=0.02)


def test_picture_is_the_same_again():
    assert files(curves()) == files(curves())


def test_command_writes_the_picture_and_says_so(capsys, tmp_path):
    assert main(["describe", "activations", "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("activations that models know, and their derivatives")
    assert max(map(len, lines[:-2])) <= 100
    assert lines[-2:] == [str(tmp_path / f"activations.{ending}") for ending in ("png", "svg")]
    assert (tmp_path / "activations.png").read_bytes().startswith(b"\x89PNG")


def test_folder_that_cannot_be_written_is_one_line(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert main(["describe", "activations", "--out", str(tmp_path / "file")]) == 2
    assert "--out" in capsys.readouterr().err
