"""Colours of HTML outputs that hold a contrast of at least 4.5:1 on light and on dark pages, in the book and in JupyterLab.

Text takes the page's own colour. An output begins with STYLE and has the class `on-page`; its marks are `good` to `bad`.
"""

LIGHT = {"good": "#1a7340", "fair": "#8a5a00", "bad": "#b3261e", "faint": "#57606a"}
DARK = {"good": "#58c98b", "fair": "#e0b040", "bad": "#ff8b82", "faint": "#a9b2bc"}


def _variables(colors: dict[str, str]) -> str:
    return ";".join(f"--{name}:{color}" for name, color in colors.items())


STYLE = (
    f"<style>.on-page{{{_variables(LIGHT)};color:var(--pst-color-text-base,var(--jp-content-font-color1,inherit))}}"
    f"[data-theme=dark] .on-page,[data-jp-theme-light=false] .on-page{{{_variables(DARK)}}}"
    + "".join(f".on-page .{name}{{color:var(--{name})}}" for name in LIGHT)
    + "</style>"
)
