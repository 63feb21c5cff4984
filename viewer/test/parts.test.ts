import assert from "node:assert/strict";
import { test } from "node:test";
import { alikeCalls, alikeSteps, parting } from "../src/difference.ts";
import { overlap, placeLabels, type Box } from "../src/labels.ts";
import { occurrences, segments, spansOf } from "../src/spans.ts";
import type { Call, Episode, Step } from "../src/schema.ts";
import { numberedPassages } from "../src/verdicts.ts";
import { waterfall } from "../src/waterfall.ts";

const found = (text: string, phrase: string) => occurrences(text, phrase, "answer").map(({ start, end }) => text.slice(start, end));
const call = (changes: Partial<Call>): Call => ({ step: 0, purpose: "answer", reply: "x", tokens_in: 1, seconds: 1, at: null, cached: null, ...changes }) as Call;
const step = (action: string, changes: Partial<Step> = {}): Step => ({ action, search: null, rewritten: null, dropped: [], evidence: [], ...changes }) as unknown as Step;
const episode = (changes: Partial<Episode>): Episode => ({ steps: [], calls: [], passages: {}, citations: [], answer: null, gold: null, method_title: "m", ...changes }) as unknown as Episode;

test("an answer is found as whole words, whatever its case, white space and signs", () => {
  assert.deepEqual(found("born in New\n York, not in New Yorkshire", "new york"), ["New\n York"]);
  assert.deepEqual(found("C++ (1985) and C", "C++ (1985)"), ["C++ (1985)"]);
  assert.deepEqual(found("co-op shop", "co-op"), ["co-op"]);
  assert.deepEqual(found("\u00c9mile", "\u00e9mile"), ["\u00c9mile"]);
  assert.deepEqual(found("yes, a yes", "Yes"), []);
  assert.deepEqual(found("a b", " a "), []);
});

test("marks that overlap share a segment, and nothing of the text is lost", () => {
  const cut = segments(10, [{ start: 2, end: 6, kind: "answer" }, { start: 4, end: 20, kind: "cited" }, { start: 3, end: 3, kind: "cited" }]);
  assert.deepEqual(cut.map(({ start, end, kinds }) => [start, end, kinds.join(" ")]), [[0, 2, ""], [2, 4, "answer"], [4, 6, "answer cited"], [6, 10, "cited"]]);
  assert.deepEqual(segments(0, []), []);
});

test("citations and shown sentences count characters of any plane as one", () => {
  const passages = { p: { id: "p", title: "", text: "\u{1f680} Fram. Archer.", source: "", place: "" } };
  const packed = [step("ANSWER", { shown: [{ passage_id: "p", spans: [[2, 7]] }] })];
  const spans = spansOf(episode({ passages, citations: [{ passage_id: "p", span: [2, 7], role: "" }], steps: packed }), "p");
  assert.deepEqual(spans.map(({ start, end, kind }) => [passages.p.text.slice(start, end), kind]), [["Fram.", "cited"], ["\u{1f680} ", "unshown"], [" Archer.", "unshown"]]);
});

test("calls stand where they were made if that is known and no reply was recorded earlier", () => {
  const live = waterfall([call({ at: 2, seconds: 1.5, cached: false }), call({ at: 5, seconds: 1, cached: false })]);
  assert.deepEqual(live, { bars: [{ start: 0.5, end: 2 }, { start: 4, end: 5 }], total: 5, onClock: true });
  const replayed = waterfall([call({ at: 0.1, seconds: 1.5, cached: true }), call({ at: 0.2, seconds: 1, cached: true })]);
  assert.deepEqual(replayed, { bars: [{ start: 0, end: 1.5 }, { start: 1.5, end: 2.5 }], total: 2.5, onClock: false });
});

test("numbers of a verdict get the titles of the evidence, not those of worked examples", () => {
  const content = '<passage id="1" title="Example">x</passage>\n<passage id="2" title="Other">x</passage>\nNow\n<passage id="1" title="Fram">A ship</passage>\n<passage id="2">Untitled text</passage>';
  const named = numberedPassages([{ role: "user", content }], '{"unhelpful_doc_ids": [2], "support": 1}');
  assert.deepEqual(named, [{ number: 1, title: "Fram", verdict: "" }, { number: 2, title: "Untitled text\u2026", verdict: "unhelpful" }]);
  assert.deepEqual(numberedPassages([{ role: "user", content }], '{"grades": [0.9, 0.1]}').map(({ verdict }) => verdict), ["graded 0.9", "graded 0.1"]);
  assert.deepEqual(numberedPassages([{ role: "user", content: "no passage" }], "yes"), []);
});

test("two episodes part at the first step that does something else", () => {
  const search = (query: string, id: string) => ({ query, hits: [[id, 1]] as [string, number][], added: [id], known: [], refused: [], found_by: {} });
  const left = episode({ method_title: "A", steps: [step("RETRIEVE", { search: search("q", "a") }), step("VERIFY")] });
  const right = episode({ method_title: "B", steps: [step("RETRIEVE", { search: search("q", "a") }), step("ANSWER")] });
  assert.equal(alikeSteps(left, right), 1);
  assert.equal(parting(left, right, 1), "A chooses VERIFY, B ANSWER");
  const other = episode({ method_title: "C", steps: [step("RETRIEVE", { search: search("r", "a") })] });
  assert.equal(alikeSteps(left, other), 0);
  assert.equal(parting(left, other, 0), "both choose RETRIEVE, with different queries");
  assert.equal(alikeSteps(left, left), 2);
  assert.equal(parting(left, { ...left, method_title: "D", steps: left.steps.slice(0, 1) }, 1), "D has ended, A goes on with VERIFY");
  assert.equal(alikeCalls(episode({ calls: [call({}), call({ reply: "y" })] }), episode({ calls: [call({}), call({})] })), 1);
});

test("no name covers a point or another name, however the points lie", () => {
  const bounds: Box = { x: 44, y: 2, width: 574, height: 286 };
  let seed = 1;
  const random = (): number => (seed = (seed * 48271) % 2147483647) / 2147483647;
  for (let round = 0; round < 300; round++) {
    const spread = [1, 0.2, 0.02, 0][round % 4] ?? 1;
    const points = Array.from({ length: 12 }, (_, place) => ({
      x: 44 + 456 * (0.3 + 0.7 * spread * random()), y: 26 + 260 * (0.2 + 0.7 * spread * random()), text: "Adaptive-RAG*".slice(0, 6 + (place % 8)), lines: [],
    }));
    const labels = placeLabels(points, bounds);
    labels.forEach((label, place) => {
      for (const { x, y } of points) assert.ok(!overlap(label, { x: x - 5, y: y - 5, width: 10, height: 10 }), "covers a point");
      for (const other of labels.slice(0, place)) assert.ok(!overlap(label, other), "covers a name");
      assert.ok(label.x >= bounds.x && label.x + label.width <= bounds.x + bounds.width);
    });
  }
});
