"""Evidence that a verdict may miss, why it matters, and the command that supplies it."""

from __future__ import annotations

from analyzers.verdict.finding import Ask

KERNEL_ASK = Ask(
    "the kernel's line about this fault",
    "its time against the queue's last wake dates the fault: D1 is not proven without it",
    "journalctl -k --since '-1 hour' -o short-monotonic | grep -E 'segfault|general protection'",
)
OWN_LOG_ASK = Ask(
    "the log of this very process with the journal's stamps",
    "only a wake line stamped on the clock of the queue's memory turns a strong D1 into a proven one; "
    "a plain log may be another life's",
    "journalctl _PID=PID -o export > server.export",
)
CORE_ASK = Ask(
    "a core of the crash",
    "only the loop thread's state tells which transition freed the model",
    "coredumpctl dump --output=core.llama PID",
)
ANSWER_ASK = Ask(
    "the answer that the client got, beside the same request's answer from the awake server",
    "an error line in a log alone is weak: the two answers show that sleep made the difference",
    "curl -s -w '\\n%{http_code}\\n' http://HOST:PORT/ROUTE -d @request.json",
)
BUILD_ASK = Ask(
    "the build that really ran",
    "the stack shows a handler that the build named in the log does not have",
    "llama-server --version; readlink -f /proc/PID/exe",
)
LOG_ASK = Ask(
    "the server's log of this process",
    "sleep is blamed only with a sleep line or sleep state of the same process",
    "journalctl -u UNIT --since '-1 hour' -o export > server.export",
)
LOOK_ASK = Ask(
    "a second look at the living process, ten seconds after the first",
    "only what moves between two looks tells a hang from slow work",
    "llama-blackbox collect --live --pid PID; by hand: cat /proc/PID/io /proc/PID/stat; sleep 10; (again)",
)
SNAPSHOT_ASK = Ask(
    "two snapshots of all stacks, fifteen seconds apart, while it hangs",
    "where the queue loop stands, twice, says what it waits for",
    "eu-stack -p PID > one.txt; sleep 15; eu-stack -p PID > two.txt",
)
