"""The ids that may stand in a report, with the one-line meaning `llama-blackbox explain` starts from.

Unknown ids from another version are shown, never refused: these tables are for writers and for help.
The source of the class list is the incident taxonomy in docs/verdicts.md.
"""

from __future__ import annotations

REPORT_SCHEMA = "llama-blackbox/report/1"
BUNDLE_SCHEMA = "llama-blackbox/bundle/1"

CLASSES: dict[str, str] = {
    "SEGV-UAF-SLEEP": "a request read the model after a sleep transition had freed it",
    "ERROR-UAF-SLEEP": "an error or a wrong answer came from a freed model; the server lives",
    "SEGV-STACK": "a stack overflow that nothing in the evidence ties to a sleep transition",
    "SEGV": "a memory fault that nothing in the evidence ties to a sleep transition",
    "BUS": "a bus error: a mapped file shrank or storage failed under a mapping",
    "FPE": "an arithmetic fault (integer division by zero)",
    "ABRT-ASSERT": "a GGML_ASSERT failed",
    "ABRT-ABORT": "the server called abort by design (GGML_ABORT)",
    "ABRT-EXCEPTION": "an exception nobody caught ended the process",
    "ABRT-WAKE-RELOAD": "the model could not be loaded again after sleeping",
    "ABRT-PID1": "an abort in a container's first process, which looks like exit 139",
    "SHUTDOWN-ABORT": "an abort during a stop that was asked for; benign",
    "ILL": "an instruction this CPU does not have",
    "GPU-RUNTIME": "a GPU runtime call failed",
    "GPU-FAULT": "the GPU or its driver reported a fault",
    "GPU-OOM": "device memory ran out",
    "HOST-OOM": "the kernel killed the process because memory ran out",
    "KILLED": "a deadly signal that another process sent",
    "KILLED-BY-SUPERVISOR": "the supervisor killed the process (watchdog or stop time-out)",
    "EXIT-ERROR": "the process ended itself with an error status",
    "START-FAIL": "the server never became ready",
    "HANG-STRANDED": "a request was queued while the server slept; nothing wakes it",
    "HANG-LOOP": "the queue loop makes no progress",
    "HANG-GPU": "the server waits for the GPU",
    "HANG-HTTP": "no HTTP thread is free to answer",
    "HANG-ABORTING": "the process is busy printing its own backtrace",
    "LOAD-SLOW": "loading takes long but moves",
    "NOT-A-HANG": "slow, but progress moves",
    "NO-FAULT": "nothing went wrong in this evidence",
    "NEVER-SLEEPS": "an idle limit is set but the server never sleeps",
    "SLEEP-LEAK": "memory is lost at each sleep cycle",
    "SLEEP-DEGRADED": "the server works worse after a wake",
    "HOST-FAILURE": "the host failed, not the server",
    "UNDETERMINED": "the evidence does not decide; the report says what to collect",
}
# Classes that have an id and a page, and that no rule gives yet: the report says UNDETERMINED instead.
NOT_YET_DIAGNOSED: frozenset[str] = frozenset()
CAUSES: dict[str, str] = {
    "sleep": "the model was freed, or the task left behind, by going to sleep",
    "wake": "the model was reloaded by waking and something kept the old one",
    "request": "the content of a request",
    "server": "a fault of the server that needs neither sleep nor a special request",
    "model-file": "the model file is missing, replaced, cut or unreadable",
    "configuration": "a setting",
    "memory": "host memory",
    "gpu": "GPU, driver or device memory",
    "supervisor": "the supervisor acted",
    "host": "the host",
    "unknown": "the evidence does not say",
}
PHASES: dict[str, str] = {
    "loading": "the first load of the model",
    "awake": "the model is loaded and the loop serves or idles",
    "unloading": "the loop is freeing the model to go to sleep",
    "asleep": "the model is freed and the loop waits to be woken",
    "waking": "the loop is loading the model again",
    "first-request-after-wake": "the model is loaded again; the request that woke it is running",
    "stopping": "a stop was asked for",
    "unknown": "the evidence does not say",
}
CONFIDENCES: dict[str, str] = {
    "proven": "the state that makes the fault was read in the dead process itself",
    "strong": "independent signs agree and nothing speaks against it",
    "weak": "the likeliest reading, from one sign or from text a client can influence",
    "undetermined": "no reading is likely enough to act on",
}
STATES: dict[str, str] = {
    "loading": "first load",
    "awake": "loaded, idle",
    "busy": "loaded, working",
    "unloading": "going to sleep",
    "asleep": "model freed",
    "waking": "loading again",
    "stranded": "asleep with a request that nothing will answer",
    "hung": "awake, with work and without progress",
    "dumping": "dying, the core is being written",
    "stopping": "a stop was asked for",
    "down": "not running",
    "crashed": "ended by a fault",
}
