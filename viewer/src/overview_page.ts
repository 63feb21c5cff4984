// The run at one glance: the figure, and methods by datasets with their intervals. Filter, sort, follow a row.

import { get } from "./api.ts";
import { onKey, problem } from "./chrome.ts";
import { h, replace, s, type Child } from "./dom.ts";
import { figure } from "./figure.ts";
import { interval, mean, whole } from "./format.ts";
import { currentState, refresh } from "./refresh.ts";
import type { Cell, Estimate, Overview } from "./schema.ts";
import { line } from "./text.ts";

interface Column { readonly name: string; readonly title: string; readonly about?: string; readonly value: (cell: Cell) => number | string; readonly show: (cell: Cell) => Child }

const MEASURES: [string, string, string][] = [
  ["exact_match", "EM", "exact match"],
  ["cover", "cover", "share of answers that contain a gold answer"],
  ["judge", "judge", "share that the judge calls right"],
  ["evidence_recall", "recall", "share of the supporting passages that were kept"],
  ["rounds", "rounds", "searches per question"],
  ["calls", "calls", "model calls per question"],
  ["seconds", "seconds", "model seconds per question"],
];

export async function overviewPage(main: HTMLElement): Promise<void> {
  const drawn = await currentState();
  let run = await get<Overview>("/api/run");
  document.title = "Run \u2013 BeliefRAG viewer";
  const asked = new URLSearchParams(location.search);
  const chosen = { dataset: asked.get("dataset") ?? "", method: asked.get("method") ?? "", order: asked.get("order") ?? "", down: asked.get("direction") === "down" };
  const [status, picture, summary, table, failed] = [h("p", { role: "status" }), h("div", {}), h("div", {}), h("div", { class: "scroll" }), h("div", {})];
  const datasets = (): string[] => [...new Set(run.cells.map((cell) => cell.dataset))];
  const filter = h("input", { type: "search", value: chosen.method, placeholder: "filter methods", "aria-label": "Filter methods", input: () => { chosen.method = filter.value; show(); } });
  const select = h("select", { "aria-label": "Dataset", change: () => { chosen.dataset = select.value; show(); } },
    h("option", { value: "" }, "all datasets"),
    datasets().map((name) => h("option", { value: name, selected: name === chosen.dataset }, name === "mean" ? "mean over datasets" : name)),
  );

  function show(): void {
    const address = new URLSearchParams(Object.entries({ dataset: chosen.dataset, method: chosen.method, order: chosen.order, direction: chosen.down ? "down" : "" }).filter(([, value]) => value));
    history.replaceState(null, "", address.size ? `?${address}` : location.pathname);
    status.className = run.complete ? "panel state" : "panel state warn";
    replace(status, line(run.first_line, 600));
    const matching = run.cells.filter((cell) => (!chosen.dataset || cell.dataset === chosen.dataset) && `${cell.method_title} ${cell.method}`.toLowerCase().includes(chosen.method.toLowerCase()));
    const drawn = chosen.dataset || (datasets().includes("mean") ? "mean" : datasets()[0] ?? "");
    const over = drawn === "mean" ? "mean over datasets" : drawn;
    replace(picture, figure(matching.filter((cell) => cell.dataset === drawn), over));
    replace(summary, matrix(run));
    const column = columns().find(({ name }) => name === chosen.order);
    replace(table, cellTable(column ? sorted(matching, column, chosen.down) : matching, columns(), chosen.order, chosen.down, (name) => {
      chosen.down = chosen.order === name ? !chosen.down : name !== "dataset" && name !== "method";
      chosen.order = name;
      show();
      table.querySelector<HTMLElement>(`[data-order="${name}"]`)?.focus();
    }));
    replace(failed, run.failures.length > 0 && failures(run));
  }

  const columns = (): Column[] => shownColumns(run.cells);
  replace(
    main,
    h("h1", { class: "aside" }, "Run"),
    status,
    h("div", { class: "filters" }, select, filter),
    h("section", { class: "panel glance", "aria-label": "At one glance" }, picture, summary),
    h("section", { class: "panel", "aria-label": "Numbers" }, table),
    failed,
    h("section", { class: "panel" }, h("h2", {}, "Made with"), h("dl", { class: "made" }, Object.entries(run.made).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, line(value, 120)))))),
  );
  onKey(["/"], "filter methods", () => { filter.focus(); });
  onKey(["e"], "all episodes", () => { location.href = "/episodes"; });
  show();
  refresh(async () => {
    run = await get<Overview>("/api/run");
    show();
  }, drawn);
}

function shownColumns(cells: readonly Cell[]): Column[] {
  const estimate = (name: string) => (cell: Cell): number => cell.measures[name]?.value ?? -Infinity;
  return [
    { name: "dataset", title: "dataset", value: (cell) => cell.dataset, show: (cell) => line(cell.dataset, 40) },
    { name: "method", title: "method", value: (cell) => cell.method_title, show: (cell) => h("a", { href: episodesOf(cell) }, line(cell.method_title, 40)) },
    { name: "n", title: "questions", value: (cell) => cell.episodes, show: (cell) => (cell.episodes === cell.asked ? whole(cell.episodes) : `${whole(cell.episodes)} of ${whole(cell.asked)}`) },
    { name: "f1", title: "F1", about: "token F1 with its 95 % interval", value: estimate("f1"), show: (cell) => [bar(cell.measures["f1"]), measured("f1", cell)] },
    { name: "tokens", title: "tokens", about: "tokens in and out per question, with the 95 % interval", value: estimate("tokens"), show: (cell) => measured("tokens", cell) },
    ...MEASURES.filter(([name]) => cells.some((cell) => cell.measures[name])).map(([name, title, about]) => ({ name, title, about, value: estimate(name), show: (cell: Cell) => mean(name, cell.measures[name]) })),
    { name: "outcomes", title: "ended", about: "answered / stopped / abstained", value: (cell) => cell.outcomes["answered"] ?? 0, show: (cell) => ["answered", "stopped", "abstained"].map((name) => cell.outcomes[name] ?? 0).join("/") },
    { name: "failed", title: "failed", value: (cell) => cell.failed, show: (cell) => (cell.failed ? h("a", { class: "warn", href: `${episodesOf(cell)}&outcome=failed` }, whole(cell.failed)) : "0") },
  ];
}

function cellTable(cells: readonly Cell[], columns: readonly Column[], order: string, down: boolean, sort: (name: string) => void): HTMLElement {
  if (cells.length === 0) return problem("No method matches.");
  return h(
    "table",
    { class: "numbers cells" },
    h("caption", { class: "aside" }, "Methods by datasets"),
    h("thead", {}, h("tr", {}, columns.map(({ name, title, about }) =>
      h("th", { scope: "col", "aria-sort": order === name ? (down ? "descending" : "ascending") : undefined },
        h("button", { type: "button", class: "sort", title: about, "data-order": name, click: () => { sort(name); } }, title, h("span", { "aria-hidden": "true" }, order === name ? (down ? " \u2193" : " \u2191") : "")))))),
    h("tbody", {}, cells.map((cell) => h("tr", { class: cell.dataset === "mean" ? "mean" : undefined }, columns.map((column, place) => h(place < 2 ? "th" : "td", place < 2 ? { scope: "row" } : {}, column.show(cell)))))),
  );
}

function sorted(cells: readonly Cell[], column: Column, down: boolean): Cell[] {
  return [...cells].sort((a, b) => {
    const [x, y] = [column.value(a), column.value(b)];
    const sign = x < y ? -1 : x > y ? 1 : 0;
    return down ? -sign : sign;
  });
}

function measured(name: string, cell: Cell): Child {
  return [h("b", {}, mean(name, cell.measures[name])), h("small", { class: "range" }, interval(name, cell.measures[name]))];
}

/** Methods by datasets, F1 with tokens below it. */
function matrix(run: Overview): Child {
  const datasets = [...new Set(run.cells.map((cell) => cell.dataset))];
  const titles = new Map(run.cells.map((cell) => [cell.method, cell.method_title]));
  const at = new Map(run.cells.map((cell) => [`${cell.dataset} ${cell.method}`, cell]));
  const entry = (dataset: string, method: string): HTMLElement => {
    const cell = at.get(`${dataset} ${method}`);
    const f1 = cell?.measures["f1"];
    if (!cell || !f1) return h("td", {}, "\u2013");
    return h("td", {}, h("a", { href: episodesOf(cell), title: `F1 ${interval("f1", f1)}` }, mean("f1", f1)), h("small", {}, mean("tokens", cell.tokens_beside_f1)));
  };
  return [
    h("p", { class: "muted small" }, "F1, and tokens below it."),
    h("div", { class: "scroll" }, h("table", { class: "numbers matrix", "aria-label": "F1 and tokens" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "method"), datasets.map((name) => h("th", { scope: "col" }, line(name, 24))))),
    h("tbody", {}, run.methods.filter((name) => titles.has(name)).map((name) => h("tr", {}, h("th", { scope: "row" }, titles.get(name)), datasets.map((dataset) => entry(dataset, name))))),
  ))];
}

/** The interval as a bar from 0 to 1 with a mark at the mean: readable without reading. */
function bar(estimate: Estimate | null | undefined): Child {
  if (!estimate || estimate.low === null || estimate.high === null) return null;
  return s("svg", { class: "interval", viewBox: "0 0 60 8", "aria-hidden": "true" },
    s("line", { class: "grid", x1: 0, x2: 60, y1: 4, y2: 4 }),
    s("line", { class: "range", x1: 60 * estimate.low, x2: 60 * estimate.high, y1: 4, y2: 4 }),
    s("circle", { class: "point", cx: 60 * estimate.value, cy: 4, r: 2.5 }),
  );
}

function failures(run: Overview): HTMLElement {
  return h(
    "section",
    { class: "panel", "aria-labelledby": "failures-title" },
    h("h2", { id: "failures-title" }, "Failures"),
    h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, ["cause", "dataset", "method", "episodes"].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, run.failures.map((each) => h("tr", {}, h("th", { scope: "row" }, line(each.cause, 60)), h("td", {}, line(each.dataset, 40)), h("td", {}, line(each.method_title, 40)),
        h("td", {}, h("a", { href: `/episodes?${new URLSearchParams({ dataset: each.dataset, method: each.method, outcome: "failed" })}` }, whole(each.question_ids.length)))))))),
  );
}

function episodesOf(cell: Cell): string {
  return `/episodes?${new URLSearchParams({ method: cell.method, ...(cell.dataset === "mean" ? {} : { dataset: cell.dataset }) })}`;
}
