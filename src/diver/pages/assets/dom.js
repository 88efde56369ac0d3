// Elements, numbers and the packed data. Text of others only ever becomes a text node.

const SVG = "http://www.w3.org/2000/svg";
const MATHML = "http://www.w3.org/1998/Math/MathML";

function build(space, tag, attributes, children) {
  const node = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

const html = (tag, attributes = {}, ...children) => build(null, tag, attributes, children);
const svg = (tag, attributes = {}, ...children) => build(SVG, tag, attributes, children);

/** Four significant digits, a true minus sign, thousands apart. */
function figure(value) {
  if (value === null || value === undefined) return "–";
  const digits = Math.abs(value) >= 1000 ? 0 : Math.abs(value) >= 100 ? 1 : Math.abs(value) >= 10 ? 2 : 3;
  const text = Number(value.toFixed(digits)).toLocaleString("en", { maximumFractionDigits: digits });
  if (value !== 0 && Number(text) === 0) return value.toExponential(1).replace(/-/g, "−");
  return text.replace("-", "−");
}

const percent = (value) => (value === null ? "–" : `${(100 * value).toFixed(1)} %`);
const signed = (value, digits = 2) => (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toFixed(digits);
const runClass = (run) => `r${run % 6}`;
const swatch = (run) => html("i", { class: `swatch ${runClass(run)}` });

/** The data of the page: base64 of gzip of JSON. */
async function unpack() {
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}
