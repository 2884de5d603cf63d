"""`python -m harness describe positions`: learned vectors beside sinusoids. The whole command runs, in this process."""

import re
from pathlib import Path

import pytest
import torch
import transformers
from torch.nn import functional as F

from harness.__main__ import main


def said(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(["describe", "positions", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def rows(out: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line) for line in out.split("\n\n")[1].splitlines()[2:]]


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 5}
    model = transformers.BertModel(transformers.BertConfig(max_position_embeddings=20, **shape))
    walk = torch.randn(20, 16, generator=torch.Generator().manual_seed(0)).cumsum(dim=0)  # neighbours are alike
    model.embeddings.position_embeddings.weight.data.copy_(walk)
    model.save_pretrained(tmp_path / "bert")
    (tmp_path / "bert" / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    return tmp_path / "bert"


def test_learned_positions_are_those_of_the_weights(capsys, bert, tmp_path):
    code, out, _ = said(capsys, f"model.init_from={bert}", f"to={tmp_path}")
    learned, sinusoids = rows(out)
    table = transformers.BertModel.from_pretrained(bert).embeddings.position_embeddings.weight.detach()
    assert code == 0
    assert learned[:3] == ["learned, of bert", "20 x 16", "320"]
    assert learned[4] == f"{F.cosine_similarity(table[1:], table[:-1]).mean():.3f}"
    assert float(learned[4]) > 0.5
    assert learned[-2:] == ["-", "-"]  # 32 and 128 places apart
    assert sinusoids[:3] == ["sines and cosines", "20 x 16", "-"]
    assert sinusoids[3] == f"{8**0.5:.3f}"  # sin² + cos² = 1, for each of 8 frequencies
    assert Path(out.splitlines()[-1]).read_text().startswith("<?xml")


def test_random_positions_know_no_distance_and_sinusoids_do(capsys, tmp_path):
    learned, sinusoids = rows(said(capsys, "model=base", "scale=tiny", f"to={tmp_path}")[1])
    assert learned[0] == "learned, before training (seed 0)"
    assert all(abs(float(cosine)) < 0.05 for cosine in learned[4:])
    cosines = [float(cosine) for cosine in sinusoids[4:]]
    assert cosines == sorted(cosines, reverse=True)
    assert cosines[0] > 0.9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model=t5"], "t5 has position=bucketed: expected a model with learned positions"),
        (["-m", "model=base,albert"], "describe positions shows one variant, the command line names 2: leave -m out"),
    ],
)
def test_models_without_learned_positions_are_refused(capsys, arguments, message):
    code, out, err = said(capsys, "scale=tiny", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
