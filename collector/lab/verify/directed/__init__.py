"""`verify directed`: a debugger holds the request's own thread at a named point until the server sleeps.

One way: points → symbols of this build → a debugged server → steps that hold → watch → trials.
"""
