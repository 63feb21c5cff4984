// The document that a quote stands in, beside the answer; on a narrow screen in front of it.

import { getJson } from "./ask_api.ts";
import type { Citation, Document, DocumentPassage } from "./ask_schema.ts";
import { problem } from "./chrome.ts";
import { h, replace } from "./dom.ts";
import { markedText, type Span } from "./quotes.ts";
import { line } from "./text.ts";

const NARROW = "(max-width: 60rem)";

export interface Opened { readonly asked: string; readonly passage: string; readonly quotes: readonly Citation[]; readonly source: string }

export class DocumentPanel {
  readonly element = h("section", { class: "document", "aria-label": "Document", hidden: true });
  readonly #behind: () => Iterable<HTMLElement>;
  #opener: HTMLElement | null = null;
  #wanted = "";

  /** `behind` gives what a narrow screen hides behind the document. */
  constructor(behind: () => Iterable<HTMLElement>) {
    this.#behind = behind;
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.isOpen && !document.querySelector("dialog[open]")) {
        event.preventDefault();
        event.stopImmediatePropagation();
        this.close();
      }
    });
    matchMedia(NARROW).addEventListener("change", () => { this.#cover(); });
  }

  get isOpen(): boolean {
    return !this.element.hidden;
  }

  async open(opened: Opened, opener: HTMLElement): Promise<void> {
    this.#opener = opener;
    this.#wanted = `${opened.asked} ${opened.passage}`;
    const wanted = this.#wanted;
    this.#show(opened.source, h("p", { class: "muted" }, "Opening \u2026"));
    let content: HTMLElement;
    try {
      const query = new URLSearchParams({ asked: opened.asked, passage: opened.passage });
      content = documentText(await getJson<Document>(`/page/document?${query}`), opened);
    } catch (error) {
      content = problem(error);
    }
    if (wanted !== this.#wanted || !this.isOpen) return;
    this.#show(opened.source, content);
    const target = content.querySelector<HTMLElement>(".cited mark") ?? content.querySelector<HTMLElement>(".cited");
    target?.scrollIntoView({ block: "center" });
    target?.focus({ preventScroll: true });
  }

  close(): void {
    this.element.hidden = true;
    this.#wanted = "";
    this.#cover();
    this.#opener?.focus();
  }

  #show(source: string, content: HTMLElement): void {
    const close = h("button", { type: "button", click: () => { this.close(); } }, "close ", h("kbd", {}, "Esc"));
    replace(this.element, h("header", {}, h("h2", {}, line(source || "Passage", 120)), close), content);
    this.element.hidden = false;
    this.#cover();
    if (!this.element.contains(document.activeElement)) close.focus();
  }

  #cover(): void {
    const covers = this.isOpen && matchMedia(NARROW).matches;
    for (const element of this.#behind()) element.inert = covers;
    document.body.classList.toggle("covered", covers);
  }
}

function documentText(found: Document, { passage, quotes }: Opened): HTMLElement {
  let title = "";
  const shown = found.passages.map((each) => {
    const heading = each.title !== title && h("h3", {}, line(each.title, 200));
    title = each.title;
    return [heading, passageText(each, each.id === passage, quotes.filter((quote) => quote.passage_id === each.id))];
  });
  return h("div", { class: "pages", tabindex: "0", role: "region", "aria-label": "Text of the document" },
    !found.whole && h("p", { class: "note" }, "Only a part of this document is shown here."), shown);
}

function passageText(found: DocumentPassage, isOpened: boolean, quotes: readonly Citation[]): HTMLElement {
  return h("div", { class: isOpened ? "piece cited" : "piece", tabindex: isOpened ? "-1" : undefined },
    found.place && h("span", { class: "place" }, line(found.place, 60)),
    h("p", {}, markedText(found.text, quotes.map((quote): Span => quote.span))));
}
