"""How tokenizers cut a text: `python -m harness tokenizer`."""
