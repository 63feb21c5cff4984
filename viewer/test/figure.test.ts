import assert from "node:assert/strict";
import { test } from "node:test";
import { spots } from "../src/figure.ts";
import type { Cell } from "../src/schema.ts";

const estimate = (mean: number) => ({ mean, low: null, high: null, n: 20, few: false });

test("a point has the tokens of the questions that its F1 is over", () => {
  const cell = { method: "static", method_title: "Static", measures: { f1: estimate(0.5), tokens: estimate(900), tokens_beside_f1: estimate(100) } } as unknown as Cell;
  const alike = { ...cell, measures: { ...cell.measures, tokens: estimate(100) } };
  assert.equal(spots([cell], 1000)[0]?.x, spots([alike], 1000)[0]?.x);
  const dearer = { ...cell, measures: { ...cell.measures, tokens_beside_f1: estimate(200) } };
  assert.ok((spots([dearer], 1000)[0]?.x ?? 0) > (spots([cell], 1000)[0]?.x ?? 0));
});

test("a method without F1 has no point", () => {
  const cell = { method: "static", method_title: "Static", measures: { f1: null, tokens: estimate(900), tokens_beside_f1: null } } as unknown as Cell;
  assert.deepEqual(spots([cell], 1000), []);
});
