#!/usr/bin/env python3
"""Write the parts of README.md that come from elsewhere: the table of models, and the container.

A part stands between `<!-- NAME -->` and `<!-- end of NAME -->`.
"""

import argparse
import re
import sys
from pathlib import Path

from dac_rocm import list_models

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it is stale")
    args = parser.parse_args()
    old = README.read_text(encoding="utf-8")
    new = old
    for name, text in (("models", models()), ("dacz", container())):
        pattern = rf"(<!-- {name} -->\n).*(<!-- end of {name} -->)"
        new = re.sub(pattern, lambda m, text=text: m[1] + text + m[2], new, flags=re.S)
    if args.check and new != old:
        sys.exit("README.md is stale: run scripts/make_readme.py")
    if not args.check:
        README.write_text(new, encoding="utf-8")


def models() -> str:
    lines = [
        "| name | gives | Hz | kbps | licence of the weights | from |",
        "|---|---|---|---|---|---|",
    ]
    for m in list_models():
        kbps = "" if m["kbps"] is None else f"{m['kbps']:.2f}"
        licence = m["license"] or "see its card"
        lines.append(
            f"| `{m['name']}` | {m['kind']} | {m['sample_rate']} | {kbps} | {licence} "
            f"| {origin(m['origin'])} |"
        )
    notes = [f"- `{m['name']}`: {m['note']}" for m in list_models() if m["note"]]
    return "\n".join([*lines, "", *notes]) + "\n"


def origin(text: str) -> str:
    if "://" in text:
        return f"[{text.split('/')[2]}]({text})"
    return f"[{text}](https://huggingface.co/{text})" if "/" in text else text


def container() -> str:
    title, text = (ROOT / "docs/dacz.md").read_text(encoding="utf-8").split("\n", 1)
    return f"##{title}\n{text}"


if __name__ == "__main__":
    main()
