// Small SVG charts. They are drawn anew in whole at each step, four times a second.

const svgNS = "http://www.w3.org/2000/svg";

/** Makes an element with attributes and children. */
export function svg(tag, attributes = {}, ...children) {
  const e = document.createElementNS(svgNS, tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

/** The next of 1, 2, 5, 10, … that is not below n. */
export function nice(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 1e-9)));
  return [1, 2, 5, 10].find((f) => f * power >= n * 0.9999) * power;
}

const format = (n) => (n >= 1000 ? `${n / 1000}k` : String(+n.toFixed(2)));

/** A path around the area between two lines, which are lists of [x, y]. */
function area(upper, lower) {
  const points = upper.concat(lower.toReversed());
  return `M${points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}Z`;
}

const up = ["redis", "memory", "open"];
const down = ["refused", "unavailable"];
const sum = (point, kinds) => kinds.reduce((n, kind) => n + point[kind], 0);

/** The scale holds still: it grows at once, and shrinks when the high is out of sight. */
function scaleOf(points) {
  const above = Math.max(1, ...points.map((p) => Math.max(sum(p, up), p.limit * 1.05)));
  const below = Math.max(0.25 * above, ...points.map((p) => sum(p, down)));
  return { above: above * 1.08, below: below * 1.08 };
}

function shadeCuts(node, points, x, height) {
  let from = null;
  for (const p of points) {
    if (p.cut && from === null) from = p.t;
    if (!p.cut && from !== null) {
      node.append(svg("rect", { class: "cut", x: x(from), y: 0, width: Math.max(0, x(p.t) - x(from)), height }));
      from = null;
    }
  }
  if (from !== null) node.append(svg("rect", { class: "cut", x: x(from), y: 0, width: Math.max(0, x(points.at(-1).t) - x(from)), height }));
}

/** Areas stacked on one another, away from the zero line. */
function stack(node, points, kinds, x, y) {
  let base = points.map((p) => [x(p.t), y(0)]);
  const totals = points.map(() => 0);
  for (const kind of kinds) {
    points.forEach((p, i) => { totals[i] += p[kind]; });
    const line = points.map((p, i) => [x(p.t), y(totals[i])]);
    if (points.some((p) => p[kind] > 0)) node.append(svg("path", { class: "area", "data-kind": kind, d: area(line, base) }));
    base = line;
  }
}

/** The main chart: admitted above the zero line, refused below, over a span of time. */
export function drawFlow(node, points, notes, now, span) {
  const { width, height } = node.getBoundingClientRect();
  if (!width || points.length < 2) return;
  const left = 44, right = 16, top = 34, bottom = 22;
  const { above, below } = scaleOf(points);
  const x = (t) => left + (width - left - right) * (1 - (now - t) / span);
  const unit = (height - top - bottom) / (above + below);
  const zero = top + above * unit;
  const y = (n) => zero - n * unit;
  const visible = points.filter((p) => p.t >= now - span);
  node.replaceChildren();

  shadeCuts(node, visible, x, height - bottom);
  const step = nice((above + below) / 6);
  for (let n = -Math.floor(below / step) * step; n <= above; n += step) {
    if (Math.abs(n) < step / 2) continue;
    node.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(n), y2: y(n) }),
      svg("text", { x: left - 8, y: y(n) + 4, "text-anchor": "end" }, format(Math.abs(n))));
  }
  stack(node, visible, up, x, y);
  stack(node, visible, down, x, (n) => zero + n * unit);
  node.append(svg("line", { class: "zero", x1: left, x2: width - right, y1: zero, y2: zero }),
    svg("text", { x: left - 8, y: zero + 4, "text-anchor": "end" }, "0"));
  drawLimit(node, visible, x, y, width - right);
  for (let s = 0; s <= span / 1000; s += width < 500 ? 20 : 10) {
    node.append(svg("text", { x: x(now - s * 1000), y: height - 6, "text-anchor": s ? "middle" : "end" }, s ? `−${s} s` : "now"));
  }
  drawNotes(node, notes.filter((n) => n.at >= now - span), x, zero, left, width - right);
}

function drawLimit(node, points, x, y, end) {
  let d = "", last = null;
  for (const p of points) {
    if (last !== null && last !== p.limit) d += `L${x(p.t)} ${y(last)}`;
    if (last !== p.limit) d += `${d ? "L" : "M"}${x(p.t)} ${y(p.limit)}`;
    last = p.limit;
  }
  d += `L${x(points.at(-1).t)} ${y(last)}`;
  node.append(svg("path", { class: "limit", d }));
  node.append(svg("text", { class: "strong", x: end, y: y(last) - 6, "text-anchor": "end" }, `limit ${format(+last.toFixed(1))}/s`));
}

/** Notes stand in two rows, so that two in short order can both be read. */
function drawNotes(node, notes, x, zero, left, right) {
  const ends = [-Infinity, -Infinity];
  for (const n of notes) {
    const at = x(n.at), width = n.text.length * 6.2 + 12;
    const flips = at + width > right; // at the edge, the words stand before the mark
    const start = flips ? at - width : at;
    const row = ends.findIndex((end) => end <= start);
    node.append(svg("line", { class: "mark", x1: at, x2: at, y1: row === 1 ? 22 : 6, y2: zero }));
    if (row < 0 || start < left) continue; // no room: the mark alone
    ends[row] = start + width;
    node.append(svg("text", { x: flips ? at - 5 : at + 5, y: row ? 30 : 14, "text-anchor": flips ? "end" : "start" }, n.text));
  }
}

/** The chart of one instance: the same in small, without words, on one scale for all instances. */
export function drawSpark(node, points, index, now, span) {
  const { width, height } = node.getBoundingClientRect();
  const all = points.filter((p) => p.t >= now - span && p.instances[index]);
  node.replaceChildren();
  if (!width || all.length < 2) return;
  const flows = all.flatMap((p) => p.instances);
  const above = Math.max(1, ...flows.map((f) => sum(f, up)));
  const below = Math.max(above / 4, ...flows.map((f) => sum(f, down)));
  const unit = (height - 2) / (above + below);
  const zero = 1 + above * unit;
  const x = (t) => width * (1 - (now - t) / span);
  shadeCuts(node, all, x, height);
  const own = all.map((p) => ({ t: p.t, ...p.instances[index] }));
  stack(node, own, up, x, (n) => zero - n * unit);
  stack(node, own, down, x, (n) => zero + n * unit);
  node.append(svg("line", { class: "zero", x1: 0, x2: width, y1: zero, y2: zero }));
}

/** A lane of a comparison: a bar for each tenth of a second, admitted above, others below. */
export function drawLane(node, lane, trial, highest) {
  const { width, height } = node.getBoundingClientRect();
  if (!width) return;
  const bottom = 18, bin = 100, bars = Math.ceil(trial.length / bin);
  const x = (t) => width * t / trial.length;
  const zero = (height - bottom) * highest.above / (highest.above + highest.below);
  const unit = (zero - 4) / highest.above;
  node.replaceChildren();
  for (const [from, to] of trial.cuts ?? []) {
    node.append(svg("rect", { class: "cut", x: x(from), y: 0, width: x(Math.min(to, trial.elapsed)) - x(from), height: height - bottom }));
  }
  for (let t = 0; t <= trial.length; t += trial.per) {
    if (t) node.append(svg("line", { class: "mark", x1: x(t), x2: x(t), y1: 0, y2: height - bottom }));
    node.append(svg("text", { x: x(t), y: height - 4, "text-anchor": t ? "middle" : "start" }, `${t / 1000} s`));
  }
  const counts = binned(lane.dots, bin, bars);
  const barWidth = Math.max(1.5, width / bars - 1);
  counts.forEach((kinds, i) => {
    let above = 0, below = 0;
    for (const kind of [...up, ...down, "broken"]) {
      const n = kinds[kind] ?? 0;
      if (!n) continue;
      const admitted = up.includes(kind);
      const y = admitted ? zero - (above + n) * unit : zero + below * unit;
      node.append(svg("rect", { class: "area", "data-kind": kind === "broken" ? "unavailable" : kind, x: x(i * bin), y, width: barWidth, height: n * unit }));
      if (admitted) above += n; else below += n;
    }
  });
  node.append(svg("line", { class: "zero", x1: 0, x2: width, y1: zero, y2: zero }));
}

function binned(dots, bin, bars) {
  const counts = Array.from({ length: bars }, () => ({}));
  for (const [at, kind] of dots) {
    const i = Math.min(bars - 1, Math.floor(at / bin));
    counts[i][kind] = (counts[i][kind] ?? 0) + 1;
  }
  return counts;
}

/** The highest bars of a trial, so that its lanes have one scale. */
export function heights(trial) {
  let above = 3, below = 3;
  for (const lane of trial.lanes) {
    for (const kinds of binned(lane.dots, 100, Math.ceil(trial.length / 100))) {
      above = Math.max(above, sum({ redis: 0, memory: 0, open: 0, ...kinds }, up));
      below = Math.max(below, sum({ refused: 0, unavailable: 0, ...kinds }, down));
    }
  }
  return { above, below };
}
