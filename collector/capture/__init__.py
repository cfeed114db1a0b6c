"""Keeps what a dying llama-server leaves: cores, captures, what was there before."""
