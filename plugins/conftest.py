"""The fixtures of tests/ hold for the tests of plug-ins, too."""

from tests.conftest import _close_stores, once, output, run_python, shared_folder, start_process, store_template
from tests.harness.conftest import (
    _quiet_datasets,
    _secrets_of_this_test_alone,
    compose,
    composed,
    curve_of,
    launch_of,
    run_harness,
    run_module,
    runs_of,
    shared_data,
    small,
    small_config,
    start_harness,
    sweep,
    tell,
)
from tests.helpers.hostile import copied, obey_nothing, private
from tests.helpers.runs import ended, make_run, pretrained, scored, study_of, timed, tracking, typical
