"use strict";
// What the pointer is near.
function highlight(key) {
  if (key === highlighted) return;
  highlighted = key;
  redraw();
}

function point(event) {
  const canvas = event.currentTarget, tip = node("tip");
  let best = null, least = 30 ** 2;
  for (const { run, points } of canvas.places ?? []) {
    for (const place of points) {
      const far = (place.x - event.offsetX) ** 2 + (place.y - event.offsetY) ** 2;
      if (far < least) [best, least] = [{ run, place }, far];
    }
  }
  tip.hidden = !best;
  highlight(best?.run.key ?? null);
  if (!best) return;
  tip.textContent = `${best.run.label}: ${number(best.place.value)} at step ${best.place.step.toLocaleString("en")}`;
  const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  Object.assign(tip.style, { left: `${left}px`, top: `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px` });
}

function leave() {
  node("tip").hidden = true;
  highlight(null);
}
