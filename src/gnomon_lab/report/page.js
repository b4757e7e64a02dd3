"use strict";
// Draws every figure of the page at the width there is and in the reader's colours, and again when either changes.
(() => {
  const NARROW = 560;
  const LINE = 18;  // the height of a line of a panel's title, or of a name in the legend (pixels)
  const SWATCH = 45;  // what plotly adds to a name in the legend (pixels)
  const FILM = 6000;  // how long all frames take to play (ms)
  const BRIGHTER = { "#0072b2": "#3d94d6" };  // on a dark ground
  const pen = document.createElement("canvas").getContext("2d");
  const PRINTED = 800;  // at the zoom of the style sheet it fits A4 and Letter
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const coarse = window.matchMedia("(pointer: coarse)");
  const root = document.documentElement;
  const printing = () => root.classList.contains("printing");
  addEventListener("beforeprint", () => root.classList.add("printing"));  // before the figures hear of it
  addEventListener("afterprint", () => root.classList.remove("printing"));

  const axes = (layout, letter) => Object.keys(layout).filter((key) => new RegExp(`^${letter}axis\\d*$`).test(key));

  function plain(words) {
    const box = document.createElement("textarea");
    box.innerHTML = words;
    return box.value;
  }

  const escaped = (words) => words.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  // How wide words are (pixels).
  function measured(words, { size, family }, weight = "normal") {
    pen.font = `${weight} ${size}px ${family}`;
    return pen.measureText(words).width;
  }

  // A mark's label stands right of its pole, moved back where it would leave the figure.
  function besidePole(layout, words, width) {
    const axis = layout[words.xref.replace("x", "xaxis")];
    const inner = width - layout.margin.l - layout.margin.r;
    const across = inner * (words.x - axis.range[0]) / (axis.range[1] - axis.range[0]);
    const long = measured(plain(words.text), { ...layout.font, ...words.font });
    const over = across + 8 + long - (width - layout.margin.l);  // 4 on either side
    return { ...words, xshift: 4 - Math.max(0, Math.round(over)) };
  }

  // Where each row of images begins, in image pixels: a row's label has the same height at any width.
  function rowTops({ meta, margin, annotations }, width) {
    const room = meta.row_label_px * meta.cells / (width - margin.l - margin.r);
    return annotations.map((_, i) => i * (meta.image_height + room) + room);
  }

  // A row's name, without its end where there is no room: hovering over a point shows it whole.
  function cut(name, room, font) {
    if (measured(plain(name), font) <= room) return name;
    const letters = [...plain(name)];
    while (letters.length && measured(letters.join("") + "…", font) > room) letters.pop();
    return escaped(letters.join("").trimEnd()) + "…";
  }

  // Words in lines of at most that many pixels.
  function inLines(words, room, font, weight) {
    const lines = [];
    for (const word of words.split(" ")) {
      const longer = `${lines.at(-1)} ${word}`;
      if (lines.length && measured(plain(longer), font, weight) <= room) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    return lines.join("<br>");
  }

  // A panel's title in lines.
  function broken(title, room, font) {
    return `<b>${inLines(title.slice("<b>".length, -"</b>".length), room, font, "bold")}</b>`;
  }

  // The names in the legend, in lines where the figure has no room for them: cut off, two of them may be the same.
  const fitNames = (names, { font }, width) => names.map((name) => inLines(name, width - SWATCH - 8, font));

  // The words of all annotations and of the x axes, titles in lines, each of which moves what is below it down.
  function fitTitles({ annotations, font, meta, ...whole }, width, left) {
    const words = annotations.map(
      ({ name, text, font: own }) => (name === "flag" ? text : broken(text, width, { ...font, ...own })));
    const lines = annotations.map(({ yref }, i) => ({
      edge: whole[yref.replace(/^y(\d*) domain$/, "yaxis$1")].domain[1], more: words[i].split("<br>").length - 1,
    }));
    const middle = (left + width - whole.margin.r) / 2, room = 2 * Math.min(middle, width - middle);
    const below = {};
    let deeper = 0;  // what the margin below the last panel needs more
    for (const key of axes(whole, "x")) {
      const { anchor, title } = whole[key], [edge] = whole[anchor.replace("y", "yaxis")].domain;
      if (!title?.text) continue;
      below[key] = inLines(title.text, room, { ...font, ...title.font });
      const more = below[key].split("<br>").length - 1;
      if (edge > 0.001) lines.push({ edge: edge - 0.001, more });
      else deeper = Math.max(deeper, LINE * more);
    }
    const added = (y) => lines.reduce((sum, { edge, more }) => sum + (edge >= y ? LINE * more : 0), 0);
    const plot = meta.plot_px + added(0);
    return { words, below, deeper, plot, moved: (y) => 1 - ((1 - y) * meta.plot_px + added(y)) / plot };
  }

  // An x axis with as many numbers as there is room for; on a phone those of steps are in thousands.
  function fitNumbers({ type, range, dtick, nticks }, key, width, room) {
    const [low, high] = range.map((end) => (type === "log" ? 10 ** end : end));
    const thousands = width < NARROW && high > 1000 && (type !== "log" || low > 0.5);  // it would write 0.5 as 500m
    const change = { [key + ".tickformat"]: thousands ? "~s" : ",~r" };
    if (dtick === 1) change[key + ".dtick"] = Math.ceil((range[1] - range[0]) * 40 / room);  // powers of ten
    if (nticks) change[key + ".nticks"] = Math.min(nticks, Math.max(Math.min(5, Math.floor(room / 32)), Math.floor(room / 60)));
    return change;
  }

  // Panels of curves and of points.
  function fitPanels(layout, whole, width, left) {
    const { words, below, deeper, plot, moved } = fitTitles(whole, width, left);
    const change = { "margin.l": left, "margin.b": whole.margin.b + deeper }, room = width - left - whole.margin.r;
    for (const key of axes(whole, "x")) Object.assign(change, fitNumbers(whole[key], key, width, room));
    for (const [key, lines] of Object.entries(below)) change[key + ".title.text"] = lines;
    for (const key of axes(whole, "y")) {
      const { domain, ticktext } = whole[key];
      change[key + ".domain"] = domain.map((y) => Math.max(0, moved(y)));
      if (ticktext) change[key + ".ticktext"] = ticktext.map((name) => cut(name, left - 8, whole.font));
    }
    if (whole.coloraxis) {
      change["coloraxis.colorbar.y"] = moved(whole.coloraxis.colorbar.y);
      change["coloraxis.colorbar.nticks"] = room < 400 ? 3 : 5;
    }
    change.annotations = layout.annotations.map((at, i) => (
      at.name === "flag" ? besidePole(layout, at, width) : { ...at, text: words[i], xshift: -left }));
    return { change, plot: plot + deeper };
  }

  // A slider on a phone: the moment shown is smaller and further left, or its end would be cut.
  function fitSlider({ sliders, margin }, width) {
    if (!sliders) return {};
    const [{ pad, currentvalue }] = sliders, narrow = width < NARROW;
    return {
      "sliders[0].currentvalue.font.size": narrow ? 13 : currentvalue.font.size,
      "sliders[0].pad.l": narrow ? Math.max(8, pad.l - margin.l) : pad.l,
      "sliders[0].pad.r": narrow ? Math.max(8, pad.r - margin.r) : pad.r,
    };
  }

  // Sizes follow the width; heights of panels stay in pixels, images and maps keep their shape. `whole` is the layout
  // as it was before anything was fitted, and `names` are those of the traces.
  function fit(layout, whole, names, width) {
    const { meta, margin } = whole;
    const change = { width, ...fitSlider(whole, width) };
    if (meta.kind === "images") {
      const tops = rowTops(layout, width), cell = (width - margin.l - margin.r) / meta.cells;
      const deep = tops.at(-1) + meta.image_height;
      change.height = Math.round(margin.t + deep * cell + margin.b);
      change["yaxis.range"] = [deep - 0.5, -0.5];
      change.annotations = layout.annotations.map((words, i) => ({ ...words, y: tops[i] - 0.5 }));
    } else {
      const left = width < NARROW ? Math.min(margin.l, Math.round(0.45 * width)) : margin.l;
      const room = width - left - margin.r;  // plotly gives a legend no more
      const abreast = Math.max(1, Math.min(meta.entries, Math.floor(room / meta.entry_px)));
      const rows = Math.ceil(meta.entries / abreast);
      const columns = Math.ceil(meta.entries / rows);
      const more = fitNames(names, whole, width).reduce((sum, name) => sum + name.split("<br>").length - 1, 0);
      const top = rows * meta.row_px + LINE * more + 8;
      change["margin.t"] = top;
      change["legend.entrywidth"] = Math.max(meta.entry_px, Math.floor(room / (columns + 1)) + 1) - SWATCH;
      if (whole.coloraxis) {
        change["coloraxis.colorbar.len"] = width < NARROW ? 1 : whole.coloraxis.colorbar.len;
        change["coloraxis.colorbar.tickfont.size"] = width < NARROW ? 11 : whole.font.size;
      }
      if ("aspect" in meta) {  // maps and space keep their shape
        const plot = Math.min(meta.tallest_px, Math.round(room * meta.aspect)), stacked = meta.title_px + plot;
        change.height = top + stacked + margin.b;
        if (meta.kind === "regions") {
          change["yaxis.domain"] = [0, plot / stacked];
          change["coloraxis.colorbar.y"] = -meta.axis_px / stacked;
        }
      } else {
        const panels = fitPanels(layout, whole, width, left);
        Object.assign(change, panels.change, { height: top + panels.plot + margin.b });
      }
    }
    return change;
  }

  // A line's colour, made brighter in the dark or taken back.
  function tint(colour) {
    const [light, bright] = Object.entries(BRIGHTER).find((pair) => pair.includes(colour)) ?? [colour, colour];
    return dark.matches && !printing() ? bright : light;
  }

  // The page's own colours, for whatever plotly would draw in its defaults.
  function colours(layout) {
    const style = getComputedStyle(root);
    const [ink, muted, grid, axis, card, line, knob] =
      ["ink", "muted", "grid", "axis", "card", "line", "knob"].map((n) => style.getPropertyValue("--" + n).trim());
    const change = {
      "font.color": ink, "paper_bgcolor": card,
      "hoverlabel.bgcolor": card, "hoverlabel.bordercolor": axis, "hoverlabel.font.color": ink,
    };
    (layout.annotations || []).forEach((words, i) => { if (words.bgcolor) change[`annotations[${i}].bgcolor`] = card; });
    (layout.shapes || []).forEach((shape, i) => { change[`shapes[${i}].line.color`] = tint(shape.line.color); });
    for (const key of [...axes(layout, "x"), ...axes(layout, "y")]) {
      change[key + ".gridcolor"] = grid;
      change[key + ".linecolor"] = axis;
      change[key + ".tickfont.color"] = muted;
      change[key + ".spikecolor"] = muted;
    }
    for (const letter of layout.scene ? "xyz" : "") {
      change[`scene.${letter}axis.gridcolor`] = grid;
      change[`scene.${letter}axis.linecolor`] = axis;
      change[`scene.${letter}axis.tickfont.color`] = muted;
    }
    (layout.sliders || []).forEach((_, i) => Object.assign(change, {
      [`sliders[${i}].bgcolor`]: line, [`sliders[${i}].activebgcolor`]: knob, [`sliders[${i}].bordercolor`]: axis,
      [`sliders[${i}].tickcolor`]: axis, [`sliders[${i}].font.color`]: muted, [`sliders[${i}].currentvalue.font.color`]: ink,
    }));
    return change;
  }

  // Writes changes such as {"sliders[0].font.color": "red"} into a layout that is not drawn yet.
  function put(layout, change) {
    for (const [path, value] of Object.entries(change)) {
      const keys = path.replace(/\[(\d+)\]/g, ".$1").split(".");
      const last = keys.pop();
      keys.reduce((at, key) => (at[key] ??= {}), layout)[last] = value;
    }
  }

  // Left and right arrow keys do what the slider does; play and pause are buttons of the page, which the keyboard
  // reaches as it reaches links: plotly draws its own.
  function listen(plot, frames, duration) {
    const names = frames.map((frame) => frame.name);
    const show = (some, ms = 0) => Plotly.animate(
      plot, some, { mode: "immediate", frame: { duration: ms, redraw: true }, transition: { duration: 0 } },
    ).catch(() => {});  // a promise is broken where the next call cuts in, as pause does
    const at = () => plot.layout.sliders[0].active;
    // plotly notes that the slider was let go in a layout that a frame under way may have replaced by a copy: there it
    // stays held, and follows neither play nor keys.
    plot.on("plotly_sliderend", () => { plot._fullLayout.sliders[0]._dragging = false; });
    plot.tabIndex = 0;
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      show([names[Math.min(names.length - 1, Math.max(0, at() + step))]]);
    });
    const [play, pause] = plot.parentElement.querySelectorAll(".controls button");
    play.addEventListener("click", () => show(at() === names.length - 1 ? names : names.slice(at()), duration));
    pause.addEventListener("click", () => show([null]));
  }

  // The words of axes in space have the same size at any width: on a phone the eye goes back, to make room for them.
  function stepBack({ eye }) {
    for (const axis of "xyz") eye[axis] *= 1.25;
  }

  // A wheel scrolls the page unless Ctrl is held, and a double click takes back how space was turned.
  function turn(plot, { camera }) {
    const first = structuredClone(camera);
    plot.addEventListener("wheel", (event) => { if (!event.ctrlKey) event.stopPropagation(); }, { capture: true });
    plot.addEventListener("dblclick", () => Plotly.relayout(plot, { "scene.camera": structuredClone(first) }));
  }

  async function draw(box) {
    const plot = box.querySelector(".plot");
    const figure = JSON.parse(box.querySelector("script").textContent);
    const duration = figure.layout.sliders && Math.round(FILM / figure.frames.length);  // of a frame
    const lines = figure.data.flatMap((trace, i) => (trace.line ? [i] : []));
    // What parts points in space is the ground's colour.
    const rims = figure.data.flatMap((trace, i) => (trace.type === "scatter3d" && trace.marker ? [i] : []));
    const tints = () => ({ "line.color": lines.map((i) => tint(figure.data[i].line.color)) });
    const width = () => (printing() ? PRINTED : Math.floor(plot.clientWidth));
    let drawn = width();
    const whole = structuredClone(figure.layout);
    const inLegend = ({ showlegend }) => figure.layout.legend && showlegend !== false;
    const names = figure.data.map((trace) => (inLegend(trace) && trace.name) || "");
    const named = names.flatMap((name, i) => (name ? [i] : []));
    put(figure.layout, fit(figure.layout, whole, names, drawn));
    put(figure.layout, colours(figure.layout));
    if (coarse.matches) figure.layout.dragmode = false;  // a finger on a chart scrolls the page; space has its own
    if (figure.layout.scene && drawn < NARROW) stepBack(figure.layout.scene.camera);
    const images = figure.layout.meta.kind === "images";
    const place = () => (images ? { y0: rowTops(figure.layout, drawn) } : {});
    if (images) figure.data.forEach((trace, i) => { trace.y0 = place().y0[i]; });
    fitNames(names, whole, drawn).forEach((name, i) => { if (name) figure.data[i].name = name; });
    for (const i of lines) figure.data[i].line.color = tint(figure.data[i].line.color);
    for (const i of rims) figure.data[i].marker.line.color = figure.layout.paper_bgcolor;
    figure.config = { displaylogo: false, displayModeBar: false, plotlyServerURL: "", showSendToCloud: false };
    await Plotly.newPlot(plot, figure);
    if (figure.layout.scene) turn(plot, figure.layout.scene);
    if (duration) listen(plot, figure.frames, duration);
    const resize = () => {
      if (width() === drawn || width() === 0) return;
      drawn = width();
      const change = fit(plot.layout, whole, names, drawn);
      if (!named.length) Plotly.update(plot, place(), change);
      else Plotly.update(plot, { name: named.map((i) => fitNames(names, whole, drawn)[i]) }, change, named);
    };
    const recolour = () => {
      if (lines.length) Plotly.update(plot, tints(), colours(plot.layout), lines);
      else Plotly.relayout(plot, colours(plot.layout));
      if (rims.length) Plotly.restyle(plot, { "marker.line.color": plot.layout.paper_bgcolor }, rims);
    };
    new ResizeObserver(resize).observe(plot);
    dark.addEventListener("change", recolour);
    for (const change of ["beforeprint", "afterprint"]) {
      addEventListener(change, () => {
        resize();
        if (dark.matches) recolour();
      });
    }
    plot.dataset.drawn = "yes";
  }

  document.querySelectorAll("figure").forEach(draw);
})();
