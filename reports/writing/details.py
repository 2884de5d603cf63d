"""Measured in detail: what the before/after table leaves out, one row an arm. Nothing here is judged."""

from harness import metrics
from harness.paired import spread
from reports.comparison import launches
from reports.comparison.section import Row, Section
from reports.writing import formats
from reports.writing.formats import DASH, escape, listed
from reports.writing.tables import present, value_text

P50 = "inference/latency_ms_p50"
ENDS = (f"{P50}_low", f"{P50}_high")
PEAKS = {"inference/mfu": "inference/peak_flops_per_s", "finetune/mfu": "hardware/peak_flops_per_s"}
"""Share of a peak -> that peak."""
ENERGY = "inference/energy_j_per_token"
MILLION = 1e6
"""Tokens that an energy is shown for: that of one has too many zeros."""
MEMORY = ("peak", "sampled_peak", "reserved_peak", "process_peak")

COLUMNS = (
    "inference/latency_ms_min",
    P50,
    "inference/latency_ms_p90",
    "inference/latency_ms_p99",
    "inference/first_call_ms",
    "setup/build_s",
    "setup/import_s",
    "inference/padded_tokens_per_s",
    "inference/samples_per_s",
    "inference/padding_share",
    "model/arithmetic_intensity",
    "model/bytes_forward",
    "inference/mfu",
    "finetune/mfu",
    "finetune/padded_tokens_per_s",
    "finetune/samples_per_s",
    "finetune/padding_share",
    *(f"{phase}/{kind}_memory_bytes" for phase in ("inference", "finetune") for kind in MEMORY),
    ENERGY,
    "finetune/energy_j",
)

INTRO = """\
Mean over replicates, ± its sample standard deviation where there are several; seeds share their launches, so that timings by
launch spread over sessions."""
SENTENCES = (
    ((P50,), "Latency is that of batch size 1{length}{launches}{threads}."),
    (ENDS, "In brackets is the 95 % interval of p50."),
    (
        ("inference/latency_ms_p90",),
        "Percentiles are of all calls, as measured; the latency compared above is the mean of the launches' medians, each "
        "divided by its reference workload where that lowers their scatter.",
    ),
    (
        ("inference/first_call_ms", "setup/build_s", "setup/import_s"),
        "First call and times to build and to import are medians over launches, each a new process.",
    ),
    (
        ("inference/padded_tokens_per_s", "inference/samples_per_s", "inference/padding_share"),
        "Inference throughput is that of real validation batches{batches}.",
    ),
    (
        ("model/arithmetic_intensity", "model/bytes_forward"),
        "Bytes are those that the operators of a forward pass read and write, as if there were no cache; arithmetic intensity "
        "is FLOPs over these bytes.",
    ),
    (tuple(PEAKS), "FLOPs utilisation is the share of the fastest matrix product of the same machine, threads and arithmetic."),
    (
        tuple(name for name in COLUMNS if "sampled_peak" in name),
        "A sampled peak is what a thread beside the work saw, the other one the high-water mark of the system or of the "
        "GPU's allocator.",
    ),
    ((ENERGY, "finetune/energy_j"), "Energy is what the counters of the whole processor or GPU say."),
)
"""(metrics, what they are): shown where a row has one of them."""


def part(section: Section) -> list[str]:
    """Heading, what the figures are, and the table; empty where no row has any of them."""
    names = present(section, COLUMNS)
    if not names:
        return []
    rows = [[escape(row.label), *(text_of(row, name) for name in names)] for row in section.rows]
    return [
        "### Measured in detail",
        intro(section, names),
        formats.readable(["arm", *(title(section, name) for name in names)], rows),
    ]


def title(section: Section, name: str) -> str:
    """A column's head."""
    more = {ENERGY: " per million tokens", P50: " of all calls" + " [95 % interval]" * bool(present(section, ENDS))}
    return metrics.get(name).title + more.get(name, "")


def text_of(row: Row, name: str) -> str:
    """Value with unit and spread; p50 with its interval, a utilisation with the peak that it is a share of."""
    if name == P50:
        return _with_interval(row)
    if name == ENERGY:
        return _of_a_million(row)
    text = value_text(row, name) or DASH
    peak = value_text(row, PEAKS[name]) if name in PEAKS and text != DASH else None
    return f"{text} of {peak}" if peak else text


def _with_interval(row: Row) -> str:
    """Without the interval where the runs were timed by several sessions: their intervals are not that of the mean."""
    measured = {tuple(run.metrics.get(name) for name in (P50, *ENDS)) for run in row.runs.values() if P50 in run.metrics}
    unit = metrics.get(P50).unit
    if len(measured) != 1 or None in (only := measured.pop()):
        of_sessions = {run.session or run.run_id: run.metrics[P50] for run in row.runs.values() if P50 in run.metrics}
        over = spread(list(of_sessions.values())) if of_sessions else None
        return formats.value(over.mean, unit, over.sd) if over else DASH
    middle, *ends = only
    digits = formats.decimals(middle)
    return f"{formats.value(middle, unit)} [{', '.join(formats.plain(end, digits) for end in ends)}]"


def _of_a_million(row: Row) -> str:
    spread = row.spread(ENERGY)
    return (
        DASH
        if spread is None
        else formats.value(MILLION * spread.mean, "J", None if spread.sd is None else MILLION * spread.sd)
    )


def intro(section: Section, names: list[str]) -> str:
    """What each of the shown figures is; numbers are those that the runs recorded."""
    words = {
        "length": _worded(" and {} tokens", _setting(section, "measure.length")),
        "launches": _by(_launches(section), _setting(section, "measure.repeats")),
        "threads": _worded(", CPU threads: {}", _setting(section, "measure.threads")),
        "batches": _worded(" of {} texts", _setting(section, "measure.batch_size")),
    }
    sentences = [sentence.format(**words) for needed, sentence in SENTENCES if present(section, needed)]
    trained = _setting(section, "environment.threads") if any(name.startswith("finetune/") for name in names) else ""
    return " ".join([INTRO, *sentences, _worded("CPU threads of training: {}.", trained)]).rstrip()


def _worded(text: str, known: str) -> str:
    return text.format(known) if known else ""


def _by(launches: str, calls: str) -> str:
    """`, 5 launches of 30 calls`, or what is known of it."""
    known = [f"{number} {name}" for number, name in ((launches, "launches"), (calls, "calls")) if number]
    return f", {' of '.join(known)}" if known else ""


def _setting(section: Section, key: str) -> str:
    """The values that the runs have under this key, empty where none says."""
    return listed(run.params[key] for run in section.runs if run.params.get(key, "None") != "None")


def _launches(section: Section) -> str:
    """How many each run has, as 5 or 5 to 10; empty where no run has any."""
    counts = sorted({len(rounds) for run in section.runs if (rounds := run.launches.get(launches.LATENCY))})
    return " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1]))) if counts else ""
