// One stream for all pages of a browser: it opens six connections to a server at the most, and each stream would
// hold one for good.
"use strict";
const pages = new Set();
let source = null;

function tell(message) {
  for (const page of pages) page.postMessage(message);
}

function open() {
  if (source) return;
  source = new EventSource("/events");
  source.onopen = () => tell({ type: "open" });
  source.onerror = () => {
    tell({ type: "error" });
    if (source && source.readyState === EventSource.CLOSED) { // refused: the server has too many, or is no more
      source = null;
      tell({ type: "refused" });
      setTimeout(() => { if (pages.size) open(); }, 5000);
    }
  };
  source.addEventListener("changed", (e) => tell({ type: "changed", data: e.data, id: e.lastEventId }));
}

function leave(page) {
  pages.delete(page);
  if (!pages.size && source) {
    source.close();
    source = null;
  }
}

self.onconnect = (e) => {
  const page = e.ports[0];
  page.onmessage = (m) => {
    if (m.data === "leave") return leave(page);
    pages.add(page);
    if (source && source.readyState === EventSource.OPEN) page.postMessage({ type: "open" });
    else open();
  };
};
