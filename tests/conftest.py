"""What every test runs under: no network, and no more threads than two test processes side by side can use."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.pop("HYDRA_FULL_ERROR", None)  # or errors would have tracebacks
