"""The text of a CUDA module, before anything is compiled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """CUDA C++ text, the file name its errors carry, compiler options, and the kernels wanted from it."""

    code: str
    filename: str
    options: tuple[str, ...]
    names: tuple[str, ...]  # C++ expressions such as "vadd" or "layer_norm<float>"

    def with_errors_located(self, compiler_output: str) -> str:
        """The compiler's output, with the line of the text shown under every message about it."""
        lines = self.code.splitlines()
        shown = []
        for message in compiler_output.splitlines():
            shown.append(message)
            number = self._line_of(message)
            if number and number <= len(lines) and lines[number - 1].strip():
                shown.append(f"    {number} | {lines[number - 1].rstrip()}")
        return "\n".join(shown)

    def _line_of(self, message: str) -> int | None:
        """The line a message such as "vadd.cu:3:5: error: …" or "vadd.cu(3): error: …" is about."""
        if not message.startswith(self.filename) or ": in " in message.lower():
            return None
        digits = ""
        for character in message[len(self.filename) + 1 :]:
            if not character.isdigit():
                break
            digits += character
        return int(digits) if digits else None
