"""The commands of `python -m harness`, a module each, and their options."""

COMMANDS = {
    "run": ("harness.commands.run", "pretrain, fine-tune and measure what the arguments compose; the default"),
    "plan": ("harness.commands.plan", "what a sweep would run and take: states, parameters, FLOPs, memory, minutes"),
    "simulate": ("harness.commands.simulate", "a sweep on many machines, simulated: makespan, lost runs, load on the store"),
    "describe": ("harness.commands.describe", "what a variant is: keys, parameters, shapes, scales, a picture"),
    "profile": ("harness.commands.profile", "parameters, FLOPs, latency and memory of variants, without training"),
    "memory": ("harness.commands.memory", "memory of a training step by batch size, and the largest batch that fits"),
    "audit": ("harness.commands.audit", "claims of papers and notebooks against what is counted, timed and trained here"),
    "inspect": ("harness.commands.inspect", "the inputs of one item or of your text, and the attention over them"),
    "tokenizer": ("harness.commands.tokenizer", "how tokenizers cut a text: pieces a word, unknown ones, lengths"),
    "features": ("harness.commands.features", "vectors of every token of a text, to a file"),
    "predict": ("harness.commands.predict", "labels and probabilities of new texts, by a fine-tuned run"),
    "export": ("harness.commands.export", "a trained model as a checkpoint that transformers loads"),
    "status": ("harness.commands.status", "what of a study is missing and why, and the command that completes it"),
    "clean": ("harness.commands.clean", "remove data, launches and torn files that no run needs; asks first"),
    "sync": ("harness.commands.sync", "send results to MLflow that it has missed"),
    "ui": ("harness.commands.ui", "look at the results in MLflow's pages: a table of each study, sorted by score"),
    "submission": ("harness.commands.submission", "pack predictions for GLUE's page"),
}
"""Name of a command: its module and one line of help."""
