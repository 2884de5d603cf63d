"""What is seen of a run where there is no terminal."""

from harness.study import progress
from harness.study.progress import RunProgress


def point(step: int, ms: int, tokens: int) -> dict:
    return {"time": ms, "step": step, "key": "finetune/loss", "value": 0.5, "tokens": tokens}


def test_plain_lines_without_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_EVERY_S", -1.0)
    with RunProgress("[1/2] base") as shown:
        shown.show([{"time": 0, "stage": "finetune", "steps": 40}])
        shown.show([{"time": 1000, "result": "inference/latency_ms_p50", "value": 2.0}, point(10, 2000, 1000)])
        shown.end("finished", {"metrics": {"eval/score": 0.75}}, "")
    out, err = capsys.readouterr()
    started, step, ended = out.splitlines()
    assert started == "[1/2] base: started"
    assert step == "[1/2] base: finetune step 10/40, 6 s left, loss 0.500, 500 tokens/s"
    assert ended.startswith("[1/2] base: finished in ")
    assert ended.endswith(" s, score 0.7500")
    assert err == ""
    assert "\r" not in out


def test_of_points_in_a_row_the_last_is_shown(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_EVERY_S", -1.0)
    with RunProgress("base") as shown:
        shown.show([{"time": 0, "stage": "finetune", "steps": 3}, *(point(step, 1000 * step, 10) for step in (1, 2, 3))])
    assert [line for line in capsys.readouterr().out.splitlines() if "step" in line] == [
        "base: finetune step 3/3, 0 s left, loss 0.500, 3 tokens/s"
    ]


def test_lines_are_seconds_apart(capsys):
    with RunProgress("base") as shown:
        shown.show([{"time": 0, "stage": "finetune", "steps": 40}])
        for step in range(1, 20):
            shown.show([point(step, step, 10)])
    assert "step" not in capsys.readouterr().out


def test_a_long_stage_without_losses_is_still_heard_of(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_EVERY_S", -1.0)
    with RunProgress("base") as shown:
        shown.show([{"time": 0, "stage": "evaluate", "steps": 0}])
        shown.show([])
        shown.show([{"time": 0, "stage": "pretrain", "steps": 40}, point(20, 2000, 1000), {"time": 3000, "part": "evaluating"}])
        shown.show([])
    assert capsys.readouterr().out.splitlines()[1::2] == [
        "base: evaluate, 0 s",
        "base: pretrain step 20/40, evaluating, 0 s",
    ]


def test_slow_steps_are_repeated_with_step_and_loss(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_EVERY_S", -1.0)
    with RunProgress("base") as shown:
        shown.show([{"time": 0, "stage": "pretrain", "steps": 40}, point(10, 2000, 1000)])
        shown.show([])
    assert capsys.readouterr().out.splitlines()[-1] == "base: pretrain step 10/40, loss 0.500, 0 s"
