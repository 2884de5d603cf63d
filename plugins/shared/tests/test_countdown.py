from harness.plugins.shared import countdown as module


def test_parts_left_take_as_long_as_the_longest_so_far_at_most(monkeypatch):
    clock = iter([0.0, 2.0, 12.0, 13.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    countdown = module.Countdown(5)
    assert countdown.part("a") == "1/5: a"
    assert countdown.part("b") == "2/5, up to 8 s left: b"
    assert countdown.part("c") == "3/5, up to 30 s left: c"
    countdown.total -= 1  # a part is not needed
    assert countdown.part("d") == "4/4, up to 10 s left: d"
