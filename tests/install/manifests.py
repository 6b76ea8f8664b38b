#!/usr/bin/env python3
"""What deploy/kubernetes holds, against Kubernetes' own schemas (package kubernetes-validate): its own kinds whole, and of an MPIJob,
whose schema belongs to its operator, the pods that it asks for. Planted mistakes are found, so that a pass means something."""
import copy
import pathlib
import sys

try:
    import kubernetes_validate
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
VERSION = "1.30"


def objects_of(manifest):
    """The objects of Kubernetes' own kinds in a manifest."""
    if manifest["apiVersion"] != "kubeflow.org/v2beta1":
        return [manifest]
    assert manifest["kind"] == "MPIJob", manifest["kind"]
    replicas = manifest["spec"]["mpiReplicaSpecs"]
    assert set(replicas) == {"Launcher", "Worker"}, replicas
    return [
        {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name.lower()}, "template": part["template"]}
        for name, part in replicas.items()
    ]


def problem(manifest):
    try:
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        return error.message
    return None


def main():
    files = sorted(FOLDER.glob("*.yaml"))
    assert files, f"nothing in {FOLDER}"
    for file in files:
        for manifest in [one for document in yaml.safe_load_all(file.read_text()) for one in objects_of(document)]:
            assert problem(manifest) is None, f"{file.name}: {problem(manifest)}"
            planted = copy.deepcopy(manifest)
            within = planted.get("spec", planted)
            if "template" in within:
                within = within["template"]["spec"]["containers"][0]
            within["comand"] = ["dlpipe"]
            assert problem(planted) is not None, f"{file.name}: a misspelt key went through"
    print(f"{len(files)} manifests fit Kubernetes {VERSION}")


if __name__ == "__main__":
    main()
