// Draw what this page has a place for.

unpack().then((data) => {
  const places = { curves: drawCurves, browser: drawBrowser };
  for (const [name, draw] of Object.entries(places)) {
    const root = document.getElementById(name);
    if (root) draw(root, data[name], data.runs);
  }
  document.documentElement.dataset.ready = "";
});
