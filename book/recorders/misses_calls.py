"""The calls that misses.py profiles. As a program under Nsight Compute, it makes each of them once with the profiler on:

python -m book.recorders.misses_calls POINTS FILE UNTIL     the points of a file, until then by time.time()
python -m book.recorders.misses_calls POINTS FILE UNTIL compile     without a profiler, so that it has nothing to compile

FILE holds, in order, what was begun: {"point": its number, "contestant", "marked": whether the profiler was on, "failure": why
there is no profile, or null}. It is written before each call and after it, so that it says at which call a process ended.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from book.recorders.limits import within
from book.recorders.profile_calls import profiler, warm
from kernels import machine
from kernels.measure.contestants import contestants, make_data, prepared, setting, timed_call
from kernels.measure.drawn import drawn
from kernels.measure.results import point, where
from kernels.operation import Case, Operation, operation

SECONDS = 60
"""Of one contestant, with its compilers."""
DRAWN = 200
"""More points than are ever drawn from one seed."""
Call = Callable[[], object]


def case_of(op: Operation, row: dict, seed: int | None = None) -> Case:
    """The case of a row: of the bench cases, or of those drawn from a seed, the one at its point, which has its values too.
    Where these have changed since, one of the row's own fields."""
    drawn_points = [] if seed is None else drawn(op, DRAWN, seed)
    known = [(at.case, at.direction) for at in drawn_points]
    known += [(case, row["direction"]) for case in op.cases["bench"]]
    same = (case for case, direction in known if point(where(op.name, case, direction)) == point(row))
    params = {name: tuple(value) if isinstance(value, list) else value for name, value in row.get("params", {}).items()}
    fields = {"layout": row.get("layout", "contiguous"), "params": params, "sizes": row.get("sizes", {})}
    return next(same, None) or Case(tuple(row["shape"]), row["dtype"], **fields)


def call_of(op: Operation, case: Case, direction: str, name: str, data: dict, device: str) -> Call:
    """A contestant's timed call. LookupError: it does not take part, and why."""
    ladders = op.forward if direction == "forward" else op.backward + op.forward
    variants = [variant for variant in ladders if variant.key == name][:1]
    alone = replace(op, peers=tuple(peer for peer in op.peers if peer.name == name))
    found, absent = contestants(alone, case, direction, variants, machine.here(device))
    one = next((one for one in found if one.name == name), None)
    if one is None:
        raise LookupError(absent.get(name, "there is no such contestant"))
    ready, call = prepared(op, one, direction, data), timed_call(one, direction)
    return lambda: call(ready)


def failure(error: Exception) -> str:
    """In a line."""
    said = (str(error).strip().splitlines() or [""])[0][:160]
    return said if type(error) is LookupError else f"{type(error).__name__}: {said}"


def make_all(
    points: list[dict],
    path: Path,
    until: float,
    profiled: Callable[[Call], None],
    warm: Callable[[Call], None] = warm,
    device: str = "cuda",
) -> None:
    """Make the calls of all contestants at these points: {"row", "seed", "contestants"}."""
    made: list[dict] = []
    for number, at in enumerate(points):
        op, direction = operation(at["row"]["operation"]), at["row"]["direction"]
        torch.compiler.reset()  # so that torch.compile specialises on this shape, not on those before it
        data: dict = {}
        for name in at["contestants"]:
            left = int(until - time.time())
            if left < 1:
                return
            one = {"point": number, "contestant": name, "marked": False, "failure": "its process ended"}
            made.append(one)
            path.write_text(json.dumps(made))
            try:
                with within(min(SECONDS, left)), setting(direction):
                    if not data:
                        case = case_of(op, at["row"], at["seed"])
                        cost = op.cost(case) if direction == "forward" else op.backward_cost(case)
                        data = make_data(op, case, direction, cost, device)
                    call = call_of(op, case, direction, name, data, device)
                    warm(call)
                    one["marked"] = True
                    profiled(call)
                one["failure"] = None
            except Exception as error:  # the others are to be profiled all the same
                one["failure"] = failure(error)
            path.write_text(json.dumps(made))
            print(f"{op.name} {direction} {name}: {one['failure'] or 'profiled'}", file=sys.stderr, flush=True)
            call = None  # its tensors go before those of the next are made
            if device == "cuda":
                torch.cuda.synchronize()  # after an illegal access it raises: this process can do nothing more
                torch.cuda.empty_cache()


if __name__ == "__main__":
    given, target, limit, *alone = sys.argv[1:]
    profiled = (lambda call: None) if alone else profiler()
    make_all(json.loads(Path(given).read_text()), Path(target), float(limit), profiled)
