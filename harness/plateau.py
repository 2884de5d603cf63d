"""Whether a pretraining learned more than word frequencies: held-out masked loss against the unigram entropy.

Masked language models stay on this plateau for thousands of steps before their loss falls suddenly (arXiv:2309.07311). A
comparison of models of which some have left it measures who left it.
"""

LOSS, ENTROPY = "pretrain/masked_loss", "pretrain/unigram_entropy"

SHARE = 0.93
"""Of the unigram entropy: a masked loss above it is on the plateau. A bag of the words around reaches about 0.98."""


def is_on(metrics: dict[str, float]) -> bool:
    """Whether a finished pretraining with these metrics is on the plateau; False where it was not evaluated."""
    return LOSS in metrics and ENTROPY in metrics and metrics[LOSS] > SHARE * metrics[ENTROPY]


def warning(metrics: dict[str, float]) -> str | None:
    """One sentence with the figures; None for a pretraining that has left the plateau."""
    if not is_on(metrics):
        return None
    return (
        f"still on the unigram plateau: held-out masked loss {metrics[LOSS]:.2f} nats, unigram entropy {metrics[ENTROPY]:.2f}; "
        "comparisons after this pretraining measure who left it"
    )
