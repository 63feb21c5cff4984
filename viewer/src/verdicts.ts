// Replies name passages by their numbers in the prompt: here the numbers get their titles back.

import type { Message } from "./schema.ts";

export interface Numbered {
  readonly number: number;
  readonly title: string;
  /** What the reply says of the passage; empty where it says nothing. */
  readonly verdict: string;
}

const PASSAGE = /<passage id="(\d{1,4})"(?: title="([^"]*)")?>([^<]{0,60})/g;

/** The passages that a prompt shows, each with the verdict of the reply on it. */
export function numberedPassages(prompt: readonly Message[], reply: string): Numbered[] {
  const text = prompt.at(-1)?.content ?? "";
  // Worked examples come first and have passages too: the evidence begins at the last number 1.
  const evidence = text.slice(Math.max(0, text.lastIndexOf('<passage id="1"')));
  const unhelpful = numbers(reply, "unhelpful_doc_ids");
  const grades = numbers(reply, "grades");
  return [...evidence.matchAll(PASSAGE)].map(([, digits, title, beginning]) => {
    const number = Number(digits);
    const grade = grades[number - 1];
    const verdict = unhelpful.includes(number) ? "unhelpful" : grade === undefined ? "" : `graded ${grade}`;
    return { number, title: title || `${beginning ?? ""}\u2026`, verdict };
  });
}

function numbers(reply: string, name: string): number[] {
  const list = new RegExp(`"${name}"\\s*:\\s*\\[([\\d.,\\s]{0,2000})\\]`).exec(reply)?.[1] ?? "";
  return list.split(",").filter((each) => each.trim()).map(Number);
}
