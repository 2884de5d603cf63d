"""The shipped variants that are built without published weights."""

from omegaconf import OmegaConf

from harness.paths import conf_directory

FILES = sorted((conf_directory() / "model").glob("*.yaml"))
VARIANTS = [path.stem for path in FILES if "init_from" not in OmegaConf.load(path)]
WEIGHTS = [path.stem for path in FILES if path.stem not in VARIANTS]
"""Those that are published weights."""
