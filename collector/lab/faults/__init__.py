"""Faults provoked on purpose, each on a server of its own, each with what it must be diagnosed as."""

from collector.lab.faults.provoked import Expected, Provoked, Stage

__all__ = ["Expected", "Provoked", "Stage"]
