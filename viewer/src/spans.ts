// Parts of a passage that deserve a mark: the answer, the gold answer, what is cited, what the model was not shown.

import type { Episode } from "./schema.ts";

export type Kind = "answer" | "gold-answer" | "cited" | "unshown";
export interface Span { readonly start: number; readonly end: number; readonly kind: Kind }
export interface Segment { readonly start: number; readonly end: number; readonly kinds: readonly Kind[] }

export const KINDS: Record<Kind, string> = {
  answer: "the answer",
  "gold-answer": "the gold answer",
  cited: "what the answer rests on",
  unshown: "not shown to the model",
};

const MOST = 200;
const LONGEST = 300;
const TOO_COMMON = new Set(["yes", "no", "true", "false", "none", "unknown"]);

/** The marks of one passage of an episode. */
export function spansOf(episode: Episode, id: string): Span[] {
  const text = episode.passages[id]?.text;
  if (!text) return [];
  const cited = episode.citations.filter(({ passage_id }) => passage_id === id);
  return [
    ...(episode.answer === null ? [] : occurrences(text, episode.answer, "answer")),
    ...(episode.gold?.answers ?? []).slice(0, 20).flatMap((answer) => occurrences(text, answer, "gold-answer")),
    ...cited.map(({ span: [start, end] }): Span => ({ start: unit(text, start), end: unit(text, end), kind: "cited" })),
    ...unshown(episode, id, text),
  ];
}

/** Where a phrase stands in a text as whole words, whatever its case and white space. */
export function occurrences(text: string, phrase: string, kind: Kind): Span[] {
  const parts = phrase.trim().slice(0, LONGEST).split(/\s+/).filter(Boolean);
  if (parts.join("").length < 2 || TOO_COMMON.has(parts.join(" ").toLowerCase())) return [];
  const escaped = parts.map((part) => part.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("\\s+");
  const found: Span[] = [];
  for (const match of text.matchAll(new RegExp(`(?<![\\p{L}\\p{N}])${escaped}(?![\\p{L}\\p{N}])`, "giu"))) {
    found.push({ start: match.index, end: match.index + match[0].length, kind });
    if (found.length === MOST) break;
  }
  return found;
}

/** The text in pieces, each with all marks that lie on it. */
export function segments(length: number, spans: readonly Span[]): Segment[] {
  const inside = spans.filter(({ start, end }) => start < end && start < length);
  const edges = [...new Set([0, length, ...inside.flatMap(({ start, end }) => [Math.max(0, start), Math.min(length, end)])])].sort((a, b) => a - b);
  return edges.slice(1).map((end, place) => {
    const start = edges[place] ?? 0;
    const kinds = inside.filter((span) => span.start <= start && span.end >= end).map(({ kind }) => kind);
    return { start, end, kinds: [...new Set(kinds)] };
  });
}

// The last prompts that showed sentences of this passage: what they left out.
function unshown(episode: Episode, id: string, text: string): Span[] {
  const packed = episode.steps.flatMap(({ shown }) => shown).filter(({ passage_id }) => passage_id === id).at(-1);
  if (!packed) return [];
  const edges = [0, ...packed.spans.flat().map((place) => unit(text, place)), text.length];
  return edges.flatMap((start, place): Span[] => (place % 2 === 0 ? [{ start, end: edges[place + 1] ?? start, kind: "unshown" }] : []));
}

// Python counts characters, this language counts halves of pairs.
function unit(text: string, characters: number): number {
  if (!/[\ud800-\udbff]/.test(text)) return characters;
  let at = 0;
  for (let left = characters; left > 0 && at < text.length; left--) at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return at;
}
