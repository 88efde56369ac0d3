// A trajectory: each turn folded under a line that says whose it is and what was done. All of it is untrusted text.

function turnsBlock(response) {
  const left = response.all_turns - response.turns.length;
  return html("div", { class: "turns" },
    ...response.turns.map((turn, i) => html("details", { class: turn.own ? "own" : "env" },
      html("summary", {}, `${i + 1} ${turn.role}`, ...turn.actions.flatMap((action) => [" ", html("mark", { class: "action" }, action)])),
      html("div", { class: "text", dir: "auto" }, turn.text,
        turn.cut ? html("span", { class: "cut" }, `… ${turn.cut.toLocaleString("en")} characters left out …`) : null))),
    left ? html("p", { class: "note" }, `${left.toLocaleString("en")} further turns are not shown.`) : null);
}
