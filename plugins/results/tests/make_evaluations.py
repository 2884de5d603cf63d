"""Lets evaluation tools write their fixtures: `PYTHON plugins/results/tests/make_evaluations.py TOOL`, one of TOOLS.

PYTHON has the tool: lm-eval 0.4.13, mteb 2.26.24, or lighteval 0.13.0 with xxhash<4; torch 2.13.0, transformers 5.23.0.
What names the machine is taken out of the files.
"""

import json
import os
import runpy
import shutil
import sys
import tempfile
from pathlib import Path

FIXTURES = Path(__file__).with_name("fixtures")
WORDS = ["cat", "dog", "park", "good", "bad", "green", "red", "blue", "one", "two", "three", "four", "runs", "sits"]
ROWS = {
    "colour": [
        ("grass is", "green", "red"),
        ("blood is", "red", "green"),
        ("coal is", "black", "white"),
        ("snow is", "white", "black"),
    ],
    "animal": [("a cat", "meows", "barks"), ("a dog", "barks", "meows"), ("a cow", "moos", "sings")],
}
"""Task -> text, right answer, wrong answer."""
ARMS = {"tiny-a": 1, "tiny-b": 4}


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = {letter: number for number, letter in enumerate(["[PAD]", *map(chr, range(32, 127))])}
    made = Tokenizer(models.WordLevel(letters, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", eos_token="[PAD]", bos_token="[PAD]", unk_token="?"
    )


def decoders() -> None:
    """A random decoder of two layers for each arm, and the rows of each task, in the working directory."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    for name, seed in ARMS.items():
        torch.manual_seed(seed)
        shape = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 256, "vocab_size": 96}
        GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=0, eos_token_id=0)).save_pretrained(name)
        tokenizer().save_pretrained(name)
    for name, rows in ROWS.items():
        Path(name).mkdir()
        lines = [{"question": text, "choices": sorted(both), "answer": sorted(both).index(both[0])} for text, *both in rows]
        Path(name, "test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def command(module: str, *words: str) -> None:
    sys.argv = [module, *words]
    try:
        runpy.run_module(module, run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise


LM_EVAL = """
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}/test.jsonl}}}}
test_split: test
fewshot_split: test
doc_to_text: "{{{{question}}}}"
metadata: {{version: 1.0}}
"""


def lm_eval() -> None:
    decoders()
    Path("tasks").mkdir()
    choose = "output_type: multiple_choice\ndoc_to_target: '{{answer}}'\ndoc_to_choice: '{{choices}}'\n"
    choose += "metric_list: [{metric: acc}]\n"
    for name in ROWS:
        Path("tasks", f"{name}.yaml").write_text(f"task: {name}\n{choose}{LM_EVAL.format(data=name)}")
    Path("tasks/words.yaml").write_text("group: words\ntask: [colour, animal]\naggregate_metric_list: [{metric: acc}]\n")
    write = (
        "task: write\noutput_type: generate_until\ndoc_to_target: '{{choices[answer]}}'\ngeneration_kwargs: {max_gen_toks: 4}\n"
    )
    write += "filter_list:\n- {name: strict, filter: [{function: take_first}]}\n- {name: first, filter: [{function: regex, "
    write += "regex_pattern: '(.)'}, {function: take_first}]}\nmetric_list: [{metric: exact_match}]\n"
    Path("tasks/write.yaml").write_text(write + LM_EVAL.format(data="animal"))
    for arm in ARMS:
        common = ["run", "--model", "hf", "--model_args", f"pretrained={arm}", "--device", "cpu", "--include_path", "tasks"]
        common += ["--output_path", "out", "--log_samples"]
        for seed in ("1", "2"):
            command("lm_eval", *common, "--tasks", "words", "--num_fewshot", "1", "--seed", seed)
        command("lm_eval", *common, "--tasks", "write")
    for file in Path("out").rglob("results_*.json"):
        stated = json.loads(file.read_text())
        file.write_text(json.dumps({key: value for key, value in stated.items() if key != "pretty_env_info"}, indent=2))


def mteb() -> None:
    """Two revisions of the results folder of two random encoders, on a task of one subset and a task of two."""
    import numpy as np
    import torch
    from datasets import Dataset, DatasetDict
    from mteb import evaluate
    from mteb.abstasks.classification import AbsTaskClassification
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.cache import ResultCache
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertConfig, BertModel

    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(WORDS, 5)) for _ in range(40)]
    about = {"dataset": {"path": "made", "revision": "1"}, "description": "Made.", "eval_splits": ["test"]}

    class Colours(AbsTaskClassification):
        metadata = TaskMetadata(**about, type="Classification", name="Colours", main_score="accuracy", eval_langs=["eng-Latn"])
        n_experiments = 2

        def load_data(self, **_):
            rows = Dataset.from_dict({"text": texts, "label": [int("red" in text) for text in texts]})
            self.dataset, self.data_loaded = DatasetDict(train=rows, test=rows), True

    languages = {"eng": ["eng-Latn"], "fra": ["fra-Latn"]}

    class Pairs(AbsTaskSTS):
        metadata = TaskMetadata(**about, type="STS", name="Pairs", main_score="cosine_spearman", eval_langs=languages)
        min_score, max_score = 0, 5

        def load_data(self, **_):
            both = {"eng": (texts[:20], texts[20:]), "fra": (texts[10:30], texts[20:])}
            scores = {name: [len({*a.split()} & {*b.split()}) for a, b in zip(*of, strict=True)] for name, of in both.items()}
            rows = {name: {"sentence1": a, "sentence2": b, "score": scores[name]} for name, (a, b) in both.items()}
            self.dataset = {name: DatasetDict(test=Dataset.from_dict(of)) for name, of in rows.items()}
            self.data_loaded = True

    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 96}
    for name, seed in ARMS.items():
        torch.manual_seed(seed)
        BertModel(BertConfig(**shape)).save_pretrained(name)
        tokenizer().save_pretrained(name)
        encoder = SentenceTransformer(modules=[models.Transformer(name, max_seq_length=64), models.Pooling(16)], device="cpu")
        encoder.model_card_data.model_name, encoder.model_card_data.base_model_revision = f"made/{name}", f"{seed:040}"
        evaluate(encoder, [Colours(), Pairs()], cache=ResultCache("cache"), co2_tracker=False)
    shutil.copytree("cache/results", "out")


LIGHTEVAL = """
from lighteval.metrics.metrics import Metrics
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc

def prompt(line, task_name):
    choices = [" " + choice for choice in line["choices"]]
    return Doc(query=line["question"], choices=choices, gold_index=line["answer"], task_name=task_name)

SPLITS = {"hf_avail_splits": ["test"], "evaluation_splits": ["test"], "generation_size": 4, "stop_sequence": ["."]}
TASKS_TABLE = [
    LightevalTaskConfig(name, prompt, folder, "default", [metric], **SPLITS)
    for name, folder, metric in (
        ("words:colour", "colour", Metrics.loglikelihood_acc),
        ("words:animal", "animal", Metrics.loglikelihood_acc),
        ("write", "animal", Metrics.exact_match),
    )
]
"""


def lighteval() -> None:
    import huggingface_hub

    huggingface_hub.HfApi.list_models = lambda *_, **__: ["any"]  # a judge of no task that runs here is looked up
    sys.modules["lighteval.tasks.tasks.tiny_benchmarks"] = None  # fetches a file
    decoders()
    Path("made.py").write_text(LIGHTEVAL)
    for arm in ARMS:
        words = ["words:colour|0,words:animal|0,write|0", "--custom-tasks", "made.py", "--output-dir", "out", "--save-details"]
        command("lighteval", "accelerate", f"model_name={arm},device=cpu,batch_size=4,cache_dir=cached", *words)


TOOLS = {"lm_eval": lm_eval, "mteb": mteb, "lighteval": lighteval}

if __name__ == "__main__":
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": tempfile.mkdtemp(), "OMP_NUM_THREADS": "1"}
    os.chdir(tempfile.mkdtemp())
    tool = sys.argv[1]
    TOOLS[tool]()
    shutil.rmtree(FIXTURES / tool, ignore_errors=True)
    shutil.copytree("out", FIXTURES / tool)
