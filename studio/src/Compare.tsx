/** Two checkpoints side by side, of one thread or of two: what differs in the answer, the settings, the steps, the state. */

import { diffWordsWithSpace } from "diff";
import { useEffect, useState } from "react";
import { client, served, words } from "./server";
import type { Step, Values } from "./types";

export function Compare({ values, other, onClose }: { values: Values; other: string; onClose: () => void }) {
  const [theirs, setTheirs] = useState<Values | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const [thread, checkpoint] = other.split(":");
    setTheirs(null);
    setProblem("");
    served(thread!).then((known) => client.threads.getState<Values>(known?.id ?? thread!, checkpoint))
      .then((state) => setTheirs(state.values), (error) => setProblem(words(error)));
  }, [other]);
  if (!theirs) return <p className="hint">{problem || "Loading…"}</p>;
  const fields = [...new Set([...Object.keys(values), ...Object.keys(theirs)])].filter((name) => !["trajectory", "ledger"].includes(name));
  const differing = fields.filter((name) => JSON.stringify(values[name]) !== JSON.stringify(theirs[name]));
  const equal = fields.length - differing.length;
  return (
    <div className="scroll compare" aria-label="Comparison">
      <p className="chip">Left: this checkpoint. Right: <code>{other.slice(0, 8)}…</code> <button type="button" onClick={onClose}>close</button></p>
      <h3>State <span className="dim">{equal} fields are equal</span></h3>
      {differing.length === 0 && <p className="hint">No field differs.</p>}
      {differing.map((name) => <Pair key={name} name={name} mine={show(values[name])} theirs={show(theirs[name])} />)}
      <h3>Steps</h3>
      <StepPairs mine={values.trajectory ?? []} theirs={theirs.trajectory ?? []} />
    </div>
  );
}

function show(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value, null, 1) ?? "not set");
}

const KEPT = 90;

/** A stretch that is equal on both sides, without its middle: what differs is then in sight. */
function shortened(text: string): string {
  return text.length <= 3 * KEPT ? text : `${text.slice(0, KEPT)}\n⋯\n${text.slice(-KEPT)}`;
}

function Pair({ name, mine, theirs }: { name: string; mine: string; theirs: string }) {
  const long = mine.length + theirs.length > 20_000;
  const parts = long ? [] : diffWordsWithSpace(mine, theirs);
  return (
    <section className="pair" data-differs={name}>
      <h4>{name}</h4>
      <div><pre tabIndex={0}>{long ? mine : parts.filter((part) => !part.added).map((part, at) => part.removed ? <del key={at}>{part.value}</del> : <span key={at}>{shortened(part.value)}</span>)}</pre></div>
      <div><pre tabIndex={0}>{long ? theirs : parts.filter((part) => !part.removed).map((part, at) => part.added ? <ins key={at}>{part.value}</ins> : <span key={at}>{shortened(part.value)}</span>)}</pre></div>
    </section>
  );
}

const line = (step: Step | undefined) =>
  step ? [step.question, step.answer, step.verdict, step.score === null ? "" : `score ${step.score.toFixed(3)}`].filter(Boolean).join("\n") : "";

function StepPairs({ mine, theirs }: { mine: Step[]; theirs: Step[] }) {
  const [left, right] = [mine, theirs].map((steps) => new Map(steps.map((step) => [step.id, step])));
  const ids = [...new Set([...left!.keys(), ...right!.keys()])];
  const rows = ids.map((id) => [id, line(left!.get(id)), line(right!.get(id))] as const);
  const differing = rows.filter(([, a, b]) => a !== b);
  if (!differing.length) return <p className="hint">All {rows.length} steps are equal.</p>;
  return (
    <>
      <p className="dim">{differing.length} of {rows.length} differ</p>
      {differing.map(([id, a, b]) => <Pair key={id} name={id} mine={a || "—"} theirs={b || "—"} />)}
    </>
  );
}
