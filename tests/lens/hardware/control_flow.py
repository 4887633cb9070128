"""The instructions of a disassembled kernel, the loops they are in, and the branches that decide whether they are executed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_FRAME = re.compile(r'//## File "(?P<file>[^"]*)", line (?P<line>\d+)')
_LABEL = re.compile(r"(?P<label>\S+):$")
_INSTRUCTION = re.compile(
    r"/\*[0-9a-f]{4,}\*/\s+(?:@!?(?P<predicate>U?P\w+)\s+)?(?P<opcode>[A-Z][\w.]*)(?P<operands>[^;]*);"
)
_TARGET = re.compile(r"`\((?P<label>[^)]+)\)")
_JUMPS = ("BRA", "BRX", "JMP")
_ENDS = ("EXIT", "RET", *_JUMPS)


@dataclass
class Instruction:
    """lines: of the source, from the innermost function that was inlined to the kernel. target: the number of the instruction
    that it may jump to. maybe: whether the next instruction may follow where it jumps or ends."""

    opcode: str
    operands: str
    predicate: str | None
    lines: tuple[int, ...]
    target: int | None = None

    @property
    def name(self) -> str:
        return self.opcode.split(".")[0]

    @property
    def maybe(self) -> bool:
        # A predicate may also be among the operands, and BRA.DIV and the like have conditions of their own.
        return bool(self.predicate) or (
            self.name in _JUMPS and ("." in self.opcode or "P" in self.operands.split("`")[0])
        )


def parse(text: str, filename: str) -> list[Instruction]:
    """The instructions in nvdisasm's text of a kernel, with their lines in the file of this name."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    lines: list[int] = []
    fresh = True  # whether the next frame begins a new list
    for line in text.splitlines():
        if frame := _FRAME.search(line):
            if fresh:
                lines, fresh = [], False
            if Path(frame["file"]).name == filename:
                lines.append(int(frame["line"]))
        elif label := _LABEL.match(line.strip()):
            labels[label["label"]] = len(instructions)
        elif found := _INSTRUCTION.search(line):
            fresh = True
            instructions.append(Instruction(found["opcode"], found["operands"], found["predicate"], tuple(lines)))
    for instruction in instructions:
        target = _TARGET.search(instruction.operands)
        if target and instruction.name in _JUMPS:
            instruction.target = labels.get(target["label"])
    return instructions


class Flow:
    """Which instructions may follow which. Instructions are numbers; the end of the kernel is the number after the last.

    loops: the natural loops: the instruction that each begins with, those that close it, and all that are in it.
    """

    def __init__(self, instructions: list[Instruction]) -> None:
        self._instructions = instructions
        self._end = len(instructions)
        self._after = [self._followers(number, one) for number, one in enumerate(instructions)] + [[]]
        self._before = _reversed(self._after)
        self.loops = self._find_loops()
        self._once = self._without_repetition()
        self._unavoidable = _dominators(_reversed(self._once), self._once, self._end)
        self._branches = [number for number, followers in enumerate(self._once) if len(set(followers)) > 1]

    def _followers(self, number: int, instruction: Instruction) -> list[int]:
        followers = [] if instruction.name in _ENDS and not instruction.maybe else [number + 1]
        if instruction.name in ("EXIT", "RET"):
            followers.append(self._end)
        if instruction.target is not None:
            followers.append(instruction.target)
        return followers

    def _find_loops(self) -> list[tuple[int, list[int], set[int]]]:
        dominators = _dominators(self._after, self._before, 0)
        closed: dict[int, list[int]] = {}
        for number, followers in enumerate(self._after):
            for head in followers:
                if dominators[number] is not None and head in dominators[number]:
                    closed.setdefault(head, []).append(number)
        found = []
        for head, latches in closed.items():
            body, waiting = {head}, [latch for latch in latches if latch != head]
            while waiting:
                number = waiting.pop()
                if number not in body:
                    body.add(number)
                    waiting += self._before[number]
            found.append((head, latches, body))
        return found

    def _without_repetition(self) -> list[list[int]]:
        """What may follow what within one round of each loop."""
        heads = {latch: head for head, latches, _ in self.loops for latch in latches}
        once = []
        for number, followers in enumerate(self._after):
            forward = [one for one in followers if one != heads.get(number)]
            once.append(forward or ([self._end] if followers else []))
        return once

    def guards(self, number: int) -> set[int]:
        """The instructions that decide whether this one is executed: branches, and what set its predicate. In a loop those
        that decide it in each round; whether there is a first round is another matter."""
        found: set[int] = set()
        waiting = [number]
        while waiting:
            one = waiting.pop()
            new = {branch for branch in self._branches if branch not in found and self._decides(branch, one)}
            found |= new
            waiting += new
        around = min((body for _, _, body in self.loops if number in body), key=len, default=None)
        if around is not None:
            found &= around
        return found | self._predicates(number)

    def _decides(self, branch: int, number: int) -> bool:
        """Whether one way from a branch leads to an instruction always, and the branch itself does not."""
        unavoidable = self._unavoidable
        always = unavoidable[branch]
        if always is None or (number in always and number != branch):
            return False
        return any(unavoidable[way] is not None and number in unavoidable[way] for way in self._once[branch])

    def _predicates(self, number: int) -> set[int]:
        predicate = self._instructions[number].predicate
        if predicate is None:
            return set()
        for before in range(number - 1, -1, -1):
            if predicate in [operand.strip() for operand in self._instructions[before].operands.split(",")[:2]]:
                return {before}
        return set()


def _reversed(after: list[list[int]]) -> list[list[int]]:
    before: list[list[int]] = [[] for _ in after]
    for number, followers in enumerate(after):
        for one in followers:
            before[one].append(number)
    return before


def _dominators(after: list[list[int]], before: list[list[int]], root: int) -> list[frozenset[int] | None]:
    """For each instruction those through which every path from the root to it passes; None where there is no path."""
    reached, waiting = set(), [root]
    while waiting:
        number = waiting.pop()
        if number not in reached:
            reached.add(number)
            waiting += after[number]
    found: list[frozenset[int] | None] = [None] * len(after)
    found[root] = frozenset((root,))
    order = sorted(reached - {root}, key=lambda number: number if root == 0 else -number)
    changed = True
    while changed:
        changed = False
        for number in order:
            known = [found[one] for one in before[number] if one in reached and found[one] is not None]
            if known:
                new = frozenset.intersection(*known) | {number}
                if new != found[number]:
                    found[number], changed = new, True
    return found
