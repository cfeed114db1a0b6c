"""The files for containers: of the right shape, without a right that the unit does not have."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

DEPLOY = Path(__file__).parents[3] / "deploy"
yaml: Any = pytest.importorskip("yaml", reason="PyYAML is not installed")


@pytest.fixture(scope="module")
def daemonset() -> dict[str, Any]:
    text = (DEPLOY / "kubernetes/daemonset.yaml").read_text(encoding="utf-8")
    (found,) = yaml.safe_load_all(text)
    return dict(found)


def test_the_cluster_s_schema_takes_it(daemonset):
    pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    import_module("kubernetes_validate").validate(daemonset, "1.30", strict=True)


def test_it_selects_the_pods_that_it_makes(daemonset):
    spec = daemonset["spec"]
    assert (daemonset["apiVersion"], daemonset["kind"]) == ("apps/v1", "DaemonSet")
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


def test_every_mount_has_its_volume_and_the_root_is_read_only(daemonset):
    pod = daemonset["spec"]["template"]["spec"]
    (agent,) = pod["containers"]
    assert {each["name"] for each in agent["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
    assert agent["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["hostPID"] is True
    assert pod["automountServiceAccountToken"] is False


def test_it_has_the_unit_s_capabilities_and_no_more(daemonset):
    (agent,) = daemonset["spec"]["template"]["spec"]["containers"]
    unit = (DEPLOY / "agent/llama-blackbox-agent.service").read_text(encoding="utf-8")
    (bound,) = re.findall(r"^CapabilityBoundingSet=(.+)$", unit, flags=re.MULTILINE)
    capabilities = agent["securityContext"]["capabilities"]
    assert {f"CAP_{name}" for name in capabilities["add"]} == set(bound.split())
    assert capabilities["drop"] == ["ALL"]


def test_the_container_starts_the_agent_and_copies_what_it_built():
    text = (DEPLOY / "container/Containerfile").read_text(encoding="utf-8")
    assert re.search(r'^ENTRYPOINT \["llama-blackbox", "watch"\]$', text, flags=re.MULTILINE)
    stages = re.findall(r"^FROM \S+(?: AS (\w+))?$", text, flags=re.MULTILINE)
    assert set(re.findall(r"--from=(\w+)", text)) <= set(stages)
