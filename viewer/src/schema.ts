// What the server sends: the record of src/beliefrag/record.py, and the names of schema.py, index.py and run_page.py in
// src/beliefrag/web/view.

export interface Passage { id: string; title: string; text: string; source: string; place: string }
/** A part of a passage that the answer rests on, counted in characters of Unicode. */
export interface Citation { passage_id: string; span: [number, number]; role: string }
export interface Shown { passage_id: string; spans: [number, number][] }
export interface Comparison { name: string; value: number; relation: string; threshold: number; holds: boolean }
/** How a search came to a passage: by its words, or along a name that the question or another passage has. */
export interface Way { way: string; passage: string; name: string }
export interface Search {
  query: string | null;
  hits: [string, number][];
  added: string[];
  known: string[];
  refused: string[];
  found_by: Record<string, Way>;
}
export interface RecordedCall {
  purpose: string;
  messages: Message[];
  reply: string;
  tokens_in: number;
  tokens_out: number;
  counted_by: string;
  retries: number;
  repairs: Record<string, number>;
  seconds: number;
  at: number;
  cached: boolean;
}
export interface RecordedStep {
  number: number;
  action: string;
  /** A code; `why` has it in words. */
  reason: string;
  comparisons: Comparison[];
  legal: string[];
  diagnostics: Record<string, number> | null;
  belief: Record<string, number> | null;
  answerability: number | null;
  retrieval_value: number | null;
  tokens: number;
  flagged: string[];
  attempt: { answer: string; tokens: number; scores: Record<string, number> } | null;
  search: Search | null;
  rewritten: string | null;
  dropped: string[] | null;
  evidence: string[];
  shown: Shown[];
  calls: RecordedCall[];
}
export interface Message { role: string; content: string }
export interface Usage { calls: number; tokens_in: number; tokens_out: number; retries: number; searches: number }
export interface RecordedEpisode {
  dataset: string;
  method: string;
  question: { text: string; id: string };
  outcome: string | null;
  answer: string | null;
  best_guess: string | null;
  error: { cause: string; message: string; remedy: string } | null;
  answerability: number | null;
  calibrated: boolean | null;
  metrics: Record<string, number | null>;
  usage: Usage;
  seconds: number;
  model: string;
  verifier: string;
  budget: Record<string, number> | null;
  made_with: Record<string, string>;
  citations: Citation[];
  sources: string[];
  steps: RecordedStep[];
  calls_before_failure: RecordedCall[];
}
export interface EpisodeView {
  origin: "run" | "trace" | "page";
  id: number;
  record: RecordedEpisode;
  method_title: string;
  question: string | null;
  reasons: string[];
  passages: Record<string, Passage | null>;
  thresholds: Record<string, number>;
  gold: { answers: string[]; supporting: string[] | null } | null;
  notes: string[];
  licence: string;
}
/** A step with its reason in words. */
export interface Step extends RecordedStep { why: string }
/** A call with the number of its step. */
export interface Call extends RecordedCall { step: number }
/** An episode as the pages draw it: its record, and what was sent beside it. */
export interface Episode extends Omit<RecordedEpisode, "question" | "outcome" | "steps">, Omit<EpisodeView, "record" | "reasons"> {
  question_id: string;
  outcome: string;
  steps: Step[];
  calls: Call[];
}

export interface Row {
  id: number;
  dataset: string;
  method: string;
  method_title: string;
  question_id: string;
  question: string | null;
  gold: string | null;
  outcome: string;
  correctness: string;
  answer: string | null;
  f1: number | null;
  answerability: number | null;
  tokens: number;
  calls: number;
  rounds: number;
  seconds: number;
  actions: string;
  cause: string;
}
export interface Listing { total: number; offset: number; episodes: Row[] }
export interface Choices { datasets: string[]; methods: string[] }
export interface Neighbours { place: number; total: number; previous: number | null; next: number | null }

export interface Estimate { value: number; low: number | null; high: number | null; questions: number; has_few_questions: boolean }
export interface Cell {
  dataset: string;
  method: string;
  method_title: string;
  episodes: number;
  asked: number;
  failed: number;
  outcomes: Record<string, number>;
  measures: Record<string, Estimate | null>;
  tokens_beside_f1: Estimate | null;
}
export interface Overview {
  first_line: string;
  complete: boolean;
  methods: string[];
  cells: Cell[];
  failures: { cause: string; dataset: string; method: string; method_title: string; question_ids: string[] }[];
  made: Record<string, string>;
}
export interface About { kind: "run" | "trace" | "page"; name: string }
