/** A person's decisions where a run waits for them (`review: human`). */

import { useState } from "react";
import type { Decision } from "./types";

export function Decisions({ decisions, onDecide }: { decisions: Decision[]; onDecide: (chosen: Record<string, unknown>) => void }) {
  const [chosen, setChosen] = useState<Record<string, string>>({});
  const [answers, setAnswers] = useState<Record<string, string>>({});
  const given = (id: string, word: string) => (answers[id] ? { decision: word, answer: answers[id] } : word);
  const decide = (id: string, word: string) => {
    const all = { ...chosen, [id]: word };
    if (decisions.every((row) => row.id in all))
      onDecide(Object.fromEntries(decisions.map((row) => [row.id, given(row.id, all[row.id]!)])));
    else setChosen(all);
  };
  return (
    <section className="decisions" aria-label="Decisions">
      {decisions.map(({ id, node, value }) => {
        const { decisions: words, suggested, own_answer, problem, ...about } = value;
        return (
          <div key={id} className="decision">
            <h3>{node.replaceAll("_", " ")} waits for your decision</h3>
            {problem && <p className="warn">{String(problem)}</p>}
            <dl>{Object.entries(about).map(([name, text]) => (
              <div key={name}><dt>{name}</dt><dd>{Array.isArray(text) ? text.map((line, at) => <p key={at}>{String(line)}</p>) : typeof text === "object" ? JSON.stringify(text) : String(text)}</dd></div>
            ))}</dl>
            {own_answer && (
              <label>Your own answer <input value={answers[id] ?? ""} placeholder="empty: the one shown"
                onChange={(event) => setAnswers({ ...answers, [id]: event.target.value })} /></label>
            )}
            <p className="buttons">
              {Object.entries(words).map(([word, meaning]) => (
                <button key={word} type="button" aria-pressed={chosen[id] === word} title={meaning}
                  className={word === suggested ? "primary" : ""} onClick={() => decide(id, word)}>
                  {word}{word === suggested && <small> suggested</small>}
                </button>
              ))}
            </p>
          </div>
        );
      })}
    </section>
  );
}
