"""Results of lighteval (0.13): `results/MODEL/results_DATE.json`, and `details/MODEL/DATE/*.parquet` of --save-details.

Averages of several tasks are left out. The seed is that of the generation, where one is set.
"""

from pathlib import Path

import pandas as pd

from harness import paths
from harness.plugins.results import folders
from harness.reports.reading.untrusted import LARGEST_TABLES, table_of


def _of_run(file: Path) -> pd.DataFrame:
    output, rows = paths.read_object(file), []
    folder, _, model = file.absolute().parent.as_posix().rpartition("/results/")
    date = file.stem.removeprefix("results_")
    for task in output["config_tasks"]:
        values = output["results"][task]
        scores = [name for name in values if not name.endswith("_stderr")]
        whole = {"metric": scores, "value": [values[name] for name in scores]}
        rows.append(pd.DataFrame(whole | {"error": [values.get(f"{name}_stderr") for name in scores], "task": task}))
        details = paths.named(Path(folder, "details", model, date), f"details_{task}_{date}.parquet")
        if details.is_file() and not details.is_symlink():
            names = {"doc.id": "item"} | {f"metric.{name}": name for name in scores}
            table = table_of(paths.read(details, LARGEST_TABLES), str(details), columns=[*names]).flatten().to_pandas()
            numbers = table.rename(columns=names).set_index("item").select_dtypes(["number", "bool"])
            rows.append(numbers.melt(var_name="metric", ignore_index=False).reset_index().assign(task=task))
    general = output["config_general"]
    config = general["model_config"]
    seed, loaded = config.get("generation_parameters", {}).get("seed"), (config.get(key) for key in ("revision", "dtype"))
    return pd.concat(rows).assign(arm=general["model_name"], seed=seed, model_args=",".join(filter(None, loaded)))


LIGHTEVAL = folders.results("lighteval", rf"(.*)/results_{folders.DATE}\.json", r'\s*\{\s*"config_general"', _of_run)
