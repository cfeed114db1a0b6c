"""Puts the crash path in place and takes it away again: every change is shown, kept and restored."""
