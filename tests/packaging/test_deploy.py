"""What is deployed is what the flow says: compose file, manifests, image and dashboards, checked offline."""

from __future__ import annotations

import inspect
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from whence.flow.loader import load_flow
from whence.surfaces.cli.options import with_common_options
from whence.surfaces.cli.serve import serve

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PROCESSORS = {processor.name for processor in load_flow("all-in-one").processors}


def documents() -> list[dict[str, Any]]:
    """Return every object of the Kubernetes manifests."""
    files = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    every = [document for file in files for document in yaml.safe_load_all(file.read_text())]
    return [document for document in every if document["kind"] != "Kustomization"]


def compose() -> dict[str, Any]:
    """Return the compose file with its anchors filled in."""
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return loaded


def test_compose_file_is_valid() -> None:
    """The schema of the Compose Specification accepts the file."""
    command = [
        sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec",
        str(DEPLOY / "compose.yaml"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_runs_every_processor_once() -> None:
    """Each processor is one service of its name; all wait for broker and database."""
    services = compose()["services"]
    ours = {name: one for name, one in services.items() if one.get("image") == "whence"}
    door = ours.pop("gateway")

    assert door["command"][0] == "serve"
    assert set(ours) == PROCESSORS
    for name, one in ours.items():
        assert one["command"] == ["run", "all-in-one", "--only", name]
        assert set(one["depends_on"]) == {"pulsar", "postgres"}
        assert one["deploy"]["resources"]["limits"]["memory"]
        assert one["read_only"] is True
    for name in ("pulsar", "postgres"):
        assert services[name]["healthcheck"]["test"]
        assert not services[name]["image"].endswith(("latest", ":"))


def test_nothing_is_open_to_the_network() -> None:
    """Ports of the compose file are bound to this machine alone."""
    ports = [port for one in compose()["services"].values() for port in one.get("ports", ())]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.parametrize(
    "document", documents(), ids=lambda d: f"{d['kind']}-{d['metadata']['name']}"
)
def test_manifests_are_valid(document: dict[str, Any]) -> None:
    """Kubernetes' own schemas accept each object and refuse unknown fields."""
    kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def test_manifests_are_current() -> None:
    """The file is what `python tools/manifests.py` writes from the flow."""
    written = runpy.run_path(str(ROOT / "tools" / "manifests.py"))["manifests"]()

    assert (DEPLOY / "kubernetes" / "processors.yaml").read_text() == written


def by_kind() -> dict[str, dict[str, Any]]:
    """Return the objects by kind and name."""
    found: dict[str, dict[str, Any]] = {}
    for document in documents():
        found.setdefault(document["kind"], {})[document["metadata"]["name"]] = document
    return found


def test_every_processor_can_be_scaled_and_drained() -> None:
    """Each has a Deployment that probes and drains, an autoscaler and a budget of disruptions."""
    found = by_kind()

    assert set(found["HorizontalPodAutoscaler"]) == PROCESSORS
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert set(found[kind]) == PROCESSORS | {"gateway"}
    for name, deployment in found["Deployment"].items():
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        if name in PROCESSORS:
            assert container["args"][-1] == name
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["terminationGracePeriodSeconds"] > 20
        assert {"startupProbe", "readinessProbe", "livenessProbe", "resources"} <= set(container)
        names = [kind for source in container["envFrom"] for kind in source.values()]
        assert {"name": "whence"} in names


def test_the_gateway_requires_a_token() -> None:
    """Its options exist, its tokens come from a secret, and its Service selects it."""
    found = by_kind()
    deployment = found["Deployment"]["gateway"]["spec"]["template"]
    (container,) = deployment["spec"]["containers"]
    verb, *options = container["args"]
    given = {name: value for name, _, value in (one.partition("=") for one in options)}
    parameters = inspect.signature(with_common_options(serve)).parameters
    known = {f"--{name.replace('_', '-')}" for name in parameters}
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    secrets = [one for one in deployment["spec"]["volumes"] if "secret" in one]
    service = found["Service"]["gateway"]["spec"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}

    assert verb == "serve"
    assert set(given) <= known
    assert "--require-token" in given
    assert [one["name"] for one in secrets] == ["tokens"]
    assert given["--tokens"].startswith(mounts["tokens"])
    assert service["selector"].items() <= deployment["metadata"]["labels"].items()
    assert [one["targetPort"] for one in service["ports"]] == ["http"]
    assert str(ports["http"]) == given["--port"]


def test_the_kustomization_is_complete() -> None:
    """Every resource exists, and no manifest is missing."""
    folder = DEPLOY / "kubernetes"
    named = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]

    assert sorted([*named, "kustomization.yaml"]) == sorted(p.name for p in folder.glob("*.yaml"))


def test_the_image_runs_as_an_ordinary_user() -> None:
    """The last user is not root; every copied path exists and is not ignored."""
    text = (DEPLOY / "Dockerfile").read_text()
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = [
        word
        for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE)
        for word in line.split()[:-1]
    ]

    assert re.findall(r"^USER (.+)$", text, re.MULTILINE) == ["10001:10001"]
    assert copied
    for path in copied:
        assert (ROOT / path).exists()
        assert f"!{path}" in ignored


def test_dashboards_are_documents_with_panels() -> None:
    """Each panel has a title, a place of its own and a query."""
    for path in (DEPLOY / "dashboards").glob("*.json"):
        panels = json.loads(path.read_text())["panels"]
        places = [tuple(panel["gridPos"].values()) for panel in panels]

        assert len(set(places)) == len(places)
        assert len({panel["id"] for panel in panels}) == len(panels)
        assert all(panel["title"] and panel["targets"] for panel in panels)
