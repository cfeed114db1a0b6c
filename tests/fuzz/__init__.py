"""Coverage-guided fuzzing of everything that reads evidence: ``make fuzz``, docs/fuzzing.md."""
