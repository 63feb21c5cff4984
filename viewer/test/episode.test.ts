import assert from "node:assert/strict";
import { test } from "node:test";
import { labelled, place, series } from "../src/charts.ts";
import { passageIds, track } from "../src/evidence.ts";
import { roundUp } from "../src/figure.ts";
import { correctnessOf } from "../src/signs.ts";
import type { Episode, Step } from "../src/schema.ts";

const step = (number: number, changes: Partial<Step>): Step => ({
  number, action: "RETRIEVE", reason: "retrieve", why: "worth it", comparisons: [], legal: [], diagnostics: null, belief: null,
  answerability: null, retrieval_value: null, tokens: 0, flagged: [], attempt: null, search: null, rewritten: null, dropped: null, evidence: [], shown: [], calls: [], ...changes,
});
const episode = (steps: Step[], changes: Partial<Episode> = {}): Episode => ({ steps, calls: [], thresholds: {}, passages: {}, citations: [], answer: null, gold: null, method_title: "m", ...changes }) as unknown as Episode;

const tracks = (one: Episode) => passageIds([one]).map((id) => track(one, id));

test("a passage enters, stays, is dropped and is refused when it comes again", () => {
  const found = tracks(episode([
    step(0, { search: { query: "q", hits: [["a", 9.5], ["b", 8]], added: ["a", "b"], known: [], refused: [], found_by: {} } }),
    step(1, { action: "VERIFY", why: "the verifier flagged it", dropped: ["b"] }),
    step(2, { search: { query: "r", hits: [["b", 7], ["a", 6]], added: [], known: ["a"], refused: ["b"], found_by: {} } }),
    step(3, { action: "ANSWER" }),
  ]));
  assert.deepEqual(found.map(({ id, states }) => [id, states]), [
    ["a", ["entered", "stays", "again", "stays"]],
    ["b", ["entered", "dropped", "refused", "absent"]],
  ]);
  assert.deepEqual(found[1]?.history, [
    "Step 1: entered (rank 2, score 8.00): worth it",
    "Step 2: dropped: the verifier flagged it",
    "Step 3: found (rank 1, score 7.00) and refused: it was dropped earlier",
  ]);
});

test("a dropped passage that is taken back enters again", () => {
  const [found] = tracks(episode([
    step(0, { search: { query: "q", hits: [["a", 1]], added: ["a"], known: [], refused: [], found_by: {} }, evidence: ["a"] }),
    step(1, { action: "VERIFY", dropped: ["a"] }),
    step(2, { action: "ANSWER", evidence: ["a"] }),
  ]));
  assert.deepEqual(found?.states, ["entered", "dropped", "entered"]);
  assert.equal(found?.history.at(-1), "Step 3: came back: nothing better was found");
});

test("a supporting passage that was never found is shown, last", () => {
  const found = tracks(episode([step(0, { search: { query: "q", hits: [["a", 1]], added: ["a"], known: [], refused: [], found_by: {} } })], { gold: { answers: ["x"], supporting: ["z"] } }));
  assert.deepEqual(found.map(({ id, states }) => [id, states]), [["a", ["entered"]], ["z", ["absent"]]]);
});

test("charts show what the method has, with the thresholds that are in force", () => {
  const held = { sufficiency: 0.3, reliability: 0.5, conflict: 0, uncertainty: 0.6, gap: 0.9, cost: 0 };
  const drawn = series([episode([step(0, { belief: held, answerability: 0.2 })], { thresholds: { answer: 0.5, conflict: 0.4 } })]);
  assert.deepEqual(drawn.map(({ title }) => title), ["answerability", "sufficiency", "reliability", "conflict", "uncertainty", "gap", "cost"]);
  assert.deepEqual(drawn[0]?.thresholds, [{ value: 0.5, label: "answer \u2265" }]);
  assert.deepEqual(drawn[1]?.thresholds, []);
  assert.deepEqual(series([episode([step(0, {})])]), []);
});

test("a value outside 0 and 1 stays in the picture", () => {
  assert.equal(place(0, 7, 3).y, place(0, 1, 3).y);
  assert.equal(place(0, -1, 3).y, place(0, 0, 3).y);
});

test("labels of thresholds stand beside their lines and never touch", () => {
  const [first, second] = labelled([{ value: 0.45, label: "abstain <" }, { value: 0.5, label: "answer \u2265" }]);
  assert.equal(first?.told, "answer \u2265 0.50");
  assert.equal(first?.y, place(0, 0.5, 2).y);
  assert.ok((second?.y ?? 0) - (first?.y ?? 0) >= 11);
});

test("the judge's word goes before F1, and no score is not wrong", () => {
  assert.equal(correctnessOf({ judge: 1, f1: 0 }), "right");
  assert.equal(correctnessOf({ judge: null, f1: 0.4 }), "partly");
  assert.equal(correctnessOf({}), "unscored");
});

test("a scale ends on a round number", () => {
  assert.deepEqual([0, 1, 870, 1200, 5000, 8468].map(roundUp), [1, 1, 1000, 2000, 5000, 10000]);
});
