"""Any source of sentence pairs -> token ids on disk -> the batches of each step."""
