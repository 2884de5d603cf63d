"""What a killed worker left half-written in the folder of its run."""

import pytest

from harness.study import run_folder


@pytest.mark.long
def test_a_run_that_starts_again_removes_it(run_harness, small, output):
    command = [*small, "finetune.max_steps=2", "measure=none", "study=torn", "output=out"]
    assert run_harness(*command).returncode == 0
    (folder,) = (path.parent for path in output.glob("torn/*/result.json"))
    (folder / "result.json").unlink()
    (folder / "checkpoint").mkdir(exist_ok=True)
    left = [folder / ".environment.json.4125", folder / "checkpoint" / ".model.safetensors.4125"]
    for path in left:
        path.write_text("{")
    assert run_harness(*command).returncode == 0
    assert (folder / "result.json").exists()
    assert [path for path in folder.rglob(".*") if path.name not in (".lock", ".worker.lock", ".tracking.lock")] == []


def test_nothing_else_is_removed(tmp_path):
    kept = [".lock", ".worker.lock", ".tracking.lock", "run.json", ".hidden", "metrics.jsonl.1"]
    for name in (*kept, ".run.json.12"):
        (tmp_path / name).write_text("")
    (tmp_path / ".folder.12").mkdir()
    run_folder.remove_temporary(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, ".folder.12"])
