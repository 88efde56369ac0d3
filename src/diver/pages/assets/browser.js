// The group browser: a list to search, filter and sort; the selected group with its matrix, a pair of it, and all responses.

const GRADES = { correct: "correct", wrong: "wrong", no_answer: "no answer", truncated: "truncated", timeout: "timeout", error: "error" };
const SHORT = { textual: "TD", equational: "ED" };
const short = (name) => SHORT[name] ?? name;

const START = { query: "", run: "", step: "", grade: "", sort: "step", group: "", show: "", order: "", beside: "" }; // what a link holds
const FEW = 16; // responses that are shown before "Show all"

function drawBrowser(root, data, names) {
  const groups = data.groups.map((group) => ({ ...group, stats: describe(group) }));
  nameGroups(groups, names);
  const state = { ...START, shown: [], selected: null, source: false };
  const list = html("ol", { class: "groups", "aria-label": "Groups" });
  const count = html("p", { class: "note", role: "status" });
  const detail = html("div", { class: "detail" });
  const link = html("a", { class: "link" }, "Link to this group");
  let ready = false; // the address of the page changes when the reader does something, not before
  const changed = () => {
    const held = Object.keys(START).filter((key) => state[key] !== START[key]).map((key) => [key, state[key]]);
    const address = `#groups?${new URLSearchParams(held)}`;
    link.setAttribute("href", address);
    if (ready) history.replaceState(null, "", address);
  };
  const view = { groups, names, formulas: data.formulas, state, link, changed, redraw: () => select(state.selected) };

  const select = (group, focus) => {
    state.selected = group;
    state.group = group ? group.name : "";
    for (const button of list.querySelectorAll("button")) {
      const now = state.shown[button.dataset.at] === group;
      button.setAttribute("aria-pressed", now);
      button.tabIndex = now ? 0 : -1;
      if (now && focus) button.focus();
    }
    detail.replaceChildren(...(group ? groupDetail(group, view) : []));
    changed();
  };
  const refresh = () => {
    state.shown = sorted(groups.filter((group) => matches(group, state)), state.sort);
    list.replaceChildren(...state.shown.map((group, i) => listItem(group, i, names, () => select(group))));
    const n = state.shown.length;
    count.textContent = n ? `${n} of ${groups.length} ${groups.length === 1 ? "group" : "groups"}` : "No matching group: change the search or the filters.";
    const first = state.shown.find((group) => kinds(group).includes("mixed")) ?? state.shown[0] ?? null;
    select(state.shown.find((group) => group.name === state.group) ?? first);
  };
  const controls = filters(groups, names, state, refresh);
  /** Take over what the address holds; a control refuses what it does not offer. */
  const restore = () => {
    const [place, held] = location.hash.slice(1).split("?");
    const linked = place === "groups" && held !== undefined;
    if (linked) Object.assign(state, START, Object.fromEntries([...new URLSearchParams(held)].filter(([key]) => key in START)));
    for (const control of linked ? controls.querySelectorAll("select, input") : []) {
      const key = control.dataset.key;
      control.value = state[key];
      if (control.value !== state[key]) control.value = state[key] = START[key];
    }
    refresh();
    if (linked) root.closest("section").scrollIntoView({ behavior: "instant" });
  };
  list.addEventListener("keydown", (event) => {
    const now = state.shown.indexOf(state.selected), last = state.shown.length - 1;
    const to = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    select(state.shown[Math.min(Math.max(to, 0), last)], true);
  });
  root.append(controls, html("div", { class: "browse" }, html("nav", { "aria-label": "Groups" }, count, list), detail));
  restore();
  ready = true;
  window.addEventListener("hashchange", restore);
}

/** A name for each group, no two alike, which a link holds; and its `task`, which the groups of one problem share. */
function nameGroups(groups, names) {
  const seen = new Map();
  for (const group of groups) {
    const name = [names[group.run], group.step ?? "", group.problem].join(" / ");
    seen.set(name, (seen.get(name) ?? 0) + 1);
    group.name = seen.get(name) > 1 ? `${name} (${seen.get(name)})` : name;
    group.task = `${sourceOf(group.prompt)}\n${group.answer}`;
  }
}

/** What the list shows of a group, and what it is sorted and searched by. */
function describe(group) {
  const mean = (values) => {
    const known = values.filter((value) => value !== null && value !== undefined);
    return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
  };
  const metrics = [...new Set(group.responses.flatMap((r) => Object.keys(r.diversity)))];
  return {
    diversity: Object.fromEntries(metrics.map((name) => [name, mean(group.responses.map((r) => r.diversity[name]))])),
    reward: mean(group.responses.map((r) => r.reward.total)),
    text: [group.problem, group.answer, sourceOf(group.prompt), ...group.responses.map((r) => sourceOf(r.text))].join("\n").toLowerCase(),
  };
}

function matches(group, { query, run, step, grade }) {
  return (run === "" || group.run === Number(run))
    && (step === "" || group.step === Number(step))
    && (grade === "" || kinds(group).includes(grade))
    && query.toLowerCase().split(/\s+/).every((word) => group.stats.text.includes(word));
}

/** How many responses are correct, and of how many that is known: a timeout or an error says nothing of the response. */
function counts(group) {
  const scored = group.responses.map((r) => r.grade).filter((grade) => ![null, "timeout", "error"].includes(grade));
  return { correct: scored.filter((grade) => grade === "correct").length, scored: scored.length };
}

/** The counts as words; "" where no response is graded. */
function counted(group) {
  const { correct, scored } = counts(group);
  if (scored === 0) return "";
  return `${correct} of ${scored} ${scored < group.responses.length ? "graded " : ""}correct`;
}

/** The filters a group passes: a grade that one of its responses has, or how many of those graded are correct. */
function kinds(group) {
  const { correct, scored } = counts(group);
  const whole = scored === 0 ? [] : [correct === scored ? "all" : correct === 0 ? "none" : "mixed"];
  return [...group.responses.map((r) => r.grade ?? "not graded"), ...whole];
}

function sorted(groups, by) {
  const [key, direction] = by.split(" ");
  if (key === "step") return groups;
  const value = (group) => (key === "reward" ? group.stats.reward : group.stats.diversity[key]) ?? -Infinity;
  return [...groups].sort((a, b) => (direction === "up" ? value(a) - value(b) : value(b) - value(a)));
}

function filters(groups, names, state, refresh) {
  const select = (label, key, options) => picker(label, key, options, state, refresh);
  const search = html("input", {
    id: "by-text", "data-key": "query", type: "search", placeholder: "problem, prompt or response",
    input: () => { state.query = search.value; refresh(); },
  });
  const steps = [...new Set(groups.map((group) => group.step))].filter((step) => step !== null).sort((a, b) => a - b);
  const existing = new Set(groups.flatMap((group) => kinds(group)));
  const present = Object.entries({ ...GRADES, "not graded": "not graded" }).filter(([key]) => existing.has(key));
  const metrics = [...new Set(groups.flatMap((group) => Object.keys(group.stats.diversity)))];
  const rewarded = groups.some((group) => group.stats.reward !== null);
  const orders = [...(rewarded ? ["reward"] : []), ...metrics].flatMap((name) =>
    [[`${name} down`, `${short(name)}, highest first`], [`${name} up`, `${short(name)}, lowest first`]]);
  return html(
    "div", { class: "controls filters" },
    html("div", { class: "field" }, html("label", { for: search.id }, "Search"), search),
    names.length > 1 ? select("Run", "run", [["", "all"], ...names.map((name, i) => [i, name])]) : null,
    steps.length > 1 ? select("Step", "step", [["", "all"], ...steps.map((step) => [step, step.toLocaleString("en")])]) : null,
    select("Grade", "grade", [
      ["", "all groups"], ["mixed", "some correct"], ["all", "all correct"], ["none", "none correct"],
      ...present.map(([key, words]) => [key, `with ${words}`]),
    ]),
    select("Sort by", "sort", [["step", steps.length ? "step" : "order of the file"], ...orders]),
  );
}

function listItem(group, at, names, choose) {
  const where = group.step === null ? group.problem : `Step ${group.step.toLocaleString("en")}`;
  const figures = Object.entries(group.stats.diversity).slice(0, 2).map(([name, value]) => `${short(name)} ${value === null ? "–" : value.toFixed(2)}`);
  const marks = group.responses.length <= 12
    ? html("span", { class: "dots", "aria-hidden": true }, ...group.responses.map((r) => html("i", { class: kind(r.grade) })))
    : null;
  return html("li", {}, html(
    "button", { type: "button", "data-at": at, click: choose },
    html("span", { class: "where" }, names.length > 1 ? swatch(group.run) : null, html("span", { class: "name" }, where), marks),
    html("span", { class: "what" }, group.step === null ? sourceOf(group.prompt).slice(0, 90) : group.problem),
    html("span", { class: "what" }, [counted(group), ...figures].filter(Boolean).join(" · ")),
  ));
}

const kind = (grade) => (grade === "correct" ? "correct" : grade === "wrong" ? "wrong" : "other");

function groupDetail(group, view) {
  const { names, state } = view;
  const few = group.size > group.responses.length ? `${group.responses.length} of ${group.size} responses shown` : "";
  const said = [counted(group), group.pairs, few].filter(Boolean).join(", ");
  const others = view.groups.filter((other) => other.run !== group.run && other.task === group.task);
  const other = others.find(({ name }) => name === state.beside);
  const compared = html("div", { class: "pair" });
  const columns = html("div", { class: other ? "sides" : "" });
  let pair = [];
  const mark = () => {
    for (const card of columns.querySelectorAll("article")) card.classList.toggle("chosen", pair.includes(Number(card.dataset.at)));
  };
  const choose = (i, j) => {
    showPair(compared, group, i, j);
    pair = i === j ? [] : [i, j];
    mark();
  };
  const fill = () => {
    const of = [group, other].filter(Boolean);
    columns.replaceChildren(...of.map((one) => html("div", {}, other ? runLine(one, names) : null, ...cards(one, view, fill))));
    mark();
  };
  const control = (label, key, options, changed) => picker(label, key, options, state, () => { changed(); view.changed(); });
  const toggle = html("input", { type: "checkbox", change: () => { state.source = toggle.checked; fill(); } });
  toggle.checked = state.source;
  state.all = false;
  const parts = [
    html("header", {},
      html("h3", {}, group.step === null ? "" : `Step ${group.step.toLocaleString("en")} · `, html("span", { dir: "auto" }, group.problem)),
      html("p", { class: "note" }, said, said && group.answer ? " · " : null,
        group.answer ? html("span", { dir: "auto" }, `reference answer ${group.answer}`) : null),
      view.link),
    html("div", { class: "prompt" }, textBlock(group.prompt, view.formulas, true)),
  ];
  if (others.length) {
    parts.push(html("div", { class: "controls" }, control("Side by side with", "beside",
      [["", "no other run"], ...others.map((one) => [one.name, runWords(one, names)])], view.redraw)));
  }
  if (group.responses.length > 1 && !other) {
    const first = mostSimilar(group.matrix);
    parts.push(html("div", { class: "against" },
      html("figure", {}, heatMap(group.matrix, group.responses.map((r) => r.index), first, choose),
        html("figcaption", { class: "note" }, "Dissimilarity of the row to the column: 0 identical, 1 nothing in common.")),
      compared));
    choose(...first);
  }
  const both = [...group.responses, ...(other ? other.responses : [])];
  parts.push(html("div", { class: "controls" },
    control("Responses", "show", showOptions(both), fill),
    control("Order", "order", orderOptions(both), fill),
    html("label", {}, toggle, " Show LaTeX")), columns);
  fill();
  return parts;
}

const runWords = (group, names) => [names[group.run], group.step === null ? "" : `step ${group.step.toLocaleString("en")}`, counted(group)].filter(Boolean).join(", ");
const runLine = (group, names) => html("p", { class: "label" }, swatch(group.run), runWords(group, names));

/** A labelled choice of `state[key]`; a value that is not offered is dropped. */
function picker(label, key, options, state, changed) {
  const choice = html("select", { id: `by-${key}`, "data-key": key, change: () => { state[key] = choice.value; changed(); } },
    ...options.map(([value, text]) => html("option", { value }, text)));
  if (!options.some(([value]) => String(value) === state[key])) state[key] = START[key];
  choice.value = state[key];
  return html("div", { class: "field" }, html("label", { for: choice.id }, label), choice);
}

function showOptions(responses) {
  const kept = Object.keys(GRADES).filter((grade) => responses.some((r) => r.grade === grade));
  const number = (grade) => responses.filter((r) => r.grade === grade).length;
  return [["", `all ${responses.length}`], ...kept.map((grade) => [grade, `${GRADES[grade]} (${number(grade)})`]), ["search", "with the words of the search"]];
}

const VALUES = { length: (r) => r.length, reward: (r) => r.reward.total ?? null, advantage: (r) => r.advantage };
const valueOf = (response, name) => (VALUES[name] ? VALUES[name](response) : response.diversity[name]) ?? null;

function orderOptions(responses) {
  const names = [...new Set([...Object.keys(VALUES), ...responses.flatMap((r) => Object.keys(r.diversity))])];
  const known = names.filter((name) => responses.some((r) => valueOf(r, name) !== null));
  return [["", "as sampled"], ...known.flatMap((name) => [[`${name} down`, `${short(name)}, highest first`], [`${name} up`, `${short(name)}, lowest first`]])];
}

/** The cards of a group that the choices leave, at most FEW until the reader asks for all. */
function cards(group, { state, formulas }, fill) {
  const words = state.query.toLowerCase().split(/\s+/);
  const holds = (r) => words.every((word) => sourceOf(r.text).toLowerCase().includes(word));
  const left = group.responses.map((r, at) => ({ r, at })).filter(({ r }) => (state.show === "search" ? holds(r) : state.show === "" || r.grade === state.show));
  if (state.order) {
    const [name, direction] = state.order.split(" ");
    const value = ({ r }) => valueOf(r, name) ?? -Infinity;
    left.sort((a, b) => (direction === "up" ? value(a) - value(b) : value(b) - value(a)));
  }
  const shown = state.all ? left : left.slice(0, FEW);
  return [
    html("div", { class: "cards" }, ...shown.map(({ r, at }) => card(r, at, formulas, state.source))),
    left.length ? null : html("p", { class: "note" }, "No such response."),
    shown.length < left.length ? html("button", { type: "button", class: "all", click: () => { state.all = true; fill(); } }, `Show all ${left.length}`) : null,
  ].filter(Boolean);
}

/** The pair with the smallest dissimilarity above 0, or the first two. */
function mostSimilar(matrix) {
  let best = [0, Math.min(1, matrix.length - 1)], least = Infinity;
  matrix.forEach((row, i) => row.forEach((value, j) => {
    if (i !== j && value > 0 && value < least) [best, least] = [[i, j], value];
  }));
  return best;
}

function showPair(root, group, i, j) {
  const [a, b] = [group.responses[i], group.responses[j]];
  if (i === j) {
    root.replaceChildren(html("p", { class: "note" }, `Response ${a.index} itself: choose a cell off the diagonal.`));
    return;
  }
  const [first, second] = [sourceOf(a.text), sourceOf(b.text)];
  const side = (response, text, other) => html("div", {},
    html("p", { class: "label" }, badge(response), gradeOf(response)), comparedBlock(text, other));
  root.replaceChildren(
    html("p", { role: "status" }, `Responses ${a.index} and ${b.index}: dissimilarity `,
      html("b", {}, (group.matrix[i][j] / 100).toFixed(2)), `, in the other direction ${(group.matrix[j][i] / 100).toFixed(2)}`),
    html("p", { class: "note key" }, "In both: ",
      ...["one word", "two in a row", "three", "four or more"].map((words, n) => html("mark", { class: `n${n + 1}` }, words))),
    html("div", { class: "sides" }, side(a, first, second), side(b, second, first)),
  );
}

const badge = (response) => html("span", { class: "badge" }, String(response.index));
const gradeOf = (response) => html("span", { class: `grade ${kind(response.grade)}` }, GRADES[response.grade] ?? "not graded");

function card(response, at, formulas, source) {
  return html("article", { "data-at": at },
    html("header", {}, badge(response), gradeOf(response),
      response.trained === false ? html("span", { class: "grade other" }, "not trained on") : null,
      response.length === null ? null : html("span", { class: "size" }, `${figure(response.length)} tokens`)),
    textBlock(response.text, formulas, source),
    response.turns ? turnsBlock(response) : null,
    html("dl", {}, ...figures(response).map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", {}, value)))));
}

/** The numbers of a response: the reward and its parts, the advantage, the diversities. */
function figures(response) {
  const { reward, diversity, advantage, entropy } = response;
  const part = (value) => (value ? signed(value, 3) : null);
  return [
    ["Reward", reward.total === undefined ? null : figure(reward.total)],
    ["outcome", reward.outcome === undefined ? null : figure(reward.outcome)],
    ["diversity", part(reward.diversity)],
    ["length", part(reward.length)],
    ["Advantage", advantage === null ? null : signed(advantage)],
    ["Entropy", entropy === null ? null : figure(entropy)],
    ...Object.entries(diversity).map(([name, value]) => [short(name), value === null ? null : value.toFixed(2)]),
  ].filter(([, value]) => value !== null);
}
