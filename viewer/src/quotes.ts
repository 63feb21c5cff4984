// A passage with its quotes marked.

import { h, type Child } from "./dom.ts";
import { pieces } from "./text.ts";

export type Span = [number, number];
export interface Part { readonly text: string; readonly quoted: boolean }

const LONG = 20_000;
const AROUND = 2_000;

/** The text in parts, quoted or not. Spans count code points, as Python does; those that overlap become one. */
export function quotedParts(text: string, spans: readonly Span[]): Part[] {
  const places = codeUnits(text, spans);
  const parts: Part[] = [];
  let from = 0;
  for (const [begin, end] of places) {
    if (begin > from) parts.push({ text: text.slice(from, begin), quoted: false });
    parts.push({ text: text.slice(begin, end), quoted: true });
    from = end;
  }
  if (from < text.length) parts.push({ text: text.slice(from), quoted: false });
  return parts;
}

/** The text with marks around its quotes. Of a very long one only what stands around the first quote is shown. */
export function markedText(text: string, spans: readonly Span[]): HTMLElement {
  let parts = quotedParts(text, spans);
  if (text.length > LONG) parts = aroundQuote(parts);
  return h("bdi", { class: "words" }, parts.map((part) => (part.quoted ? h("mark", { tabindex: "-1" }, visible(part.text)) : visible(part.text))));
}

/** Somebody's text with a visible name for each character that cannot be seen. */
export function visible(text: string): Child[] {
  return pieces(text).map((piece) => (piece.mark ? h("span", { class: "hidden-mark", title: "a character that cannot be seen" }, piece.text) : piece.text));
}

function aroundQuote(parts: Part[]): Part[] {
  const at = Math.max(parts.findIndex((part) => part.quoted), 0);
  const before = parts[at - 1]?.text ?? "";
  const shown = parts[at] ?? { text: "", quoted: false };
  const after = parts[at + 1]?.text ?? "";
  const cut = { text: shown.text.slice(0, LONG), quoted: shown.quoted };
  return [{ text: `\u2026 ${before.slice(-AROUND)}`, quoted: false }, cut, { text: `${after.slice(0, AROUND)} \u2026`, quoted: false }];
}

function codeUnits(text: string, spans: readonly Span[]): Span[] {
  const wanted = spans.filter(([begin, end]) => Number.isInteger(begin) && Number.isInteger(end) && begin >= 0 && end > begin);
  const joined: Span[] = [];
  for (const [begin, end] of [...wanted].sort((a, b) => a[0] - b[0])) {
    const last = joined.at(-1);
    if (last && begin <= last[1]) last[1] = Math.max(last[1], end);
    else joined.push([begin, end]);
  }
  const found: Span[] = [];
  let unit = 0;
  let point = 0;
  const walk = (to: number): number => {
    while (point < to && unit < text.length) {
      unit += (text.codePointAt(unit) ?? 0) > 0xffff ? 2 : 1;
      point += 1;
    }
    return unit;
  };
  for (const [begin, end] of joined) {
    const first = walk(begin);
    const last = walk(end);
    if (last > first) found.push([first, last]);
  }
  return found;
}
