"""The config of a made-up encoder, as a repository of the hub has it beside its weights."""

from transformers import PretrainedConfig


class GateConfig(PretrainedConfig):
    model_type = "gate"

    def __init__(self, vocab_size=100, hidden_size=16, num_hidden_layers=2, pad_token_id=0, **others):
        self.vocab_size, self.hidden_size, self.num_hidden_layers = vocab_size, hidden_size, num_hidden_layers
        super().__init__(pad_token_id=pad_token_id, **others)
