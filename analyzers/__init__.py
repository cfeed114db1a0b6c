"""Evidence in, verdict out: the offline half of llama-blackbox."""
