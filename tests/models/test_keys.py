"""Keys that a model reads, held against the reads of models that are built and run."""

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from variant_files import merged

from harness.models.batch import Batch
from harness.models.config import Activation, Body, EncoderConfig, Init, Norm, NormPlace, Position, Sharing
from harness.models.heads import MaskedLMHead, TextVectors, TokenClassifier, build_classifier, make_mask_decoder
from harness.models.keys import built, keys_read, refuse_unread

ROOT = Path(__file__).parents[2]
VARIANTS = sorted(path.stem for path in (ROOT / "conf" / "model").glob("*.yaml"))
KEYS = {field.name for field in fields(EncoderConfig)}
SMALL = {"vocab_size": 60, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 40}
SMALL |= {"max_position_embeddings": 60}
SHAPES = {
    **{position.value: {"position": position} for position in Position},
    **{f"{body.value} body": {"body": body, "position": Position.none} for body in Body},
    "explicit sizes": {"embedding_size": 8, "feed_forward_size": 24},
    "shared": {"num_hidden_groups": 1, "sharing": Sharing.attention, "norm_place": NormPlace.pre},
    "rms": {"norm": Norm.rms, "pooler": None, "pooler_norm": True},
    "gated window": {"attention_window": 4, "gated_feed_forward": True, "hidden_act": Activation.silu},
    "causal relative": {"position": Position.relative, "causal": True},
    "segments": {"position": Position.relative, "causal": True, "segment_length": 4, "memory_length": 6},
    "causal rotary": {"position": Position.rotary, "causal": True, "rotary_global_theta": 1e5},
}


class Recorder(EncoderConfig):
    """A config that remembers which of its fields are read; not by its own checks, and not by dataclasses.replace."""

    reads: set[str] = set()  # noqa: RUF012 - of all copies together, the decoder has one of its own
    checking = False

    def __post_init__(self) -> None:
        Recorder.checking = True
        super().__post_init__()
        Recorder.checking = False

    def __getattribute__(self, name: str) -> object:
        copying = sys._getframe(1).f_globals["__name__"] == "dataclasses"
        if name in KEYS and not copying and not Recorder.checking:
            Recorder.reads.add(name)
        return super().__getattribute__(name)


def reads_of(config: EncoderConfig) -> set[str]:
    """Of a model with all its heads, from its making to its gradients."""
    recorder = Recorder(**vars(config))
    Recorder.reads.clear()
    model = build_classifier(recorder, 2, seed=0)
    words = build_classifier(recorder, 2, seed=0, head=TokenClassifier)
    masked = MaskedLMHead(recorder, model.encoder.embeddings.token_embedding, make_mask_decoder(recorder))
    batch = Batch(torch.full((2, min(20, recorder.longest_text)), 7), torch.zeros(2, 20, dtype=torch.int64))
    model.loss(model(batch), torch.tensor([0, 1])).backward()
    words(batch)
    build_classifier(recorder, 0, seed=0, head=TextVectors)(batch)
    masked(model.encoder(batch)).sum().backward()
    return set(Recorder.reads)


@pytest.mark.long
@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_reads_what_its_keys_say(name):
    config = merged(OmegaConf.load(ROOT / "conf" / "scale" / "tiny.yaml"), OmegaConf.load(ROOT / f"conf/model/{name}.yaml"))
    assert reads_of(config) == keys_read(config)


@pytest.mark.parametrize("changes", SHAPES.values(), ids=SHAPES)
def test_every_shape_reads_what_its_keys_say(changes):
    config = EncoderConfig(**{**SMALL, **changes})
    assert reads_of(config) == keys_read(config)


def test_every_key_is_read_by_some_shape():
    shapes = [EncoderConfig(**{**SMALL, **changes}) for changes in SHAPES.values()]
    of_other_packages = {"options", "layers_kept"}  # read by an encoder that a package adds, alone
    assert frozenset().union(*map(keys_read, shapes)) == KEYS - of_other_packages


BODY, TURNED = "model.body=encoder_decoder or transformer", "model.position=rotary"
UNREAD = [
    ({"position": Position.alibi, "rotary_theta": 20000}, "rotary_theta=20000", f"{TURNED} (now alibi)"),
    ({"body": Body.static, "attention_bias": False}, "attention_bias=false", f"{BODY} (now static)"),
    ({"embedding_size": 8, "embedding_fraction": 0.5}, "embedding_fraction=0.5", "model.embedding_size=null (now 8)"),
    ({"sharing": Sharing.attention}, "sharing=attention", "a model.num_hidden_groups (now null)"),
    ({"body": Body.lstm, "rotary_theta": 5.0}, "rotary_theta=5.0", f"{BODY} (now lstm) and {TURNED} (now learned)"),
]


@pytest.mark.parametrize(("changes", "key", "needs"), UNREAD)
def test_a_changed_key_that_nothing_reads_is_refused(changes, key, needs):
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole message is compared
        refuse_unread(EncoderConfig(**{**SMALL, **changes}), ["hidden_size", key.partition("=")[0]])
    assert str(refused.value) == f"model.{key} has no effect in this model: it needs {needs}"


def test_keys_that_are_read_or_not_of_the_encoder_pass():
    refuse_unread(EncoderConfig(position=Position.rotary), ["rotary_theta", "objective", "init_from"])


def test_keys_are_known_without_torch():
    code = "import sys, json; import harness.models.keys; print(json.dumps('torch' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is False


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"embedding_size": 768}, {}),
        ({"embedding_fraction": 0.5}, {"embedding_size": 384}),
        ({"depth_fraction": 0.5}, {"num_hidden_layers": 6}),
        ({"num_hidden_groups": 12}, {}),
        ({"head_size": 64}, {}),
        ({"base_head_size": 64}, {}),
        ({"attention_window": 2048, "global_tokens": 2}, {}),
        ({"attention_window": 64, "global_layer_every": 1}, {}),
        ({"classifier_dropout": 0.1}, {}),
        ({"feed_forward_size": 2048, "gated_feed_forward": True}, {"gated_feed_forward": True}),
        ({"rotary_theta": 5.0}, {}),  # of learned positions nothing reads it
    ],
)
def test_one_model_under_two_names_is_built_from_the_same(one, other):
    assert built(EncoderConfig(**one)) == built(EncoderConfig(**other))
    assert built(EncoderConfig(**one)) != built(EncoderConfig(**other | {"hidden_dropout_prob": 0.2}))


OTHERS = [{"attention_window": 64}, {"num_hidden_groups": 6}, {"init": Init.small_embeddings}, {"embedding_size": 128}]
OTHERS += [{"init": Init.scaled_by_depth}, {"norm_place": NormPlace.pre}, {"attention_scale": False}, {"pooler": None}]


@pytest.mark.parametrize("keys", OTHERS)
def test_another_model_is_built_from_something_else(keys):
    assert built(EncoderConfig(**keys)) != built(EncoderConfig())
