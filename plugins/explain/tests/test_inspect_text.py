"""`python -m harness inspect text=...`: inputs, attention and predictions of a text of the user."""

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from harness import paths
from harness.__main__ import main
from harness.checkpoints import finetuned, native
from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig, TokenizerConfig
from harness.data.tokenizer import build
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.encoder import Encoder, initialise
from harness.models.heads import MaskedLMHead, SequenceClassifier, TokenClassifier
from harness.plugins.explain import inspect

TEXTS = ["the bank was robbed by the river", "a dog robbed the bank", "rivers and banks"]
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
LABELS = {TaskKind.classification: ["no", "yes", "maybe"], TaskKind.tokens: ["O", "B-x", "I-x"]}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return build(TokenizerConfig(vocab_size=80, min_frequency=1), TEXTS)


def run_of(name: str, tokenizer: Tokenizer, kind: TaskKind, fields: tuple[str, ...] = ("text",)):
    """A finished fine-tuning below multirun/."""
    head = TokenClassifier if kind in (TaskKind.tokens, TaskKind.spans) else SequenceClassifier
    labels = LABELS.get(kind, [])
    shape = EncoderConfig(vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=32, **SMALL)
    model = head(shape, {TaskKind.regression: 1, TaskKind.spans: 2}.get(kind, len(labels)))
    initialise(model, 0.5, 0)
    folder = Path("multirun", "study", name)
    folder.mkdir(parents=True)
    tokenizer.save("tokenizer.json")
    task = TaskConfig(name="mine", kind=kind, fields=list(fields), labels=labels, max_length=16, stride=1)
    finetuned.save(folder / paths.WEIGHTS, model, task, Path("tokenizer.json"))
    (folder / "run.json").write_text(json.dumps({"attempt": "1"}))
    return model.eval()


@torch.inference_mode()
def logits_of(model, tokenizer: Tokenizer, *texts: str) -> torch.Tensor:
    row = tokenizer.encode(*texts)
    return model(Batch(torch.tensor([row.ids]), torch.tensor([row.type_ids])))[0]


def predicted(out: str) -> str:
    (line,) = (line for line in out.splitlines() if line.startswith("prediction: "))
    return line.removeprefix("prediction: ")


@pytest.mark.long
def test_fine_tuned_run_shows_inputs_and_the_probabilities_of_its_model(said, tokenizer):
    model = run_of("base-mine-0-abc", tokenizer, TaskKind.classification)
    out = said("inspect", "text=the bank was robbed", "base-mine")
    assert out.splitlines()[0] == "text, run base-mine, fine-tuned on mine"
    row = tokenizer.encode("the bank was robbed")
    (pieces, ids) = (line.split()[1:] for line in out.splitlines() if line.startswith(("piece ", "id ")))
    assert (pieces, ids) == (row.tokens, [str(number) for number in row.ids])
    assert "label" not in out
    shares = dict(pair.split() for pair in predicted(out).split(", "))
    expected = logits_of(model, tokenizer, "the bank was robbed").softmax(0).tolist()
    assert [float(shares[label]) for label in LABELS[TaskKind.classification]] == pytest.approx(expected, abs=1e-3)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


@pytest.mark.long
def test_two_texts_have_two_pictures(said, tokenizer):
    run_of("base-mine-0-abc", tokenizer, TaskKind.classification)
    texts = ("the bank was robbed by a dog", "the bank was robbed by the dog", "the bank")
    written = {said("inspect", f"text={text}", "base-mine").splitlines()[-1] for text in texts}
    assert len(written) == 3
    assert all(Path(name).is_file() for name in written)
    assert said("inspect", f"text={texts[0]}", "base-mine").splitlines()[-1] in written


@pytest.mark.long
def test_pair_has_two_segments(said, tokenizer):
    model = run_of("pair-0", tokenizer, TaskKind.regression, ("a", "b"))
    out = said("inspect", "text=the bank ||| a dog", "pair-0")
    (segments,) = (line.split()[1:] for line in out.splitlines() if line.startswith("segment "))
    assert "0" in segments
    assert "1" in segments
    assert float(predicted(out)) == pytest.approx(logits_of(model, tokenizer, "the bank", "a dog").item(), abs=1e-3)


@pytest.mark.long
def test_words_get_their_tags(said, tokenizer):
    model = run_of("tags-0", tokenizer, TaskKind.tokens)
    words = ["the", "bank", "robbed"]
    row = tokenizer.encode(words, is_pretokenized=True)
    with torch.inference_mode():
        best = model(Batch(torch.tensor([row.ids])))[0].argmax(-1).tolist()
    tags = [LABELS[TaskKind.tokens][best[row.word_ids.index(place)]] for place in range(3)]
    assert predicted(said("inspect", "text=the bank robbed", "tags-0")) == " ".join(
        map("/".join, zip(words, tags, strict=True))
    )


@pytest.mark.long
def test_answer_is_a_part_of_the_context(said, tokenizer):
    run_of("spans-0", tokenizer, TaskKind.spans, ("question", "context"))
    answer = predicted(said("inspect", "text=the dog ||| a dog robbed the bank", "spans-0"))
    assert answer == "no answer" or answer.strip("'") in "a dog robbed the bank"


@pytest.mark.long
def test_long_text_is_cut_and_says_so(said, tokenizer):
    run_of("cut-0", tokenizer, TaskKind.classification)
    out = said("inspect", f"text={'bank ' * 40}", "cut-0")
    pieces = len(tokenizer.encode("bank " * 40).ids)
    assert f"cut: the first 16 of {pieces} pieces" in out


@pytest.mark.long
def test_pretraining_predicts_masked_pieces(said, tokenizer):
    shape = EncoderConfig(vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=32, **SMALL)
    encoder = Encoder(shape)
    head = MaskedLMHead(shape, encoder.embeddings.token_embedding)
    initialise(encoder, 0.5, 0)
    initialise(head, 0.5, 1)
    state = {f"encoder.{name}": tensor for name, tensor in encoder.state_dict().items()}
    state |= {f"masked_head.{name}": tensor for name, tensor in head.state_dict().items()}
    native.save(Path("pretrained", paths.WEIGHTS), state, shape)
    tokenizer.save(str(Path("pretrained", paths.WEIGHTS, native.TOKENIZER)))
    out = said("inspect", "text=the [MASK] was robbed", "pretrained")
    row = tokenizer.encode("the [MASK] was robbed")
    place = row.tokens.index("[MASK]")
    with torch.inference_mode():
        shares = head.eval()(encoder.eval()(torch.tensor([row.ids])))[0, place].softmax(-1)
    best = shares.argmax().item()
    assert f"prediction at {place}: {tokenizer.id_to_token(best)} {shares[best]:.3f}" in out
    assert "prediction" not in said("inspect", "text=the bank", "pretrained")


@pytest.mark.long
def test_randomly_initialised_model_is_called_so_and_has_attention(said, monkeypatch):
    seen = []
    maps_of = inspect.maps_of
    monkeypatch.setattr(inspect, "maps_of", lambda *call: seen.extend(maps_of(*call)) or seen)
    out = said("inspect", "text=a fox hears the hare", "task=bag", "scale=tiny", "attention=true", "seed=3")
    assert out.splitlines()[0] == "text, base at scale tiny, randomly initialised (seed 3)"
    assert "prediction" not in out
    assert len(seen) == 2
    assert [Path(line).is_file() for line in out.splitlines()[-2:]] == [True, True]


@pytest.mark.long
def test_tokenizer_of_a_corpus_can_be_trained(said):
    Path("mine.txt").write_text("a qwyx ran\n\nqwyx qwyx\n\na\n\nb\n\nc")
    out = said("inspect", "text=qwyx", "corpus=files", "corpus.files=[mine.txt]", "scale=tiny")
    assert "[CLS]  qwyx  [SEP]" in out


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["text=", "one-0"], "text= is empty"),
        (["text=a ||| b", "one-0"], "text= has 2 texts, task 'mine' reads 1 (text)"),
        (["text=a", "one"], "RUN='one' is ambiguous (2 runs: study/one-0 with weights, study/one-1 with weights)"),
        (["text=a", "nne-0"], "nor a name below output='multirun'; did you mean 'one-0'?"),
        (["text=a", "one-0", "model=albert"], "RUN and model=albert both name a model"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_two(capsys, tokenizer, arguments, expected):
    for name in ("one-0", "one-1"):
        run_of(name, tokenizer, TaskKind.classification)
    assert main(["inspect", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert expected in err
    assert not Path("multirun", "inspect").exists()
