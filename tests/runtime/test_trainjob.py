"""launch/trainjob.yaml, compared with the types of Kubeflow's API."""

import copy
from typing import Any

import pytest
import yaml

from tests.helpers.commands import ROOT

models = pytest.importorskip("kubeflow_trainer_api.models")


def documents() -> list[dict[str, Any]]:
    claim, job = yaml.safe_load_all((ROOT / "launch" / "trainjob.yaml").read_text())
    return [claim, job]


def as_api(document: dict[str, Any]) -> dict[str, Any]:
    """The document after a round trip, which drops keys that the API does not have."""
    names = {
        "PersistentVolumeClaim": "IoK8sApiCoreV1PersistentVolumeClaim",
        "TrainJob": "TrainerV1alpha1TrainJob",
    }
    return getattr(models, names[document["kind"]]).from_dict(copy.deepcopy(document)).to_dict()


@pytest.mark.parametrize("document", documents(), ids=lambda document: document["kind"])
def test_every_key_and_type_is_that_of_the_api(document: dict[str, Any]):
    assert as_api(document) == document


def test_the_job_mounts_the_claim_where_it_reads_and_writes():
    claim, job = documents()
    (patch,) = job["spec"]["runtimePatches"]
    (node,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pod = node["template"]["spec"]["template"]["spec"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    (container,) = pod["containers"]
    mounts = {each["mountPath"]: volumes[each["name"]] for each in container["volumeMounts"]}
    source = mounts["/data"]["persistentVolumeClaim"]
    assert source["claimName"] == claim["metadata"]["name"]
    flags = dict(word.split("=") for word in job["spec"]["trainer"]["args"])
    assert flags["--dataset"].startswith("/data/")
    assert flags["--model_folder"].startswith("/data/")
    (grace,) = (v for v in job["spec"]["trainer"]["env"] if v["name"].endswith("SHUTDOWN_TIMEOUT"))
    assert int(grace["value"]) < pod["terminationGracePeriodSeconds"]
