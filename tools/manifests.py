"""Write the Kubernetes manifests of every processor from the flow that they run.

Each processor gets a Deployment with probes and limits, an autoscaler on its backlog and a disruption budget.
`python tools/manifests.py` writes `deploy/kubernetes/processors.yaml`; a test fails when that file is stale.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from whence.flow.loader import load_flow

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "deploy" / "kubernetes" / "processors.yaml"
FLOW = "all-in-one"
HEAD = "# Written by tools/manifests.py from flows/all-in-one.yaml; change those, not this.\n"
#: Processors that load a model and use a whole core.
WITH_MODEL = frozenset({"embedding", "reranker"})
#: Waiting messages per replica above which another replica is started.
BACKLOG = {"embedding": 8, "reranker": 4, "ingest": 16}
MOST_REPLICAS = 8


def deployment(name: str) -> dict[str, Any]:
    """Return the Deployment of a processor."""
    labels = {"app.kubernetes.io/name": "whence", "app.kubernetes.io/component": name}
    heavy = name in WITH_MODEL
    container = {
        "name": "whence",
        "image": "whence:latest",
        "args": ["run", FLOW, "--only", name],
        "envFrom": [
            {"configMapRef": {"name": "whence"}},
            {"secretRef": {"name": "whence"}},
        ],
        "ports": [{"name": "metrics", "containerPort": 9464}],
        # Loading a model takes seconds on a busy node.
        "startupProbe": probe("/ready", period=2, failures=60),
        "readinessProbe": probe("/ready", period=5, failures=3),
        "livenessProbe": probe("/live", period=10, failures=3),
        "resources": {
            "requests": {
                "cpu": "500m" if heavy else "100m",
                "memory": "512Mi" if heavy else "192Mi",
            },
            "limits": {"cpu": "2" if heavy else "1", "memory": "1Gi" if heavy else "512Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "home", "mountPath": "/var/lib/whence"},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    pod = {
        "metadata": {
            "labels": labels,
            "annotations": {
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "9464",
                "prometheus.io/path": "/metrics",
            },
        },
        "spec": {
            "automountServiceAccountToken": False,
            # More than the drain time of a flow.
            "terminationGracePeriodSeconds": 30,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "runAsGroup": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [{"name": "home", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            # The autoscaler sets the number of replicas.
            "selector": {"matchLabels": labels},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1},
            },
            "template": pod,
        },
    }


def probe(path: str, *, period: int, failures: int) -> dict[str, Any]:
    """Return a probe of the metrics port."""
    return {
        "httpGet": {"path": path, "port": "metrics"},
        "periodSeconds": period,
        "timeoutSeconds": 4,
        "failureThreshold": failures,
    }


def autoscaler(name: str) -> dict[str, Any]:
    """Return the autoscaler of a processor: by what waits for it."""
    metric = {
        "metric": {
            "name": "whence_backlog_messages",
            "selector": {"matchLabels": {"processor": name}},
        },
        "target": {"type": "AverageValue", "averageValue": str(BACKLOG.get(name, 32))},
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1,
            "maxReplicas": MOST_REPLICAS,
            "metrics": [{"type": "External", "external": metric}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 300}},
        },
    }


def disruption_budget(name: str) -> dict[str, Any]:
    """Return the budget of a processor: one pod may go at a time."""
    labels = {"app.kubernetes.io/name": "whence", "app.kubernetes.io/component": name}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
    }


def manifests() -> str:
    """Return the text of the file."""
    documents = [
        make(processor.name)
        for processor in load_flow(FLOW).processors
        for make in (deployment, autoscaler, disruption_budget)
    ]

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return HEAD + yaml.dump_all(documents, Dumper=Dumper, sort_keys=False, width=110)


if __name__ == "__main__":
    TARGET.write_text(manifests(), encoding="utf-8")
