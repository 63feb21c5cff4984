// Where the names of points stand in a picture, so that no name covers a point or another name.

export interface Box { readonly x: number; readonly y: number; readonly width: number; readonly height: number }
export interface Point { readonly x: number; readonly y: number; readonly text: string; /** Lines that names should rather not cross. */ readonly lines: readonly Box[] }

export const HEIGHT = 14;
const LETTER = 7.4;
const RADIUS = 7;
const WAYS: readonly [number, number][] = [[1, 0], [-1, 0], [0, -1], [0, 1], [1, -1], [1, 1], [-1, -1], [-1, 1]];
const DISTANCES = [10, 14, 18, 23, 28, 35, 42, 50, 60, 72, 84];
// How much further away a name may stand, in pixels, to cross one line less.
const LINE_COST = 30;

/** A box for the name of each point, all of them within the bounds. */
export function placeLabels(points: readonly Point[], bounds: Box): Box[] {
  const taken: Box[] = points.map(({ x, y }) => ({ x: x - RADIUS, y: y - RADIUS, width: 2 * RADIUS, height: 2 * RADIUS }));
  const lines = points.flatMap((point) => point.lines);
  return points.map((point) => {
    const width = point.text.length * LETTER;
    const isFree = (box: Box): boolean => within(box, bounds) && !taken.some((other) => overlap(box, other));
    const near = [...around(point, width)].filter(isFree).map((box) => {
      const away = distance(point, box);
      const nearer = points.some((other) => other !== point && distance(other, box) < away);
      return { box, cost: away + LINE_COST * lines.filter((one) => overlap(box, one)).length + (nearer ? 40 : 0) };
    });
    const best = near.length ? near.reduce((one, other) => (other.cost < one.cost ? other : one)).box : undefined;
    const box = best ?? [...everywhere(bounds, width)].find(isFree) ?? { x: bounds.x, y: bounds.y, width, height: HEIGHT };
    taken.push(box);
    return box;
  });
}

function distance({ x, y }: Point, box: Box): number {
  return Math.hypot(Math.max(box.x - x, 0, x - box.x - box.width), Math.max(box.y - y, 0, y - box.y - box.height));
}

export function overlap(a: Box, b: Box): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

function* around({ x, y }: Point, width: number): Generator<Box> {
  for (const away of DISTANCES) {
    for (const [right, down] of WAYS) {
      const left = right > 0 ? x + away : right < 0 ? x - away - width : x - width / 2;
      yield { x: left, y: y - HEIGHT / 2 + down * (away + (right ? 0 : 2)), width, height: HEIGHT };
    }
  }
}

// Where everything near is taken, the first free place from the right edge on; a line leads there.
function* everywhere(bounds: Box, width: number): Generator<Box> {
  for (let x = bounds.x + bounds.width - width; x >= bounds.x; x -= 20) {
    for (let y = bounds.y; y + HEIGHT <= bounds.y + bounds.height; y += HEIGHT + 1) yield { x, y, width, height: HEIGHT };
  }
}

function within(box: Box, bounds: Box): boolean {
  return box.x >= bounds.x && box.y >= bounds.y && box.x + box.width <= bounds.x + bounds.width && box.y + box.height <= bounds.y + bounds.height;
}
