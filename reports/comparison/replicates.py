"""The order of seeds and replicates, and how they are named."""

from collections.abc import Iterable

from harness.paired import Replicate


def seed_order(seed: str) -> tuple[int, str]:
    """Sorts seeds as numbers, and anything else after them."""
    return (int(seed), "") if seed.isdecimal() else (10**12, seed)


def replicate_order(replicate: Replicate) -> tuple[tuple[int, str], ...]:
    """Sorts by the seed of the pretraining, then by that of the fine-tuning."""
    return seed_order(replicate.pretrain_seed), seed_order(replicate.seed)


def seeds_text(replicates: Iterable[Replicate]) -> str:
    """`seeds 0, 1`, or `seeds 0, 1 of pretraining 7` where there is pretraining; empty without a replicate."""
    seeds: dict[str, dict[str, None]] = {}
    for one in sorted(replicates, key=replicate_order):
        seeds.setdefault(one.pretrain_seed, {})[one.seed] = None
    found: dict[str, list[str]] = {}
    for pretrain_seed, own in seeds.items():
        found.setdefault(f"seed{'s' * (len(own) > 1)} {', '.join(own)}", []).append(pretrain_seed)
    return " and ".join(f"{text} of pretraining {', '.join(of)}" if any(of) else text for text, of in found.items())
