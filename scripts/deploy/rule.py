"""What manifests must say so that workers and the console run well. Nothing is imported for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Manifest = dict[str, Any]
# After the grace a worker writes what has ended, and hands back the rest.
LEAVING_SECONDS = 15


def pods_in(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """The name of each Deployment and Job, and what its pods are."""
    for manifest in manifests:
        if manifest["kind"] in ("Deployment", "Job"):
            yield manifest["metadata"]["name"], manifest["spec"]["template"]["spec"]


def commands_in(manifests: list[Manifest]) -> Iterator[list[str]]:
    """What each container runs; the image's entry point is `windlass`."""
    for _, pod in pods_in(manifests):
        for container in pod["containers"]:
            yield ["windlass", *container["args"]]


def problems(manifests: list[Manifest]) -> list[str]:
    """What is wrong with them."""
    found = []
    for name, pod in pods_in(manifests):
        found += [f"{name}: {said}" for said in (*_confined(pod), *_probed(pod), *_drained(pod))]
    return found + list(_selected(manifests))


def _confined(pod: Manifest) -> Iterator[str]:
    """As Kubernetes' own profile `restricted` wants it, and without a token of the cluster."""
    own = pod["securityContext"]
    if not own.get("runAsNonRoot") or own.get("runAsUser") != 10001:
        yield "runs as another user than the image's"
    if own["seccompProfile"]["type"] != "RuntimeDefault":
        yield "has no seccomp profile"
    if pod.get("automountServiceAccountToken") is not False:
        yield "has a token of the cluster"
    for container in pod["containers"]:
        context = container["securityContext"]
        if context["allowPrivilegeEscalation"] or context["capabilities"]["drop"] != ["ALL"]:
            yield "may get more rights"
        if not context["readOnlyRootFilesystem"]:
            yield "may write into its image"
        if "memory" not in container.get("resources", {}).get("limits", {}):
            yield "has no limit of memory"


def _probed(pod: Manifest) -> Iterator[str]:
    """Alive is asked of /healthz, ready of /readyz, on the port that the command listens on."""
    for container in pod["containers"]:
        words = container["args"]
        if words[0] == "migrate":
            continue
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        listens = int(_after(words, "--health" if words[0] == "worker" else "--port")[-4:])
        paths = {"startupProbe": "/healthz", "livenessProbe": "/healthz"}
        for probe, path in {**paths, "readinessProbe": "/readyz"}.items():
            asked = container[probe]["httpGet"]
            if asked["path"] != path or ports.get(asked["port"]) != listens:
                yield f"{probe} asks {asked}, but the command answers {path} on {listens}"
            if container[probe]["timeoutSeconds"] < 3:
                yield f"{probe}: a worker whose event loop is blocked answers after 2 s"


def _drained(pod: Manifest) -> Iterator[str]:
    """A worker has its grace and time to leave before it is killed."""
    for container in pod["containers"]:
        if container["args"][0] == "worker":
            grace = int(_after(container["args"], "--grace").removesuffix("s"))
            if pod["terminationGracePeriodSeconds"] < grace + LEAVING_SECONDS:
                yield f"is killed before its grace of {grace} s and {LEAVING_SECONDS} s are over"
        elif container["args"][0] == "console" and "preStop" not in container.get("lifecycle", {}):
            yield "stops while requests still come"


def _selected(manifests: list[Manifest]) -> Iterator[str]:
    """What selects pods selects those of one Deployment here."""
    labels = [
        each["spec"]["template"]["metadata"]["labels"]
        for each in manifests
        if each["kind"] == "Deployment"
    ]
    for each in manifests:
        if each["kind"] in ("Deployment", "PodDisruptionBudget"):
            selector = each["spec"]["selector"]["matchLabels"]
        elif each["kind"] == "Service":
            selector = each["spec"]["selector"]
        else:
            continue
        if sum(selector.items() <= found.items() for found in labels) != 1:
            yield f"{each['kind']} {each['metadata']['name']} selects not one Deployment"


def _after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]
