/** The steps of a run: verdicts, scores beside thresholds, passages in full, and each call's prompt and reply. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, useState } from "react";
import { lookups } from "./server";
import type { Call, Exchange, Passage, Step } from "./types";

interface Props {
  steps: Step[];
  ledger: Call[];
  calls: Record<string, Exchange>;
  thresholds: Record<string, number>;
  titles: Record<string, string>;
  index: string | null;
  node: string | undefined;
  loading: boolean;
  onNode: (node: string | undefined) => void;
}

export function Steps({ steps, ledger, calls, thresholds, titles, index, node, loading, onNode }: Props) {
  const scroll = useRef<HTMLDivElement>(null);
  const only = node?.slice(node.indexOf(":") + 1);
  const rows = useMemo(() => (only ? steps.filter((step) => step.node === only) : steps), [steps, only]);
  const byStep = useMemo(() => Map.groupBy(ledger.filter((call) => call.kind === "model"), (call) => call.step), [ledger]);
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => 96,
    getItemKey: (at) => rows[at]?.id ?? at,
    overscan: 6,
  });
  return (
    <div className="scroll" ref={scroll} tabIndex={0} aria-label="Steps">
      {only && (
        <p className="chip">
          only <b>{only.replaceAll("_", " ")}</b> <button type="button" onClick={() => onNode(undefined)}>show all</button>
        </p>
      )}
      {rows.length === 0 && <p className="hint">{loading ? "Loading…" : only ? "This node has no steps." : "Steps appear here as the run makes them."}</p>}
      <ol className="steps" style={{ height: list.getTotalSize() }}>
        {list.getVirtualItems().map((item) => {
          const step = rows[item.index]!;
          return (
            <li key={item.key} data-index={item.index} ref={list.measureElement} style={{ transform: `translateY(${item.start}px)` }}>
              <StepCard step={step} calls={byStep.get(step.id) ?? []} exchanges={calls} limit={thresholds[step.node]}
                titles={titles} index={index} onNode={onNode} />
            </li>
          );
        })}
      </ol>
    </div>
  );
}

function mood(verdict: string): string {
  if (/^pruned/.test(verdict)) return "cut";
  if (/^(rejected|not |failed)/.test(verdict)) return "bad";
  return /^(accepted|answered|relevant|sufficient)/.test(verdict) ? "good" : "";
}

interface CardProps {
  step: Step;
  calls: Call[];
  exchanges: Record<string, Exchange>;
  limit: number | undefined;
  titles: Record<string, string>;
  index: string | null;
  onNode: (node: string) => void;
}

function StepCard({ step, calls, exchanges, limit, titles, index, onNode }: CardProps) {
  const depth = Math.min(step.id.split("/").length - 2, 5);
  const place = step.id.replace(/^root\/?/, "");
  return (
    <article className={`step depth${Math.max(depth, 0)} ${mood(step.verdict)}`} aria-label={`Step ${step.id}`}>
      <header>
        <button type="button" className="link" onClick={() => onNode(step.node)}>{step.node.replaceAll("_", " ")}</button>
        {place !== step.node && <span className="dim id">{place}</span>}
        {step.verdict && <span className="verdict">{step.verdict}</span>}
      </header>
      {step.question && <p className="question">{step.question}</p>}
      {step.answer && <p className="answer">{step.answer}</p>}
      {step.score !== null && <Score score={step.score} limit={limit} />}
      {step.fallback && <p className="warn">{step.fallback}</p>}
      {step.truncated > 0 && <p className="warn">{step.truncated} passages left out: the prompt did not fit the model</p>}
      {step.evidence.length > 0 && <Passages ids={step.evidence} marked={step.sentences} titles={titles} index={index} />}
      {calls.map((call) => <CallView key={call.id} call={call} exchange={exchanges[call.id]} />)}
    </article>
  );
}

function Score({ score, limit }: { score: number; limit: number | undefined }) {
  const said = `score ${score.toFixed(3)}${limit === undefined ? "" : `, threshold ${limit}`}`;
  return (
    <div className="score" role="img" aria-label={said}>
      <div className="bar">
        <i style={{ width: `${100 * Math.min(Math.max(score, 0), 1)}%` }} />
        {limit !== undefined && <b style={{ left: `${100 * limit}%` }} />}
      </div>
      <span>{score.toFixed(3)}{limit !== undefined && <span className="dim"> · threshold {limit}</span>}</span>
    </div>
  );
}

export function Passages({ ids, marked = [], titles, index }: {
  ids: string[]; marked?: [string, number][]; titles: Record<string, string>; index: string | null;
}) {
  const [texts, setTexts] = useState<Record<string, Passage> | null>(null);
  const chosen = new Set(marked.map(([id, at]) => `${id} ${at}`));
  return (
    <details onToggle={(event) => {
      if (event.currentTarget.open && !texts) void lookups.passages(index, ids).then(setTexts, () => setTexts({}));
    }}>
      <summary>{ids.length} passage{ids.length === 1 ? "" : "s"} <span className="dim">{ids.map((id) => titles[id] ?? id).join(" · ")}</span></summary>
      {texts && ids.map((id) => {
        const passage = texts[id];
        const sentences = passage?.sentences.length ? passage.sentences : [passage?.text ?? "This passage is no longer in the index."];
        return (
          <section className="passage" key={id}>
            <h3>{passage?.title ?? id}</h3>
            <p>{sentences.map((text, at) => chosen.has(`${id} ${at}`) ? <mark key={at}>{text} </mark> : <span key={at}>{text} </span>)}</p>
          </section>
        );
      })}
    </details>
  );
}

function CallView({ call, exchange }: { call: Call; exchange: Exchange | undefined }) {
  return (
    <details className="call">
      <summary>
        <code>{call.prompt || "repair"}</code>
        {call.repair && <b className="bad"> repair</b>}
        <span className="dim"> {call.prompt_tokens} + {call.completion_tokens} tokens · {call.seconds.toFixed(1)} s{call.cached ? " · cached" : ""}</span>
      </summary>
      {exchange ? (
        <>
          {exchange.messages.map(([role, text], at) => <div key={at}><p className="role">{role}</p><pre tabIndex={0}>{text}</pre></div>)}
          <p className="role">reply</p>
          <pre className="reply" tabIndex={0}>{exchange.reply}</pre>
        </>
      ) : <p className="hint">The text of this call is not in the checkpoints.</p>}
    </details>
  );
}
