"""Pictures of all commands: whole files or none, in the folder of the runs that is set."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure
from small_disk import fill, mounted

from harness.errors import InputError, is_disk_full
from harness.plugins.explain.pictures import save


def test_a_full_disk_leaves_the_older_picture_and_nothing_beside_it(tmp_path):
    with mounted(tmp_path / "disk", 1 << 16) as disk:
        (disk / "a.png").write_text("of yesterday")
        fill(disk, 0)
        with pytest.raises(OSError, match="No space left") as error:
            save(Figure(), disk, "a")
        assert is_disk_full(error.value)
        assert not isinstance(error.value, InputError)
        assert (disk / "a.png").read_text() == "of yesterday"
        assert {path.name for path in disk.iterdir()} == {"a.png", "filler"}


@pytest.mark.long
def test_pictures_are_in_the_folder_of_the_runs_that_is_set(said):
    said("describe", "activations", "output=mine")
    assert Path("mine", "describe", "activations.svg").exists()
    assert not Path("multirun").exists()
