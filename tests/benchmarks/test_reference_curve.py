"""A curve of reference from finished pretrainings."""

import json
from pathlib import Path

import pytest
import reference_curve
import yaml

from harness.comparison import plateau


@pytest.fixture
def finished(tmp_path):
    """Makes the folder of a finished pretraining."""

    def make(seed: int, losses: list[float], **more: str) -> Path:
        folder = tmp_path / f"run-{seed}"
        folder.mkdir()
        parameters = {"model_name": "base", "model.hidden_size": "192", "pretrain.tokens": "4000.0", "seed": str(seed)}
        parameters |= {"pretrain.seed": str(seed), "study": f"s{seed}"} | more
        (folder / "run.json").write_text(json.dumps({"parameters": parameters}))
        points = [{"key": plateau.LOSS, "tokens": 2000 * n, "value": loss} for n, loss in enumerate(losses, 1)]
        points += [{"key": "pretrain/loss", "tokens": 1, "value": 9.0}, {"result": plateau.LOSS, "value": 9.0}]
        (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(point)}\n" for point in points))
        return folder

    return make


def test_the_band_is_where_one_more_seed_is_expected_and_its_own_runs_are_inside(finished, tmp_path, monkeypatch):
    runs = [finished(seed, losses) for seed, losses in enumerate([[6.0, 4.1], [6.2, 4.2], [6.1, 4.3]])]
    target = tmp_path / "reference" / "small.yaml"
    reference_curve.main(target, runs)
    written = yaml.safe_load(target.read_text())
    assert written["of"] == {"model_name": "base", "model.hidden_size": "192", "pretrain.tokens": "4000.0"}
    assert written["seeds"] == 3
    low, high = written["curve"][4000]  # 4.2 and t(2) = 4.3027 times 0.1 times the root of 4 / 3
    assert (low, high) == (pytest.approx(4.2 - 0.4968, abs=1e-3), pytest.approx(4.2 + 0.4968, abs=1e-3))
    parameters = json.loads((runs[0] / "run.json").read_text())["parameters"]
    monkeypatch.setattr(plateau, "conf_directory", lambda: tmp_path)
    assert plateau.warning({plateau.LOSS: 4.3, plateau.ENTROPY: 6.7}, parameters) is None
    assert "outside the reference small" in plateau.warning({plateau.LOSS: 5.0, plateau.ENTROPY: 6.7}, parameters)


def test_runs_with_other_settings_are_refused(finished, tmp_path):
    runs = [finished(1, [4.0]), finished(2, [4.0], **{"model.hidden_size": "64"})]
    with pytest.raises(ValueError, match="more than their seeds"):
        reference_curve.main(tmp_path / "small.yaml", runs)
