"""How a container ended, told by compose or kubectl: believed where the whole text is theirs."""

from __future__ import annotations

import io

import pytest

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.logs.scan import read_text

SERVER = """\
llama-1  | 0.00.000.300 I srv          init: initializing ...
llama-1  | 0.00.030.948 I srv          init: model loaded
llama-1  | 0.01.043.870 I que    start_loop: entering sleeping state
llama-1  | 0.01.043.900 I srv  handle_sleep: server is entering sleeping state
"""
POD = """\
Name:             llama-0
Namespace:        default
Labels:           app=llama
Init Containers:
  fetch:
    State:          Terminated
      Reason:       Completed
      Exit Code:    0
Containers:
  llama:
    Image:         llama
    Args:
      --sleep-idle-seconds
      60
    State:          Running
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
Events:
  Warning  BackOff  1s  kubelet  Back-off restarting failed container
"""
PART = "    Last State:     Terminated\n      Reason:       Error\n      Exit Code:    139\n"


def exits(text: str) -> list[Evidence]:
    return [i for i in read_text(io.BytesIO(text.encode()), "a.log").evidence if i.kind == "exit"]


def test_composes_own_line_is_a_supervisors() -> None:
    (end,) = exits(SERVER + "llama-1 exited with code 139\n")
    assert (end.trust, end.data["signal"], end.data["unit"]) == (Trust.SUPERVISOR, 11, "llama-1")


@pytest.mark.parametrize(
    "text",
    [
        SERVER + "llama-1  | llama-1 exited with code 139\n",
        SERVER.replace("llama-1  | ", "") + "llama-1 exited with code 139\n",
        SERVER.replace("llama-1  | ", "") + PART,
        SERVER.replace("llama-1  | ", "") * 2 + "\n".join([PART] * 20),
    ],
    ids=["a container's output", "a bare log", "describe in a log", "much describe in a log"],
)
def test_the_same_words_in_a_servers_own_output_are_client_text(text: str) -> None:
    assert {item.trust for item in exits(text)} == {Trust.CLIENT}


def test_what_kubectl_describes_names_its_containers() -> None:
    found = [(i.data["unit"], i.data.get("code"), i.data.get("signal"), i.trust) for i in exits(POD)]
    assert found == [
        ("fetch", 0, None, Trust.SUPERVISOR),
        ("llama", None, 9, Trust.SUPERVISOR),
        ("llama", None, 9, Trust.SUPERVISOR),
    ]


def test_a_part_of_a_description_is_enough() -> None:
    (end,) = exits(PART)
    assert (end.trust, end.data["signal"], end.data.get("unit")) == (Trust.SUPERVISOR, 11, None)


def test_prose_with_an_exit_code_is_no_description() -> None:
    assert {item.trust for item in exits("it died\nthen we saw\n  Exit Code: 139\nand wept\n")} == {
        Trust.CLIENT
    }
