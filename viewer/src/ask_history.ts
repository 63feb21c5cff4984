// Earlier questions with their answers. They are kept in this browser alone; the server shows nobody's to others.

import type { Answer, Citation, Source } from "./ask_schema.ts";

export interface Asked { readonly question: string; readonly at: string; readonly answer: Answer; readonly seconds: number }

const MOST = 50;
const MOST_TURNS = 6;
const OUTCOMES = new Set(["answered", "stopped", "abstained"]);

export class AskHistory {
  readonly #key: string;
  #entries: Asked[];

  constructor(name: string) {
    this.#key = `asked:${name}`;
    this.#entries = readHistory(stored(this.#key));
  }

  get entries(): readonly Asked[] {
    return this.#entries;
  }

  add(entry: Asked): void {
    this.#entries = [entry, ...this.#entries].slice(0, MOST);
    this.#write();
  }

  clear(): void {
    this.#entries = [];
    this.#write();
  }

  #write(): void {
    try {
      localStorage.setItem(this.#key, JSON.stringify(this.#entries));
    } catch {
      // Without storage, or without room in it, the history lasts as long as the page.
      return;
    }
  }
}

/** The turns of a conversation as the server takes them, the latest last. */
export function turnsOf(asked: readonly Asked[]): { question: string; answer: string; id: string }[] {
  return asked.slice(-MOST_TURNS).map(({ question, answer }) => ({
    question: answer.standalone || question, answer: answer.answer ?? answer.asks ?? "", id: answer.id,
  }));
}

/** The entries of a stored history. What is not one is left out: an older version of the page may have written it. */
export function readHistory(content: string | null): Asked[] {
  if (content === null) return [];
  let found: unknown;
  try {
    found = JSON.parse(content);
  } catch {
    return [];
  }
  return Array.isArray(found) ? found.filter(isAsked).slice(0, MOST) : [];
}

function isAsked(value: unknown): value is Asked {
  const { question, at, answer, seconds } = fields(value);
  const { id, outcome, answer: words, answerability, reason, sources, usage, citations, nearest, notes, why, best_guess: guess, sentences, standalone } = fields(answer);
  return (
    [question, at, id, reason].every((each) => typeof each === "string")
    && typeof seconds === "number"
    && OUTCOMES.has(String(outcome))
    && (words === null || typeof words === "string")
    && (guess === undefined || guess === null || typeof guess === "string")
    && (answerability === null || typeof answerability === "number")
    && Array.isArray(sources) && sources.every(isSource)
    && [citations, nearest].every((each) => each === undefined || (Array.isArray(each) && each.every(isCitation)))
    && (notes === undefined || (Array.isArray(notes) && notes.every((each) => typeof each === "string")))
    && [why, standalone].every((each) => each === undefined || typeof each === "string")
    && (sentences === undefined || (Array.isArray(sentences) && sentences.every(isSentence)))
    && typeof fields(usage)["tokens"] === "number"
  );
}

function isSentence(value: unknown): boolean {
  const { text, cites } = fields(value);
  return typeof text === "string" && Array.isArray(cites) && cites.every((each) => Number.isInteger(each));
}

function isSource(value: unknown): value is Source {
  const source = fields(value);
  return ["id", "title", "excerpt", "source"].every((name) => typeof source[name] === "string");
}

function isCitation(value: unknown): value is Citation {
  const citation = fields(value);
  return Array.isArray(citation["span"]) && ["passage_id", "quote", "title", "source"].every((name) => typeof citation[name] === "string");
}

function fields(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function stored(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}
