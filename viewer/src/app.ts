// Which page this is: by its address, or an exported file that brings its episode along.

import { get, opened } from "./api.ts";
import { frame, onKey, problem } from "./chrome.ts";
import { comparePage } from "./compare_page.ts";
import { h, replace } from "./dom.ts";
import { episodeView, question } from "./episode.ts";
import { episodePage } from "./episode_page.ts";
import { episodesPage } from "./episodes_page.ts";
import { overviewPage } from "./overview_page.ts";
import type { About, EpisodeView, Prompts } from "./schema.ts";
import { plain } from "./text.ts";

async function start(): Promise<void> {
  const exported = document.getElementById("exported");
  if (exported) {
    showExported(JSON.parse(exported.textContent ?? "") as { episode: EpisodeView; prompts: Prompts });
    return;
  }
  const about = await get<About>("/api/about");
  const path = location.pathname;
  const links = about.kind === "run"
    ? [{ href: "/", label: "Run", here: path === "/" }, { href: "/episodes", label: "Episodes", here: path === "/episodes" }]
    : about.kind === "page" ? [{ href: "/", label: "Ask", here: false }] : [];
  const main = frame(about.name, links);
  if (about.kind === "run") onKey(["r"], "the run", () => { location.href = "/"; });
  replace(main, h("p", { class: "muted" }, "Reading \u2026"));
  const [, page, first, second] = path.split("/");
  try {
    if (page === "episodes") await episodesPage(main);
    else if (page === "episode") await episodePage(main, about, Number(first));
    else if (page === "compare") await comparePage(main, Number(first), Number(second));
    else await overviewPage(main);
  } catch (error) {
    replace(main, problem(error));
  }
}

function showExported({ episode: view, prompts }: { episode: EpisodeView; prompts: Prompts }): void {
  const episode = opened(view);
  const main = frame("exported episode", []);
  document.title = `${plain(episode.question ?? episode.question_id, 60)} \u2013 ${episode.method_title}`;
  replace(main, h("div", { class: "top" }, question(episode)), episodeView(episode, () => Promise.resolve(prompts)));
}

start().catch((error: unknown) => { document.body.replaceChildren(problem(error)); });
