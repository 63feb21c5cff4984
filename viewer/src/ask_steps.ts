// The steps of an episode in words, as they happen.

import type { StreamEvent } from "./ask_schema.ts";

export interface StepLine {
  readonly text: string;
  /** A query or titles that belong to it, which others wrote. */
  readonly detail: string;
}

const CALLS: Record<string, string> = {
  verifier: "Reading what was found",
  read: "Reading what was found",
  reasoned_read: "Reading it again, fact by fact",
  query_writer: "Thinking of what to search for next",
  rewriter: "Thinking of other words to search with",
  answer: "Writing the answer",
};
const ACTIONS: Record<string, string> = {
  ANSWER: "This is enough for an answer",
  STOP: "Searching further is not worth it",
  ABSTAIN: "The documents do not give an answer to trust",
};
const TITLES_SHOWN = 4;
/** What the model says in place of a query when the passages hold the answer. */
const NOTHING_MISSING = "SUFFICIENT";

/** What an event adds to the list of steps; null where it adds nothing. */
export function stepLine(event: StreamEvent): StepLine | null {
  const { name, data } = event;
  if (name === "retrieved") return retrieved(data);
  if (name === "rewritten") {
    const query = text(data["after"]);
    if (query === text(data["before"])) return { text: "Keeping the same words", detail: "" };
    return query === NOTHING_MISSING ? { text: "Nothing more to search for", detail: "" } : { text: "Searching with other words", detail: query };
  }
  if (name === "pruned") {
    const dropped = list(data["mutations"]).length;
    return { text: dropped ? `Put ${passages(dropped)} aside that did not help` : "Kept everything that was found", detail: "" };
  }
  if (name === "decided") {
    const told = ACTIONS[text(record(data["decision"])["action"])];
    return told ? { text: told, detail: "" } : null;
  }
  return null;
}

/** What is being waited for after an event; null where the event does not tell. */
export function waitingFor(event: StreamEvent): string | null {
  const { name, data } = event;
  if (name === "call_started") return CALLS[text(data["purpose"])] ?? "Asking the model";
  if (name === "waiting") {
    const place = Number(data["place"] ?? 0);
    const wait = Number(data["expected_seconds"] ?? 0);
    if (!place) return "Beginning";
    return `Other questions come first: place ${place} in the queue${wait ? `, about ${wait} s` : ""}`;
  }
  if (name === "started") return "Beginning";
  if (name === "decided" && text(record(data["decision"])["action"]) === "RETRIEVE") return "Searching";
  return null;
}

function retrieved(data: Record<string, unknown>): StepLine {
  if (typeof data["query"] !== "string") return { text: "No further search", detail: "" };
  const added = new Set(list(data["added"]).map(String));
  const hits = list(data["hits"]).map(record).filter((hit) => added.has(text(hit["id"])));
  const named = [...new Set(hits.map((hit) => text(hit["title"]) || text(hit["id"])))];
  const more = named.length > TITLES_SHOWN ? ` and ${named.length - TITLES_SHOWN} more` : "";
  const along = hits.filter((hit) => !["", "search"].includes(text(hit["found_by"]))).length;
  const names = along ? `, ${along} of them along names` : "";
  const found = added.size ? `found ${passages(added.size)} in ${named.slice(0, TITLES_SHOWN).join("; ")}${more}${names}` : "found nothing new";
  return { text: "Searched", detail: `${data["query"]}: ${found}` };
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
