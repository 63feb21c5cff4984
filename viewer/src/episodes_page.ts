// All episodes: search, filters, order and keys. The server finds them; a page holds a hundred.

import { get } from "./api.ts";
import { announcer, onKey, problem } from "./chrome.ts";
import { h, replace, type Child, type Props } from "./dom.ts";
import { seconds, share, whole } from "./format.ts";
import type { Choices, Listing, Row } from "./schema.ts";
import { actions, correctness, outcome } from "./signs.ts";
import { line } from "./text.ts";

const PAGE = 100;
const PAUSE = 150;
export const FILTERS = ["text", "dataset", "method", "outcome", "correctness", "actions", "least_tokens", "most_tokens", "order", "direction"] as const;

const COLUMNS: { order: string; title: string; about?: string; number: boolean; show: (row: Row) => Child }[] = [
  { order: "question", title: "question", number: false, show: (row) => h("a", { class: "open", href: `/episode/${row.id}${listed()}` }, row.question === null ? line(row.question_id, 60) : line(row.question, 120)) },
  { order: "dataset", title: "dataset", number: false, show: (row) => line(row.dataset, 30) },
  { order: "method", title: "method", number: false, show: (row) => line(row.method_title, 30) },
  { order: "outcome", title: "outcome", number: false, show: (row) => outcome(row.outcome) },
  { order: "", title: "answer", number: false, show: (row) => [correctness(row.correctness), " ", row.answer === null ? h("span", { class: "muted" }, line(row.cause || "none", 40)) : line(row.answer, 60)] },
  { order: "f1", title: "F1", number: true, show: (row) => share(row.f1) },
  { order: "answerability", title: "conf.", about: "confidence: the calibrated probability that the answer is right", number: true, show: (row) => share(row.answerability) },
  { order: "", title: "actions", number: false, show: (row) => actions(row.actions) },
  { order: "tokens", title: "tokens", number: true, show: (row) => whole(row.tokens) },
  { order: "calls", title: "calls", number: true, show: (row) => whole(row.calls) },
  { order: "seconds", title: "time", about: "seconds that the model took", number: true, show: (row) => seconds(row.seconds) },
];

/** The filters of the listing that this address names, as an address carries them. */
export function listed(): string {
  const asked = new URLSearchParams(location.search);
  const kept = new URLSearchParams(FILTERS.flatMap((name) => (asked.get(name) ? [[name, asked.get(name) ?? ""]] : [])));
  return kept.size ? `?${kept}` : "";
}

export async function episodesPage(main: HTMLElement): Promise<void> {
  document.title = "Episodes \u2013 BeliefRAG viewer";
  const choices = await get<Choices>("/api/choices");
  const say = announcer();
  const table = h("div", { class: "scroll listing" });
  const pager = h("nav", { class: "pager", "aria-label": "Pages of episodes" });
  const form = filters(choices, () => { load(0); });
  let turn = 0;
  let waiting: ReturnType<typeof setTimeout> | undefined;
  let shown: Listing = { total: 0, offset: 0, episodes: [] };

  function address(): URLSearchParams {
    const fields = [...new FormData(form)].map(([name, value]) => [name, String(value).trim()]);
    const order = new URLSearchParams(location.search);
    return new URLSearchParams([...fields, ["order", order.get("order") ?? ""], ["direction", order.get("direction") ?? ""]].filter(([, value]) => value));
  }

  function load(offset: number, pause = PAUSE): void {
    clearTimeout(waiting);
    waiting = setTimeout(() => { void fetchPage(offset); }, pause);
  }

  async function fetchPage(offset: number): Promise<void> {
    const mine = ++turn;
    const asked = address();
    if (offset) asked.set("offset", String(offset));
    history.replaceState(null, "", asked.size ? `?${asked}` : location.pathname);
    try {
      const found = await get<Listing>(`/api/episodes?${asked}${asked.size ? "&" : ""}limit=${PAGE}`);
      if (mine !== turn) return; // a later filter has overtaken this one
      shown = found;
      replace(table, rows(found));
      replace(pager, pages(found, load));
      say(`${whole(found.total)} episodes`);
    } catch (error) {
      if (mine === turn) replace(table, problem(error));
    }
  }

  function sort(event: Event): void {
    const button = (event.target as Element).closest<HTMLElement>("[data-order]");
    if (!button) return;
    const asked = new URLSearchParams(location.search);
    const name = button.dataset["order"] ?? "";
    const down = asked.get("order") === name ? asked.get("direction") !== "down" : ["f1", "tokens", "calls", "seconds", "answerability"].includes(name);
    asked.set("order", name);
    asked.set("direction", down ? "down" : "up");
    history.replaceState(null, "", `?${asked}`);
    void fetchPage(0).then(() => { table.querySelector<HTMLElement>(`[data-order="${name}"]`)?.focus(); });
  }

  function move(by: number): void {
    const links = [...table.querySelectorAll<HTMLElement>("a.open")];
    const at = links.indexOf(document.activeElement as HTMLElement);
    links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
  }

  table.addEventListener("click", sort);
  replace(main, h("h1", { class: "aside" }, "Episodes"), h("section", { class: "panel", "aria-label": "Episodes" }, form, pager, table));
  onKey(["/"], "search", () => { form.querySelector<HTMLElement>("input[name=text]")?.focus(); });
  onKey(["j", "ArrowDown"], "next episode", () => { move(1); });
  onKey(["k", "ArrowUp"], "previous episode", () => { move(-1); });
  onKey(["n"], "next page", () => { if (shown.offset + PAGE < shown.total) load(shown.offset + PAGE, 0); });
  onKey(["p"], "previous page", () => { if (shown.offset > 0) load(Math.max(0, shown.offset - PAGE), 0); });
  onKey(["x"], "clear all filters", () => { location.href = "/episodes"; });
  await fetchPage(Number(new URLSearchParams(location.search).get("offset")) || 0);
}

function filters(choices: Choices, changed: () => void): HTMLFormElement {
  const asked = new URLSearchParams(location.search);
  const field = (name: string, label: string, props: Props): HTMLElement =>
    h("label", {}, h("span", {}, label), h("input", { name, value: asked.get(name) ?? "", autocomplete: "off", ...props }));
  const choice = (name: string, label: string, values: readonly string[]): HTMLElement =>
    h("label", {}, h("span", {}, label), h("select", { name }, h("option", { value: "" }, "any"), values.map((value) => h("option", { value, selected: asked.get(name) === value }, value))));
  return h(
    "form",
    { class: "filters", role: "search", input: changed, submit: (event) => { event.preventDefault(); changed(); } },
    field("text", "search", { type: "search", placeholder: "question, answer, id, error", class: "wide" }),
    choice("dataset", "dataset", choices.datasets),
    choice("method", "method", choices.methods),
    choice("outcome", "outcome", ["answered", "stopped", "abstained", "failed"]),
    choice("correctness", "correct", ["right", "partly", "wrong", "unscored"]),
    field("actions", "actions", { list: "patterns", placeholder: "VERIFY REWRITE", title: "actions that follow each other" }),
    h("datalist", { id: "patterns" }, choices.patterns.map(({ actions: value, episodes }) => h("option", { value }, `${whole(episodes)} episodes`))),
    field("least_tokens", "tokens from", { type: "number", min: 0, class: "short" }),
    field("most_tokens", "to", { type: "number", min: 0, class: "short" }),
  );
}

function rows(found: Listing): HTMLElement {
  if (found.total === 0) return h("p", { class: "muted" }, "No episode matches.");
  const asked = new URLSearchParams(location.search);
  const sign = asked.get("direction") === "down" ? "\u2193" : "\u2191";
  return h(
    "table",
    { class: "episodes" },
    h("caption", { class: "aside" }, "Episodes"),
    h("thead", {}, h("tr", {}, COLUMNS.map(({ order, title, about, number }) => {
      const active = order !== "" && asked.get("order") === order;
      return h("th", { scope: "col", class: number ? "number" : undefined, "aria-sort": active ? (sign === "\u2193" ? "descending" : "ascending") : undefined },
        order ? h("button", { type: "button", class: "sort", "data-order": order, title: about }, title, h("span", { "aria-hidden": "true" }, active ? ` ${sign}` : "")) : title);
    }))),
    h("tbody", {}, found.episodes.map((row) => h("tr", {}, COLUMNS.map(({ number, show }) => h("td", { class: number ? "number" : undefined }, show(row)))))),
  );
}

function pages(found: Listing, load: (offset: number, pause?: number) => void): Child {
  const last = Math.min(found.total, found.offset + found.episodes.length);
  return [
    h("span", {}, found.total ? `${whole(found.offset + 1)} to ${whole(last)} of ${whole(found.total)}` : ""),
    h("button", { type: "button", disabled: found.offset === 0, click: () => { load(Math.max(0, found.offset - PAGE), 0); } }, "previous ", h("kbd", {}, "p")),
    h("button", { type: "button", disabled: last >= found.total, click: () => { load(found.offset + PAGE, 0); } }, "next ", h("kbd", {}, "n")),
  ];
}
