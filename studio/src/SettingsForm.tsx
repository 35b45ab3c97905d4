/** A form of a method's settings, from the schema the server gives; only what differs from the defaults is sent. */

import type { Schema, Settings } from "./types";

interface Props {
  schema: Schema | null;
  values: Settings;
  indexes: string[];
  problem: string;
  onChange: (values: Settings) => void;
}

export function SettingsForm({ schema, values, indexes, problem, onChange }: Props) {
  const fields = Object.entries(schema?.properties ?? {});
  const [prompts, plain] = [true, false].map((are) => fields.filter(([, field]) => (field.langgraph_type === "prompt") === are));
  const named = /^([A-Za-z_]\w*)(?:\.[\w.]*)?:/.exec(problem)?.[1] ?? "";
  const own = fields.some(([name]) => name === named);
  const set = (name: string, field: Schema, value: unknown) => {
    const next = { ...values };
    if (value === undefined || same(value, field.default)) delete next[name];
    else next[name] = value;
    onChange(next);
  };
  const row = ([name, field]: [string, Schema]) => (
    <Field key={name} name={name} field={name === "index" ? { ...field, enum: indexes } : field} value={values[name]}
      problem={named === name ? problem : ""} onChange={(value) => set(name, field, value)} />
  );
  return (
    <form className="scroll settings" aria-label="Settings" onSubmit={(event) => event.preventDefault()}>
      {problem && !own && <p className="warn" role="alert">{problem}</p>}
      {plain!.map(row)}
      {prompts!.length > 0 && <h2>Prompts <span className="dim">edits hold for runs of this page, no file changes</span></h2>}
      {prompts!.map(row)}
    </form>
  );
}

/** Text with `code` in backticks. */
const withCode = (text = "") => text.split(/`([^`]+)`/).map((part, at) => (at % 2 ? <code key={at}>{part}</code> : part));

const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

function Field({ name, field, value, problem, onChange }: {
  name: string; field: Schema; value: unknown; problem: string; onChange: (value: unknown) => void;
}) {
  const id = `setting-${name}`;
  const changed = value !== undefined;
  const title = field.title ?? name;
  const described = { "aria-describedby": `${id}-about`, "aria-invalid": problem !== "" };
  const input = <Input id={id} field={field} value={value ?? field.default} described={described} onChange={onChange} />;
  const about = (
    <>
      <p className="about" id={`${id}-about`}>{withCode(field.description)}</p>
      {problem && <p className="warn" role="alert">{problem}</p>}
    </>
  );
  const reset = changed && <button type="button" className="link" onClick={() => onChange(undefined)} aria-label={`Reset ${title}`}>reset</button>;
  if (field.langgraph_type === "prompt")
    return (
      <details className={`field ${changed ? "changed" : ""}`} data-setting={name} open={problem !== "" || undefined}>
        <summary>{title.replace(/^Prompt: /, "")} <span className="dim">{field.langgraph_nodes?.join(", ")}</span></summary>
        <label htmlFor={id} className="hidden">{title}</label>
        {input}{reset}{about}
      </details>
    );
  return (
    <div className={`field ${changed ? "changed" : ""}`} data-setting={name}>
      <div className="head"><label htmlFor={id}>{title}</label>{reset}{input}</div>
      {about}
    </div>
  );
}

function Input({ id, field, value, described, onChange }: {
  id: string; field: Schema; value: unknown; described: object; onChange: (value: unknown) => void;
}) {
  const optional = field.anyOf?.some((row) => row.type === "null") ?? false;
  const type = field.anyOf?.find((row) => row.type !== "null") ?? field;
  const choices = field.enum ?? type.enum;
  if (field.langgraph_type === "prompt")
    return <textarea id={id} {...described} spellCheck={false} rows={14} value={String(value ?? "")} onChange={(event) => onChange(event.target.value)} />;
  if (choices)
    return (
      <select id={id} {...described} value={String(value ?? "")} onChange={(event) => onChange(event.target.value || undefined)}>
        {(optional || value == null) && <option value="">–</option>}
        {choices.map((choice) => <option key={String(choice)}>{String(choice)}</option>)}
      </select>
    );
  if (type.type === "boolean")
    return <input id={id} {...described} type="checkbox" checked={value === true} onChange={(event) => onChange(event.target.checked)} />;
  if (type.type === "integer" || type.type === "number")
    return (
      <input id={id} {...described} type="number" min={type.minimum ?? type.exclusiveMinimum} max={type.maximum}
        step={type.type === "integer" ? 1 : "any"} value={value == null ? "" : String(value)}
        onChange={(event) => onChange(event.target.value === "" ? (optional ? null : undefined) : Number(event.target.value))} />
    );
  if (type.type === "array") {
    const items = (type.items?.enum ?? (type.items?.const !== undefined ? [type.items.const] : [])).map(String);
    const held = Array.isArray(value) ? value.map(String) : [];
    return (
      <span id={id} role="group" className="choices">
        {items.map((item) => (
          <label key={item}>
            <input type="checkbox" checked={held.includes(item)}
              onChange={(event) => onChange(event.target.checked ? [...held, item] : held.filter((other) => other !== item))} />
            {item}
          </label>
        ))}
      </span>
    );
  }
  return <input id={id} {...described} value={String(value ?? "")} onChange={(event) => onChange(event.target.value || undefined)} />;
}
