// When each model call of an episode was made and how long it took, as bars on one axis.

import { s } from "./dom.ts";
import { seconds } from "./format.ts";
import type { Call } from "./schema.ts";

export interface Bar { readonly start: number; readonly end: number }
export interface Waterfall {
  /** One for each call; null where nobody knows how long it took. */
  readonly bars: readonly (Bar | null)[];
  readonly total: number;
  /** Whether the bars stand where the calls were made; otherwise they stand one after the other. */
  readonly onClock: boolean;
}

/** By the clock where every time is known and no reply was recorded earlier; otherwise one after the other. */
export function waterfall(calls: readonly Call[]): Waterfall {
  const onClock = calls.every(({ at, seconds: took, cached }) => at !== null && took !== null && cached === false);
  let now = 0;
  const bars = calls.map(({ at, seconds: took }) => {
    if (took === null) return null;
    const end = onClock && at !== null ? at : (now += took);
    return { start: Math.max(0, end - took), end };
  });
  return { bars, total: Math.max(0, ...bars.map((bar) => bar?.end ?? 0)), onClock };
}

export function describe({ onClock, total }: Waterfall, calls: readonly Call[]): string {
  const cached = calls.filter((call) => call.cached).length;
  if (onClock) return `Bars show when the calls were made, from 0 to ${seconds(total)}.`;
  const why = cached ? `${cached} of ${calls.length} replies came from the cache, so the bars show the time that each took when it was made` : "When the calls were made is not recorded";
  return `${why}; they stand one after the other, ${seconds(total)} in all.`;
}

/** One bar on the axis that all calls share. */
export function drawBar(bar: Bar | null, total: number, cached: boolean | null): SVGElement | null {
  if (!bar || total <= 0) return null;
  const from = (1000 * bar.start) / total;
  const told = `${seconds(bar.start)} to ${seconds(bar.end)}`;
  return s(
    "svg",
    { class: "bar-of-call", viewBox: "0 0 1000 10", preserveAspectRatio: "none", role: "img", "aria-label": told },
    s("title", {}, told),
    s("rect", { class: "lane", x: 0, y: 4.5, width: 1000, height: 1 }),
    s("rect", { class: cached ? "span cached" : "span", x: from, y: 1, width: Math.max(4, (1000 * (bar.end - bar.start)) / total), height: 8 }),
  );
}
