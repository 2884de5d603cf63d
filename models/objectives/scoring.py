"""Log-likelihoods of the tokens of a text under a trained language model, without further training.

B texts, T tokens, N tokens that are scored, R of them in one forward pass, D hidden.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from harness.models.batch import Batch
from harness.models.heads import MaskedHead, PlainLMHead
from harness.models.objectives.base import Objective
from harness.models.objectives.causal import BidirectionalLM, CausalLM
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName
from harness.models.objectives.masked_lm import LOGITS
from harness.models.objectives.permutation import Order, PermutationLM

ONE_SIDED = (ObjectiveName.clm, ObjectiveName.bidirectional_lm)
MASKED = (ObjectiveName.mlm, ObjectiveName.mlm_nsp, ObjectiveName.mlm_sop, ObjectiveName.distillation)
"""Objectives that train a head for masked tokens."""

TOKENS = 1 << 14
"""Tokens of one forward pass."""


def can_score(config: ObjectiveConfig) -> bool:
    """Whether the objective trains a head that says how likely a token is in its text."""
    if config.objective is ObjectiveName.distillation:
        return bool(config.soft_weight or config.masked_weight)
    return config.objective in (*ONE_SIDED, *MASKED, ObjectiveName.plm)


@torch.inference_mode()
def log_likelihoods(objective: Objective, ids: Tensor, words: Tensor, mask: int) -> Tensor:
    """(2, B, T) nats of each token, of texts without padding; 0 where `words` (B, T), the number of its word, is -1.

    From one side: given the tokens before it (`CausalLM`); those after it are added (`BidirectionalLM`). Otherwise given all
    others, each token behind a `mask` of its own (pseudo-log-likelihood, arXiv:1910.14659), or behind its own query
    (`PermutationLM`). First with the later pieces of its word hidden as well (arXiv:2305.10588, section 3), second with
    these in sight. ValueError for an objective without such a head.
    """
    if isinstance(objective, CausalLM | BidirectionalLM):
        return _from_one_side(objective, ids, words).expand(2, -1, -1)
    head = objective.lm_head if isinstance(objective, PermutationLM) else objective.masked_head
    if head is None:
        raise ValueError(f"{type(objective).__name__} has no head that scores the tokens of a text")
    T = ids.shape[1]
    itself = torch.eye(T, dtype=torch.bool, device=ids.device)
    later = (words[:, :, None] == words[:, None, :]) & torch.ones_like(itself).triu()  # (B, T, T)
    scores = torch.zeros(2, *ids.shape, device=ids.device)
    scored = words >= 0
    scores[0, scored] = _hidden(objective, head, ids, later, scored, mask)
    several = scored & (later.sum(dim=-1) > 1)
    scores[1] = scores[0]
    scores[1, several] = _hidden(objective, head, ids, itself.expand_as(later), several, mask)
    return scores


def _from_one_side(objective: CausalLM | BidirectionalLM, ids: Tensor, words: Tensor) -> Tensor:
    """(B, T) nats."""
    batch = objective.make_batch(Batch(ids.cpu()), []).to(ids.device)
    nats = _chosen(objective.lm_head, objective.vectors(batch).flatten(0, 1), batch.targets.clamp(min=0).flatten()).view(
        batch.targets.shape
    )
    scores, following = torch.zeros(ids.shape, device=ids.device), ids.shape[1] - 1
    scores[:, 1:] += nats[:, :following]
    if isinstance(objective, BidirectionalLM):
        scores[:, :-1] += nats[:, following:]
    return scores.masked_fill(words < 0, 0.0)


def _hidden(objective: Objective, head: MaskedHead, ids: Tensor, hidden: Tensor, scored: Tensor, mask: int) -> Tensor:
    """(N,) nats of the N tokens that are `scored` (B, T), each without what is `hidden` (B, T, T) from it, many to a pass."""
    texts, targets = scored.nonzero(as_tuple=True)
    if not len(texts):  # of which some encoders of other packages cannot make a batch
        return ids.new_empty(0, dtype=torch.float32)
    rows, nats = max(1, TOKENS // ids.shape[1]), []
    for of, at in zip(texts.split(rows), targets.split(rows), strict=True):
        nats.append(_chosen(head, _states(objective, head, ids[of], hidden[of, at], at, mask), ids[of, at]))
    return torch.cat(nats)


def _states(objective: Objective, head: MaskedHead, ids: Tensor, hidden: Tensor, at: Tensor, mask: int) -> Tensor:
    """(R, T) texts, what is hidden in them, and the (R,) place of the target -> (R, D), from which the head scores it."""
    rows = torch.arange(len(at), device=at.device)
    if isinstance(objective, PermutationLM):
        rank = 2 * hidden.long()  # 0 in sight, 1 the target, 2 the rest of its word
        rank[rows, at] = 1
        order = Order(rank.cpu(), at[:, None].cpu(), torch.ones(len(at), 1, dtype=torch.bool))
        return objective.encoder(objective.with_queries(Batch(ids.cpu()), order).to(ids.device))[:, -1]
    _, read = head.read(objective.encoder, Batch(ids.masked_fill(hidden, mask)))
    return read[rows, at]


def _chosen(head: MaskedHead | PlainLMHead, states: Tensor, targets: Tensor) -> Tensor:
    """(R, D) and (R,) -> (R,) nats of the targets."""
    rows = max(1, LOGITS // head.output.out_features)
    parts = zip(states.split(rows), targets.split(rows), strict=True)
    return -torch.cat([F.cross_entropy(head(some).float(), of, reduction="none") for some, of in parts])
