"""The captures' folder after the crash: what is in it, what is adopted, slimmed, thrown away, handed on."""
