"""Keys and switches of the command that audits claims."""

from harness.errors import unknown
from harness.grammar import arguments, key
from harness.plugins.shared.options import Store

AUDIT_FILTERS = ("verdict", "source", "measure")


@arguments
class Audit(Store):
    """Counts parameters, FLOPs and bytes at the model size of each claim, compares scores of finished runs, and with
    --measure times claims about speed. Prints a table, and writes the record that `python -m reports` shows.

    A claim is a few lines of YAML: in conf/claims/; in a file of yours, claims=FILE.yaml; below my_conf/claims/ with
    --config-dir my_conf; or those that a variant carries, my_conf/model/claims/NAME.yaml for my_conf/model/NAME.yaml.
    """

    claims: tuple[str, ...] = key((), "Files in conf/claims/, names of claims, or paths, comma-separated. Default: all.")
    vocab_file: str | None = key(None, "WordPiece vocabulary for claims about token ids, one piece per line.")
    where: tuple[str, ...] = key((), f"Rows to show, by {', '.join(AUDIT_FILTERS)}. Example: verdict=refuted.")
    measure: bool = key(False, "Time the claims about speed, which takes minutes.")
    config_dir: str | None = key(None, kind="hydra")

    def __post_init__(self) -> None:
        super().__post_init__()
        for condition in self.where:
            if condition.partition("=")[0] not in AUDIT_FILTERS:
                raise unknown("key", condition.partition("=")[0], AUDIT_FILTERS, "where")
        if self.output != "multirun":
            self.refuse_missing()
