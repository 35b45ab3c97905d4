/** The checkpoints of a thread as a tree of branches; newest last. */

import { useMemo } from "react";
import type { Checkpoint } from "./types";

interface Props {
  rows: Checkpoint[];
  selected: string | undefined;
  compared: string | undefined;
  onSelect: (checkpoint: string) => void;
  onCompare: (checkpoint: string) => void;
}

interface Placed {
  row: Checkpoint;
  /** Number of the branch; 0 is the first. */
  lane: number;
  forks: boolean;
}

export function History({ rows, selected, compared, onSelect, onCompare }: Props) {
  const placed = useMemo(() => branches(rows), [rows]);
  return (
    <div className="scroll" aria-label="Checkpoints">
      {rows.length === 0 && <p className="hint">Every step of a run becomes a checkpoint that you can return to.</p>}
      <ol className="history">
        {placed.map(({ row, lane, forks }) => (
          <li key={row.id} data-checkpoint={row.id} data-lane={lane} style={{ paddingLeft: 8 + 18 * Math.min(lane, 8) }}
            className={`${selected === row.id ? "selected" : ""} ${forks ? "forks" : ""}`}>
            <button type="button" className="entry" aria-current={selected === row.id} onClick={() => onSelect(row.id)}>
              <span className={`dot lane${lane % 6}`} aria-hidden />
              {row.step >= 0 && <span className="dim">{row.step}</span>} <b>{made(row)}</b>
              {row.waiting > 0 && <span className="badge">decision</span>}
              <span className="dim next">{row.next.length ? `→ ${[...new Set(row.next)].join(", ").replaceAll("_", " ").trim()}` : "end"}</span>
            </button>
            {lane > 0 && forks && <span className="dim branch">branch {lane}</span>}
            <button type="button" className="link" aria-pressed={compared === row.id} aria-label={`Compare with checkpoint ${named(row)}`}
              onClick={() => onCompare(row.id)}>compare</button>
          </li>
        ))}
      </ol>
    </div>
  );
}

function made(row: Checkpoint): string {
  if (row.source === "update") return "edited";
  if (row.source === "fork") return "forked";
  return row.source === "input" ? "question" : counted(row.ran).join(", ") || "start";
}

/** LangGraph gives the input of a run the step -1. */
const named = (row: Checkpoint) => (row.step >= 0 ? `${row.step}, ${made(row)}` : made(row));

function counted(names: string[]): string[] {
  const times = Map.groupBy(names, (name) => name);
  return [...times].map(([name, all]) => (all.length > 1 ? `${name} ×${all.length}` : name).replaceAll("_", " "));
}

function branches(rows: Checkpoint[]): Placed[] {
  const known = new Set(rows.map((row) => row.id));
  const children = Map.groupBy([...rows].reverse(), (row) => (row.parent && known.has(row.parent) ? row.parent : ""));
  const placed: Placed[] = [];
  let lanes = 0;
  const waiting = (children.get("") ?? []).map((row, at) => ({ row, lane: at ? ++lanes : 0, forks: at > 0 })).reverse();
  while (waiting.length) {
    const next = waiting.pop()!;
    placed.push(next);
    const below = (children.get(next.row.id) ?? []).map((row, at) => ({ row, lane: at ? ++lanes : next.lane, forks: at > 0 }));
    waiting.push(...below.reverse());
  }
  return placed;
}
