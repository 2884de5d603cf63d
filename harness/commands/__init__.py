"""The commands of `python -m harness`, a module each, and their options."""

COMMANDS = {
    "run": "pretrain, fine-tune and measure what the arguments compose; the default",
    "tour": "ten steps through an encoder on your text, with the commands, as pages and as one HTML file",
    "plan": "what a sweep would run and take: states, parameters, FLOPs, memory, minutes",
    "describe": "what a variant is, or several beside each other: keys, parameters, shapes, pictures",
    "profile": "parameters, FLOPs, latency and memory of variants, without training",
    "memory": "memory of a training step by batch size, and the largest batch that fits",
    "audit": "claims of papers and notebooks against what is counted, timed and trained here",
    "inspect": "the inputs of one item or of your text, and the attention over them",
    "tokenizer": "how tokenizers cut a text: pieces a word, unknown ones, lengths",
    "features": "vectors of every token of a text, to a file",
    "predict": "labels and probabilities of new texts, by a fine-tuned run",
    "export": "a trained model as a checkpoint that transformers loads",
    "status": "what of a study is missing and why, and the command that completes it",
    "clean": "remove data, launches and temporary files that no run needs; asks first",
    "sync": "send results to MLflow that it has missed",
    "ui": "look at the results in MLflow's pages: a table of each study, sorted by score",
    "submission": "pack predictions for GLUE's page",
}
"""Name of a command, which is that of its module, and one line of help."""
