"""`python -m harness describe activations`: the functions of the models, their derivatives, and the picture."""

import matplotlib as mpl
import numpy as np
import pytest
import torch

from harness.__main__ import main
from harness.models.config import Activation
from harness.models.layers import ACTIVATIONS
from harness.plugins.explain.describe import POINTS, REACH, curves, draw, users
from harness.plugins.explain.pictures import STYLE, content


def test_curves_are_those_of_the_models_and_their_slopes():
    found = {curve.name: curve for curve in curves()}
    assert list(found) == [activation.value for activation in Activation]
    x, step = np.linspace(-REACH, REACH, POINTS), 2 * REACH / (POINTS - 1)
    for activation in Activation:
        curve = found[activation.value]
        np.testing.assert_allclose(curve.values, ACTIVATIONS[activation](torch.tensor(x)).numpy(), atol=1e-12)
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


@pytest.mark.long
def test_the_picture_has_every_curve_and_is_the_same_again():
    figure = draw(curves(), ["silu"])
    for axes, values in zip(figure.axes, ("values", "slopes"), strict=True):
        lines = {line.get_label(): line.get_ydata() for line in axes.lines[2:]}
        assert list(lines) == [curve.name for curve in curves()]
        assert all(np.nanmax(np.abs(lines[curve.name] - getattr(curve, values))) == 0 for curve in curves())
        assert len({line.get_linestyle() if line.is_dashed() else line.get_linewidth() for line in axes.lines[2:]}) > 1
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == list(lines)
    with mpl.rc_context(STYLE):
        assert content(draw(curves(), ["silu"]), "svg") == content(draw(curves(), ["silu"]), "svg")


@pytest.mark.long
def test_command_writes_the_picture_and_says_so(capsys, tmp_path):
    assert main(["describe", "activations", f"to={tmp_path}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("activations that models know, and their derivatives")
    assert max(map(len, lines[:-2])) <= 100
    assert lines[-2:] == [str(tmp_path / f"activations.{ending}") for ending in ("png", "svg")]
    assert (tmp_path / "activations.png").read_bytes().startswith(b"\x89PNG")


def test_folder_that_cannot_be_written_is_one_line(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert main(["describe", "activations", f"to={tmp_path / 'file'}"]) == 2
    assert "to=" in capsys.readouterr().err
