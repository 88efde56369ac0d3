// Small multiples: one panel, one metric, one line a run, and one cursor for all of them.

const WIDTH = 360, HEIGHT = 180, LEFT = 38, RIGHT = 8, TOP = 12, BOTTOM = 22;
const DOTS = 40; // a line with intervals and no more points than this shows each of them

function drawCurves(root, data, names) {
  const shared = { steps: data.steps, names, smoothing: 0, cursor: null, panels: [] };
  const panels = (list) => html("div", { class: shared.names.length > 1 ? "panels several" : "panels" }, ...list.map((panel) => drawPanel(panel, shared)));
  root.append(curveControls(data, shared), panels(data.panels));
  if (data.more.length) {
    const count = `${data.more.length} more ${data.more.length === 1 ? "metric" : "metrics"}`;
    root.append(html("details", { class: "more" }, html("summary", {}, count), panels(data.more)));
  }
  shared.panels.forEach((panel) => panel.draw());
}

function curveControls(data, shared) {
  const points = Math.max(0, ...data.panels.flatMap((panel) => panel.lines.map((line) => line.steps.length)));
  const unit = points < data.steps ? "points" : "steps"; // a long curve, or one of a part of the steps, has fewer
  const most = Math.min(101, Math.max(1, 2 * Math.floor(points / 6) + 1));
  const start = points < 40 ? 0 : Math.floor(points / 30);
  const output = html("output", {});
  const slider = html("input", {
    type: "range", id: "smoothing", min: 0, max: (most - 1) / 2, step: 1, value: start,
    input: () => set(Number(slider.value)),
  });
  function set(reach) {
    shared.smoothing = reach;
    output.textContent = reach ? `mean over ${2 * reach + 1} ${unit}` : "off";
    shared.panels.forEach((panel) => panel.draw());
  }
  set(start);
  const legend = shared.names.length > 1 ? shared.names.map((name, i) => html("span", {}, swatch(i), name)) : [];
  return html(
    "div", { class: "controls" },
    html("label", { for: "smoothing" }, "Smoothing"), slider, output,
    html("span", { class: "legend" }, ...legend),
  );
}

function drawPanel(panel, shared) {
  const values = html("b", {});
  const note = html("p", { class: "note" });
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, tabindex: 0, role: "img" });
  const scale = scales(panel, shared.steps);
  const caption = html("figcaption", {}, html("h3", {}, panel.title), values, note);
  const box = html("figure", { id: `curve-${panel.id.replace(/[^a-z0-9]/gi, "-")}` }, caption, picture);

  const cursor = svg("g", { class: "cursor" });
  const draw = () => {
    const lines = panel.lines.map((line) => drawLine(line, scale, shared.smoothing));
    picture.replaceChildren(...drawAxes(panel, scale), ...lines, ...drawSpans(panel, scale), cursor);
    point();
  };
  const point = () => {
    const at = panel.lines.map((line) => nearest(line, shared.cursor));
    const current = panel.lines.map((line, i) => valueAt(line, at[i], panel.percent));
    values.replaceChildren(...panel.lines.map((line, i) =>
      html("span", {}, shared.names.length > 1 ? swatch(line.run) : null, current[i], line.of ? html("small", {}, ` ${line.of}`) : null)));
    note.textContent = shared.cursor === null ? panel.note : `step ${panel.lines[0].steps[at[0]].toLocaleString("en")}`;
    picture.setAttribute("aria-label", `${panel.title} by step: ${current.join(", ")}`);
    cursor.replaceChildren(...(shared.cursor === null ? [] : drawCursor(panel, scale, shared.cursor, at)));
  };
  const move = (step) => {
    shared.cursor = step === null ? null : Math.min(Math.max(step, 0), shared.steps);
    shared.panels.forEach((other) => other.point());
  };
  picture.addEventListener("pointermove", (event) => move(stepUnder(event, picture, panel, scale)));
  picture.addEventListener("pointerleave", () => move(null));
  picture.addEventListener("blur", () => move(null));
  picture.addEventListener("keydown", (event) => keyOnCurve(event, panel, shared, move));
  shared.panels.push({ draw, point });
  return box;
}

/** The value of a line at one of its points, with its interval where it has one. */
function valueAt(line, i, inPercent) {
  const value = (inPercent ? percent : figure)(line.values[i]);
  const ends = line.low ? [line.low[i], line.high[i]] : [null, null];
  if (ends.includes(null)) return value;
  return `${value} [${ends.map((end) => (inPercent ? (100 * end).toFixed(1) : figure(end))).join(", ")}]`;
}

function scales(panel, steps) {
  const known = panel.lines.flatMap((line) => [...line.values, ...(line.high ?? []), ...(line.low ?? [])])
    .filter((value) => value !== null);
  const ticks = panel.percent ? [0, 0.25, 0.5, 0.75, 1] : niceTicks(Math.min(0, ...known), Math.max(0, ...known));
  const [low, high] = [ticks[0], ticks[ticks.length - 1]];
  return {
    ticks, steps,
    x: (step) => LEFT + (WIDTH - LEFT - RIGHT) * step / steps,
    y: (value) => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low),
  };
}

/** About four round numbers that span low to high. */
function niceTicks(low, high) {
  const range = high - low || 1;
  const rough = range / 4, power = 10 ** Math.floor(Math.log10(rough));
  const unit = [1, 2, 2.5, 5, 10].map((m) => m * power).find((u) => u >= rough * 0.999);
  const first = Math.floor(low / unit), last = Math.max(Math.ceil(high / unit - 1e-9), first + 1);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * unit).toPrecision(6)));
}

function drawAxes(panel, scale) {
  const show = panel.percent ? (value) => `${Math.round(100 * value)} %` : figure;
  const rows = scale.ticks.flatMap((value) => [
    svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: scale.y(value), y2: scale.y(value) }),
    svg("text", { x: LEFT - 6, y: scale.y(value) + 3.5, "text-anchor": "end" }, show(value)),
  ]);
  const steps = niceTicks(0, scale.steps).filter((step) => step <= scale.steps && Number.isInteger(step));
  const columns = steps.map((step) =>
    svg("text", { x: scale.x(step), y: HEIGHT - 7, "text-anchor": step ? "middle" : "start" }, step ? step.toLocaleString("en") : "step 0"));
  return [...rows, ...columns];
}

function drawLine(line, scale, reach) {
  const group = svg("g", { class: `line ${runClass(line.run)}${line.dashed ? " dashed" : ""}` });
  if (line.low) group.append(svg("path", { class: "band", d: band(line, scale) }));
  const bare = line.low || reach === 0 || line.steps.length < 3;
  group.append(svg("path", { class: bare ? "thick" : "thin", d: path(line.steps, line.values, scale) }));
  if (!bare) group.append(svg("path", { class: "thick", d: path(line.steps, smoothed(line.values, reach), scale) }));
  if (line.low && line.steps.length <= DOTS || line.steps.length === 1) {
    group.append(...line.steps.map((step, i) => dot(step, line.values[i], scale, 2.4)));
  }
  return group;
}

const dot = (step, value, scale, r) => svg("circle", { cx: scale.x(step), cy: scale.y(value), r });
const at = (step, value, scale) => `${scale.x(step).toFixed(1)} ${scale.y(value).toFixed(1)}`;

function path(steps, values, scale) {
  let pen = "M";
  return steps.map((step, i) => {
    if (values[i] === null) { pen = "M"; return ""; }
    const piece = pen + at(step, values[i], scale);
    pen = "L";
    return piece;
  }).join("");
}

function band(line, scale) {
  const ends = line.steps.map((step, i) => [step, line.low[i], line.high[i]]).filter(([, a, b]) => a !== null && b !== null);
  const around = [...ends.map(([s, , high]) => at(s, high, scale)), ...ends.reverse().map(([s, low]) => at(s, low, scale))];
  return around.length ? `M${around.join("L")}Z` : "";
}

/** Centred moving mean over what is known of the 2 reach + 1 values. */
function smoothed(values, reach) {
  return values.map((value, i) => {
    if (value === null) return null;
    const near = values.slice(Math.max(0, i - reach), i + reach + 1).filter((v) => v !== null);
    return near.reduce((sum, v) => sum + v, 0) / near.length;
  });
}

/** The steps of alerts, on the axis. */
function drawSpans(panel, scale) {
  return panel.spans.map(([first, last]) => {
    const x = scale.x(first - 0.5), width = Math.max(3, scale.x(last + 0.5) - x);
    const place = first === last ? `step ${first}` : `steps ${first}–${last}`;
    return svg("rect", { class: "alert", x, width, y: HEIGHT - BOTTOM - 1.5, height: 3 },
      svg("title", {}, `see "Alerts": ${place}`));
  });
}

function drawCursor(panel, scale, step, at) {
  const x = scale.x(step);
  const dots = panel.lines.filter((line, i) => line.values[at[i]] !== null && at[i] >= 0)
    .map((line) => {
      const i = nearest(line, step);
      const mark = dot(line.steps[i], line.values[i], scale, 3.4);
      mark.setAttribute("class", runClass(line.run));
      return mark;
    });
  return [svg("line", { x1: x, x2: x, y1: TOP - 6, y2: HEIGHT - BOTTOM }), ...dots];
}

/** Index of the point of a line nearest to `step`; of its last one without a step. */
function nearest(line, step) {
  if (step === null) return line.steps.length - 1;
  let best = 0;
  line.steps.forEach((s, i) => { if (Math.abs(s - step) < Math.abs(line.steps[best] - step)) best = i; });
  return best;
}

function stepUnder(event, picture, panel, scale) {
  const box = picture.getBoundingClientRect();
  const x = (event.clientX - box.left) * WIDTH / box.width;
  const wanted = (x - LEFT) / (WIDTH - LEFT - RIGHT) * scale.steps;
  const steps = panel.lines.map((line) => line.steps[nearest(line, wanted)]);
  return steps.reduce((a, b) => (Math.abs(b - wanted) < Math.abs(a - wanted) ? b : a));
}

function keyOnCurve(event, panel, shared, move) {
  const steps = [...new Set(panel.lines.flatMap((line) => line.steps))].sort((a, b) => a - b);
  const now = shared.cursor === null ? steps.length : steps.findIndex((step) => step >= shared.cursor);
  const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: steps.length - 1 }[event.key];
  if (event.key === "Escape") move(null);
  else if (to !== undefined) move(steps[Math.min(Math.max(to, 0), steps.length - 1)]);
  else return;
  event.preventDefault();
}
