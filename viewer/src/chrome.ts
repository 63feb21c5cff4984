// What every page has: the bar at the top, light or dark, the keys and their help.

import { h, type Child } from "./dom.ts";
import { line } from "./text.ts";

export interface Key { readonly keys: string[]; readonly does: string; readonly act: () => void }

const THEMES = ["as the system", "light", "dark"] as const;
const keys: Key[] = [];

/** Builds the page and gives the place for its content. */
export function frame(name: string, links: { href: string; label: string; here: boolean }[]): HTMLElement {
  const main = h("main", { id: "main", tabindex: "-1" });
  document.body.replaceChildren(
    h("a", { class: "skip", href: "#main" }, "Skip to the content"),
    h(
      "header",
      { class: "bar" },
      h("span", { class: "brand" }, "BeliefRAG"),
      h("nav", { "aria-label": "Pages" }, links.map(({ href, label, here }) => h("a", { href, "aria-current": here ? "page" : undefined }, label))),
      h("span", { class: "what" }, line(name, 80)),
      themeButton(),
      h("button", { type: "button", click: help, "aria-keyshortcuts": "?" }, "keys ", h("kbd", {}, "?")),
    ),
    main,
  );
  onKey(["?"], "this help", help);
  onKey(["Escape"], "close, leave the field", () => { (document.activeElement as HTMLElement | null)?.blur(); });
  document.addEventListener("keydown", pressed);
  return main;
}

/** Says something to a screen reader without moving anything. */
export function announcer(): (told: string) => void {
  const place = h("p", { class: "aside", role: "status", "aria-live": "polite" });
  document.body.append(place);
  return (told) => { place.textContent = told; };
}

export function onKey(names: string[], does: string, act: () => void): void {
  keys.push({ keys: names, does, act });
}

export function problem(error: unknown): HTMLElement {
  const told = error instanceof Error ? error.message : String(error);
  return h("p", { class: "panel warn", role: "alert" }, line(told, 600));
}

function pressed(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const at = event.target as HTMLElement;
  const typing = at.matches("input, select, textarea");
  if (typing && event.key !== "Escape") return;
  if (document.querySelector("dialog[open]")) return;
  const found = keys.find((each) => each.keys.includes(event.key));
  if (!found) return;
  event.preventDefault();
  found.act();
}

function help(): void {
  const rows: Child[] = keys.map((each) =>
    h("tr", {}, h("th", { scope: "row" }, each.keys.map((key) => [h("kbd", {}, key), " "])), h("td", {}, each.does)),
  );
  const dialog = h(
    "dialog",
    { "aria-label": "Keys", close: () => { dialog.remove(); } },
    h("h2", {}, "Keys"),
    h("table", {}, h("tbody", {}, rows)),
    h("button", { type: "button", click: () => { dialog.close(); } }, "close"),
  );
  document.body.append(dialog);
  dialog.showModal();
}

function themeButton(): HTMLElement {
  const button = h("button", { type: "button", class: "theme" });
  const show = (theme: string): void => {
    if (theme === "light" || theme === "dark") document.documentElement.dataset["theme"] = theme;
    else delete document.documentElement.dataset["theme"];
    button.textContent = `colours: ${theme}`;
  };
  let now = THEMES.find((theme) => theme === remembered()) ?? "as the system";
  show(now);
  button.addEventListener("click", () => {
    now = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length] ?? "as the system";
    remember(now);
    show(now);
  });
  return button;
}

// Storage may be blocked: then the choice lasts as long as the page.
function remembered(): string | null {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null;
  }
}

function remember(theme: string): void {
  try {
    localStorage.setItem("theme", theme);
  } catch {
    return;
  }
}
