import assert from "node:assert/strict";
import { test } from "node:test";
import { spots } from "../src/figure.ts";
import { overlap, placeLabels } from "../src/labels.ts";
import type { Cell } from "../src/schema.ts";

const estimate = (value: number) => ({ value, low: null, high: null, questions: 20, has_few_questions: false });

test("a point has the tokens of the questions that its F1 is over", () => {
  const cell = { method: "static", method_title: "Static", measures: { f1: estimate(0.5), tokens: estimate(900) }, tokens_beside_f1: estimate(100) } as unknown as Cell;
  const alike = { ...cell, measures: { ...cell.measures, tokens: estimate(100) } };
  assert.equal(spots([cell], 1000)[0]?.x, spots([alike], 1000)[0]?.x);
  const dearer = { ...cell, tokens_beside_f1: estimate(200) };
  assert.ok((spots([dearer], 1000)[0]?.x ?? 0) > (spots([cell], 1000)[0]?.x ?? 0));
});

test("a method without F1 has no point", () => {
  const cell = { method: "static", method_title: "Static", measures: { f1: null, tokens: estimate(900) }, tokens_beside_f1: null } as unknown as Cell;
  assert.deepEqual(spots([cell], 1000), []);
});

test("a name crosses no interval of another method where there is room beside it", () => {
  const lines = (x: number, y: number) => [{ x: x - 1, y: y - 30, width: 2, height: 60 }, { x: x - 8, y: y - 1, width: 16, height: 2 }];
  for (const right of [84, 160]) {
    const points = [["Static", 127, 251], ["Adaptive-k", 156, 261], ["CRAG", 187, 252]].map(([text, x, y]) => ({ text: String(text), x: Number(x), y: Number(y), lines: lines(Number(x), Number(y)) }));
    const labels = placeLabels(points, { x: 44, y: 2, width: 200 + right, height: 330 });
    labels.forEach((label, place) => {
      for (const other of points.filter((_, at) => at !== place)) {
        for (const line of other.lines) assert.ok(!overlap(label, line), `${points[place]?.text} crosses ${other.text}`);
      }
    });
  }
});
