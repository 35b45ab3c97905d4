"""Charts of the report, drawn by matplotlib without a display."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hopgraph.evaluation.summary import VariantSummary
from inference.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = (
    "#3d5a98",
    "#c2562f",
    "#2f8f63",
    "#8a4fa3",
    "#b08a1d",
    "#2a8fa8",
    "#a33f5f",
    "#5d6b3a",
    "#6b6f7d",
    "#d17fb0",
    "#1d2433",
    "#8fb339",
    "#e0a458",
    "#7fa6d6",
)
_MARKS = "osD^vP*Xhd<>pH"
POINTS = 500
"""Maximum points of a line; scatter plots of more are rasterized to keep the page fast."""


def quality_and_cost(variants: Sequence[VariantSummary]) -> Figure | None:
    """F1 against tokens per question, with 95% intervals of both. None without gold answers."""
    shown = [variant for variant in variants if "f1" in variant["metrics"]]
    if not shown:
        return None
    figure, axes = _axes("tokens per question (prompt and completion)", "answer F1, %")
    for number, variant in enumerate(shown):
        x, y = variant["costs"]["tokens"], variant["metrics"]["f1"]
        axes.errorbar(
            x["mean"],
            100 * y["mean"],
            xerr=[[x["mean"] - x["low"]], [x["high"] - x["mean"]]],
            yerr=[[100 * (y["mean"] - y["low"])], [100 * (y["high"] - y["mean"])]],
            fmt=_MARKS[number % len(_MARKS)],
            color=_COLOURS[number % len(_COLOURS)],
            markersize=8,
            capsize=3,
            elinewidth=1,
            label=variant["variant"],
        )
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    _legend(axes)
    return figure


def efficiency(variants: Sequence[VariantSummary]) -> Figure | None:
    """Recall of gold passages against searches; a bubble's area is its EM (PruneRAG, Fig. 3). None without searches."""
    shown = [v for v in variants if "retrieved_recall" in v["metrics"] and "em" in v["metrics"]]
    if not shown:
        return None
    figure, axes = _axes("searches per question", "gold passages retrieved, %")
    for number, variant in enumerate(shown):
        em = 100 * variant["metrics"]["em"]["mean"]
        x, y = variant["costs"]["searches"]["mean"], 100 * variant["metrics"]["retrieved_recall"]["mean"]
        colour = _COLOURS[number % len(_COLOURS)]
        axes.scatter(x, y, s=20 + 7 * em, alpha=0.45, color=colour)
        # A marker at the centre distinguishes overlapping bubbles and gives the legend entries one size.
        mark = _MARKS[number % len(_MARKS)]
        axes.plot(x, y, mark, color=colour, markersize=5, label=f"{variant['variant']} (EM {em:.0f})")
    axes.set_xlim(left=0)
    axes.set_ylim(0, 110)
    axes.margins(x=0.25)
    _legend(axes)
    return figure


def cumulative_tokens(tokens: Mapping[str, Sequence[float]], read_before: Mapping[str, float]) -> Figure | None:
    """Cumulative tokens by number of questions, including those of reading the corpus (CompactRAG, Fig. 3).

    Args:
        tokens: Tokens of each question in order, by variant.
        read_before: Tokens spent before the first question, by variant; default 0.
    """
    if not any(len(row) > 1 for row in tokens.values()):
        return None
    figure, axes = _axes("questions answered", "tokens so far")
    for number, (name, row) in enumerate(tokens.items()):
        total, line = read_before.get(name, 0.0), []
        for value in row:
            total += value
            line.append(total)
        label = f"{name}, reading included" if name in read_before else name
        shown = sorted({*range(0, len(line), -(-len(line) // POINTS)), len(line) - 1}) if line else []
        axes.plot(
            [at + 1 for at in shown], [line[at] for at in shown], color=_COLOURS[number % len(_COLOURS)], label=label
        )
    axes.set_ylim(bottom=0)
    _thousands(axes)
    _legend(axes)
    return figure


def tokens_by_question(tokens: Mapping[str, Sequence[float]]) -> Figure | None:
    """Tokens of each question (CompactRAG, Fig. 4): a point per question, a bar at the median."""
    shown = {name: row for name, row in tokens.items() if row}
    if not any(len(row) > 1 for row in shown.values()):
        return None
    figure, axes = _axes("", "tokens per question")
    for number, row in enumerate(shown.values()):
        # Deterministic jitter: reports of the same results are identical.
        places = [number + 0.5 * (((index * 0.618034) % 1) - 0.5) for index in range(len(row))]
        axes.scatter(
            places,
            row,
            s=9,
            alpha=min(1.0, 30 / len(row) + 0.15),
            color=_COLOURS[number % len(_COLOURS)],
            rasterized=len(row) > POINTS,
        )
        middle = sorted(row)[len(row) // 2]
        axes.hlines(middle, number - 0.32, number + 0.32, color="#1d2433", linewidth=1.5)
    axes.set_xticks(range(len(shown)), list(shown), rotation=20, ha="right")
    axes.set_ylim(bottom=0)
    _thousands(axes)
    return figure


def sweep(setting: str, variants: Sequence[tuple[float, VariantSummary]]) -> Figure | None:
    """Answer F1 and tokens against a numeric setting, such as a threshold or the depth."""
    points = sorted((value, variant) for value, variant in variants if "f1" in variant["metrics"])
    if len(points) < 2:
        return None
    figure, axes = _axes(setting.replace("_", " "), "answer F1, %")
    values = [value for value, _ in points]
    scores = [variant["metrics"]["f1"] for _, variant in points]
    axes.plot(values, [100 * s["mean"] for s in scores], marker="o", color=_COLOURS[0])
    axes.fill_between(
        values, [100 * s["low"] for s in scores], [100 * s["high"] for s in scores], color=_COLOURS[0], alpha=0.15
    )
    axes.set_ylim(bottom=0)
    other = axes.twinx()
    other.plot(values, [v["costs"]["tokens"]["mean"] for _, v in points], marker="s", color=_COLOURS[1], linestyle="--")
    other.set_ylabel("tokens per question", color=_COLOURS[1])
    other.set_ylim(bottom=0)
    return figure


def mark(figure: Figure, notes: Sequence[str]) -> None:
    """Put notes on the figure, such as that its results are simulated."""
    if notes:
        figure.suptitle("\n".join(notes), fontsize=8, color="#b3462e", y=0.98)


def svg(figure: Figure) -> str:
    """A figure as SVG, with text as text elements."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None}, bbox_inches="tight")
    text = out.getvalue()
    return text[text.index("<svg") :]


def png(figure: Figure) -> bytes:
    """A figure as PNG."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=150, bbox_inches="tight")
    return out.getvalue()


def _axes(x: str, y: str) -> tuple[Figure, Any]:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("charts need matplotlib", hint="pip install 'hopgraph[report]'") from None
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "hopgraph", "font.size": 10})
    figure = Figure(figsize=(6.4, 4.2))
    axes = figure.subplots()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(color="#d5dbe8", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _legend(axes: Any) -> None:
    # Outside the axes, where it covers no data.
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _thousands(axes: Any) -> None:
    axes.yaxis.set_major_formatter("{x:,.0f}")
