// Two methods on the same question, side by side, on common axes.

import { get } from "./api.ts";
import { onKey } from "./chrome.ts";
import { h, replace } from "./dom.ts";
import { episodeView, question } from "./episode.ts";
import { promptsOf, rivalLinks } from "./episode_page.ts";
import type { Episode, Row } from "./schema.ts";

export async function comparePage(main: HTMLElement, first: number, second: number): Promise<void> {
  const ids = [first, second];
  const [sides, others] = await Promise.all([Promise.all(ids.map((id) => get<Episode>(`/api/episode/${id}`))), get<Row[]>(`/api/episode/${first}/others`)]);
  const [left, right] = sides as [Episode, Episode];
  document.title = `${left.method_title} and ${right.method_title} \u2013 BeliefRAG viewer`;
  const same = left.dataset === right.dataset && left.question_id === right.question_id;
  const choosable = same && others.length > 2;
  const most = Math.max(left.steps.length, right.steps.length);
  const side = (episode: Episode, place: number): HTMLElement => {
    return h("section", { class: "side", "aria-label": episode.method_title },
      h("header", { class: "sidehead" },
        h("h2", {}, episode.method_title),
        choosable && rivalLinks(place ? "On the right" : "On the left", others, episode.id, (id) => (place ? `/compare/${first}/${id}` : `/compare/${id}/${second}`)),
        h("a", { class: "button", href: `/episode/${episode.id}` }, "alone")),
      h("div", {}, !same && question(episode)),
      episodeView(episode, promptsOf(episode.id), most),
    );
  };
  replace(
    main,
    same ? h("div", { class: "top" }, question(left)) : h("p", { class: "panel warn" }, "These are episodes on different questions."),
    h("div", { class: "sides" }, side(left, 0), side(right, 1)),
  );
  onKey(["u"], "the left one alone", () => { location.href = `/episode/${first}`; });
  onKey(["s"], "change sides", () => { location.href = `/compare/${second}/${first}`; });
}
