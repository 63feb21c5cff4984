// What the page gets from the server. The names are those of web/answers.py and web/page in src/beliefrag.

export interface PageAbout {
  name: string; passages: number | null; question_chars: number; answer_style: string; feedback: string;
  updated: string; languages: Record<string, number>; skipped: { name: string; reason: string }[]; skipped_count: number;
}

/** A sentence that the answer rests on; the span counts characters of the passage's text as Python does. */
export interface Citation {
  passage_id: string;
  quote: string;
  span: [number, number];
  role: string;
  title: string;
  source: string;
  place: string;
}
export interface Source { id: string; title: string; excerpt: string; source: string; place?: string }
export interface AskUsage { tokens: number; calls: number; cached_calls: number; searches: number; seconds: number }
export interface Answer {
  id: string;
  outcome: "answered" | "stopped" | "abstained";
  /** A follow-up as it was understood; empty if it was answered as it was asked. */
  standalone?: string;
  /** Where the question cannot be understood by itself: what to ask the person. */
  asks?: string | null;
  answer: string | null;
  /** The sentences of the answer, with the places of their citations. */
  sentences?: { text: string; cites: number[] }[];
  answerability: number | null;
  /** False: the probability is an uncalibrated estimate. */
  calibrated?: boolean | null;
  /** Why it searched, and why it stopped, in words. */
  why: string;
  /** What would change its mind, in words. */
  would_change: string;
  /** What to know beside the answer, in sentences: what is missing, unread or removed, a guarantee. */
  notes?: string[];
  /** That this very answer was marked wrong before. */
  corrected?: string | null;
  citations?: Citation[];
  /** Where it declined: the sentences that came nearest, and what the answer would have been. */
  nearest?: Citation[];
  best_guess?: string | null;
  sources: Source[];
  usage: AskUsage;
  calibration: string;
  guarantee: string | null;
}
export interface DocumentPassage { id: string; title: string; text: string; place?: string }
export interface Document { source: string; whole: boolean; passages: DocumentPassage[] }
export interface Kept { kept_as: string }

/** An event of a running episode: its name, and what it says. */
export interface StreamEvent { name: string; data: Record<string, unknown> }
