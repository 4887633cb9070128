"""Every system: right on this machine's devices, its wrong twins rejected, its demo shown; every claim with its evidence."""

import importlib

import pytest
import torch

from kernels.claims import EVIDENCE, VERDICTS, Claim
from kernels.machine import one_thread
from kernels.systems import claims, demo, system, systems

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


@pytest.fixture(autouse=True)
def as_demo_runs_them():
    torch.manual_seed(0)
    with one_thread():
        yield


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", systems())
def test_a_system_equals_its_twin(name, device):
    record = system(name)
    ratio, failure = record.check(record.make, device)
    assert failure is None and ratio <= 1


@pytest.mark.parametrize(("name", "wrong"), [(name, wrong) for name in systems() for wrong in system(name).wrong])
def test_a_wrong_twin_is_rejected(name, wrong):
    _, failure = system(name).check(system(name).wrong[wrong], "cpu")
    assert failure


@pytest.mark.parametrize("name", systems())
def test_a_record_is_complete(name):
    record = system(name)
    assert record.name == name
    assert record.wrong and record.proof and record.summary and record.claims
    for module in record.modules:
        importlib.import_module(module)


@pytest.mark.parametrize("name", systems())
def test_a_demo_shows_proves_and_measures(name):
    shown = system(name).demo("cpu", True)  # `demo` would check it once more
    assert shown.shown and shown.proved and shown.measured
    assert len(repr(shown).splitlines()) == 3
    if shown.picture is not None:
        assert shown.picture._repr_mimebundle_()["text/plain"]


def test_an_unknown_system_is_named():
    with pytest.raises(ValueError, match=r"^name: got 'warp_drive', expected one of .*checkpointing"):
        demo("warp_drive")


def test_claims_have_names_of_their_own():
    names = [claim.name for claim in claims()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.name)
def test_a_verdict_has_its_numbers(claim):
    if claim.verdict in ("confirmed", "partly", "refuted"):
        assert claim.numbers, "run python -m book.recorders.claims"
    if claim.verdict == "not yet measured":
        assert claim.experiment is not None
    assert not any(character.isdigit() for character in claim.reason), "numbers are stored, not typed"


GOOD = Claim("toy", "2× faster", "a page", "none given", "confirmed", "it was", "measured")


def test_a_verdict_needs_its_evidence():
    import dataclasses

    for verdict in ("confirmed", "refuted"):
        for evidence in (None, *EVIDENCE[2:]):
            with pytest.raises(ValueError, match=rf"^evidence: got {evidence!r}, expected 'measured' or"):
                dataclasses.replace(GOOD, verdict=verdict, evidence=evidence)
    for verdict in set(VERDICTS) - {"confirmed", "refuted"}:
        dataclasses.replace(GOOD, verdict=verdict, evidence="simulated")
    with pytest.raises(ValueError, match="^verdict: got 'true'"):
        dataclasses.replace(GOOD, verdict="true")
    with pytest.raises(ValueError, match="^evidence: got 'seen'"):
        dataclasses.replace(GOOD, evidence="seen")


# Every headline number that has to have a record, by the name of its claim.
HEADLINES = {
    "native-over-naive",
    "torchscript-over-native",
    "compile-2-4x",
    "attention-3.7x",
    "block-3.2x",
    "layer-norm-3x",
    "linear-2.5x",
    "flash-linear-memory",
    "checkpointing-60-percent",
    "optimizer-offloading-2.5x",
    "bucketing-3x",
    "fusion-launch-overhead",
    "serving-2x",
    "triton-near-cuda",
    "cpu-1.15x",
    "demo-2.2x",
    "demo-3.7x",
    "987-tests",
    "l4-a10g-a100",
    "mi300x",
    "tpu",
    "fp8-half-memory",
    "fp8-training-2x",
    "fp4-memory-4x",
    "fp4-speed",
    "two-four-2x",
    "adaptive-precision-30-percent",
    "sparse-10x",
    "sparse-10x-work",
    "causal-sparsity-2x",
    "ring-1m-tokens",
    "context-parallel-linear",
    "gradient-compression",
    "moe-constant-cost",
    "moe-dropless",
    "serving-2x-batched",
}


def test_every_headline_has_a_record():
    assert {claim.name for claim in claims()} >= HEADLINES
