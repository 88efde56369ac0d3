// A served page asks whether there is a newer one, and offers it: to reload by itself would lose what is being read.

const ASK_EVERY = 5000; // milliseconds

function watch(version) {
  const news = html("button", { type: "button", class: "news", click: () => location.reload() }, "More rollouts were read: show them");
  const ask = async () => {
    try {
      const answer = await fetch("version");
      if (answer.ok && (await answer.text()) !== version && !news.isConnected) document.body.append(news);
    } catch { /* the server has ended: the page stays as it is */ }
  };
  setInterval(ask, ASK_EVERY);
}
