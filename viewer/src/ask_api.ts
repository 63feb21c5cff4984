// Asks the server that this page came from: single requests, and the stream of events of a question.

import type { StreamEvent } from "./ask_schema.ts";

/** What went wrong, in the server's words. */
export class AskProblem extends Error {}

const ENDED = "The server cannot be reached: it has stopped, or the network is down. Start the command again, then ask again.";

export async function getJson<T>(path: string): Promise<T> {
  const answer = await reach(path, {});
  return (await answer.json()) as T;
}

export async function sendJson<T>(path: string, body: unknown): Promise<T> {
  const answer = await reach(path, post(body, "application/json"));
  return (await answer.json()) as T;
}

/** Sends a question and gives its events as they come. Aborting the signal stops the episode on the server too. */
export async function* askStream(asked: Record<string, unknown>, signal: AbortSignal): AsyncGenerator<StreamEvent> {
  const answer = await reach("/v1/ask", { ...post(asked, "text/event-stream"), signal });
  const reader = answer.body?.getReader();
  if (!reader) throw new AskProblem(ENDED);
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch((error: unknown) => { throw lost(error, signal); });
    rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
    const [events, remaining] = takeEvents(rest);
    rest = remaining;
    yield* events;
    if (done) return;
  }
}

/** The whole events at the beginning of a text, and the text after them. */
export function takeEvents(text: string): [StreamEvent[], string] {
  const blocks = text.split("\n\n");
  const rest = blocks.pop() ?? "";
  const events: StreamEvent[] = [];
  for (const block of blocks) {
    let name = "";
    let data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (data) events.push({ name, data: JSON.parse(data) as Record<string, unknown> });
  }
  return [events, rest];
}

/** A problem document of the server in one sentence or two. */
export function problemWords(content: unknown, status: number): string {
  if (typeof content === "string" && content) return content;
  const found = (typeof content === "object" && content !== null ? content : {}) as Record<string, unknown>;
  const told = [found["detail"] ?? found["error"], found["remedy"]].filter((each) => typeof each === "string");
  return told.join(" ") || `The server answered ${status}.`;
}

function post(body: unknown, accept: string): RequestInit {
  return { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", Accept: accept } };
}

async function reach(path: string, init: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...init });
  } catch (error) {
    throw lost(error, init.signal ?? undefined);
  }
  if (answer.ok) return answer;
  const isJson = /^application\/(problem\+)?json/.test(answer.headers.get("content-type") ?? "");
  throw new AskProblem(problemWords(isJson ? await answer.json() : await answer.text(), answer.status));
}

function lost(error: unknown, signal: AbortSignal | undefined): unknown {
  return signal?.aborted ? error : new AskProblem(ENDED);
}
