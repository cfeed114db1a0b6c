"""The monitoring agent: what each llama-server of this host is doing, and what became of those that died."""
