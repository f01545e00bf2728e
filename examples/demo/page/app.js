// The page of the demo. What it shows comes as server-sent events; what is done on it goes to the API.
import { drawFlow, drawLane, drawSpark, heights, svg } from "./charts.js";

const span = 60_000; // of the charts, in milliseconds
const $ = (id) => document.getElementById(id);
let points = [], state = null, trial = null;

const sourceNames = {
  redis: "Redis", memory: "local share", open: "fail open", closed: "fail closed", "deny-cache": "denial cache", lease: "lease",
};
const laneNames = {
  window: "Fixed window", counter: "Sliding window counter", log: "Sliding window log", bucket: "Token bucket", gcra: "GCRA", leaky: "Leaky bucket",
  open: "Fail open", closed: "Fail closed", local: "Local share",
};
const policyHints = {
  open: "Everything is admitted, and nobody counts.",
  closed: "Nothing is admitted: 503, not 429.",
  local: "Each instance enforces its part of the limit by itself.",
};

// --- small things ---

const number = (n) => (n === 0 ? "0" : n < 9.95 ? n.toFixed(1) : Math.round(n).toLocaleString("en"));
const milliseconds = (ms) => (ms === 0 ? "–" : ms < 0.95 ? ms.toFixed(2) : ms < 9.95 ? ms.toFixed(1) : String(Math.round(ms)));
const wait = (ms) => (ms <= 0 ? "–" : ms < 1000 ? `${Math.ceil(ms)} ms` : ms < 120_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`);

/** Sets text only where it changes, so that selections and readers are left alone. */
function text(e, value) {
  if (e.textContent !== value) e.textContent = value;
}

function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

/** Makes the list's children as many as there are items, and has each shown. */
function list(parent, items, make, show) {
  while (parent.children.length > items.length) parent.lastElementChild.remove();
  while (parent.children.length < items.length) parent.append(make());
  items.forEach((item, i) => show(parent.children[i], item, i));
}

function badges(parent, sources) {
  const sorted = Object.entries(sources).sort((a, b) => b[1] - a[1]);
  const total = sorted.reduce((n, [, rate]) => n + rate, 0);
  list(parent, sorted, () => element("span", { class: "badge" }, document.createTextNode(""), element("small")), (e, [source, rate]) => {
    e.dataset.kind = source;
    e.firstChild.data = sourceNames[source] ?? source;
    text(e.lastChild, sorted.length > 1 ? `${Math.round(100 * rate / total)} %` : "");
  });
  if (!sorted.length) parent.textContent = "nobody";
  else for (const child of [...parent.childNodes]) if (child.nodeType === Node.TEXT_NODE) child.remove();
}

// --- what comes ---

function connect() {
  const events = new EventSource("/api/events");
  events.addEventListener("history", (e) => { points = JSON.parse(e.data); });
  events.addEventListener("state", (e) => {
    state = JSON.parse(e.data);
    if (points.at(-1)?.t > state.now) points = []; // another process than before
    if (points.at(-1)?.t !== state.now) points.push(state.point);
    points = points.filter((p) => p.t > state.now - span - 1000);
    live("live", "live");
    draw();
  });
  events.addEventListener("trial", (e) => { trial = JSON.parse(e.data); drawTrial(); });
  events.addEventListener("error", () => live("lost", "not connected"));
}

function live(kind, words) {
  $("live").dataset.state = kind;
  text($("live").lastElementChild, words);
}

function draw() {
  drawFigures();
  drawControls();
  list($("instances"), state.instances, makeInstance, showInstance);
  list($("clients"), state.clients, makeClient, showClient);
  drawFlow($("chart"), points, state.notes ?? [], state.now, span);
}

function drawFigures() {
  const { total, bound, limit, settings } = state;
  text($("limit-text"), limit.text);
  text($("admitted"), number(total.admitted));
  text($("against"), limit.perSecond ? `limit ${number(limit.perSecond)}/s, all clients` : "no clients run");
  text($("refused"), number(total.refused + total.unavailable));
  text($("refused-how"), total.unavailable > 0 ? "503: fail closed" : total.refused > 0 ? "429, with Retry-After" : "–");
  badges($("sources"), total.sources);
  text($("p50"), milliseconds(total.p50));
  text($("p99"), milliseconds(total.p99));
  text($("bound"), bound.admitted.toLocaleString("en"));
  const most = $("bound-most");
  most.className = bound.broken ? "broken" : "held";
  text(most, bound.broken ? "more than the limit" : `at most ${bound.atMost.toLocaleString("en")} in ${Math.round(bound.seconds)} s`);
  text($("redis-name"), state.redis);
  text($("curl"), `curl -i ${location.origin}/hello`);
  text($("lead-text"), `for each client, held by ${settings.instances} instances together`);
}

// --- instances and clients ---

function makeInstance() {
  return element("li", { class: "card" },
    element("p", { class: "name" }, element("span"), element("span", { class: "down" })),
    element("p", { class: "numbers" }, element("span"), element("span"), element("span")),
    element("p", { class: "badges" }),
    svg("svg", { role: "img" }));
}

function showInstance(e, i, index) {
  const [name, numbers, sources, chart] = e.children;
  e.dataset.up = i.up;
  text(name.firstChild, i.name);
  text(name.lastChild, i.up ? "" : "does not answer");
  [[number(i.admitted), "admitted/s"], [number(i.refused + i.unavailable), "refused/s"], [milliseconds(i.p99), "ms, p99"]].forEach(([n, unit], k) => {
    const part = numbers.children[k];
    if (!part.firstChild) part.append(element("b"), unit);
    text(part.firstChild, n);
  });
  badges(sources, i.sources);
  chart.setAttribute("aria-label", `${i.name}: admitted and refused over the last minute`);
  drawSpark(chart, points, index, state.now, span);
}

function makeClient() {
  const cell = (label, ...children) => element("td", { "data-label": label }, ...children);
  return element("tr", {},
    element("td", {}, element("b"), element("small")),
    cell("Remaining", element("span", { class: "meter" }, element("i"), element("span"))),
    cell("Retry after"), cell("Admitted"), cell("Refused"),
    cell("Decided by", element("span", { class: "badge" })));
}

function showClient(row, c) {
  const [name, left, retry, admitted, refused, by] = row.children;
  text(name.firstChild, c.name);
  text(name.lastChild, c.manner ? `${c.address}: ${c.manner}` : c.address);
  const counted = c.source && c.source !== "open" && c.source !== "closed";
  left.querySelector("i").style.setProperty("--part", `${counted && c.limit ? Math.min(100, 100 * c.remaining / c.limit) : 0}%`);
  text(left.querySelector("span span"), counted ? `${c.remaining} of ${c.limit}` : "not counted");
  for (const [cell, value] of [[retry, wait(c.retryAfter)], [admitted, `${number(c.admitted)}/s`], [refused, `${number(c.refused)}/s`]]) {
    text(cell, value);
    cell.className = "nowrap";
  }
  by.firstChild.dataset.kind = c.source;
  text(by.firstChild, sourceNames[c.source] ?? "–");
}

// --- controls ---

/** A form is only filled in while nobody is at it. */
const untouched = (form) => !form.dataset.touched && !form.contains(document.activeElement);

function fill(form, values) {
  for (const [name, value] of Object.entries(values)) form.elements[name].value = value;
}

function drawControls() {
  const { settings, load, limit } = state;
  const redis = $("redis");
  redis.setAttribute("aria-checked", settings.connected);
  text($("redis-state"), settings.connected ? "Connected" : "Cut off");
  text($("redis-hint"), settings.connected ? "Press to cut all instances off from it." : "Press to bring it back.");
  check("policy", settings.onFailure);
  text($("policy-hint"), policyHints[settings.onFailure]);
  if (document.activeElement !== $("cache")) $("cache").checked = settings.cacheDenials;
  if (untouched($("limit"))) {
    fill($("limit"), { algorithm: settings.algorithm, rate: settings.rate, per: shortSpan(settings.per), burst: settings.burst });
    showBurst(limit.hasBurst);
  }
  if (untouched($("load"))) fill($("load"), { clients: load.clients, rate: load.rate, burst: load.burst });
  check("mode", load.mode);
  for (const b of document.querySelectorAll("[data-scenario]")) b.disabled = state.trial && b !== document.activeElement;
}

/** Marks the radio of that value, but for one that is being chosen. */
function check(name, value) {
  const radios = [...document.getElementsByName(name)];
  if (radios.some((r) => r.dataset.pending)) return;
  for (const r of radios) r.checked = r.value === value;
}

/** Go writes a minute as 1m0s. */
const shortSpan = (s) => s.replace(/(\D)0s$/, "$1").replace(/(\D)0m$/, "$1");

function showBurst(has) {
  $("limit").elements.burst.disabled = !has;
}

function say(words) {
  text($("status"), words);
}

/** Sends a change; words are said when it is made. An error is shown in its place. */
async function send(method, path, body, error, words) {
  error.textContent = "";
  try {
    const response = await fetch(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    if (response.ok) {
      say(words);
      return true;
    }
    const answer = await response.json().catch(() => ({}));
    error.textContent = answer.error ?? `The demo answers ${response.status}.`;
  } catch {
    error.textContent = "The demo does not answer.";
  }
  return false;
}

function bindRedis() {
  const error = $("redis-error");
  $("redis").addEventListener("click", () => {
    const connected = $("redis").getAttribute("aria-checked") !== "true";
    send("PUT", "/api/redis", { connected }, error, connected ? "Redis is back" : "Redis is cut off");
  });
  for (const radio of document.getElementsByName("policy")) {
    radio.addEventListener("change", () => pending(radio, send("PUT", "/api/policy", { onFailure: radio.value }, error, policyHints[radio.value])));
  }
}

/** Until the change is made, the state that comes does not move the mark. */
async function pending(radio, change) {
  radio.dataset.pending = "true";
  await change;
  delete radio.dataset.pending;
}

/** A form is touched from the first input until it was taken, or Escape. */
function bindForm(form, submit) {
  const error = form.querySelector(".error");
  form.addEventListener("input", (e) => { if (e.target.type !== "radio" && e.target.type !== "checkbox") form.dataset.touched = "true"; });
  form.addEventListener("keydown", (e) => {
    if (e.key !== "Escape") return;
    delete form.dataset.touched;
    error.textContent = "";
    document.activeElement.blur();
  });
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    if (await submit(form.elements, error)) delete form.dataset.touched;
  });
  return error;
}

const whole = (input) => (input.value.trim() === "" ? 0 : Number(input.value));

function bindLimit() {
  const form = $("limit");
  const error = bindForm(form, (e, error) => send("PUT", "/api/limit", {
    algorithm: e.algorithm.value, rate: whole(e.rate), per: e.per.value.trim(), burst: whole(e.burst),
  }, error, "The limit is set"));
  form.elements.algorithm.addEventListener("change", (e) => {
    showBurst(["bucket", "gcra", "leaky"].includes(e.target.value));
    form.requestSubmit();
  });
  $("cache").addEventListener("change", (e) => {
    send("PUT", "/api/cache", { cacheDenials: e.target.checked }, error, e.target.checked ? "Refusals are remembered" : "Refusals are not remembered");
  });
}

function bindLoad() {
  const form = $("load");
  const numbers = (e) => ({ clients: whole(e.clients), rate: whole(e.rate), burst: whole(e.burst) });
  const error = bindForm(form, (e, error) => send("PUT", "/api/load", { mode: "equal", ...numbers(e) }, error, "Clients are equal"));
  for (const radio of document.getElementsByName("mode")) {
    radio.addEventListener("change", () => pending(radio, send("PUT", "/api/load", { mode: radio.value, ...numbers(form.elements) }, error, `Clients: ${radio.value}`)));
  }
  $("blast").addEventListener("click", () => send("POST", "/api/blast", {}, error, "A burst is sent"));
}

function bindCompare() {
  for (const button of document.querySelectorAll("[data-scenario]")) {
    button.addEventListener("click", () => send("POST", "/api/trials", { scenario: button.dataset.scenario }, $("compare-error"), `${button.textContent} begins`));
  }
}

function bindTheme() {
  const button = $("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const show = () => button.setAttribute("aria-pressed", dark());
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    localStorage.setItem("theme", document.documentElement.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  show();
}

// --- the comparison ---

const scenarioTexts = {
  edge: "One request opens the window, nine come at its end, ten more right after. A fixed window admits nearly twice its limit within one period.",
  burst: "Fifteen at once, then seven times what the limit gives back. Buckets admit the burst and then a trickle, windows wait and admit in lumps.",
  outage: "Twice the limit, evenly. Redis is cut off in the shaded time, and each policy decides in its own way.",
};

function makeLane() {
  return element("li", { class: "card" },
    element("h3"), element("p", { class: "promise" }),
    element("p", { class: "score" }, element("b"), element("span")),
    svg("svg", { role: "img" }));
}

function drawTrial() {
  const highest = heights(trial);
  $("placeholder").hidden = true;
  $("lanes").dataset.running = trial.running;
  text($("compare-text"), scenarioTexts[trial.scenario]);
  list($("lanes"), trial.lanes, makeLane, (e, lane) => {
    const [name, promise, score, chart] = e.children;
    text(name, laneNames[lane.name]);
    text(promise, trial.scenario === "outage" ? lane.promise : `At worst: ${lane.promise}`);
    e.dataset.name = lane.name;
    const outage = trial.scenario === "outage";
    e.dataset.over = !outage && lane.name === "window" && lane.most > 1.5 * trial.rate;
    text(score.firstChild, String(outage ? lane.admitted : lane.most));
    text(score.lastChild, outage ? `admitted of ${lane.admitted + lane.refused}` : `within ${trial.per / 1000} s; limit ${trial.rate}`);
    chart.setAttribute("aria-label", `${laneNames[lane.name]}: ${lane.admitted} admitted, ${lane.refused} not, at most ${lane.most} within ${trial.per / 1000} seconds`);
    drawLane(chart, lane, trial, highest);
  });
}

addEventListener("resize", () => { if (state) draw(); if (trial) drawTrial(); });
bindTheme();
bindRedis();
bindLimit();
bindLoad();
bindCompare();
connect();
