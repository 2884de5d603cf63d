"""Data sets and tokenizers: loading, checking, and the cache of prepared data."""
