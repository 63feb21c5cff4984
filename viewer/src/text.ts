// Text that others wrote: passages, replies, questions, names.

import { h } from "./dom.ts";
import { KINDS, segments, type Span } from "./spans.ts";

/** From so many characters on, a text is cut until somebody wants all of it. */
export const CUT = 2000;
const MUCH = 100_000;

// Controls, and characters that turn the reading direction or cannot be seen. Joiners are spelling, and stay.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

export interface Piece {
  readonly text: string;
  /** Whether it stands for a character that would not be seen. */
  readonly mark: boolean;
}

/** The text in pieces, with a visible name in the place of each character that cannot be seen. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > from) found.push({ text: text.slice(from, match.index), mark: false });
    found.push({ text: codePoint(match[0]), mark: true });
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ text: text.slice(from), mark: false });
  return found;
}

/** The first so many characters, without half of a pair at the end. */
export function cut(text: string, most: number): string {
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? most - 1 : most);
}

/** A text as an element of its own, so that its direction stays within it. A long one is cut, with a button for the rest. */
export function words(text: string, most: number = CUT, spans: readonly Span[] = []): HTMLElement {
  const element = h("bdi", { class: "words" });
  if (text.length <= most) {
    fill(element, text, spans);
    return element;
  }
  fill(element, cut(text, most), spans);
  const more = h(
    "button",
    { type: "button", class: "more", click: () => { fill(element, text, spans); } },
    `show all ${text.length.toLocaleString("en")} characters`,
  );
  element.append(" \u2026 ", more);
  return element;
}

/** The text on one line, cut without a button: for tables and titles. */
export function line(text: string, most = 160): HTMLElement {
  const flat = text.slice(0, 4 * most).replace(/\s+/g, " ").trim();
  const short = flat.length > most ? `${cut(flat, most)}\u2026` : flat;
  const element = h("bdi", {});
  fill(element, short);
  return element;
}

/** The text for an attribute or a title: plain, on one line, with nothing hidden. */
export function plain(text: string, most = 300): string {
  return cut(text, most).replace(/\s+/g, " ").replace(HIDDEN, "\ufffd");
}

function fill(element: HTMLElement, text: string, spans: readonly Span[] = []): void {
  element.replaceChildren();
  if (text.length > MUCH) {
    // An element for each of very many marks would stop the browser.
    element.append(text.replace(HIDDEN, "\ufffd"));
    return;
  }
  for (const { start, end, kinds } of segments(text.length, spans)) {
    const home = kinds.length ? h("mark", { class: kinds.join(" "), title: kinds.map((kind) => KINDS[kind]).join("; ") }) : element;
    for (const piece of pieces(text.slice(start, end))) {
      home.append(piece.mark ? h("span", { class: "hidden-mark", title: "a character that cannot be seen" }, piece.text) : piece.text);
    }
    if (home !== element) element.append(home);
  }
}

function codePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}
