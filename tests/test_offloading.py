"""What moves to the host's memory: copies that come late, limits, an ordinary training loop, and how much is to move."""

import weakref

import pytest
import torch
from torch import nn

from kernels import memory
from kernels.memory import activations, optimizer_states
from kernels.memory.activations import Saved
from kernels.memory.interleaving import Rates, best_share, predicted
from kernels.memory.link import Link
from kernels.systems import system
from kernels.systems.offloaded_activations import SMALLEST, example, step

SYSTEMS = ("offloaded_activations", "offloaded_optimizer")
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="streams need a GPU")


class LateLink(Link):
    """A GPU copies whenever it gets to it, this one at the last moment: in order, when someone waits.

    Memory is full of NaN until then. What is on the device is not kept for a copy: `lost` counts memory that was given up while
    something was still to be written there, which would then be another's.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.queues = {"down": Queue(), "up": Queue()}
        self.given: list[weakref.ref] = []
        self.lost = self.most = 0

    def on_host(self, like):
        return poisoned(super().on_host(like))

    def on_device(self, like):
        tensor = poisoned(super().on_device(like))
        self.given.append(weakref.ref(tensor.untyped_storage()))
        self.most = max(self.most, sum(one.nbytes() for ref in self.given if (one := ref()) is not None))
        return tensor

    def down(self, target, source):
        self.to_host += source.nbytes
        of = weakly(source)

        def copy():
            if (found := of()) is not None:
                target.detach().copy_(found)

        return Late(self.queues["down"], copy)

    def up(self, target, source, after=None):
        self.to_device += source.nbytes

        def copy():
            if after is not None:
                after.wait()
            if (found := of()) is not None:
                found.copy_(source)

        late = Late(self.queues["up"], copy)

        def given_up(_):
            self.lost += late.pending

        of = weakly(target, given_up)
        return late


class Queue:
    """Copies of one direction, of which the first `made` are."""

    def __init__(self):
        self.copies, self.made = [], 0


class Late:
    def __init__(self, queue, copy):
        self.queue, self.number = queue, len(queue.copies)
        queue.copies.append(copy)

    @property
    def pending(self):
        return self.queue.made <= self.number

    def wait(self, stream=None):
        while self.pending:
            copy, self.queue.copies[self.queue.made] = self.queue.copies[self.queue.made], None
            self.queue.made += 1
            copy()

    synchronize = wait


def poisoned(tensor):
    return tensor.fill_(255 if tensor.dtype == torch.uint8 else float("nan"))


def weakly(tensor, callback=None):
    """Gives the tensor as long as its memory lives; a parameter's version counts what is written to it."""
    ref = weakref.ref(tensor.untyped_storage(), callback)
    place, dtype = (tensor.storage_offset(), tensor.size(), tensor.stride()), tensor.dtype
    parameter = weakref.ref(tensor) if isinstance(tensor, nn.Parameter) else lambda: None

    def of():
        if (one := parameter()) is not None:
            return one.detach()
        storage = ref()
        return None if storage is None else torch.empty(0, dtype=dtype).set_(storage, *place)

    return of


@pytest.fixture
def late(monkeypatch):
    links = []

    def make(device):
        links.append(LateLink(device))
        return links[-1]

    monkeypatch.setattr(activations, "Link", make)
    monkeypatch.setattr(optimizer_states, "Link", make)
    return links


@pytest.mark.parametrize("name", SYSTEMS)
def test_copies_that_come_late_change_nothing(name, late):
    record = system(name)
    assert record.check(record.make, "cpu") == (0.0, None)
    assert sum(link.to_device for link in late) and not any(link.lost for link in late)


@pytest.mark.parametrize(
    ("name", "where", "what", "instead"),
    [
        ("offloaded_activations", Saved, "leave", lambda saved: setattr(saved, "kept", None)),
        ("offloaded_optimizer", optimizer_states, "_wait_here", lambda arrivals: None),
    ],
    ids=SYSTEMS,
)
def test_a_copy_that_is_not_waited_for_is_noticed(name, where, what, instead, late, monkeypatch):
    monkeypatch.setattr(where, what, instead)
    record = system(name)
    _, failure = record.check(record.make, "cpu")
    assert failure


@pytest.mark.parametrize("waits", [True, False])
def test_what_was_brought_and_is_not_used_is_given_up_after_its_copy(waits, late, monkeypatch):
    if not waits:
        monkeypatch.delattr(Saved, "__del__")
    x, w = (torch.randn(64, requires_grad=True) for _ in range(2))
    with memory.offload_activations(1, 600, "cpu"):
        y = (x.sin().exp() * w).exp()
    gradient = torch.autograd.grad(y.sum(), w)  # for which x is brought ahead, in vain
    del y
    assert gradient[0].isfinite().all()
    assert sum(link.lost for link in late) == (0 if waits else 1)


def test_states_on_the_device_stay_within_the_limit(late):
    parameters = [nn.Parameter(torch.ones(100)) for _ in range(8)]
    optimizer = memory.offload_optimizer(torch.optim.AdamW(parameters), groups=8, interleave=1.0, in_flight=3)
    for _ in range(2):
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    assert optimizer.link.most == 3 * 2 * 400


def trained(offloaded, device):
    """Parameters after some steps of an ordinary loop, with everything that goes with it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    if offloaded:
        optimizer = memory.offload_optimizer(optimizer, groups=3, interleave=1.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
    scaler, counted = torch.amp.GradScaler(device), []
    optimizer.register_step_post_hook(lambda *_: counted.append(1))
    for _ in range(5):
        optimizer.zero_grad()
        x = torch.randn(16, 8).to(device)
        with memory.offload_activations(1, 100, device) if offloaded else torch.enable_grad():
            loss = (model(x) - x).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
    assert len(counted) == 5
    return list(model.parameters())


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=cuda)])
def test_an_ordinary_loop_trains_alike(device):
    assert all(map(torch.equal, trained(True, device), trained(False, device)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"groups": 0}, "^groups: got 0, expected at least 1"),
        ({"in_flight": 0}, "^in_flight: got 0, expected at least 1"),
        ({"interleave": 2}, "^interleave: got 2, expected True, False, or a share from 0 to 1"),
    ],
)
def test_a_wrong_argument_of_the_optimizer_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        memory.offload_optimizer(torch.optim.SGD([torch.ones(2)]), **arguments)


def test_an_optimizer_that_cannot_be_moved_is_refused():
    with pytest.raises(ValueError, match="^optimizer: got LBFGS"):
        memory.offload_optimizer(torch.optim.LBFGS([torch.ones(2)]))
    with pytest.raises(ValueError, match=r"^optimizer: its parameters are on \['cpu', 'meta'\]"):
        memory.offload_optimizer(torch.optim.SGD([torch.ones(2), torch.ones(2, device="meta")]))
    table = nn.Embedding(4, 2, sparse=True)
    optimizer = memory.offload_optimizer(torch.optim.SGD(table.parameters()))
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(ValueError, match="^gradient: got a sparse one"):
        optimizer.step()


def test_a_wrong_limit_of_activations_is_named():
    with pytest.raises(ValueError, match="^smallest: got -1, expected at least 0 bytes"):
        memory.offload_activations(smallest=-1)
    with pytest.raises(ValueError, match="^resident: got -1, expected at least 0 bytes"):
        memory.offload_activations(resident=-1)


def test_the_model_of_interleaving():
    rates = Rates(update=1.0, down=0.02, up=0.02)  # a byte of the link takes a fiftieth of an update
    assert predicted(0, rates) == 1.0 and predicted(1, rates) == 8 * 0.02
    assert predicted(0.5, rates) == 0.5
    assert predicted(0, Rates(0.1, 0.02, 0.02)) == 8 * 0.02 and predicted(0, Rates(0.1, 0.02, 0.02), mirror=True) == 0.1
    assert best_share(rates, 8, mirror=True) == 7 / 8  # 1 - s = (4 + 4 s) / 50 at 0.85
    assert best_share(Rates(0.01, 0.02, 0.02), 8, mirror=True) == 0


@cuda
def test_a_gpu_holds_what_the_limits_say():
    model, x, table = (one.cuda() for one in example("cpu"))
    x, kept = x.repeat(64, 1, 1), {}
    step(model, x, table)  # now the libraries have their workspaces
    for name, resident in (("all", 1 << 40), ("none", 0)):
        before = torch.cuda.memory_allocated()
        with memory.offload_activations(SMALLEST, resident, "cuda") as moved:
            y = model((x, table))[0].square().mean()
        kept[name] = torch.cuda.memory_allocated() - before
        del y
    assert kept["all"] - kept["none"] > 0.9 * moved.to_host


@cuda
def test_states_leave_a_gpu():
    parameters = [nn.Parameter(torch.ones(1 << 20, device="cuda")) for _ in range(8)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer = memory.offload_optimizer(
        torch.optim.AdamW(parameters, fused=True), groups=8, interleave=0.5, in_flight=2
    )
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(2):
        optimizer.step()
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() - before < 3 * 2 * (4 << 20)
