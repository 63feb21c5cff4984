// Which page this is, by its address.

import { get } from "./api.ts";
import { frame, onKey, problem } from "./chrome.ts";
import { comparePage } from "./compare_page.ts";
import { h, replace } from "./dom.ts";
import { episodePage } from "./episode_page.ts";
import { episodesPage } from "./episodes_page.ts";
import { overviewPage } from "./overview_page.ts";
import type { About } from "./schema.ts";

async function start(): Promise<void> {
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

start().catch((error: unknown) => { document.body.replaceChildren(problem(error)); });
