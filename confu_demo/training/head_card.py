"""Model cards of the heads: only figures that were measured, with how they were made."""

from __future__ import annotations

from typing import Any

from confu_demo.training.cards import provenance_lines

_ROLES = {
    "eagle3": "An EAGLE-3 draft head (arXiv 2503.01840): one decoder layer on target features.",
    "confu": (
        "A ConFu draft head (arXiv 2603.08899): the EAGLE-3 head, trained further together with "
        "soft prompts, contemplate tokens and a future token."
    ),
    "eagle3-continued": (
        "The control of ConFu: the EAGLE-3 head trained for the same extra steps on the same data."
    ),
}
_LEGEND = {
    "eagle3": "EAGLE-3",
    "confu, f on": "ConFu",
    "confu, f zeroed": "ConFu with f = 0 (the future token stays)",
    "confu, f shuffled": "ConFu with the f of other positions",
    "confu, f hidden": "ConFu without the future token (its drafter alone)",
}


def score_table(scores: dict[str, dict[str, Any]]) -> str:
    """Acceptance by depth and chain length of every score."""
    depths = max(len(score["acceptance"]) for score in scores.values())
    names = "".join(f" depth {depth} |" for depth in range(1, depths + 1))
    lines = [f"| | chain length |{names} loss |", "|---|---:|" + "---:|" * (depths + 1)]
    for name, score in scores.items():
        shares = "".join(f" {share:.3f} |" for share in score["acceptance"])
        lines.append(
            f"| {_LEGEND.get(name, name)} | {score['walked_length']:.2f} |{shares} "
            f"{score['loss']:.3f} |"
        )
    return "\n".join(lines)


def curve_table(history: list[dict[str, Any]]) -> str:
    """Chain length and acceptance at the first depth, on the way."""
    names = [name for name, score in history[0].items() if isinstance(score, dict)]
    head = "".join(f" {_LEGEND.get(name, name)}: length, depth 1 |" for name in names)
    lines = [f"| tokens | seconds |{head}", "|---:|---:|" + "---:|" * len(names)]
    for row in history:
        cells = "".join(
            f" {row[name]['walked_length']:.2f}, {row[name]['acceptance'][0]:.3f} |"
            for name in names
        )
        lines.append(f"| {row['tokens'] / 1e3:.0f} k | {row['seconds']:.0f} |{cells}")
    return "\n".join(lines)


def head_card(
    name: str,
    num_parameters: int,
    settings: dict[str, Any],
    report: dict[str, Any],
    command: str,
    device: str,
    suite: str = "bundled",
    dtype: str = "float32",
) -> str:
    """The card's text. ``report["note"]``, where there is one, tells what the figures cannot."""
    some = next(iter(report["heldout"].values()))
    depth = len(some["acceptance"])
    coverage = report.get("draft_vocabulary_coverage")
    vocabulary = (
        f" The draft vocabulary covers {coverage:.2%} of the completions' tokens."
        if coverage is not None
        else ""
    )
    flat = {k: v for k, v in settings.items() if not isinstance(v, dict)}
    for value in settings.values():
        flat |= value if isinstance(value, dict) else {}
    settings_text = ", ".join(f"{key} {value}" for key, value in flat.items())
    is_bundled = suite == "bundled"
    whose = "the target beside it" if is_bundled else f"the target of the suite `{suite}`"
    prompts = "problems" if is_bundled else "free-text prompts"
    note = f"\n\n{report['note']}" if report.get("note") else ""
    return f"""---
license: apache-2.0
---
# confu_demo {suite}/{name}

{_ROLES[name]} {num_parameters / 1e6:.2f} M parameters ({dtype}). It fits {whose} and
no other: `config.json` holds the hash of the target's weights.{vocabulary}{note}

## Held-out figures

On {report["heldout_documents"]} greedy completions of the target on held-out {prompts}
({some["positions"]} positions). *Depth d*: share of positions at which the drafter's likeliest
token at depth d is the target's, the tokens before it being given. *Chain length*: accepted tokens
+ 1 a cycle when decoding greedily with chains of {depth} tokens (no tree), over {some["cycles"]}
cycles.

{score_table(report["heldout"])}

## Learning curve (calibration split, {report["calibration_documents"]} completions)

{curve_table(report["history"])}

## How it was made

Trained on {report["documents"]} completions of the target itself ({report["completion_tokens"]}
tokens; {report["sampled_documents"]} of them sampled, the others greedy) on training {prompts}:
{report["steps"]} steps, {report["tokens"] / 1e6:.2f} M tokens with repetitions and prompts, \
{report["seconds"]:.0f} s.

{provenance_lines(command, device)}
* settings: {settings_text}
"""
