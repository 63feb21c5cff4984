// The page to ask in: the question box, the question that is being answered, and earlier ones.

import { answerView } from "./ask_answer.ts";
import { askStream, getJson, problemWords } from "./ask_api.ts";
import { DocumentPanel, type Opened } from "./ask_document.ts";
import { AskHistory, turnsOf, type Asked } from "./ask_history.ts";
import type { Answer, PageAbout, StreamEvent } from "./ask_schema.ts";
import { stepLine, waitingFor, written } from "./ask_steps.ts";
import { announcer, frame, onKey, problem } from "./chrome.ts";
import { h, replace } from "./dom.ts";
import { count } from "./format.ts";
import { line, plain, words } from "./text.ts";

class AskPage {
  readonly #about: PageAbout;
  readonly #history: AskHistory;
  readonly #say = announcer();
  readonly #box: HTMLTextAreaElement;
  readonly #ask = h("button", { type: "submit", class: "primary" }, "Ask");
  readonly #stop = h("button", { type: "button", class: "primary", hidden: true }, "Stop");
  readonly #current = h("article", { class: "panel current", hidden: true, "aria-label": "Question and answer", tabindex: "-1" });
  readonly #earlier = h("nav", { class: "earlier", "aria-label": "Earlier questions" });
  readonly #column: HTMLElement;
  readonly #document: DocumentPanel;
  readonly #before = h("section", { class: "before", "aria-label": "Conversation", hidden: true });
  readonly #fresh = h("button", { type: "button", class: "fresh", hidden: true }, "New conversation");
  readonly #style = h("select", { "aria-label": "Length of the answer" },
    h("option", { value: "short" }, "A few words"), h("option", { value: "sentence", selected: true }, "Sentences"), h("option", { value: "paragraph" }, "A paragraph"));
  readonly #where = h("input", { type: "text", maxlength: 2000, placeholder: "All passages, or: type=pdf and year>=2024", "aria-label": "Filter" });
  #turns: Asked[] = [];
  #running: AbortController | null = null;

  constructor(main: HTMLElement, about: PageAbout) {
    this.#about = about;
    this.#history = new AskHistory(about.name);
    this.#box = h("textarea", {
      id: "question", rows: 2, maxlength: about.question_chars, required: true, enterkeyhint: "send",
      placeholder: "Ask a question about the documents", "aria-keyshortcuts": "/",
    });
    const form = h("form", { class: "ask", submit: (event) => { event.preventDefault(); void this.#start(); } },
      h("label", { for: "question", class: "aside" }, "Question"), this.#box, h("div", {}, this.#ask, this.#stop),
      h("p", { class: "choices" }, this.#style, this.#where, this.#fresh));
    this.#style.value = about.answer_style;
    this.#column = h("div", { class: "column" }, this.#welcome(), this.#before, this.#current, form);
    this.#document = new DocumentPanel(() => [this.#column, this.#earlier, ...document.querySelectorAll<HTMLElement>("header.bar")]);
    main.classList.add("asking");
    replace(main, this.#earlier, this.#column, this.#document.element);
    this.#listEarlier();
    this.#listen();
    this.#box.focus();
  }

  #listen(): void {
    this.#box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#box.form?.requestSubmit();
    });
    this.#fresh.addEventListener("click", () => { this.#begin(); });
    this.#stop.addEventListener("click", () => { this.#running?.abort(); });
    onKey(["/"], "to the question box", () => { this.#box.focus(); this.#box.select(); });
    for (let number = 1; number <= 9; number += 1) {
      const press = (): void => { this.#current.querySelectorAll<HTMLElement>(".quotes .open")[number - 1]?.click(); };
      onKey([String(number)], `open quote ${number}`, press);
    }
    onKey(["t"], "how it got there", () => { this.#current.querySelector<HTMLElement>(".done a")?.click(); });
  }

  #welcome(): HTMLElement {
    const { name, passages, updated, languages, skipped, skipped_count } = this.#about;
    const searched = passages === null ? "" : ` (${[count(passages, "passage"), ...Object.keys(languages), `read ${new Date(updated).toLocaleString()}`].join(", ")})`;
    const unread = skipped.map((each) => h("li", {}, line(each.name, 120), " ", line(each.reason, 300)));
    return h("div", { class: "welcome muted" },
      h("p", {}, "Answers come from ", name ? line(name, 120) : "the documents", `${searched}, with the sentences that support them. `,
        "A question that the documents do not answer is declined."),
      unread.length ? h("details", { class: "unread" }, h("summary", {}, `${count(skipped_count, "file or part")} not read`), h("ul", {}, ...unread)) : "");
  }

  /** Begins a new conversation. */
  #begin(): void {
    this.#turns = [];
    this.#current.hidden = true;
    this.#listTurns();
    this.#box.focus();
  }

  /** Lists what was said before the answer that is shown. */
  #listTurns(shown: Asked | null = null): void {
    const before = this.#turns.filter((turn) => turn !== shown);
    replace(this.#before, before.map(({ question, answer }) => h("div", { class: "turn" },
      h("p", { class: "said" }, words(question, 600)), h("p", { class: "reply" }, words(answer.answer ?? answer.asks ?? "Declined.", 4000)))));
    this.#before.hidden = before.length === 0;
    this.#fresh.hidden = this.#turns.length === 0;
    this.#box.placeholder = this.#turns.length ? "Ask a follow-up question" : "Ask a question about the documents";
  }

  async #start(): Promise<void> {
    const question = this.#box.value.trim();
    if (!question || this.#running) return;
    const running = new AbortController();
    this.#running = running;
    this.#setRunning(true);
    if (this.#document.isOpen) this.#document.close();
    const steps = h("ol", { class: "happening" });
    const waiting = h("p", { class: "waiting muted" }, "Sending the question");
    const writing = h("p", { class: "answer" });
    this.#listTurns();
    this.#showCurrent(question, steps, writing, waiting);
    this.#current.scrollIntoView({ block: "nearest" });
    const began = performance.now();
    const elapsed = h("span", { class: "elapsed", "aria-hidden": "true" });
    const timer = setInterval(() => { elapsed.textContent = ` ${Math.round((performance.now() - began) / 1000)} s`; }, 1000);
    try {
      const answer = await this.#follow(question, running.signal, steps, writing, (told) => { replace(waiting, told, " \u2026", elapsed); });
      const asked = { question, at: new Date().toISOString(), answer, seconds: (performance.now() - began) / 1000 };
      this.#history.add(asked);
      this.#turns.push(asked);
      this.#listTurns(asked);
      this.#listEarlier();
      this.#showAnswer(asked, steps);
      this.#box.value = "";
    } catch (error) {
      waiting.remove();
      writing.remove();
      this.#current.append(running.signal.aborted ? h("p", { class: "panel state" }, "Stopped. Nothing was kept.") : problem(error));
    } finally {
      clearInterval(timer);
      this.#running = null;
      this.#setRunning(false);
    }
  }

  async #follow(question: string, signal: AbortSignal, steps: HTMLElement, writing: HTMLElement, wait: (told: string) => void): Promise<Answer> {
    let shown = "";
    const asked = { question, history: turnsOf(this.#turns), settings: { answer_style: this.#style.value, where: this.#where.value.trim() || null } };
    for await (const event of askStream(asked, signal)) {
      if (event.name === "result") return event.data as unknown as Answer;
      if (event.name === "error") throw new Error(problemWords(event.data, 500));
      if (event.name === "answer_text") replace(writing, words((shown = written(shown, event)), 4000));
      else this.#showEvent(event, steps, wait);
    }
    throw new Error("The server stopped before the answer was complete.");
  }

  #showEvent(event: StreamEvent, steps: HTMLElement, wait: (told: string) => void): void {
    const added = stepLine(event);
    if (added) {
      steps.append(h("li", {}, added.text, added.detail && [": ", line(added.detail, 300)]));
      this.#say(added.text);
    }
    const waiting = waitingFor(event);
    if (waiting) wait(waiting);
  }

  #showCurrent(question: string, ...content: HTMLElement[]): void {
    document.title = `${plain(question, 60)} \u2013 BeliefRAG`;
    replace(this.#current, h("h1", { class: "question" }, words(question, 600)), ...content);
    this.#current.hidden = false;
    this.#column.querySelector(".welcome")?.remove();
  }

  #showAnswer(asked: Asked, steps: HTMLElement | null): void {
    const open = (opened: Opened, opener: HTMLElement): void => { void this.#document.open(opened, opener); };
    this.#showCurrent(asked.question);
    this.#current.append(h("div", {}, answerView(asked, steps, open, this.#say)));
    this.#say(asked.answer.outcome === "abstained" ? "Declined." : `Answered: ${plain(asked.answer.answer ?? "", 200)}`);
    for (const button of this.#earlier.querySelectorAll("button[data-id]")) {
      button.toggleAttribute("aria-current", button.getAttribute("data-id") === asked.answer.id);
    }
  }

  #listEarlier(): void {
    const entries = this.#history.entries;
    this.#earlier.hidden = entries.length === 0;
    const rows = entries.map((asked) => h("li", {},
      h("button", { type: "button", class: "again", "data-id": asked.answer.id, click: () => { this.#showEarlier(asked); } },
        line(asked.question, 90), h("small", {}, asked.answer.answer === null ? "declined" : line(asked.answer.answer, 60)))));
    const clear = h("button", { type: "button", class: "clear", click: () => { this.#history.clear(); this.#listEarlier(); this.#box.focus(); } }, "Forget these");
    replace(this.#earlier, h("details", { open: !matchMedia("(max-width: 60rem)").matches }, h("summary", {}, `Earlier questions (${entries.length})`), h("ul", {}, rows), clear));
  }

  #showEarlier(asked: Asked): void {
    if (this.#running) return;
    if (this.#document.isOpen) this.#document.close();
    this.#turns = [asked];
    this.#listTurns(asked);
    this.#showAnswer(asked, null);
    this.#current.scrollIntoView({ block: "nearest" });
    this.#current.focus({ preventScroll: true });
  }

  #setRunning(running: boolean): void {
    this.#ask.hidden = running;
    this.#stop.hidden = !running;
    this.#fresh.disabled = running;
    this.#box.readOnly = running;
    this.#current.setAttribute("aria-busy", String(running));
    if (running) this.#stop.focus();
    else if (document.activeElement === document.body) this.#box.focus();
  }
}

async function start(): Promise<void> {
  const about = await getJson<PageAbout>("/page/about");
  new AskPage(frame(about.name, []), about);
}

start().catch((error: unknown) => { document.body.replaceChildren(problem(error)); });
