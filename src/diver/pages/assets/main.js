// Draw the parts for which this page has an element.

unpack().then((data) => {
  const places = { curves: drawCurves, browser: drawBrowser };
  for (const [name, draw] of Object.entries(places)) {
    const root = document.getElementById(name);
    if (root) draw(root, data[name], data.runs);
  }
  if (data.version) watch(data.version);
  document.documentElement.dataset.ready = "";
}).catch((error) => {
  const message = `The curves and groups could not be drawn (${error.message}): this page needs a browser of 2023 or later.`;
  document.querySelector("main").append(html("p", { class: "note", role: "alert" }, message));
  throw error;
});
