"use strict";
// One chart on its canvas.
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"];
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3]];
const BRIGHTER = { "#0072b2": "#3d94d6" };  // on a dark ground
const FEW = 6;  // curves with their quartiles
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 10, 8, 22];  // of a chart, around its axes (px)
const dark = matchMedia("(prefers-color-scheme: dark)");
const paper = document.documentElement.classList;  // has "printing" while the page is drawn for it

const tint = (run) => {
  const colour = COLOURS[run.colour % COLOURS.length];
  return dark.matches && !paper.contains("printing") ? BRIGHTER[colour] ?? colour : colour;
};

function stroke(pen, run, width) {
  pen.strokeStyle = pen.fillStyle = tint(run);
  pen.lineWidth = width;
  pen.setLineDash(DASHES[run.dash % DASHES.length]);
}

const having = (runs, name) => runs.filter((run) => run.values[name]);

// The curves of the runs that have the quantity; one of them may stand out.
function draw(canvas, runs, highlighted, across, up) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.places = [];
  if (!width) return;
  Object.assign(canvas, { width: width * ratio, height: height * ratio });
  const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  const [muted, grid] = ["muted", "grid"].map((name) => style.getPropertyValue(`--${name}`).trim());
  pen.scale(ratio, ratio);
  pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  pen.fillStyle = muted;
  if (!across || !up) {
    pen.fillText("nothing above 0, or no number", LEFT, height / 2);
    return;
  }
  const marks = ticks(up, 5), numbers = labels(marks);
  const left = Math.max(LEFT, 12 + Math.max(...numbers.map((words) => pen.measureText(words).width)));
  const x = (step) => left + across.at(step) * (width - left - RIGHT);
  const y = (value) => height - BOTTOM - up.at(value) * (height - TOP - BOTTOM);
  pen.strokeStyle = grid;
  pen.lineWidth = 1;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  marks.forEach((mark, i) => {
    pen.beginPath();
    pen.moveTo(left, y(mark));
    pen.lineTo(width - RIGHT, y(mark));
    pen.stroke();
    pen.fillText(numbers[i], left - 6, y(mark));
  });
  pen.textAlign = "center";
  let room = left;
  const steps = ticks(across, Math.max(2, Math.floor(width / 80)), true);
  labels(steps).forEach((words, i) => {
    const at = x(steps[i]), half = pen.measureText(words).width / 2;
    pen.fillText(words, Math.min(at, width - half - 1), height - BOTTOM / 2 + 2);
    room = Math.min(room, at - half);
  });
  pen.textAlign = "left";
  if (pen.measureText("step").width + 8 <= room) pen.fillText("step", 2, height - BOTTOM / 2 + 2);
  const drawn = having(runs, canvas.name);
  const few = drawn.length <= FEW;
  pen.save();
  pen.beginPath();
  pen.rect(left - 4, 0, width - left, height - BOTTOM + 4);
  pen.clip();
  if (few) for (const run of drawn) band(pen, run, canvas.name, x, y, across.log, up.log);
  drawn.sort((a, b) => (a.key === highlighted) - (b.key === highlighted));
  for (const run of drawn) {
    pen.globalAlpha = highlighted && run.key !== highlighted ? 0.25 : 1;
    stroke(pen, run, run.key === highlighted ? 3 : few ? 1.8 : 1.1);
    canvas.places.push({ run, points: curve(pen, run, canvas.name, x, y, across.log, up.log) });
  }
  pen.restore();
  const last = (run) => number(run.values[canvas.name].findLast((value) => typeof value === "number") ?? NaN);
  const words = drawn.slice(0, FEW).map((run) => `${run.label} ${last(run)}`);
  if (!few) words.push(`and ${drawn.length - FEW} more`);
  canvas.setAttribute("aria-label", `${canvas.name}, at the end: ${words.join(", ")}`);
}

function curve(pen, run, name, x, y, logX, logY) {
  const points = [], values = run.values[name];
  let open = false, before = null, ended = false;
  pen.beginPath();
  run.steps.forEach((step, i) => {
    const value = values[i];
    if (value === null || (logX && step <= 0)) return;
    if (value === "-" || (logY && value <= 0)) {
      if (open && before.alone) pen.rect(before.x - 1, before.y - 1, 2, 2);
      open = false;
      ended = value === "-";
      return;
    }
    const place = { x: x(step), y: y(value), step, value, alone: !open };
    if (open) pen.lineTo(place.x, place.y);
    else pen.moveTo(place.x, place.y);
    points.push(place);
    [open, before, ended] = [true, place, false];
  });
  pen.stroke();
  pen.setLineDash([]);
  if (before && open && before.alone) pen.fillRect(before.x - 2, before.y - 2, 4, 4);
  if (before && ended) {  // what was no finite number from there on
    pen.beginPath();
    for (const slope of [-1, 1]) {
      pen.moveTo(before.x - 4, before.y - 4 * slope);
      pen.lineTo(before.x + 4, before.y + 4 * slope);
    }
    pen.stroke();
  }
  return points;
}

// The middle half of the samples; where each is right or wrong, 1 or 0, no quartiles are told.
function band(pen, run, name, x, y, logX, logY) {
  pen.globalAlpha = 0.16;
  pen.fillStyle = tint(run);
  for (const piece of pieces(run, name, logX, logY)) {
    pen.beginPath();
    for (const { step, high } of piece) pen.lineTo(x(step), y(high));
    for (const { step, low } of piece.reverse()) pen.lineTo(x(step), y(low));
    pen.closePath();
    pen.fill();
  }
  pen.globalAlpha = 1;
}

// The quartiles between the steps at which the quantity, or one of them, has no place, as the curve is broken there.
function pieces(run, name, logX, logY) {
  const columns = [name, `${name}.q25`, `${name}.q75`].map((each) => run.values[each]), found = [[]];
  if (!columns.every(Boolean)) return [];
  run.steps.forEach((step, i) => {
    const [value, low, high] = columns.map((column) => column[i]);
    if (logX && step <= 0) return;
    if ([value, low, high].some((each) => each === "-" || (logY && each !== null && each <= 0))) found.push([]);
    else if (low !== null && high !== null) found.at(-1).push({ step, low, high });
  });
  return found;
}
