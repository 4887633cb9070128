"""Every test that takes `device` runs on the CPU, and on a GPU where there is one."""

import pytest
import torch

_NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: torch.cuda is not available")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=_NO_GPU)])
def device(request):
    return request.param


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels(tmp_path_factory):
    """A cache of the tests' own, so that every run compiles."""
    patch = pytest.MonkeyPatch()
    patch.setenv("KERNELS_CACHE", str(tmp_path_factory.mktemp("cuda-cache")))
    yield
    patch.undo()
