"use strict";
// Asks for what is new, keeps it, and has each quantity drawn, those that are seen.
const PAUSE = 4000;  // between an answer and the next question (ms)
const PATIENCE = 10000;  // for one answer (ms)
const BANDS = /\.q(25|75)$/;
const node = (id) => document.getElementById(id);
const runs = new Map(), hidden = new Set(), charts = new Map(), own = new Map();
let told = null, highlighted = null, heard = 0, failed = false, charted = 0;

// What is said

function stateOf(run) {
  const quiet = told.now - run.changed + (follows ? (Date.now() - heard) / 1000 : 0);
  const when = run.finished ? "finished" : `${quiet < 60 ? "last" : "nothing for"} ${ago(quiet)}${quiet < 60 ? " ago" : ""}`;
  return `step ${run.step.toLocaleString("en")}, ${when}`;
}

function moment(seconds) {
  const date = new Date(seconds * 1000);
  return `${date.toLocaleDateString("en-GB", { dateStyle: "long" })}, ${date.toLocaleTimeString("en-GB")}`;
}

function say() {
  if (!told) return;
  const count = told.runs.length;
  const at = new Date(heard).toLocaleTimeString("en-GB");
  let words = count === 1 ? "1 curve" : `${count} curves`;
  if (!count) words = "No readings yet";
  if (told.reading) words += ", still reading";
  if (!follows) words += `; snapshot of ${moment(told.now)}, not updated`;
  if (!told.there) words = `There is no ${told.folder} any more`;
  if (failed) words = `gnomon watch does not answer: all this is as at ${at}`;
  node("state").textContent = words;
  node("state").classList.toggle("stale", failed || !told.there);
  node("unmatched").textContent = told.unmatched;
  for (const run of runs.values()) run.state.textContent = stateOf(run);
}

function notes() {
  const words = [...told.left_out];
  for (const run of runs.values()) {
    if (run.broken) words.push(`${run.label}: ${run.broken} ${run.broken > 1 ? "lines are" : "line is"} no reading`);
  }
  if ([...runs.values()].some((run) => run.readings > run.steps.length)) {
    words.push(`Of curves with more than ${told.points} readings the lowest and the highest of neighbours are drawn.`);
  }
  node("notes").replaceChildren(...words.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
}

// Runs, and how each is drawn

function enter(run) {
  const button = document.createElement("button"), item = document.createElement("li");
  run.swatch = document.createElement("canvas");
  [run.words, run.state] = [document.createElement("span"), document.createElement("small")];
  button.type = "button";
  button.append(run.swatch, run.words, run.state);
  button.setAttribute("aria-pressed", "true");
  button.onclick = () => {
    if (!hidden.delete(run.key)) hidden.add(run.key);
    button.setAttribute("aria-pressed", String(!hidden.has(run.key)));
    redraw();
  };
  button.onpointerenter = () => highlight(run.key);
  button.onpointerleave = () => highlight(null);
  item.append(button);
  node("runs").append(item);
  Object.assign(run, { item, button });
}

function swatches() {
  const ratio = devicePixelRatio || 1;
  for (const run of runs.values()) {
    Object.assign(run.swatch, { width: 30 * ratio, height: 8 * ratio });
    Object.assign(run.swatch.style, { width: "30px", height: "8px" });
    const pen = run.swatch.getContext("2d");
    pen.scale(ratio, ratio);
    stroke(pen, run, 2);
    pen.beginPath();
    pen.moveTo(0, 4);
    pen.lineTo(30, 4);
    pen.stroke();
  }
}

function take(answer) {
  told = answer;
  const there = new Set(answer.runs.map((run) => run.key));
  for (const [key, run] of runs) {
    if (!there.has(key)) {
      run.item.remove();
      runs.delete(key);
    }
  }
  let changed = false;
  for (const news of answer.runs) {
    const run = runs.get(news.key) ?? {};
    changed ||= Boolean(news.steps);
    Object.assign(run, news);
    if (!runs.has(news.key)) {
      runs.set(news.key, run);
      enter(run);
    }
    run.words.textContent = run.label;
    run.button.title = run.setting;
  }
  notes();
  if (changed || there.size !== charted) {
    charted = there.size;
    swatches();
    arrange();
    redraw();
  }
}

// Quantities: those that differ in split or layer alone stand together, on the same axes

function arrange() {
  const groups = new Map();
  for (const run of runs.values()) {
    for (const name of Object.keys(run.values)) {
      const cut = name.lastIndexOf("/");
      const quantity = name.slice(cut + 1);
      if (BANDS.test(name)) continue;
      if (!groups.has(quantity)) groups.set(quantity, new Set());
      groups.get(quantity).add(name);
    }
  }
  for (const [quantity, chart] of charts) {
    if (!groups.has(quantity)) {
      chart.section.remove();
      charts.delete(quantity);
    }
  }
  for (const [quantity, names] of groups) {
    if (!charts.has(quantity)) charts.set(quantity, chartOf(quantity));
    const chart = charts.get(quantity);
    if ([...names].join("\0") !== [...chart.panels.keys()].join("\0")) fill(chart, [...names]);
    node("quantities").append(...(chart.section.parentNode ? [] : [chart.section]));
  }
  search();
}

function chartOf(quantity) {
  const section = document.createElement("section"), head = document.createElement("header");
  const title = document.createElement("h2"), toggle = document.createElement("button"), panels = document.createElement("div");
  title.textContent = quantity.replaceAll("_", " ");
  title.title = quantity;
  toggle.type = "button";
  toggle.title = "The vertical axis: press for the other";
  head.append(title, toggle);
  section.append(head, panels);
  const chart = { quantity, section, toggle, box: panels, panels: new Map() };
  toggle.onclick = () => {
    own.set(quantity, !chart.log);
    redraw();
  };
  return chart;
}

function fill(chart, names) {
  for (const canvas of chart.panels.values()) seen.unobserve(canvas);
  chart.section.style.setProperty("--panels", Math.min(names.length, 3));
  chart.panels = new Map(names.map((name) => [name, document.createElement("canvas")]));
  chart.box.replaceChildren(...names.map((name) => {
    const figure = document.createElement("figure"), words = document.createElement("h3"), canvas = chart.panels.get(name);
    words.textContent = name.slice(0, Math.max(0, name.lastIndexOf("/")));
    canvas.setAttribute("role", "img");
    Object.assign(canvas, { chart, name, onpointermove: point, onpointerleave: leave });
    figure.append(words, canvas);
    seen.observe(canvas);
    return figure;
  }));
}

function search() {
  const words = node("search").value.toLowerCase().split(",").map((word) => word.trim().replaceAll(" ", "_")).filter(Boolean);
  for (const chart of charts.values()) {
    const names = [...chart.panels.keys()].map((name) => name.toLowerCase());
    chart.section.hidden = words.length > 0 && !names.some((name) => words.some((word) => name.includes(word)));
  }
}

// Axes

const shown = () => [...runs.values()].filter((run) => !hidden.has(run.key));

// The runs that a chart draws.
const drawnBy = (chart) => shown().filter((run) => [...chart.panels.keys()].some((name) => run.values[name]));

// The axis of steps is logarithmic where most are early of the run that goes furthest.
function logSteps(drawn) {
  if (node("scale").value) return node("scale").value === "log";
  const further = (a, b) => a.step - b.step || a.readings - b.readings;
  return drawn.reduce((most, run) => (further(run, most) > 0 ? run : most), { step: -1, readings: 0, early: false }).early;
}

// What the panels show: a quantity of each run that has it, and its quartiles where these runs are few.
function* numbersOf(names, logX) {
  for (const name of names) {
    const drawn = having(shown(), name), ends = drawn.length <= FEW ? ["", ".q25", ".q75"] : [""];
    for (const run of drawn) {
      const first = logX ? run.steps.findIndex((step) => step > 0) : 0;
      if (first < 0) continue;  // none of its steps has a place
      for (const end of ends) yield* run.values[name + end]?.slice(first) ?? [];
    }
  }
}

// The axis of a quantity: logarithmic where all is above 0 and goes over two powers of ten.
function axisOf(chart, logX) {
  const names = [...chart.panels.keys()];
  let [low, high] = span(numbersOf(names, logX), false);
  chart.log = own.get(chart.quantity) ?? (low > 0 && high >= 100 * low);
  if (chart.log) [low, high] = span(numbersOf(names, logX), true);
  chart.toggle.textContent = chart.log ? "log" : "linear";
  if (low > high) return null;
  return axis(low, high, chart.log, 0.05);
}

// The axes of a chart: of its steps, which are those of its runs alone, and of its quantity.
function axesOf(chart) {
  const drawn = drawnBy(chart), logX = logSteps(drawn);
  const [low, high] = span(drawn.flatMap((run) => [run.steps.find((step) => !logX || step > 0), run.steps.at(-1)]), logX);
  return [low <= high ? axis(low, high, logX, 0.02) : null, axisOf(chart, logX)];
}

// Drawing

const waiting = new Set();
const seen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    target.seen = isIntersecting;
    if (isIntersecting) later(target);
  }
}, { rootMargin: "200px" });

function drawAll(canvases) {
  const axes = new Map();
  for (const each of canvases) {
    if (!axes.has(each.chart)) axes.set(each.chart, axesOf(each.chart));
    draw(each, shown(), highlighted, ...axes.get(each.chart));
  }
}

function later(canvas) {
  if (!waiting.size) requestAnimationFrame(() => {
    const canvases = [...waiting];
    waiting.clear();
    drawAll(canvases);
  });
  waiting.add(canvas);
}

function redraw() {
  for (const chart of charts.values()) {
    for (const canvas of chart.panels.values()) if (canvas.seen) later(canvas);
  }
}

// Asking

const written = JSON.parse(node("told").textContent), follows = written === null;

let timer = 0;

async function answer() {
  try {
    const given = await fetch(`readings?since=${told?.version ?? 0}`, { signal: AbortSignal.timeout(PATIENCE) });
    return given.ok ? await given.json() : null;
  } catch {
    return null;
  }
}

async function ask() {
  if (!document.hidden) {
    const news = await answer();
    failed = !news;
    if (news) {
      heard = Date.now();
      take(news);
    }
    say();
  }
  clearTimeout(timer);
  timer = setTimeout(ask, told?.reading && !failed ? 0 : PAUSE);
}

node("controls").onsubmit = (event) => event.preventDefault();
node("search").oninput = () => { search(); redraw(); };
node("scale").onchange = redraw;
dark.addEventListener("change", () => { swatches(); redraw(); });
addEventListener("resize", redraw);
// Paper is white, shows what was never scrolled to, and waits for no frame.
addEventListener("beforeprint", () => {
  paper.add("printing");
  swatches();
  drawAll([...charts.values()].flatMap((chart) => [...chart.panels.values()]));
});
addEventListener("afterprint", () => {
  paper.remove("printing");
  swatches();
  redraw();
});
if (follows) {
  heard = Date.now();
  ask();
  document.addEventListener("visibilitychange", ask);
} else {
  heard = written.now * 1000;
  take(written);
  say();
}
