// Asks the server that this page came from, and nobody else.

import type { Episode, EpisodeView } from "./schema.ts";

/** What went wrong, in the server's words. */
export class Refused extends Error {}

export async function get<T>(path: string): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(path, { credentials: "same-origin" });
  } catch {
    throw new Refused("The viewer has stopped: start 'beliefrag view' again.");
  }
  const type = answer.headers.get("content-type") ?? "";
  const content: unknown = type.startsWith("application/json") ? await answer.json() : await answer.text();
  if (answer.ok) return content as T;
  const told = typeof content === "object" && content !== null && "error" in content ? String(content.error) : String(content);
  throw new Refused(told || `The server answered ${answer.status}.`);
}

export async function getEpisode(id: number): Promise<Episode> {
  return opened(await get<EpisodeView>(`/api/episode/${id}`));
}

/** An episode as the pages draw it. */
export function opened({ record, reasons, ...more }: EpisodeView): Episode {
  const steps = record.steps.map((step, place) => ({ ...step, why: reasons[place] ?? "" }));
  const calls = steps.flatMap((step) => step.calls.map((call) => ({ ...call, step: step.number })));
  const unfinished = record.calls_before_failure.map((call) => ({ ...call, step: steps.length }));
  return { ...record, ...more, steps, calls: [...calls, ...unfinished], outcome: record.outcome ?? "", question_id: record.question.id };
}
