// The page of one episode: from a run with its neighbours and rivals, from a trace, or from the page to ask in.

import { get, getEpisode } from "./api.ts";
import { onKey } from "./chrome.ts";
import { h, replace, type Child } from "./dom.ts";
import { episodeView, question } from "./episode.ts";
import { listed } from "./episodes_page.ts";
import { share, whole } from "./format.ts";
import { currentState, keeping, refresh } from "./refresh.ts";
import type { About, Episode, Neighbours, Row } from "./schema.ts";
import { correctness } from "./signs.ts";
import { followAnchor } from "./steps.ts";
import { line, plain } from "./text.ts";

export async function episodePage(main: HTMLElement, about: About, id: number): Promise<void> {
  const [beside, others] = about.kind === "run"
    ? await Promise.all([get<Neighbours>(`/api/episode/${id}/neighbours${listed()}`), get<Row[]>(`/api/episode/${id}/others`)])
    : [null, []];
  const draw = async (): Promise<void> => {
    const episode = await getEpisode(id);
    const name = episode.question ?? episode.question_id;
    document.title = `${plain(name, 60)} \u2013 ${episode.method_title}`;
    const restore = keeping(main);
    replace(
      main,
      h("div", { class: "top" }, question(episode), tools(episode, beside, others)),
      episodeView(episode),
    );
    restore();
  };
  // An episode of a run or of the page to ask in has ended; a trace can still grow.
  const drawn = about.kind === "trace" ? await currentState() : null;
  await draw();
  followAnchor();
  keys(beside, others, id);
  if (drawn !== null) refresh(draw, drawn);
}

function tools(episode: Episode, beside: Neighbours | null, others: readonly Row[]): HTMLElement {
  const rivals = others.filter((other) => other.id !== episode.id);
  return h(
    "div",
    { class: "tools" },
    h("span", { class: "muted" }, [episode.method_title, episode.dataset].filter(Boolean).map((name, place) => [place > 0 && " on ", line(name, 40)])),
    beside && place(beside),
    rivals.length > 0 && rivalLinks("Set beside", rivals, null, (other) => `/compare/${episode.id}/${other}`),
  );
}

/** The other methods on the same question, each with how it fared, as links. */
export function rivalLinks(label: string, rivals: readonly Row[], here: number | null, href: (id: number) => string): HTMLElement {
  return h("nav", { class: "rivals", "aria-label": label }, h("span", { class: "muted" }, label), rivals.map((other) =>
    h("a", { href: href(other.id), "aria-current": other.id === here ? "true" : undefined, title: `${other.outcome}, F1 ${share(other.f1)}, ${whole(other.tokens)} tokens` }, line(other.method_title, 40), " ", correctness(other.correctness))));
}

function place({ place: at, total, previous, next }: Neighbours): Child {
  const link = (id: number | null, label: string): Child => (id === null ? h("span", { class: "button off" }, label) : h("a", { class: "button", href: `/episode/${id}${listed()}` }, label));
  return [h("span", { class: "muted" }, at ? `${whole(at)} of ${whole(total)}` : ""), link(previous, "previous"), link(next, "next")];
}

function keys(beside: Neighbours | null, others: readonly Row[], id: number): void {
  const go = (to: number | null | undefined, where: string): void => { if (to !== null && to !== undefined) location.href = where; };
  if (!beside) return;
  onKey(["j", "n"], "next episode", () => { go(beside.next, `/episode/${beside.next}${listed()}`); });
  onKey(["k", "p"], "previous episode", () => { go(beside.previous, `/episode/${beside.previous}${listed()}`); });
  onKey(["c"], "beside the next method", () => {
    const at = others.findIndex((other) => other.id === id);
    const rival = others[(at + 1) % others.length]?.id;
    if (rival !== id) go(rival, `/compare/${id}/${rival}`);
  });
  onKey(["u"], "back to the episodes", () => { location.href = `/episodes${listed()}`; });
}
