"""D2 without a crash: the reader finds the emptied vocabulary, throws, and the server lives on.

The look-up throws std::out_of_range, whose text is ``_Map_base::at``. POST /tokenize passes it on as
status 500; POST /completion catches it while it reads the prompt and answers 400, as if the client had
been wrong. Measured on b11549, unpoisoned: 11 of 12 and 9 of 12.
"""

from __future__ import annotations

from collector.lab.faults.d2_unload_under_reader import (
    COMPLETION_ERROR,
    TOKENIZE_ERROR,
    TRIES,
    Shape,
)
from collector.lab.faults.d2_unload_under_reader import provoke as provoke_shape
from collector.lab.faults.provoked import Provoked, Stage

STATUS = {TOKENIZE_ERROR.name: 500, COMPLETION_ERROR.name: 400}


def provoke(stage: Stage, shape: Shape = TOKENIZE_ERROR, *, tries: int = TRIES) -> Provoked:
    """``answers`` holds the awake answer and the error; see ``d2_unload_under_reader.provoke``."""
    return provoke_shape(stage, shape, tries=tries)
