/** What Hopgraph keeps in a run's state; see nodes/kit/state.py and inference/ledger.py. */

export interface Step {
  id: string;
  parent: string;
  kind: string;
  node: string;
  question: string;
  answer: string;
  verdict: string;
  score: number | null;
  evidence: string[];
  sentences: [string, number][];
  calls: number;
  searches: number;
  truncated: number;
  fallback: string;
}

export interface Call {
  id: string;
  kind: "model" | "search" | "rerank";
  node: string;
  step: string;
  prompt: string;
  model: string;
  prompt_tokens: number;
  completion_tokens: number;
  seconds: number;
  started: number;
  cached: boolean;
  repair: boolean;
}

export interface PassageRef {
  id: string;
  title: string;
  preview: string;
  score: number;
  found_by: string;
}

export interface Values {
  question?: string;
  answer?: string;
  status?: string;
  settings?: Settings;
  error?: { kind: string; message: string; node: string } | null;
  index?: { name: string } | null;
  evidence?: PassageRef[];
  trajectory?: Step[];
  ledger?: Call[];
  [field: string]: unknown;
}

export type Settings = Record<string, unknown>;

/** A model call's messages (role, text) and its reply. */
export interface Exchange {
  messages: [string, string][];
  reply: string;
}

export interface Passage {
  title: string;
  text: string;
  sentences: string[];
}

export interface RunRecord {
  calls: Record<string, Exchange>;
  visits: Record<string, number>;
  thresholds: Record<string, number>;
  context: Settings;
}

/** A checkpoint without its values. */
export interface Checkpoint {
  id: string;
  parent: string | null;
  source: string;
  step: number;
  next: string[];
  ran: string[];
  created: string | null;
  waiting: number;
}

/** What a person has to decide. */
export interface Decision {
  id: string;
  node: string;
  value: Record<string, unknown> & {
    decisions: Record<string, string>;
    suggested: string;
    own_answer: boolean;
    problem?: string;
  };
}

export interface Schema {
  type?: string;
  title?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  langgraph_type?: string;
  langgraph_nodes?: string[];
  $ref?: string;
  $defs?: Record<string, Schema>;
}

export interface ThreadRow {
  id: string;
  method: string;
  question: string;
  status: string;
  updated: string;
  /** When its question was looked for in its state and not found: it was last used then. */
  tried?: string;
}
