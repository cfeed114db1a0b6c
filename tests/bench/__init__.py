"""Figures as ratios in one run: ``python -m tests.bench.run``, or ``make bench``."""
