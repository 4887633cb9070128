"""What the compiler makes of decode_tensor_cores.cu: what is on its way while a warp waits."""

import re

import pytest
import torch

from kernels.ops.decode import cuda

INSTRUCTION = re.compile(
    r"^(\.L\w+):|/\*[0-9a-f]{4,}\*/\s+(.*?);\s+/\* 0x[0-9a-f]{16} \*/\s+/\* 0x([0-9a-f]{16}) \*/", re.M
)


def loop(code: str) -> list[tuple[str, int]]:
    """The instructions of the loop around the first product, and their control words."""
    found, labels, product = [], {}, 0
    for label, text, word in INSTRUCTION.findall(code):
        if label:
            labels[label] = len(found)
            continue
        found.append((text, int(word, 16)))
        product = product or len(found) * ("HMMA" in text)
        back = re.search(r"\bBRA `\((\S+)\)", text)
        if product and back and labels.get(back[1], product) < product:
            return found[labels[back[1]] :]
    raise AssertionError("there is no loop")


def on_their_way(code: str) -> list[int]:
    """For each instruction of the loop that waits for vectors, how many have been asked for and not waited for.

    Of a control word bits 46 to 48 name the scoreboard that is set until a load's result is there, and bits 52 to 57 those that
    are waited for."""
    pending, found = [], []
    for turn in range(2):
        for text, control in loop(code):
            if any(control >> 52 + board & 1 for board in pending):
                found += [len(pending)] * turn
                pending = [board for board in pending if not control >> 52 + board & 1]
            if re.search(r"\bLDG\.E\.128\b", text):
                pending.append(control >> 46 & 7)
    return found


@pytest.mark.parametrize("width", cuda.SHAPES)
def test_a_warp_that_waits_has_asked_for_all_of_its_tiles(machine_code, width):
    warps, tiles, together = cuda.SHAPES[width]
    parameters = width, warps, tiles, together
    code = machine_code(cuda.TENSOR_CORES_FILE, "decode_tensor_cores", torch.bfloat16, parameters)
    vectors = 2 * 16 * tiles * width // 8 // 32  # of a lane: keys and values
    assert on_their_way(code)[0] == vectors
    assert len(re.findall(r"\bLDG\.E\.128\b", code)) == 2 * vectors  # before the loop and in it
    assert not re.search(r"\b(?:LDL|STL)\b", code)
