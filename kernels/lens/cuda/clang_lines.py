"""The lines of what clang moves.

A load that clang takes out of a loop loses its line. A value's name stays with it, so before the optimisations every load is
named by its line, and after them, where a call of the instrumentation has no line, it gets that of the load it is about.
Where that is not known, as of a load in a header, it gets that of the first instruction that uses what was loaded.
"""

from __future__ import annotations

import re

_FUNCTION = re.compile(r"^define (?:[^\n]* !dbg !(?P<scope>\d+) )?[^\n]*\{\n.*?^}$", re.MULTILINE | re.DOTALL)
_LOAD = re.compile(r"^  %(\d+) = load .*!dbg !(\d+)", re.MULTILINE)
_WITHOUT_A_NAME = re.compile(r"^(?:%\d+ = type|\d+:)", re.MULTILINE)  # types and blocks, which are numbered too
# The source's own, also those that it includes: other headers have a folder.
_FILE = re.compile(r'^!(\d+) = !DIFile\(filename: "([^"/<]+)"', re.MULTILINE)
_SCOPE = re.compile(r"^!(\d+) = (?:distinct )?!DI(?:Subprogram|LexicalBlock)\(.*?\bfile: !(\d+)", re.MULTILINE)
_PLACE = re.compile(r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+),.* scope: !(\d+)", re.MULTILINE)
_METADATA = re.compile(r"^!(\d+) = ", re.MULTILINE)
_PROBE = re.compile(
    r"^(?P<call>  (?:tail )?call void @__tsan_\w+\(.*?)(?:, !dbg !(?P<place>\d+))?$(?=\n  (?P<value>%\S+) = load )",
    re.MULTILINE,
)
_NAME = re.compile(r"%line\.(\d+)\.(\w+)\.")  # the file's name is in hexadecimal digits


def name_loads_by_line(code: str) -> str:
    """The intermediate code of a module, where loads of the source are named by their lines."""
    if _WITHOUT_A_NAME.search(code):
        return code
    files = {number: name.encode().hex() for number, name in _FILE.findall(code)}
    scopes = {scope: files[file] for scope, file in _SCOPE.findall(code) if file in files}
    lines = {place: f"{line}.{scopes[scope]}" for place, line, scope in _PLACE.findall(code) if scope in scopes}

    def named(function: re.Match[str]) -> str:
        # Values without a name are counted: all of them get one.
        of = {number: f"%line.{lines[place]}." for number, place in _LOAD.findall(function.group()) if place in lines}
        return re.sub(r"%(\d+)\b", lambda value: of.get(value[1], "%unnamed.") + value[1], function.group())

    return _FUNCTION.sub(named, code)


def restore_lines(code: str) -> str:
    """The intermediate code of a module after all optimisations, where every load that is reported has a line."""
    known = {place for place, line, _ in _PLACE.findall(code) if line != "0"}
    count = max(map(int, _METADATA.findall(code)), default=-1) + 1
    added: list[str] = []

    def placed(function: re.Match[str]) -> str:
        if not function["scope"]:
            return function.group()

        def one(probe: re.Match[str]) -> str:
            place = probe["place"]
            if place in known:
                return probe.group()
            if line := _NAME.match(probe["value"]):
                place, name = count + len(added), bytes.fromhex(line[2]).decode()
                scope = f"scope: !{function['scope']}, file: !{place + 2}, discriminator: 0"
                added.append(f"!{place} = !DILocation(line: {line[1]}, scope: !{place + 1})")
                added.append(f"!{place + 1} = !DILexicalBlockFile({scope})")
                added.append(f'!{place + 2} = !DIFile(filename: "{name}", directory: "")')
            else:
                place = _place_of_use(probe["value"], function.group(), known) or place
            return f"{probe['call']}, !dbg !{place}" if place else probe.group()

        return _PROBE.sub(one, function.group())

    return "\n".join((_FUNCTION.sub(placed, code), *added, ""))


def _place_of_use(value: str, function: str, known: set[str]) -> str | None:
    """The place of the first instruction that uses a value and has one, or that uses what was made of it."""
    asked = {value}
    while value:
        uses = re.findall(
            rf"^  (?:(%\S+) = )?.* {re.escape(value)}(?![\w.$-])(?:.*!dbg !(\d+))?", function, re.MULTILINE
        )
        if found := next((place for _, place in uses if place in known), None):
            return found
        value = next((made for made, _ in uses if made and made not in asked), "")
        asked.add(value)
    return None
