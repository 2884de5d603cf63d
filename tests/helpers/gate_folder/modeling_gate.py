"""A made-up encoder: each token is gated by the mean of its text."""

import os
from pathlib import Path

from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput

from .configuration_gate import GateConfig

if "GATE_IMPORTED" in os.environ:
    Path(os.environ["GATE_IMPORTED"]).touch()


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gate, self.value = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, hidden, mask):
        mean = (hidden * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)
        return hidden + self.gate(mean).sigmoid() * self.value(hidden)


class GatePreTrainedModel(PreTrainedModel):
    config_class = GateConfig
    base_model_prefix = "gate"

    def _init_weights(self, module):
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)


class GateModel(GatePreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.words = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config.hidden_size) for _ in range(config.num_hidden_layers))
        self.post_init()

    def get_input_embeddings(self):
        return self.words

    def forward(self, input_ids, attention_mask=None):
        hidden = self.words(input_ids)
        mask = hidden.new_ones(input_ids.shape) if attention_mask is None else attention_mask.to(hidden.dtype)
        for layer in self.layers:
            hidden = layer(hidden, mask.unsqueeze(-1))
        return BaseModelOutput(last_hidden_state=hidden)


class GateForMaskedLM(GatePreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.gate, self.decoder = GateModel(config), nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def get_output_embeddings(self):
        return self.decoder

    def forward(self, input_ids, attention_mask=None):
        return MaskedLMOutput(logits=self.decoder(self.gate(input_ids, attention_mask=attention_mask).last_hidden_state))
