"""`verify pinned`: the server is made to sleep at a chosen moment inside a request.

shapes (what is sent) → calibration (windows on this machine) → pins (how the moment is chosen) →
trial (one send, judged) → method (all of them) → conclude.
"""
