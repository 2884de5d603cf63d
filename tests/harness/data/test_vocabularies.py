"""The vocabulary that a model or scale defines: what is trained, what is read, and what is printed."""

import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from datasets import Dataset
from omegaconf import OmegaConf
from tokenizers import Tokenizer
from variants import VARIANTS

from harness import paths
from harness.config.choices import TokenizerKind
from harness.config.resolve import load as load_config
from harness.config.schema import RunConfig, TokenizerConfig
from harness.errors import InputError
from harness.paths import conf_directory
from harness.study.plan import PlannedRun, plan
from harness.tasks import prepared

WORDPIECE, BPE, UNIGRAM = TokenizerKind.wordpiece, TokenizerKind.bpe, TokenizerKind.unigram
STATING = sorted(path for path in conf_directory().glob("*/*.yaml") if path.parent.name in ("model", "scale"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], (WORDPIECE, 8192, True, False)),
        (["scale=larger_bert"], (WORDPIECE, 50000, True, False)),
        (["model=mbert"], (WORDPIECE, 119547, False, True)),
        (["model=mbert", "scale=larger_bert"], (WORDPIECE, 119547, False, True)),
        (["model=mbert", "tokenizer.vocab_size=300"], (WORDPIECE, 300, False, True)),
        (["model=mbert", "tokenizer.lowercase=true", "tokenizer.multilingual=false"], (WORDPIECE, 119547, True, False)),
        (["model=mbert", "tokenizer=bpe"], (BPE, 119547, False, False)),
        (["model=mbert", "tokenizer=wordpiece"], (WORDPIECE, 119547, True, False)),
        (["model=roberta"], (BPE, 8192, False, False)),
        (["model=roberta", "scale=larger_bert"], (BPE, 50000, False, False)),
        (["model=roberta", "tokenizer=wordpiece"], (WORDPIECE, 8192, True, False)),
        (["model=roberta", "tokenizer.kind=wordpiece"], (WORDPIECE, 8192, True, False)),
        (["model=roberta", "tokenizer.vocab_file=vocab.txt"], (WORDPIECE, 8192, True, False)),
        (["model=xlnet"], (UNIGRAM, 8192, False, False)),
        (["model=xlnet", "tokenizer=unigram"], (UNIGRAM, 8192, True, False)),
        (["scale=larger_bert", "tokenizer=bpe"], (BPE, 50000, False, False)),
        (["scale=larger_bert", "model.tokenizer.vocab_size=70"], (WORDPIECE, 70, True, False)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_stated_tokenizer_is_the_default_and_typed_keys_win(compose, arguments, expected):
    (config,) = compose("task=sst2", *arguments)
    tokenizer = config.tokenizer
    assert (tokenizer.kind, tokenizer.vocab_size, tokenizer.lowercase, tokenizer.multilingual) == expected


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["pretrain=own"], 100),
        (["pretrain=[mlm,span_corruption]"], 100),
        (["pretrain=span_corruption", "tokenizer.sentinels=5"], 5),
        (["pretrain=span_corruption", "tokenizer=wordpiece"], 100),
        (["pretrain=mlm"], 0),
        ([], 0),
        (["tokenizer.trained_on=corpus"], 100),  # the control of a pretraining has its vocabulary
        (["pretrain=own", "model.init_from=weights"], 0),  # which have the vocabulary that they have
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_sentinels_are_there_where_spans_are_predicted(compose, arguments, expected):
    (config,) = compose("task=sst2", "model=t5_full", *(["recipe=bert"] if "init_from" in str(arguments) else []), *arguments)
    assert config.tokenizer.sentinels == expected


FAMILIES = {
    (BPE, False, 2): ("roberta", "longformer"),
    (BPE, False, 1): ("gpt2", "deberta", "modern"),
    (BPE, True, 1): ("gpt",),
    (UNIGRAM, True, 1): ("albert",),
    (UNIGRAM, False, 1): ("deberta_v3", "t5", "t5_full", "xlnet"),
    (WORDPIECE, False, 1): ("mbert",),
}
"""Kind, case and separators of a pair -> models with such a vocabulary; all others have BERT's."""


@pytest.mark.long
def test_each_variant_has_the_vocabulary_of_its_family_unless_the_command_chooses_one_for_all(compose):
    for run in compose("-m", "task=sst2", f"model={','.join(VARIANTS)}"):
        expected = next((facts for facts, models in FAMILIES.items() if run.model_name in models), (WORDPIECE, True, 1))
        assert (run.tokenizer.kind, run.tokenizer.lowercase, run.tokenizer.separators) == expected, run.model_name
    for run in compose(
        "-m", "task=sst2", f"model={','.join(models[0] for models in FAMILIES.values())}", "tokenizer=wordpiece"
    ):
        expected = TokenizerConfig(trained_on=run.tokenizer.trained_on, sentinels=0)
        assert replace(run.tokenizer, vocab_size=8192) == expected, run.model_name


@pytest.mark.long
@pytest.mark.parametrize("arguments", ["task=order", "task=sst2 pretrain=mlm", "task=sst2 tokenizer.trained_on=corpus"])
def test_words_of_generated_text_are_whole_for_every_variant(compose, arguments):
    roberta, xlnet = compose("-m", *arguments.split(), "model=roberta,xlnet", "corpus=builtin")
    assert roberta.tokenizer.kind == xlnet.tokenizer.kind == WORDPIECE
    (asked,) = compose(*arguments.split(), "model=roberta", "corpus=builtin", "tokenizer=bpe")
    assert asked.tokenizer.kind == BPE


@pytest.mark.long
def test_stated_file_is_read_unless_file_kind_or_size_is_typed(compose, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text("# mine\ntokenizer: {vocab_file: mine.txt, lowercase: false}\n")
    mine = ["--config-dir", str(tmp_path), "model=mine", "task=bag"]
    (config,) = compose(*mine)
    assert (config.tokenizer.vocab_file, config.tokenizer.file, config.tokenizer.lowercase) == ("mine.txt", None, False)
    for typed in (["tokenizer=bpe"], ["tokenizer.vocab_size=90"], ["tokenizer.file=other.json"]):
        (config,) = compose(*mine, *typed)
        assert config.tokenizer.vocab_file is None
    (config,) = compose(*mine, "tokenizer.vocab_file=other.txt")
    assert config.tokenizer.vocab_file == "other.txt"


def test_stated_size_is_the_published_one():
    for path in STATING:
        said = OmegaConf.load(path)
        stated = OmegaConf.select(said, "tokenizer.vocab_size")
        assert stated in (None, said.get("vocab_size")), path
        assert (stated is not None) == (path.stem in ("mbert", "larger_bert", "mini_bert")), path


# Training

ENDINGS = [f"{vowel}{consonant}" for vowel in "aeiou" for consonant in "bdgk"][:17]
WORDS = ["".join(parts) for parts in itertools.product("bdfgklmnpr", "aeiou", "bdfgklmnpr", ENDINGS)]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training text of 8,500 words, each of them twice."""
    folder = tmp_path_factory.mktemp("words")
    rows = [{"text": " ".join(WORDS[start : start + 50]), "y": start % 2} for start in range(0, len(WORDS), 50)] * 2
    for split, some in (("train", rows), ("validation", rows[:4])):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
    return folder


@pytest.fixture
def own_text(words: Path, tmp_path: Path) -> list[str]:
    """A task on that text."""
    files = [f"task.{split}_file={words / split}.jsonl" for split in ("train", "validation")]
    return ["task=own", *files, "task.fields=[text]", "task.label=y", "task.labels=[no,yes]", f"output={tmp_path / 'out'}"]


@pytest.mark.long
@pytest.mark.parametrize("lowercase", ["true", "false"])
def test_each_kind_of_vocabulary_has_prepared_data_of_its_own(compose, own_text, lowercase):
    """Prepared for one after the other, none takes that of another."""
    kinds = {}
    for kind in TokenizerKind:
        more = ["task.max_length=64", f"tokenizer.kind={kind.name}", f"tokenizer.lowercase={lowercase}"]
        (item,) = plan(compose(*own_text, *more))
        folder = paths.data_folder(item.config.output, item.inputs.data)
        kinds[kind.name] = json.loads((folder / "tokenizer.json").read_text())["model"]["type"].lower()
    assert kinds == {kind.name: kind.name for kind in TokenizerKind}


@pytest.mark.long
def test_size_that_a_scale_states_is_trained_for(compose, own_text):
    arguments = [*own_text, "task.max_length=64"]
    (base,), (larger,) = plan(compose(*arguments)), plan(compose(*arguments, "scale=larger_bert"))
    assert base.config.model.vocab_size == 8192
    assert not any("vocabulary" in note for note in base.notes)
    pieces = larger.config.model.vocab_size
    assert 8192 < len(WORDS) < pieces < 50000
    assert larger.notes[:1] == [
        f"base at scale larger_bert states a vocabulary of 50,000 pieces; the text yields {pieces:,}, "
        "and the model gets that size"
    ]
    (chosen,) = plan(compose(*arguments, "scale=larger_bert", "tokenizer.vocab_size=40000"))
    assert not any("vocabulary" in note for note in chosen.notes)


# Languages

ENGLISH = {"train": "the Singer was Ann they say", "validation": "the dancer was Bob they say"}
LANGUAGES = {"de": ("Die Sängerin war Ann", "Der Tänzer heißt Bob"), "zh": ("歌手是安", "舞者是鲍勃")}
FOLDER = {
    "en": {split: [ENGLISH[split]] * 8 for split in ENGLISH},
    **{name: {"validation": [text] * 4 + [scored] * 4} for name, (text, scored) in LANGUAGES.items()},
}


def row(number: int, context: str) -> dict[str, object]:
    last = context if " " not in context else context.split()[-1]
    answers = {"text": [last], "answer_start": [context.index(last)]}
    return {"id": f"q{number}", "question": "Who?", "context": context, "answers": answers}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Questions in three languages; nothing may change them."""
    root, configs = tmp_path_factory.mktemp("root"), []
    for subset, splits in FOLDER.items():
        (root / "qa" / subset).mkdir(parents=True)
        for split, contexts in splits.items():
            rows = [row(number, context) for number, context in enumerate(contexts)]
            Dataset.from_list(rows).to_parquet(str(root / "qa" / subset / f"{split}-0.parquet"))
        files = [{"split": split, "path": f"{subset}/{split}-*"} for split in splits]
        configs.append({"config_name": subset, "data_files": files})
    (root / "qa" / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': configs})}---\n")
    return root


@pytest.fixture
def settings(root: Path, tmp_path: Path) -> list[str]:
    """A task in one subset, scored beside it in the last four rows of two others."""
    settings = ["task=xquad", "task.subset=en", "task.train_split=train", "task.validation_split=validation"]
    settings += ["task.max_length=40", "task.stride=4", "data=local", f"data.root={root}", "scale=tiny"]
    for name, subset in (("german", "de"), ("chinese", "zh")):
        settings += [f"task.more_validation.{name}={subset}:validation[4:]", f"task.languages.{name}={subset}:validation[:4]"]

    return [*settings, f"output={tmp_path / 'out'}"]


@pytest.fixture
def languages(compose: Callable, settings: list[str]) -> Callable[..., RunConfig]:
    """That task, composed."""

    def config(*more: str) -> RunConfig:
        (one,) = compose(*settings, *more)
        return one

    return config


def vocabulary(item: PlannedRun) -> dict[str, int]:
    folder = paths.data_folder(item.config.output, item.inputs.data)
    return Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab()


@pytest.mark.long
def test_mbert_has_a_cased_vocabulary_of_all_languages_and_base_has_not(languages):
    base, mbert = plan([languages(), languages("model=mbert")])
    assert base.inputs.data != mbert.inputs.data
    assert base.inputs.content["rows"] == mbert.inputs.content["rows"]
    assert {"Singer", "Sängerin", "歌", "手", "是", "安"} <= set(vocabulary(mbert))
    assert not {"Tänzer", "dancer", "舞", "鲍", "勃"} & set(vocabulary(mbert)), "a scored text"
    assert "singer" in vocabulary(base)
    assert not {"Singer", "sangerin", "歌", "手"} & set(vocabulary(base))
    assert mbert.config.model.vocab_size == len(vocabulary(mbert)) > base.config.model.vocab_size
    assert len(vocabulary(base)) == base.config.model.vocab_size


@pytest.mark.long
def test_labels_of_the_text_of_a_vocabulary_are_not_read(languages, root, tmp_path):
    config = languages("model=mbert", f"data.root={shutil.copytree(root, tmp_path / 'root')}")
    config = replace(config, task=replace(config.task, more_validation={}))
    before = prepared.prepare(config)
    for subset in LANGUAGES:
        path = Path(config.data.root) / "qa" / subset / "validation-0.parquet"
        Dataset.from_parquet(str(path)).remove_columns("answers").to_parquet(str(path))
    assert prepared.prepare(config) == before


@pytest.mark.long
def test_text_of_a_vocabulary_is_part_of_the_key_where_it_is_read(languages, root, tmp_path):
    own = f"data.root={shutil.copytree(root, tmp_path / 'root')}"
    configs = [languages("model=mbert", own), languages(own)]
    before = [prepared.prepare(config) for config in configs]
    path = Path(configs[0].data.root) / "qa" / "de" / "validation-0.parquet"
    rows = Dataset.from_parquet(str(path)).to_list()
    Dataset.from_list([row(0, "Die Harfe spielt Ann"), *rows[1:]]).to_parquet(str(path))
    after = [prepared.prepare(config) for config in configs]
    assert after[0] != before[0]
    assert after[1] == before[1]


@pytest.mark.long
def test_rows_of_another_subset_are_scored_beside(languages):
    config = languages()
    data = prepared.read(config, prepared.prepare(config))
    assert list(data.more) == ["german", "chinese"]
    assert all(split.items == ["q4", "q5", "q6", "q7"] for split in data.more.values())
    assert set(data.more["chinese"].texts["contexts"]) == {"舞者是鲍勃"}
    assert set(data.validation.texts["contexts"]) == {ENGLISH["validation"]}


@pytest.mark.long
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["task.more_validation.german=de:test"], "unknown split of task 'xquad', german: 'test'"),
        (["task.more_validation.german=fr:validation"], "task 'xquad', german: .*with subset='fr' cannot be loaded"),
        (
            ["task.languages.german=de:validation[:6]", "model=mbert"],
            r"task.languages='de:validation\[:6\]' and task.more_validation.*='de:validation\[4:\]' share rows",
        ),
        (
            ["task.train_split=zh:validation[:5]"],
            r"task.train_split='zh:validation\[:5\]' and task.more_validation.*='zh:validation\[4:\]' share rows",
        ),
    ],
    ids=["split", "subset", "scored", "trained"],
)
def test_parts_of_other_subsets_that_do_not_fit_are_one_line(languages, more, expected):
    config = languages(*more)
    with pytest.raises(InputError, match=expected) as error:
        prepared.prepare(config)
    assert "\n" not in str(error.value)


@pytest.mark.long
def test_size_is_told_once_before_anything_runs_and_every_language_is_scored(run_harness, settings, tmp_path):
    budget = ["finetune.max_steps=2", "hardware.threads=1", "measure=none", "seed=1,2"]
    done = run_harness("-m", *settings, *budget, "model=mbert")
    assert done.returncode == 0, done.stdout + done.stderr
    folders = [path.parent for path in (tmp_path / "out" / "default").glob("*/run.json")]
    (pieces,) = {load_config(folder / "config.yaml").model.vocab_size for folder in folders}
    first, *others = done.stdout.splitlines()
    assert first == (
        f"mbert at scale tiny states a vocabulary of 119,547 pieces; the text yields {pieces:,}, and the model gets that size"
    )
    assert not any("states" in line for line in others)
    scores = {f"eval/f1{language}" for language in ("", "_german", "_chinese")}
    for folder in folders:
        assert scores <= set(json.loads((folder / "result.json").read_text())["metrics"])
        assert (folder / "predictions_german.parquet").exists()
