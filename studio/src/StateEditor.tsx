/** The state at a checkpoint, a field at a time, edited as JSON and checked against the state's schema. */

import { Validator } from "@cfworker/json-schema";
import { useState } from "react";
import type { Schema, Values } from "./types";

interface Props {
  values: Values;
  schema: Schema | null;
  /** Nodes that may have written the state; an edit counts as one of them. */
  writers: string[];
  disabled: boolean;
  onSave: (values: Values, asNode: string | undefined) => Promise<void>;
}

const MERGED = new Set(["trajectory", "ledger"]);

export function StateEditor({ values, schema, writers, disabled, onSave }: Props) {
  const [edits, setEdits] = useState<Record<string, string>>({});
  const [writer, setWriter] = useState<string>("");
  const [saving, setSaving] = useState(false);
  const [problem, setProblem] = useState("");
  const names = [...new Set([...Object.keys(values), ...Object.keys(schema?.properties ?? {})])];
  const problems = Object.fromEntries(Object.entries(edits).map(([name, text]) => [name, problemOf(name, text, schema)]));
  const ready = Object.keys(edits).length > 0 && Object.values(problems).every((text) => !text) && !disabled && !saving;
  const save = async () => {
    setSaving(true);
    setProblem("");
    try {
      await onSave(Object.fromEntries(Object.entries(edits).map(([name, text]) => [name, JSON.parse(text)])), writer || writers[0]);
      setEdits({});
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    } finally {
      setSaving(false);
    }
  };
  return (
    <div className="scroll state" aria-label="State">
      {names.map((name) => {
        const text = edits[name] ?? JSON.stringify(values[name], null, 2) ?? "";
        return (
          <details key={name} data-field={name} className={name in edits ? "changed" : ""}>
            <summary><b>{name}</b> <span className="dim">{brief(values[name])}</span></summary>
            <label className="hidden" htmlFor={`state-${name}`}>{name}</label>
            <textarea id={`state-${name}`} spellCheck={false} disabled={disabled} value={text} rows={Math.min(text.split("\n").length + 1, 22)}
              aria-invalid={Boolean(problems[name])} onChange={(event) => setEdits({ ...edits, [name]: event.target.value })} />
            {MERGED.has(name) && <p className="about">Rows are merged by their id: a row you delete here stays.</p>}
            {problems[name] && <p className="warn" role="alert">{problems[name]}</p>}
          </details>
        );
      })}
      <footer className="bar">
        {writers.length > 1 && (
          <label>as written by <select value={writer || writers[0]} onChange={(event) => setWriter(event.target.value)}>
            {writers.map((name) => <option key={name}>{name}</option>)}
          </select></label>
        )}
        <button type="button" className="primary" disabled={!ready} onClick={() => void save()}>Save as a new checkpoint</button>
        {Object.keys(edits).length > 0 && <button type="button" onClick={() => setEdits({})}>Discard</button>}
        {problem && <p className="warn" role="alert">{problem}</p>}
      </footer>
    </div>
  );
}

function problemOf(name: string, text: string, schema: Schema | null): string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return `not valid JSON: ${(error as Error).message}`;
  }
  const field = schema?.properties?.[name];
  if (!field) return "";
  const checked = new Validator({ ...field, $defs: schema.$defs } as object, "2020-12").validate(value);
  const errors = checked.errors.filter((row) => !["$ref", "items", "properties", "anyOf"].includes(row.keyword));
  const first = (errors.length ? errors : checked.errors)[0];
  return checked.valid || !first ? "" : `${name}${first.instanceLocation.slice(1)}: ${first.error}`;
}

function brief(value: unknown): string {
  if (Array.isArray(value)) return value.length === 1 ? "1 row" : `${value.length} rows`;
  const text = JSON.stringify(value) ?? "not set";
  return text.length > 90 ? `${text.slice(0, 89)}…` : text;
}
