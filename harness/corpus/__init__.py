"""Text for pretraining: documents, their token ids on disk, and the sequences that are sampled from them."""
