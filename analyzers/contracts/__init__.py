"""The data that travels between the packages: Evidence, Bundle, Report and the registry of ids."""

from analyzers.contracts.plain import no_plugins

with no_plugins():
    from analyzers.contracts.evidence import Evidence, Incarnation, Trust
    from analyzers.contracts.facts import Frame
    from analyzers.contracts.report import Report

__all__ = ["Evidence", "Frame", "Incarnation", "Report", "Trust"]
