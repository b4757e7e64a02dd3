"use strict";
// Numbers: their axes, and how they are written.

function span(numbers, log) {
  let low = Infinity, high = -Infinity;
  for (const number of numbers) {
    if (typeof number === "number" && (!log || number > 0)) {
      if (number < low) low = number;
      if (number > high) high = number;
    }
  }
  return [low, high];
}

function axis(low, high, log, pad) {
  const to = log ? Math.log10 : (v) => v;
  const [a, b] = [to(low), to(high)];
  const room = (b - a) * pad || (log ? 0.3 : Math.abs(a) * 0.1 || 1);
  return { log, low: a - room, high: b + room, at: (v) => (to(v) - a + room) / (b - a + 2 * room) };
}

function ticks({ log, low, high }, most, whole = false) {
  if (log && high - low > 0.7) {
    const first = Math.ceil(low), last = Math.floor(high), by = Math.max(1, Math.ceil((last - first) / most));
    const few = last - first < 2 ? [1, 2, 5] : [1], marks = [];
    for (let power = first - 1; power <= last; power += 1) {
      for (const times of few) {
        const mark = times * 10 ** power;
        if ((power - first) % by === 0 && Math.log10(mark) >= low && Math.log10(mark) <= high) marks.push(mark);
      }
    }
    return marks;
  }
  const [from, to] = log ? [10 ** low, 10 ** high] : [low, high];
  const raw = (to - from) / most, power = Math.max(10 ** Math.floor(Math.log10(raw)), whole ? 1 : 0);
  const enough = (times) => times * power >= raw * 0.999 && !(whole && times * power % 1);
  const by = power * [1, 2, 2.5, 5, 10].find(enough);
  const marks = [];
  for (let i = Math.ceil(from / by); i * by <= to; i += 1) marks.push(i * by);
  return marks;
}

// Four digits, or three with a power of ten; more where a value below 1 would read 1, or one larger by `gap` the same.
function number(value, gap = 0) {
  const size = Math.abs(value), between = Math.min(15, gap && size ? 3 + Math.floor(Math.log10(size / gap)) : 0);
  if (size >= 1e6 || (size > 0 && size < 1e-3)) {
    return value.toExponential(Math.max(3, between) - 1).replace(/\.?0+e/, "e").replace("e+", "e");
  }
  let digits = Math.max(4, between);
  while (digits < 6 && size < 1 && Number(size.toPrecision(digits)) === 1) digits += 1;
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 20 });
}

const labels = (marks) => marks.map((mark) => number(mark, Math.abs(marks[1] - marks[0])));

function ago(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${Math.round(seconds / 86400)} days`;
}
