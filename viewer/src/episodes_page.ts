// All episodes, by question or one by one: search, filters, order and keys. The server finds them, a page at a time.

import { get } from "./api.ts";
import { announcer, onKey, problem } from "./chrome.ts";
import { h, replace, type Child, type Props } from "./dom.ts";
import { seconds, share, whole } from "./format.ts";
import { currentState, refresh } from "./refresh.ts";
import type { Choices, Listing, Row } from "./schema.ts";
import { actions, correctness, outcome } from "./signs.ts";
import { line } from "./text.ts";

const PAGES = { question: 30, episode: 100 };
const PAUSE = 150;
export const FILTERS = ["by", "text", "dataset", "method", "outcome", "correctness", "actions", "order", "direction"] as const;

interface Column { readonly name: string; readonly order: string; readonly title: string; readonly about?: string; readonly number?: boolean; readonly show: (row: Row) => Child }

// On a narrow screen a row is a card, and its cells are named by their classes.
const OUTCOME: Column[] = [
  { name: "outcome", order: "outcome", title: "outcome", show: (row) => outcome(row.outcome) },
  { name: "answer", order: "", title: "answer", show: (row) => [correctness(row.correctness), " ", row.answer === null ? h("span", { class: "muted" }, line(row.cause || "none", 40)) : line(row.answer, 60)] },
  { name: "f1", order: "f1", title: "F1", number: true, show: (row) => share(row.f1) },
  { name: "confidence", order: "answerability", title: "conf.", about: "confidence: the calibrated probability that the answer is right", number: true, show: (row) => share(row.answerability) },
  { name: "actions", order: "", title: "actions", show: (row) => actions(row.actions) },
  { name: "tokens", order: "tokens", title: "tokens", number: true, show: (row) => whole(row.tokens) },
  { name: "calls", order: "calls", title: "calls", number: true, show: (row) => whole(row.calls) },
  { name: "seconds", order: "seconds", title: "time", about: "seconds that the model took", number: true, show: (row) => seconds(row.seconds) },
];
const COLUMNS: Record<"question" | "episode", Column[]> = {
  question: [{ name: "method", order: "method", title: "method", show: (row) => open(row, line(row.method_title, 30)) }, ...OUTCOME],
  episode: [
    { name: "question", order: "question", title: "question", show: (row) => open(row, asked(row)) },
    { name: "dataset", order: "dataset", title: "dataset", show: (row) => line(row.dataset, 30) },
    { name: "method", order: "method", title: "method", show: (row) => line(row.method_title, 30) },
    ...OUTCOME,
  ],
};

function open(row: Row, label: Child): HTMLElement {
  return h("a", { class: "open", href: `/episode/${row.id}${listed()}` }, label);
}

function asked(row: Row, most = 120): HTMLElement {
  return row.question === null ? line(row.question_id, 60) : line(row.question, most);
}

function byQuestion(): boolean {
  return new URLSearchParams(location.search).get("by") !== "episode";
}

/** The filters of the listing that this address names, as an address carries them. */
export function listed(): string {
  const asked = new URLSearchParams(location.search);
  const kept = new URLSearchParams(FILTERS.flatMap((name) => (asked.get(name) ? [[name, asked.get(name) ?? ""]] : [])));
  return kept.size ? `?${kept}` : "";
}

export async function episodesPage(main: HTMLElement): Promise<void> {
  document.title = "Episodes \u2013 BeliefRAG viewer";
  const [choices, drawn] = await Promise.all([get<Choices>("/api/choices"), currentState()]);
  const say = announcer();
  const table = h("div", { class: "scroll listing" });
  const pager = h("nav", { class: "pager", "aria-label": "Pages of episodes" });
  const form = filters(choices, () => { load(0); });
  let turn = 0;
  let waiting: ReturnType<typeof setTimeout> | undefined;
  let shown: Listing = { total: 0, offset: 0, episodes: [] };
  const size = (): number => PAGES[byQuestion() ? "question" : "episode"];

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
      const found = await get<Listing>(`/api/episodes?${asked}&limit=${size()}`);
      if (mine !== turn) return; // a later filter has overtaken this one
      shown = found;
      const focused = document.activeElement?.closest("a.open")?.getAttribute("href");
      replace(table, rows(found));
      replace(pager, pages(found, size(), load));
      if (focused) [...table.querySelectorAll<HTMLElement>("a.open")].find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
      say(`${whole(found.total)} ${byQuestion() ? "questions" : "episodes"}`);
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
  onKey(["n"], "next page", () => { if (shown.offset + size() < shown.total) load(shown.offset + size(), 0); });
  onKey(["p"], "previous page", () => { if (shown.offset > 0) load(Math.max(0, shown.offset - size()), 0); });
  onKey(["x"], "clear all filters", () => { location.href = "/episodes"; });
  await fetchPage(Number(new URLSearchParams(location.search).get("offset")) || 0);
  refresh(() => fetchPage(shown.offset), drawn);
}

function filters(choices: Choices, changed: () => void): HTMLFormElement {
  const asked = new URLSearchParams(location.search);
  const field = (name: string, label: string, props: Props): HTMLElement =>
    h("label", {}, h("span", {}, label), h("input", { name, value: asked.get(name) ?? "", autocomplete: "off", ...props }));
  const choice = (name: string, label: string, values: readonly string[]): HTMLElement =>
    h("label", {}, h("span", {}, label), h("select", { name }, h("option", { value: "" }, "any"), values.map((value) => h("option", { value, selected: asked.get(name) === value }, value))));
  const form = h(
    "form",
    { class: "filters", role: "search", input: changed, submit: (event) => { event.preventDefault(); changed(); } },
    field("text", "search", { type: "search", placeholder: "question, answer, gold answer, id, error", class: "wide" }),
    h("button", { type: "button", class: "more-filters", "aria-expanded": "false", click: (event) => {
      (event.currentTarget as HTMLElement).setAttribute("aria-expanded", String(form.classList.toggle("open")));
    } }, "filters"),
    h("label", {}, h("span", {}, "list by"), h("select", { name: "by" }, [["question", "questions"], ["episode", "episodes"]].map(([value, label]) => h("option", { value, selected: asked.get("by") === value }, label)))),
    choice("dataset", "dataset", choices.datasets),
    choice("method", "method", choices.methods),
    choice("outcome", "outcome", ["answered", "stopped", "abstained", "failed"]),
    choice("correctness", "correct", ["right", "partly", "wrong", "unscored"]),
    field("actions", "actions", { placeholder: "VERIFY REWRITE", title: "actions that follow each other" }),
  );
  return form;
}

function rows(found: Listing): HTMLElement {
  if (found.total === 0) return h("p", { class: "muted" }, "No episode matches.");
  const grouped = byQuestion();
  const columns = COLUMNS[grouped ? "question" : "episode"];
  return h(
    "table",
    { class: grouped ? "episodes by-question" : "episodes" },
    h("caption", { class: "aside" }, grouped ? "Episodes by question" : "Episodes"),
    h("thead", {}, h("tr", {}, columns.map(heading))),
    grouped
      ? groups(found.episodes).map((group) => h("tbody", {}, groupHead(group, columns.length), group.map((row) => entry(row, columns))))
      : h("tbody", {}, found.episodes.map((row) => entry(row, columns))),
  );
}

function heading({ order, title, about, number }: Column): HTMLElement {
  const asked = new URLSearchParams(location.search);
  const down = asked.get("direction") === "down";
  const active = order !== "" && asked.get("order") === order;
  return h("th", { scope: "col", class: number ? "number" : order ? undefined : "unsorted", "aria-sort": active ? (down ? "descending" : "ascending") : undefined },
    order ? h("button", { type: "button", class: "sort", "data-order": order, title: about }, title, h("span", { "aria-hidden": "true" }, active ? (down ? " \u2193" : " \u2191") : "")) : title);
}

function entry(row: Row, columns: readonly Column[]): HTMLElement {
  return h("tr", { class: "episode" }, columns.map(({ name, title, number, show }) =>
    h("td", { class: number ? `${name} number` : name, "data-title": title }, show(row))));
}

/** The episodes of one question: what is asked and what is right stand once, above them. */
function groupHead(group: readonly Row[], columns: number): HTMLElement {
  const first = group[0];
  if (!first) return h("tr", {});
  // What differs most is worth comparing: ours with one that fared otherwise, if there is one.
  const one = group.find(({ method }) => method === "beliefrag") ?? first;
  const others = group.filter((row) => row !== one);
  const other = others.find(({ correctness: fared }) => fared !== one.correctness) ?? others[0];
  return h("tr", { class: "asked" }, h("th", { scope: "rowgroup", colspan: columns },
    h("span", { class: "question" }, asked(first, 250)),
    h("span", { class: "muted" }, " ", line(first.dataset, 30)),
    first.gold !== null && h("span", { class: "muted" }, ", gold answer ", h("b", {}, line(first.gold, 80))),
    other && h("a", { class: "right", href: `/compare/${one.id}/${other.id}` }, "compare")));
}

function groups(episodes: readonly Row[]): Row[][] {
  const found = new Map<string, Row[]>();
  for (const row of episodes) {
    const key = JSON.stringify([row.dataset, row.question_id]);
    found.set(key, [...(found.get(key) ?? []), row]);
  }
  return [...found.values()];
}

function pages(found: Listing, size: number, load: (offset: number, pause?: number) => void): Child {
  const last = Math.min(found.total, found.offset + size);
  const what = byQuestion() ? "questions" : "episodes";
  return [
    h("span", {}, found.total ? `${whole(found.offset + 1)} to ${whole(last)} of ${whole(found.total)} ${what}` : ""),
    h("button", { type: "button", disabled: found.offset === 0, click: () => { load(Math.max(0, found.offset - size), 0); } }, "previous ", h("kbd", {}, "p")),
    h("button", { type: "button", disabled: last >= found.total, click: () => { load(found.offset + size, 0); } }, "next ", h("kbd", {}, "n")),
  ];
}
