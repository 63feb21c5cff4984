// What two episodes did alike, and where they part.

import type { Call, Episode, Step } from "./schema.ts";

/** How many steps from the first on are the same: the action, what it searched for and found, and what it changed. */
export function alikeSteps(left: Episode, right: Episode): number {
  return prefix(left.steps.map(did), right.steps.map(did));
}

/** How many calls from the first on have the same purpose and the same reply. */
export function alikeCalls(left: Episode, right: Episode): number {
  const asked = ({ step, purpose, reply, tokens_in }: Call): string => JSON.stringify([step, purpose, reply, tokens_in]);
  return prefix(left.calls.map(asked), right.calls.map(asked));
}

/** In words, what the two do at the step where they part. */
export function parting(left: Episode, right: Episode, at: number): string {
  const [one, other] = [left.steps[at], right.steps[at]];
  if (!one || !other) return `${(one ? right : left).method_title} has ended, ${(one ? left : right).method_title} goes on with ${(one ?? other)?.action ?? ""}`;
  if (one.action !== other.action) return `${left.method_title} chooses ${one.action}, ${right.method_title} ${other.action}`;
  if (one.search && other.search && one.search.query !== other.search.query) return `both choose ${one.action}, with different queries`;
  return `both choose ${one.action}, and it changes different things`;
}

function did({ action, search, rewritten, dropped, evidence }: Step): string {
  return JSON.stringify([action, search && [search.query, search.hits.map(([id]) => id)], rewritten, dropped, evidence]);
}

function prefix(left: readonly string[], right: readonly string[]): number {
  const at = left.findIndex((each, place) => each !== right[place]);
  return at < 0 ? left.length : at;
}
