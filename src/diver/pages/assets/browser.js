// The group browser: a list to search, filter and sort; the selected group with its matrix, a pair of it, and all responses.

const GRADES = { correct: "correct", wrong: "wrong", no_answer: "no answer", truncated: "truncated", timeout: "timeout", error: "error" };
const SHORT = { textual: "TD", equational: "ED" };
const short = (name) => SHORT[name] ?? name;

function drawBrowser(root, data, names) {
  const groups = data.groups.map((group) => ({ ...group, stats: describe(group) }));
  const state = { query: "", run: "", step: "", grade: "", sort: "step", shown: [], selected: null, source: false };
  const list = html("ol", { class: "groups", "aria-label": "Groups" });
  const count = html("p", { class: "note", role: "status" });
  const detail = html("div", { class: "detail" });

  const select = (group, focus) => {
    state.selected = group;
    for (const button of list.querySelectorAll("button")) {
      const now = state.shown[button.dataset.at] === group;
      button.setAttribute("aria-pressed", now);
      button.tabIndex = now ? 0 : -1;
      if (now && focus) button.focus();
    }
    detail.replaceChildren(...(group ? groupDetail(group, data.formulas, state) : []));
  };
  const refresh = () => {
    state.shown = sorted(groups.filter((group) => matches(group, state)), state.sort);
    list.replaceChildren(...state.shown.map((group, i) => listItem(group, i, names, () => select(group))));
    const n = state.shown.length;
    count.textContent = n ? `${n} of ${groups.length} ${groups.length === 1 ? "group" : "groups"}` : "No matching group: change the search or the filters.";
    const first = state.shown.find((group) => kinds(group).includes("mixed")) ?? state.shown[0] ?? null;
    select(state.shown.includes(state.selected) ? state.selected : first);
  };
  list.addEventListener("keydown", (event) => {
    const now = state.shown.indexOf(state.selected), last = state.shown.length - 1;
    const to = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    select(state.shown[Math.min(Math.max(to, 0), last)], true);
  });
  root.append(
    filters(groups, names, state, refresh),
    html("div", { class: "browse" }, html("nav", { "aria-label": "Groups" }, count, list), detail),
  );
  refresh();
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
  const field = (label, control) => html("div", { class: "field" }, html("label", { for: control.id }, label), control);
  const select = (label, key, options) => field(label,
    html("select", { id: `by-${key}`, change: (event) => { state[key] = event.target.value; refresh(); } },
      ...options.map(([value, text]) => html("option", { value }, text))));
  const search = html("input", {
    id: "by-text", type: "search", placeholder: "problem, prompt or response",
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
    field("Search", search),
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

function groupDetail(group, formulas, state) {
  const few = group.size > group.responses.length ? `${group.responses.length} of ${group.size} responses shown` : "";
  const said = [counted(group), group.pairs, few].filter(Boolean).join(", ");
  const pair = mostSimilar(group.matrix);
  const compared = html("div", { class: "pair" });
  const cards = html("div", { class: "cards" });
  const choose = (i, j) => {
    showPair(compared, group, i, j);
    [...cards.children].forEach((card, k) => card.classList.toggle("chosen", i !== j && (k === i || k === j)));
  };
  const drawCards = () => cards.replaceChildren(...group.responses.map((r) => card(r, formulas, state.source)));
  const toggle = html("input", { type: "checkbox", change: () => { state.source = toggle.checked; drawCards(); } });
  toggle.checked = state.source;
  drawCards();
  const parts = [
    html("header", {},
      html("h3", {}, group.step === null ? "" : `Step ${group.step.toLocaleString("en")} · `, html("span", { dir: "auto" }, group.problem)),
      html("p", { class: "note" }, said, said && group.answer ? " · " : null,
        group.answer ? html("span", { dir: "auto" }, `reference answer ${group.answer}`) : null)),
    html("div", { class: "prompt" }, textBlock(group.prompt, formulas, state.source)),
  ];
  if (group.responses.length > 1) {
    const labels = group.responses.map((r) => r.index);
    parts.push(html("div", { class: "against" },
      html("figure", {}, heatMap(group.matrix, labels, pair, choose),
        html("figcaption", { class: "note" }, "Dissimilarity of the row to the column: 0 identical, 1 nothing in common.")),
      compared));
    choose(...pair);
  }
  parts.push(html("div", { class: "bar" }, html("h4", {}, "Responses"), html("label", {}, toggle, " Show LaTeX")), cards);
  return parts;
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

function card(response, formulas, source) {
  return html("article", {},
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
