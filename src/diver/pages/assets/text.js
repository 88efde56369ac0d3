// What a model wrote: mathematics drawn or as its source, formulas that no other response has marked, words shared with another marked.

const ORDERS = 4; // of BLEU: n-grams of one to four words

/** One allowed MathML element of the data; names and attributes were chosen when the page was made. */
function mathNode([name, attributes, ...children]) {
  return build(MATHML, name, attributes, children.map((child) => (typeof child === "string" ? child : mathNode(child))));
}

/** A text as a block. `source`: formulas as they were written. */
function textBlock(parts, formulas, source) {
  const block = html("div", { class: "text", dir: "auto" });
  if (!parts.length) block.append(html("span", { class: "nothing" }, "(empty)"));
  let afterDisplay = false; // such a formula ends its line itself, so the line's own end would be one too many
  for (const part of parts) {
    if (typeof part === "string") block.append(afterDisplay ? part.replace(/^[ \t]*\n/, "") : part);
    else if (Array.isArray(part)) block.append(formula(part, formulas, source));
    else block.append(html("span", { class: "cut" }, `… ${part.cut.toLocaleString("en")} characters left out …`));
    afterDisplay = !source && isDisplay(part, formulas);
  }
  return block;
}

const isDisplay = (part, formulas) => Array.isArray(part) && part[1] !== null && formulas[part[1]][1].display === "block";

function formula(part, formulas, source) {
  const [written, index, unique] = part;
  const drawn = source || index === null ? written : mathNode(formulas[index]);
  const title = unique ? `in no other response of this group: ${written}` : written;
  return html(unique ? "mark" : "span", { class: !source && isDisplay(part, formulas) ? "formula display" : "formula", title }, drawn);
}

const sourceOf = (parts) =>
  parts.map((part) => (typeof part === "string" ? part : Array.isArray(part) ? part[0] : "\n\u2026\n")).join("");

/** The words of `text` between white space, and for each the longest n-gram of the other text it is part of, 0 to 4. */
function sharedWords(text, other) {
  const words = text.split(/\s+/).filter(Boolean), others = other.split(/\s+/).filter(Boolean);
  const shared = new Uint8Array(words.length);
  for (let n = 1; n <= ORDERS; n++) {
    const grams = new Set(others.map((_, i) => gram(others, i, n)).slice(0, Math.max(0, others.length - n + 1)));
    for (let i = 0; i + n <= words.length; i++) {
      if (grams.has(gram(words, i, n))) shared.fill(n, i, i + n);
    }
  }
  return shared;
}

const gram = (words, i, n) => words.slice(i, i + n).join("\u0000");

/** `text` as it was written, its words shaded by how long a run of words they share with `other`. */
function comparedBlock(text, other) {
  const shared = sharedWords(text, other);
  const block = html("div", { class: "text compared", dir: "auto" });
  let word = 0, run = "", level = 0;
  const flush = () => {
    if (run) block.append(level ? html("mark", { class: `n${level}` }, run) : run);
    run = "";
  };
  for (const piece of text.match(/\s+|\S+/g) ?? []) {
    const next = /^\s/.test(piece) ? (shared[word] === level && word ? level : 0) : shared[word++];
    if (next !== level) { flush(); level = next; }
    run += piece;
  }
  flush();
  return block;
}
