// The dissimilarities of a group as a heat map in which a pair is chosen, by pointer or by arrow keys.

const CELLS = 300; // width of the map in its own units

/** `choose(i, j)` is called with the row and the column of a pair; `labels` are the numbers of the responses. */
function heatMap(matrix, labels, pair, choose) {
  const size = CELLS / matrix.length, margin = 22;
  const small = matrix.length > 24;
  const map = svg("svg", {
    class: "heat", viewBox: `${-margin} ${-margin} ${CELLS + margin} ${CELLS + margin}`, tabindex: 0,
    role: "application", "aria-label": "Dissimilarity of each pair; arrow keys choose a pair",
  });
  matrix.forEach((row, i) => row.forEach((value, j) => map.append(...cell(i, j, value, size, matrix.length, labels))));
  labels.forEach((label, i) => {
    if (small && i % 8) return;
    map.append(svg("text", { x: (i + 0.5) * size, y: -7, "text-anchor": "middle" }, label));
    map.append(svg("text", { x: -6, y: (i + 0.5) * size + 4, "text-anchor": "end" }, label));
  });
  const chosen = svg("rect", { class: "chosen", width: size, height: size, rx: small ? 0 : 3 });
  map.append(chosen);
  let [row, column] = pair;
  const place = () => {
    chosen.setAttribute("x", column * size);
    chosen.setAttribute("y", row * size);
  };
  const go = (i, j) => {
    const last = matrix.length - 1;
    [row, column] = [Math.min(Math.max(i, 0), last), Math.min(Math.max(j, 0), last)];
    place();
    choose(row, column);
  };
  place();
  map.addEventListener("click", (event) => {
    const box = map.getBoundingClientRect(), unit = (CELLS + margin) / box.width;
    const [x, y] = [(event.clientX - box.left) * unit - margin, (event.clientY - box.top) * unit - margin];
    if (x >= 0 && y >= 0) go(Math.floor(y / size), Math.floor(x / size));
  });
  map.addEventListener("keydown", (event) => {
    const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!by) return;
    event.preventDefault();
    go(row + by[0], column + by[1]);
  });
  return map;
}

function cell(i, j, value, size, count, labels) {
  const gap = count > 24 ? 0 : 1.5;
  const label = i === j ? `response ${labels[i]}` : `${labels[i]} against ${labels[j]}: ${(value / 100).toFixed(2)}`;
  const rect = svg("rect", {
    class: i === j ? "same" : "cell", x: j * size + gap / 2, y: i * size + gap / 2, width: size - gap, height: size - gap,
    rx: count > 24 ? 0 : 2, "fill-opacity": i === j ? 1 : (0.04 + 0.92 * (value / 100) ** 2).toFixed(3), // long texts are all far apart: squared
  }, svg("title", {}, label));
  if (count > 12 || i === j) return [rect];
  const text = svg("text", {
    class: value > 74 ? "figure on" : "figure", x: (j + 0.5) * size, y: (i + 0.5) * size + 3.5, "text-anchor": "middle",
  }, value === 100 ? "1" : `.${String(value).padStart(2, "0")}`);
  return [rect, text];
}
