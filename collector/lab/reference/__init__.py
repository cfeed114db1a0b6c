"""Real llama.cpp servers to experiment on: a generated model, prepared environments, bounded lives."""

from collector.lab.reference.client import Answer, Pending, Request
from collector.lab.reference.cores import CoreSearch, CoreSettings, locate_core
from collector.lab.reference.gguf import ModelSpec, cached_model
from collector.lab.reference.processes import Ending
from collector.lab.reference.server import ReferenceServer, RunningServer
from collector.lab.reference.spec import ServerSpec

__all__ = [
    "Answer",
    "CoreSearch",
    "CoreSettings",
    "Ending",
    "ModelSpec",
    "Pending",
    "ReferenceServer",
    "Request",
    "RunningServer",
    "ServerSpec",
    "cached_model",
    "locate_core",
]
