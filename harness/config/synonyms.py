"""Suggestions for an unknown key or choice: by spelling, by last part, or by a synonym in papers and libraries."""

import difflib
import re
from collections.abc import Iterable

KEYS = {
    "learning_rate": "lr rate step_size peak_lr",
    "batch_size": "bs batch batchsize train_batch_size per_device_train_batch_size mini_batch",
    "eval_batch_size": "eval_bs per_device_eval_batch_size test_batch_size",
    "epochs": "epoch num_epochs n_epochs num_train_epochs",
    "max_steps": "steps num_steps n_steps train_steps total_steps",
    "steps": "max_steps num_steps n_steps train_steps total_steps",
    "weight_decay": "wd decay l2",
    "warmup_fraction": "warmup warmup_ratio warmup_proportion warmup_steps",
    "optimizer": "optimiser optim",
    "schedule": "scheduler lr_scheduler lr_schedule lr_scheduler_type",
    "trains": "peft adapter adapters lora bitfit",
    "lora_rank": "lora_r rank_of_lora",
    "freeze_layers": "freeze frozen_layers num_frozen_layers",
    "ema_decay": "ema ema_rate polyak weight_averaging moving_average",
    "in_batch_negatives": "contrastive mnrl infonce multiple_negatives",
    "cosine_temperature": "contrastive_temperature tau",
    "layer_decay": "llrd layerwise_lr_decay layer_lr_decay",
    "adam_betas": "betas beta adam_beta1 adam_beta2",
    "adam_eps": "eps epsilon adam_epsilon",
    "max_grad_norm": "clip grad_clip clip_grad gradient_clip gradient_clip_val max_norm",
    "accumulation": "grad_accumulation gradient_accumulation gradient_accumulation_steps accum accumulate",
    "activation_checkpointing": "checkpointing gradient_checkpointing",
    "mask_rate": "mask_prob masking_rate mlm_probability mask_ratio",
    "checkpoint_every_s": "save_every save_steps checkpoint_every",
    "num_hidden_layers": "layers layer num_layers n_layers n_layer depth",
    "num_attention_heads": "heads num_heads n_heads n_head attention_heads",
    "num_hidden_groups": "groups shared_layers num_groups",
    "hidden_size": "hidden width dim d_model n_embd hidden_dim model_dim",
    "intermediate_size": "intermediate d_ff ffn ffn_dim ffn_size mlp_size mlp_dim",
    "embedding_size": "embedding_dim embed_dim emb_size",
    "initializer_range": "init init_std initializer std",
    "attention_window": "window window_size attn_window sliding_window local_attention",
    "position": "position_embedding position_embeddings position_embedding_type positional_encoding positions pos pos_emb",
    "max_position_embeddings": "n_positions max_positions",
    "hidden_dropout_prob": "dropout dropout_rate dropout_prob hidden_dropout p_dropout",
    "attention_probs_dropout_prob": "dropout attention_dropout attn_dropout attn_pdrop",
    "hidden_act": "activation act hidden_activation activation_function nonlinearity",
    "gated_feed_forward": "gated glu swiglu geglu",
    "norm": "normalization normalisation norm_type",
    "norm_place": "pre_norm prenorm norm_first post_norm",
    "rotary_theta": "theta rope_theta rope",
    "type_vocab_size": "token_types num_types segments",
    "init_from": "pretrained weights from_pretrained model_name_or_path",
    "vocab_size": "vocab n_vocab vocabulary vocabulary_size",
    "max_length": "max_len max_seq_len max_seq_length seq_len seq_length sequence_length max_sequence_length",
    "length": "max_len seq_len seq_length sequence_length",
    "dtype": "precision mixed_precision amp bf16 fp16 fp32 half",
    "device": "gpu cuda cpu accelerator",
    "threads": "num_threads cpus cores workers num_workers",
    "compile": "torch_compile compiled",
    "root": "data_dir data_root root_dir",
    "train_examples": "max_train_samples train_size num_train",
    "validation_examples": "max_eval_samples validation_size eval_size",
    "uri": "mlflow mlflow_uri tracking_uri",
    "seed": "random_seed random_state",
    "study": "name run_name experiment_name project",
    "output": "out out_dir output_dir outdir results",
    "rerun": "overwrite force redo",
    "model": "arch architecture network encoder",
    "scale": "size model_size",
    "task": "dataset benchmark",
    "pretrain": "pretraining objective",
    "finetune": "fine_tune finetuning fine_tuning training train",
}
"""Last part of a key, or a group -> synonyms."""

CHOICES = {
    "model": {
        "base": "bert vanilla bert_base bert_base_uncased baseline",
        "bilstm": "lstm elmo rnn",
        "static": "word2vec cbow bow",
        "modern": "modernbert",
        "transformer_xl": "txl transfo_xl transformerxl",
        "mbert": "multilingual_bert",
        "windowed": "local sliding_window",
    },
    "scale": {"base": "bert_base", "large": "bert_large", "mini": "bert_mini miniature", "tiny": "bert_tiny"},
    "task": {
        "sst2": "sst sentiment",
        "squad": "squad1 squad_v1",
        "squad_v2": "squad2",
        "mnli": "mnli_m mnli_mm",
        "wnut17": "ner wnut",
        "builtin": "synthetic toy default",
        "own": "custom",
    },
    "hardware": {"gpu": "cuda"},
    "data": {"hub": "huggingface hf", "local": "disk folder"},
    "corpus": {"books_and_wikipedia": "bookcorpus wikipedia wiki books", "wikitext": "wikitext2 wikitext103"},
    "tokenizer": {"unigram": "sentencepiece spm", "wordpiece": "bert", "bpe": "byte_bpe gpt2"},
    "pretrain": {
        "mlm_nsp": "bert nsp",
        "mlm": "roberta masked_lm",
        "mlm_sop": "albert sop",
        "rtd": "electra",
        "clm": "gpt lm causal",
        "plm": "xlnet",
        "distillation": "distilbert",
        "cbow": "word2vec",
        "bidirectional_lm": "elmo",
        "span_corruption": "t5 denoising",
        "none": "off no false",
    },
    "finetune": {"none": "off no false", "smoke": "test debug", "quick": "fast"},
    "measure": {"none": "off no false", "quick": "fast"},
}
"""Group -> choice -> synonyms."""


AT_MOST = 3
"""Names in one suggestion."""

FIRST = ("", "model", "finetune", "task", "hardware", "pretrain", "measure")
"""Order in which sections are suggested; the others follow. The empty one is the top level."""

STATED = "model.recipe."
"""What a scale states of settings that have keys of their own; those are suggested."""


def keys(unknown: str, candidates: Iterable[str]) -> list[str]:
    """Keys that an unknown one may stand for, the likeliest first: `finetune.learning_rate` for `lr`."""
    section, _, name = unknown.strip("+~").rpartition(".")
    candidates = sorted((key for key in candidates if not key.startswith(STATED)), key=_place)
    siblings = [key for key in candidates if key.rpartition(".")[0] == section]
    synonyms = {canonical for canonical, others in KEYS.items() if _plain(name) in others.split()}
    matches = [key for key in candidates if key.rpartition(".")[2] in synonyms] or [
        key for key in candidates if _last(key) == _plain(name)
    ]
    matches = [key for key in matches if section and key in siblings] or matches
    if section and not siblings:  # the section is misspelt too
        matches = difflib.get_close_matches(unknown, candidates, n=1) or matches
    if not matches:
        matches = difflib.get_close_matches(unknown, siblings, n=1) or difflib.get_close_matches(unknown, candidates, n=1)
    if not matches:
        near = difflib.get_close_matches(_plain(name), [_last(key) for key in candidates], n=1)
        matches = [key for key in candidates if _last(key) in near]
    return matches[:AT_MOST]


def choices(group: str, unknown: str, candidates: Iterable[str]) -> list[str]:
    """Choices of a group that an unknown one may stand for: `base` for `model=bert`, `sst2` for `task=sst-2`."""
    candidates = sorted(candidates)
    synonyms = [choice for choice, others in CHOICES.get(group, {}).items() if _plain(unknown) in others.split()]
    matches = [choice for choice in candidates if _letters(choice) == _letters(unknown)] or [
        choice for choice in synonyms if choice in candidates
    ]
    return matches or difflib.get_close_matches(unknown, candidates, n=1)


def _place(key: str) -> tuple[int, str]:
    section = key.rpartition(".")[0]
    return (FIRST.index(section) if section in FIRST else len(FIRST), key)


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _plain(name: str) -> str:
    return re.sub(r"[-\s]", "_", name.lower())


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
