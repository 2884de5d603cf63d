"""Claims of the documents on BERT that cost nothing to judge, by the command."""

import pytest

from harness.__main__ import main

COMMANDS = {
    "both totals": ("audit claims=notebook-original-total,notebook-enhanced-total", "2 refuted"),
    "embedding 768 to 128": ("audit claims=factorized-embedding-83", "confirmed"),
    "one layer in place of twelve": ("audit claims=sharing-92", "-91.7 %"),
    "specifications of BERT-base": ("audit claims=bert-base-dimensions", "12 (key layers)", "3,072", "confirmed"),
    "four days on 16 accelerators": ("audit claims=bert-base-4-days", "confirmed", "42.6e9 tokens"),
    "GLUE before BERT and after": ("audit claims=bert", "93.5", "before GPT", "arXiv:1810.04805"),
    "sizes of the relatives": ("audit claims=albert-12m,roberta-125m,distilbert-66m,electra-small-14m", "4 confirmed"),
    "tanh form of GELU": ("audit claims=gelu-tanh-approximation", "confirmed"),
}


@pytest.mark.long
@pytest.mark.parametrize("row", COMMANDS)
def test_row_of_the_sources_is_shown(capsys, row, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    command, *expected = COMMANDS[row]
    assert main(command.split()) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert [text for text in expected if text not in printed] == [], printed
