/** A run as its stream tells it: which nodes run, how often each has run, its steps and its calls. */

import type { Call, Exchange, RunRecord, Step, Values } from "./types";

export interface Live {
  /** Running tasks: id -> node, by its name in the opened graph. */
  running: Record<string, string>;
  visits: Record<string, number>;
  steps: Step[];
  ledger: Call[];
  calls: Record<string, Exchange>;
}

interface Task {
  id: string;
  name: string;
  input?: unknown;
  result?: { trajectory?: Step[]; ledger?: Call[]; __return__?: { text: string; call: Call } } | null;
  error?: unknown;
  interrupts?: unknown[];
}

const CALL = "model call";
const asked = new Map<string, [string, string][]>();

export function begin(values: Values, record: RunRecord | null): Live {
  return {
    running: {},
    visits: { ...record?.visits },
    steps: values.trajectory ?? [],
    ledger: values.ledger ?? [],
    calls: { ...record?.calls },
  };
}

/** The run after an event `tasks` of the graph, or `tasks|...` of a subgraph. */
export function follow(live: Live, event: string, task: Task): Live {
  const inside = event.split("|").slice(1).map((part) => part.split(":")[0]);
  const starts = "input" in task;
  if (task.name === CALL) return starts ? remember(live, task) : replied(live, task);
  const node = [...inside, task.name].join(":");
  const running = { ...live.running };
  if (starts) {
    running[task.id] = node;
    return { ...live, running, visits: { ...live.visits, [node]: (live.visits[node] ?? 0) + 1 } };
  }
  delete running[task.id];
  const result = task.result ?? {};
  return {
    ...live,
    running,
    steps: merged(live.steps, result.trajectory),
    ledger: merged(live.ledger, result.ledger),
  };
}

function remember(live: Live, task: Task): Live {
  const input = task.input as [{ messages?: { role: string; content: string }[] }][] | undefined;
  const messages = input?.[0]?.[0]?.messages ?? [];
  asked.set(task.id, messages.map(({ role, content }) => [role, content]));
  return live;
}

function replied(live: Live, task: Task): Live {
  const reply = task.result?.__return__;
  if (!reply) return live;
  const exchange = { messages: asked.get(task.id) ?? [], reply: reply.text };
  asked.delete(task.id);
  return {
    ...live,
    ledger: merged(live.ledger, [reply.call]),
    calls: { ...live.calls, [reply.call.id]: exchange },
  };
}

/** Rows merged by id, as the state's reducer does it: the later one wins. */
export function merged<Row extends { id: string }>(old: Row[], added: Row[] | undefined): Row[] {
  if (!added?.length) return old;
  const rows = new Map(old.map((row) => [row.id, row]));
  for (const row of added) rows.set(row.id, row);
  return [...rows.values()];
}
