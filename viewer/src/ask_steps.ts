// The steps of an episode in words, as they end.

import type { StreamEvent } from "./ask_schema.ts";

export interface StepLine {
  readonly text: string;
  /** A query or titles that belong to it, which others wrote. */
  readonly detail: string;
}

const CALLS: Record<string, string> = {
  verifier: "Reading what was found",
  read: "Reading what was found",
  query_writer: "Thinking of what to search for next",
  rewriter: "Thinking of other words to search with",
  answer: "Writing the answer",
  write: "Writing the answer",
  gather: "Reading on",
  standalone: "Understanding the follow-up question",
};
const ENDS: Record<string, string> = {
  ANSWER: "This is enough for an answer",
  STOP: "Searching further is not worth it",
  ABSTAIN: "The documents do not answer this clearly enough",
};
const TITLES_SHOWN = 4;
/** What the model says in place of a query when the passages hold the answer. */
const NOTHING_MISSING = "SUFFICIENT";

/** What a step adds to the list of steps; null for other events. */
export function stepLine({ name, data }: StreamEvent): StepLine | null {
  if (name === "started" && data["standalone"]) return { text: "Understood as", detail: text(data["standalone"]) };
  if (name !== "step") return null;
  const action = text(data["action"]);
  if (action === "RETRIEVE") return searched(record(data["search"]), record(data["passages"]));
  if (action === "REWRITE") {
    const query = text(data["rewritten"]);
    return query === NOTHING_MISSING ? { text: "Nothing more to search for", detail: "" } : { text: "Searching with other words", detail: query };
  }
  if (action === "VERIFY") {
    const dropped = list(data["dropped"]).length;
    return { text: dropped ? `Dropped ${passages(dropped)} that did not help` : "Kept everything that was found", detail: "" };
  }
  const told = ENDS[action];
  return told ? { text: told, detail: "" } : null;
}

/** The answer so far, with what an event adds to it; `at` counts characters as Python does. */
export function written(shown: string, { data }: StreamEvent): string {
  return [...shown].slice(0, Number(data["at"])).join("") + text(data["text"]);
}

/** What is being waited for after an event; null if the event does not say. */
export function waitingFor({ name, data }: StreamEvent): string | null {
  if (name === "call_started") return CALLS[text(data["purpose"])] ?? "Asking the model";
  if (name === "waiting") {
    const place = Number(data["place"] ?? 0);
    return place ? `Other questions come first: place ${place} in the queue` : "Beginning";
  }
  return name === "started" ? "Searching" : null;
}

function searched(search: Record<string, unknown>, found: Record<string, unknown>): StepLine {
  if (typeof search["query"] !== "string") return { text: "No further search", detail: "" };
  const added = list(search["added"]).map(String);
  const named = [...new Set(added.map((id) => text(record(found[id])["title"]) || id))];
  const more = named.length > TITLES_SHOWN ? ` and ${named.length - TITLES_SHOWN} more` : "";
  const ways = record(search["found_by"]);
  const along = added.filter((id) => !["", "search"].includes(text(record(ways[id])["way"]))).length;
  const names = along ? `, ${along} of them along names` : "";
  const told = added.length ? `found ${passages(added.length)} in ${named.slice(0, TITLES_SHOWN).join("; ")}${more}${names}` : "found nothing new";
  return { text: "Searched", detail: `${search["query"]}: ${told}` };
}

function passages(count: number): string {
  return `${count} ${count === 1 ? "passage" : "passages"}`;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
