"""Checks the manifests beside it.

    python manifests.py            against the schemas of Kubernetes, strictly, and against each other
    python manifests.py --custom   prints the objects of other kinds, for custom.mjs

Against each other: what refers to something refers to what is there, and the numbers fit that stand in several places.
"""

import json
import pathlib
import re
import sys

import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).parents[1]
SQL = ROOT.parents[1] / "sql"
UNIT = ROOT.parent / "systemd" / "readpast-worker@.service"

#: Beyond worker.shutdown_deadline_ms: to give back and unregister; for the programs twice --grace (5 s) of `readpast work`, and 2 s.
GIVE_BACK_S, PROGRAMS_S = 4, 2 * 5 + 2

#: Memory beside that of the jobs.
FOR_WORKER = 1 << 30

wrong = []


def expect(holds, message):
    if not holds:
        wrong.append(message)


def documents(path):
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


def kustomizations():
    """Each names every manifest of its folder, and nothing that is not there."""
    objects = []
    for path in sorted(ROOT.glob("*/kustomization.yaml")):
        [own] = documents(path)
        named = own.get("resources", []) + own.get("components", [])
        for name in named:
            target = path.parent / name
            expect(target.is_file() or (target / "kustomization.yaml").is_file(), f"{path}: there is no {name}")
        for manifest in path.parent.glob("*.yaml"):
            expect(manifest == path or manifest.name in named, f"{path} does not name {manifest.name}")
            if manifest != path:
                objects += documents(manifest)
        kind = "Component" if "v1alpha1" in own["apiVersion"] else "Kustomization"
        expect(own["kind"] == kind, f"{path}: {own['kind']} is not of {own['apiVersion']}")
    return objects


def is_custom(one):
    return one["apiVersion"].split("/")[0] in ("keda.sh", "monitoring.coreos.com")


def against_schemas(objects):
    for one in objects:
        try:
            kubernetes_validate.validate(one, "1.37", strict=True)
            print(f"{one['kind']} {one['metadata']['name']}: as Kubernetes says")
        except kubernetes_validate.ValidationError as error:
            expect(False, f"{one['kind']} {one['metadata']['name']}: {'.'.join(map(str, error.path))}: {error.message}")


def named(objects, kind, name=None):
    found = [one for one in objects if one["kind"] == kind and name in (None, one["metadata"]["name"])]
    expect(len(found) == 1, f"there are {len(found)} of {kind} {name or ''}")
    return found[0]


def pods(objects):
    """What the `restricted` standard asks for, and the secrets."""
    for one in objects:
        if one["kind"] not in ("Deployment", "Job"):
            continue
        name, spec = one["metadata"]["name"], one["spec"]["template"]["spec"]
        security = spec["securityContext"]
        expect(security["runAsNonRoot"] and security["runAsUser"] > 0, f"{name} runs as root")
        expect(security["seccompProfile"] == {"type": "RuntimeDefault"}, f"{name} has no seccomp profile")
        expect(spec["automountServiceAccountToken"] is False, f"{name} gets a token of the cluster")
        for container in spec["containers"]:
            security = container["securityContext"]
            expect(security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"], f"{name} may do too much")
            expect(security["capabilities"] == {"drop": ["ALL"]}, f"{name} has capabilities")
            volumes = {volume["name"] for volume in spec["volumes"]}
            expect({mount["name"] for mount in container["volumeMounts"]} == volumes, f"{name}: a volume is not mounted, or not there")
            expect(not any("secret" in str(variable).lower() for variable in container.get("env", [])), f"{name}: a secret in the environment")
            ports = {port["name"] for port in container.get("ports", [])}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                expect(probe not in container or container[probe]["httpGet"]["port"] in ports, f"{name}: {probe} asks a port that is not there")


def against_each_other(objects):
    worker = named(objects, "Deployment", "readpast-worker")
    template = worker["spec"]["template"]
    labels, spec = template["metadata"]["labels"], template["spec"]
    [container] = spec["containers"]
    environment = {variable["name"]: variable["value"] for variable in container["env"]}

    stops_in = int(environment["READPAST_WORKER_SHUTDOWN_DEADLINE_MS"]) / 1000 + GIVE_BACK_S + PROGRAMS_S
    expect(spec["terminationGracePeriodSeconds"] >= stops_in, f"a worker may take {stops_in} s to end")
    patience = re.search(r"^TimeoutStopSec=(\d+)s$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    expect(patience and int(patience[1]) >= stops_in, f"systemd kills a worker before its {stops_in} s are over")
    expect("replicas" not in worker["spec"], "`kubectl apply` sets back what the autoscaler has said")
    expect(container["livenessProbe"]["httpGet"]["path"] == "/healthz", "an outage of SQL Server restarts the workers")
    expect(environment["READPAST_WORKER_THREADS"] == container["resources"]["requests"]["cpu"], "threads are not the CPUs that are asked for")
    memory, has = in_bytes(environment["READPAST_WORKER_RESOURCES_MEMORY"]), container["resources"]
    expect(in_bytes(has["limits"]["memory"]) == memory + FOR_WORKER, "the limit of memory is not that of the jobs and 1 GiB for the worker")
    expect(has["requests"]["memory"] == has["limits"]["memory"], "a node may have less memory than the jobs are promised")
    expect("limits" in container["resources"] and "cpu" not in container["resources"]["limits"], "a limit of CPU stops the thread of the lease")
    for selector in (
        worker["spec"]["selector"]["matchLabels"],
        named(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        named(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        named(objects, "Service")["spec"]["selector"],
    ):
        expect(selector.items() <= labels.items(), f"no worker is {selector}")
    service = named(objects, "Service")
    monitor = named(objects, "ServiceMonitor")["spec"]
    expect(monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items(), "the ServiceMonitor finds no Service")
    expect({end["port"] for end in monitor["endpoints"]} == {port["name"] for port in service["spec"]["ports"]}, "the ServiceMonitor finds no port")
    [port] = container["ports"]
    expect(environment["READPAST_METRICS_LISTEN"].endswith(f":{port['containerPort']}"), "the worker listens elsewhere")

    scaled = named(objects, "ScaledObject")["spec"]
    expect(scaled["scaleTargetRef"]["name"] == worker["metadata"]["name"], "the autoscaler scales something else")
    [trigger] = scaled["triggers"]
    expect(trigger["type"] == "mssql" and {"query", "targetValue"} <= trigger["metadata"].keys(), "the mssql scaler wants query and targetValue")
    expect(all(isinstance(value, str) for value in trigger["metadata"].values()), "what a trigger is told is text")
    authentication = named(objects, "TriggerAuthentication", trigger["authenticationRef"]["name"])["spec"]["secretTargetRef"]
    expect([reference["parameter"] for reference in authentication] == ["connectionString"], "the scaler gets no connection string")
    asks = query(trigger["metadata"]["query"])
    expect(asks["threads"] == environment["READPAST_WORKER_THREADS"], "the autoscaler counts with other threads than a worker has")
    expect(asks["memory"] == str(memory), "the autoscaler counts with other memory than a worker has")
    expect(asks["queue"] == f"N'{environment['QUEUE']}'", "the autoscaler looks at another queue")
    procedure = (SQL / "406_backlog.sql").read_text(encoding="utf-8")
    due_within_s = int(re.search(r"@due_within_s int += (\d+)", procedure)[1])
    expect(scaled["pollingInterval"] < due_within_s, "schedules are late: the autoscaler asks more seldom than the procedure looks ahead")

    [example] = documents(ROOT / "example" / "kustomization.yaml")
    secrets = {secret["name"]: [file.split("=")[0] for file in secret["files"]] for secret in example["secretGenerator"]}
    used = {volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume}
    used |= {reference["name"] for reference in authentication}
    expect(set(secrets) == used, f"the example makes the secrets {sorted(secrets)}, and {sorted(used)} are used")
    expect(all(reference["key"] in secrets[reference["name"]] for reference in authentication), "the example's secret has another key")


def in_bytes(size):
    """`1 GiB` of readpast's settings, or `1Gi` of Kubernetes."""
    number, unit = re.fullmatch(r"(\d+) ?([KMGT])i?B?", size).groups()
    return int(number) << 10 * ("KMGT".index(unit) + 1)


def query(text):
    """The parameters of a call of `backlog`, each of which the procedure has."""
    call = re.fullmatch(r"EXEC readpast\.backlog (.*)", text)
    expect(call, f"{text} is no call of backlog")
    passed = dict(re.findall(r"@(\w+) = ([^,]+)", call[1]))
    procedure = (SQL / "406_backlog.sql").read_text(encoding="utf-8")
    parameters = procedure.split("[backlog]\n")[1].split("\nAS\n")[0]
    expect(set(passed) <= set(re.findall(r"@(\w+)", parameters)), f"backlog has no such parameter: {text}")
    return passed


def main():
    objects = kustomizations()
    if "--custom" in sys.argv:
        print(json.dumps([one for one in objects if is_custom(one)]))
        return 0
    against_schemas([one for one in objects if not is_custom(one)])
    pods(objects)
    against_each_other(objects)
    for message in wrong:
        print(f"wrong: {message}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
