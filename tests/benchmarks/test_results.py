"""The table of the benchmarks: medians and ratios of rounds, its file, and the comparison with the last one."""

import json

import pytest
import results
import rounds


def figure(name="ours / theirs", value=2.0, low=1.9, high=2.1, unit="x"):
    return {"name": name, "value": value, "unit": unit, "low": low, "high": high, "rounds": 3}


@pytest.fixture
def hardware(monkeypatch):
    """A machine of a fixed name, and its days."""
    monkeypatch.setattr(results, "machine", lambda config: {"processor": "Some CPU @ 2.0", "cores": 2})

    def day(text):
        class Day(results.date):
            @classmethod
            def today(cls):
                return cls.fromisoformat(text)

        monkeypatch.setattr(results, "date", Day)

    return day


def test_every_side_has_a_value_of_every_round_and_each_begins_once():
    order = []
    sides = {name: lambda number, name=name: order.append((number, name)) or float(number) for name in "abc"}
    values = rounds.interleaved(sides, 3)
    assert values == {name: [0.0, 1.0, 2.0] for name in "abc"}
    assert [name for _, name in order] == [*"abc", *"bca", *"cab"]


def test_a_ratio_pairs_the_values_of_a_round():
    ratio = rounds.times_as_fast([10.0, 40.0, 30.0], [5.0, 10.0, 10.0], "ours / theirs")
    assert ratio == figure(value=3.0, low=2.0, high=4.0)


def test_the_file_is_named_after_hardware_and_day(tmp_path, hardware):
    hardware("2026-11-21")
    results.write(tmp_path, {"finetune": [figure()]}, "quick")
    assert {path.name for path in tmp_path.iterdir()} == {f"some-cpu-2-0-2-cores-2026-11-21.{end}" for end in ("json", "md")}
    table = json.loads((tmp_path / "some-cpu-2-0-2-cores-2026-11-21.json").read_text())
    assert table["benchmarks"]["finetune"]["rows"] == [figure()]
    assert table["benchmarks"]["finetune"]["form"] == "quick"
    assert table["versions"]["torch"]


@pytest.mark.long
def test_one_benchmark_again_on_the_same_day_leaves_the_others(tmp_path, hardware):
    hardware("2026-11-21")
    results.write(tmp_path, {"finetune": [figure()], "pretrain": [figure(value=5.0)]}, "quick")
    text = results.write(tmp_path, {"finetune": [figure(value=3.0)]}, "full")
    (path,) = tmp_path.glob("*.json")
    table = json.loads(path.read_text())["benchmarks"]
    assert table["finetune"]["rows"][0]["value"] == 3.0
    assert table["pretrain"]["rows"][0]["value"] == 5.0
    assert "| finetune (full) | ours / theirs | 3 x | 1.9 to 2.1 | 3 | 2 x |" in text


def test_a_regression_is_named_with_both_figures(tmp_path, hardware):
    hardware("2026-11-20")
    results.write(tmp_path, {"finetune": [figure(), figure("steady")]}, "quick")
    hardware("2026-11-21")
    text = results.write(tmp_path, {"finetune": [figure(value=1.5, low=1.4, high=1.6), figure("steady")]}, "quick")
    assert "**Regressions**" in text
    assert "- finetune: ours / theirs: 2 x on 2026-11-20, now 1.5 x" in text
    assert "- finetune: steady" not in text


MACHINES = [(2, 400.0, True), (2, 330.0, True), (2, 216.0, False), (2, None, False), (20, 400.0, False)]


@pytest.mark.parametrize(("cores", "peak", "compared"), MACHINES)
def test_another_machine_or_one_of_another_peak_is_not_compared(cores, peak, compared, tmp_path, hardware, monkeypatch):
    hardware("2026-11-20")
    results.write(tmp_path, {"finetune": [figure()]}, "quick", peak=400.0)
    hardware("2026-11-21")
    monkeypatch.setattr(results, "machine", lambda config: {"processor": "Some CPU @ 2.0", "cores": cores})
    text = results.write(tmp_path, {"finetune": [figure(value=0.1, low=0.1, high=0.1)]}, "quick", peak=peak)
    assert ("Regressions" in text) == compared
    assert text.rstrip().endswith("| 2 x |" if compared else "| – |")


def test_two_machines_of_one_name_have_a_file_each_on_the_same_day(tmp_path, hardware):
    hardware("2026-11-21")
    for peak in (400.0, 200.0, 210.0):
        results.write(tmp_path, {"finetune": [figure(value=peak)]}, "quick", peak=peak)
    values = {path.stem[-12:]: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    peaks = {
        name: (table["hardware"]["peak_gflops"], table["benchmarks"]["finetune"]["rows"][0]["value"])
        for name, table in values.items()
    }
    assert peaks == {"s-2026-11-21": (400.0, 400.0), "2026-11-21-2": (210.0, 210.0)}


@pytest.mark.long
def test_the_peak_is_measured():
    assert results.peak_gflops() > 1


WORSE = {"value": 1.5, "low": 1.4, "high": 1.6}
REGRESSIONS = [
    (WORSE, "x", "x", True),
    (WORSE | {"high": 1.95}, "x", "x", False),  # ranges overlap
    ({"value": 1.91, "low": 1.9, "high": 1.91}, "x", "x", False),  # within the tolerance
    ({"value": 2.5, "low": 2.4, "high": 2.6}, "x", "x", False),  # better
    ({"value": 2.5, "low": 2.4, "high": 2.6}, "%", "%", True),  # lower is better
    (WORSE, "%", "%", False),
    (WORSE, "x", "%", False),  # the unit changed
    (WORSE, "tokens/s", "tokens/s", False),  # depends on the load
]


@pytest.mark.parametrize(("now", "unit", "before", "expected"), REGRESSIONS)
def test_regressions(now, unit, before, expected):
    assert results.is_regression(figure(unit=unit) | now, figure(unit=before)) is expected


@pytest.mark.parametrize(
    ("info", "expected"),
    [("flags : fpu avx512_bf16\n", {"bf16": True}), ("flags : fpu avx512f\n", {"bf16": False}), ("vendor : x\n", {})],
)
def test_instructions_for_bfloat16_are_read(info, expected, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(info)
    monkeypatch.setattr(results, "CPU_INFO", tmp_path / "cpuinfo")
    found = results.machine(results.HardwareConfig())
    assert {key: value for key, value in found.items() if key == "bf16"} == expected


@pytest.mark.parametrize("bf16", [True, False])
def test_the_table_says_where_bfloat16_is_emulated(bf16, hardware, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "machine", lambda config: {"processor": "Some CPU", "cores": 2, "bf16": bf16})
    text = results.write(tmp_path, {"pretrain": [figure()]}, "quick")
    assert (results.EMULATED in text) == (not bf16)
