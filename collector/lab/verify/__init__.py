"""The verifier: trials on real servers that show a defect, or bound how often it can still be there.

One way: options → subject → a method yields trials → session keeps each → findings → outputs → status.
"""
