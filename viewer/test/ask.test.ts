import assert from "node:assert/strict";
import { test } from "node:test";

import { explanation, placeOf } from "../src/ask_answer.ts";
import { problemWords, takeEvents } from "../src/ask_api.ts";
import { readHistory } from "../src/ask_history.ts";
import { stepLine, waitingFor, written } from "../src/ask_steps.ts";
import { quotedParts } from "../src/quotes.ts";

test("a span counts characters as Python does, also after those that take two units", () => {
  const text = "\u{1f6eb} fly. It is so.";
  assert.deepEqual(quotedParts(text, [[7, 16]]), [
    { text: "\u{1f6eb} fly. ", quoted: false },
    { text: "It is so.", quoted: true },
  ]);
});

test("spans that overlap become one, and those outside of the text or of another form are left out", () => {
  const wrong = [[5, 2], [-1, 3], [90, 99], [0.5, 2]] as [number, number][];
  assert.deepEqual(quotedParts("abcdef", [[3, 5], [1, 4], ...wrong]), [
    { text: "a", quoted: false },
    { text: "bcde", quoted: true },
    { text: "f", quoted: false },
  ]);
  assert.deepEqual(quotedParts("", [[0, 1]]), []);
});

test("events are taken from a stream as soon as they are whole", () => {
  const [events, rest] = takeEvents('id: 0\nevent: started\ndata: {"a":1}\n\n: still here\n\nevent: result\ndata: {"b"');
  assert.deepEqual(events, [{ name: "started", data: { a: 1 } }]);
  assert.equal(rest, 'event: result\ndata: {"b"');
});

test("an answer grows while it is written, and begins again where the model does", () => {
  const shown = (before: string, at: number, text: string): string => written(before, { name: "answer_text", data: { at, text } });
  assert.equal(shown("\u{1f6eb} fl", 4, "ies"), "\u{1f6eb} flies");
  assert.equal(shown("\u{1f6eb} flies", 0, "It"), "It");
});

test("a stored history of another form is left out", () => {
  const answer = { id: "x", outcome: "answered", answer: "a", answerability: 0.5, reason: "r", sources: [], usage: { tokens: 1 }, calibration: "", guarantee: null };
  const asked = { question: "q", at: "t", seconds: 1, answer };
  assert.deepEqual(readHistory(JSON.stringify([asked, { question: 1 }, null, { ...asked, answer: { ...answer, outcome: "<b>" } }])), [asked]);
  for (const content of [null, "", "{", "{}", "1", '"x"']) assert.deepEqual(readHistory(content), []);
});

test("steps are shown in words", () => {
  const passages = { 1: { title: "Travel" }, 2: { title: "Travel" }, 3: { title: "Leave" } };
  const searched = (added: string[], found_by = {}) => stepLine({ name: "step", data: { action: "RETRIEVE", search: { query: "limit", added, found_by }, passages } });
  assert.deepEqual(searched(["1", "2"]), { text: "Searched", detail: "limit: found 2 passages in Travel" });
  assert.match(searched(["1", "3"], { 3: { way: "link", passage: "1", name: "Leave" } })?.detail ?? "", /found 2 passages in Travel; Leave, 1 of them along names$/);
  assert.equal(stepLine({ name: "step", data: { action: "RETRIEVE", search: { query: null } } })?.text, "No further search");
  assert.deepEqual(stepLine({ name: "step", data: { action: "REWRITE", rewritten: "limit of trips" } }), { text: "Searching with other words", detail: "limit of trips" });
  assert.equal(stepLine({ name: "step", data: { action: "REWRITE", rewritten: "SUFFICIENT" } })?.text, "Nothing more to search for");
  assert.equal(stepLine({ name: "step", data: { action: "VERIFY", dropped: ["1"] } })?.text, "Dropped 1 passage that did not help");
  assert.equal(stepLine({ name: "call_started", data: {} }), null);
  assert.equal(waitingFor({ name: "call_started", data: { purpose: "answer" } }), "Writing the answer");
  assert.equal(waitingFor({ name: "waiting", data: { place: 2 } }), "Other questions come first: place 2 in the queue");
});

test("an answer says why it ended so and what would change it", () => {
  assert.equal(explanation({ why: "Searched once. It can be answered.", would_change: "a document that says otherwise" }), "Searched once. It can be answered. What would change it: a document that says otherwise.");
});

test("places and problems are shown without what only machines read", () => {
  assert.equal(placeOf({ id: "1", title: "Travel", excerpt: "", source: "travel.md", place: "page 3" }), "Travel \u00b7 travel.md, page 3");
  assert.equal(placeOf({ id: "1", title: "", excerpt: "", source: "" }), "passage");
  assert.equal(problemWords({ detail: "Busy.", remedy: "Later." }, 429), "Busy. Later.");
  assert.equal(problemWords(null, 502), "The server answered 502.");
});
