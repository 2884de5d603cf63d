"""Names of the tags of a run in MLflow, which the harness writes and the reports read."""

STUDY = "study"
ARM = "arm"
"""Readable label of what is compared: `base`, `base dtype=bf16`, `albert+mlm mask_rate=0.4`."""

MODEL, SCALE, ENHANCEMENTS = "model", "scale", "enhancements"
"""The choices in conf/ for the encoder."""

TASK = "task"
PRETRAINING_TASK = "pretraining"
"""Value of the tag `task` of a pretraining."""

SEED = "seed"
"""Seed of the fine-tuning; of a pretraining, its own."""

PRETRAIN_SEED = "pretrain_seed"
"""Seed of the pretraining that the run starts from or is; absent without pretraining."""

CONDITIONS = "conditions"
"""Short hash of the facts that must agree for a comparison, as `harness/arms.py` computes them."""

LIFTED = "lifted"
"""JSON list of the dotted keys that vary between the arms of the command that ran it."""

OVERRIDES = "overrides"
"""JSON list of what the command line said of the run, without seeds."""

FINGERPRINT = "fingerprint"
"""Hash of all that shapes the run's results: code, config, data, weights, versions."""

PRETRAINING = "pretraining"
"""Fingerprint of the pretraining that the run starts from; absent without one."""

RECIPE = "recipe"
"""Of a pretraining: its fingerprint without the seed, which all replicates of one pretraining share."""

SESSION = "session"
"""Name of the series of interleaved launches in which the run was timed; only runs of one session are paired by launch."""

REPLICATE = "replicate"
"""`true` for the A/A replicate: a second timing of the baseline in its session, which shows the noise."""

WARNING = "warning"
"""Why a pretraining has not learned; absent where it has."""

STATUS = "status"
"""running, finished, failed, diverged or killed."""

ATTEMPT = "attempt"
"""Random name of one attempt at a run."""

HARDWARE, GIT_COMMIT, GIT_DIRTY = "hardware", "git_commit", "git_dirty"
