// What a page does beyond being read: it asks for its middle part again when the server says that something has
// changed. Without this file everything works; the page is then loaded again by hand, or by its meta refresh.
"use strict";
(() => {
  const me = document.currentScript;
  const page = document.getElementById("page");
  const live = document.getElementById("live");
  const say = document.getElementById("say");

  // Shared is what the sse extension takes for an EventSource: a share in the browser's one stream, or where there
  // is no SharedWorker a stream of its own. While the page is hidden or paused it holds none.
  class Shared extends EventTarget {
    constructor() {
      super();
      this.readyState = EventSource.CONNECTING;
      this.go();
    }
    go() {
      if (this.port || this.own || this.ended || paused()) return;
      if (window.SharedWorker) {
        this.port = new SharedWorker(me.dataset.worker).port;
        this.port.onmessage = (e) => this.take(e.data);
        this.port.postMessage("join");
        return;
      }
      this.own = new EventSource("/events");
      this.own.onopen = () => this.take({ type: "open" });
      this.own.onerror = () => this.take({ type: this.own.readyState === EventSource.CLOSED ? "refused" : "error" });
      this.own.addEventListener("changed", (e) => this.take({ type: "changed", data: e.data }));
    }
    rest() {
      if (this.port) {
        this.port.postMessage("leave");
        this.port.close();
      }
      if (this.own) this.own.close();
      this.port = this.own = null;
      this.readyState = EventSource.CONNECTING;
    }
    take(m) {
      if (m.type === "changed") return this.dispatchEvent(new MessageEvent("changed", { data: m.data }));
      this.readyState = m.type === "open" ? EventSource.OPEN : EventSource.CONNECTING;
      state(m.type === "open" ? "live" : "lost");
      if (m.type === "refused") return refresh(); // the session may have ended: the page then leads to the login
      if (m.type !== "open") return;
      if (this.onopen) this.onopen(new Event("open"));
      refresh(); // what changed between the page and its stream
    }
    close() {
      this.ended = true;
      this.rest();
    }
  }

  let stream = null;
  let stopped = sessionStorage.getItem("comanda.paused") === "1";
  const paused = () => stopped || document.hidden;
  if (window.htmx) htmx.createEventSource = () => (stream = new Shared());

  // One request at a time, and after one a rest of ten times its length: a page that is dear to make is made seldom.
  let under = 0, restUntil = 0, timer = 0;
  function refresh() {
    if (!live || !window.htmx || paused() || timer) return;
    if (held()) {
      missed = pressed;
      return state("held");
    }
    const wait = under ? 200 : Math.max(0, restUntil - performance.now());
    timer = setTimeout(() => {
      timer = 0;
      if (under) return refresh();
      if (!paused() && !held()) htmx.trigger(page, "refresh");
    }, wait);
  }

  // Whoever is about to choose or to write something must not have it taken out of their hands. A button that another
  // takes the place of between press and release is not clicked.
  let pressed = false, missed = false;
  document.addEventListener("pointerdown", () => { pressed = true; }, true);
  for (const name of ["pointerup", "pointercancel"]) {
    document.addEventListener(name, () => setTimeout(() => { // after the click
      pressed = false;
      if (!missed) return;
      missed = false;
      refresh();
    }), true);
  }
  function held() {
    const at = document.activeElement;
    return pressed || !!page.querySelector("input[type=checkbox]:checked") || (page.contains(at) && /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) && at.type !== "checkbox");
  }

  document.addEventListener("sse:changed", (e) => {
    e.stopImmediatePropagation(); // refresh() decides when
    let change = { more: true };
    try { change = JSON.parse(e.detail.data); } catch { /* then anything may have changed */ }
    const order = page.dataset.order;
    if (order && !change.more && !change.orders.includes(order)) return;
    refresh();
  }, true);

  let began = 0, open = [];
  document.addEventListener("htmx:beforeRequest", (e) => {
    if (e.target !== page) return;
    if (paused() || held()) return e.preventDefault(); // the timer's turn came at a bad moment
    under++;
    began = performance.now();
  });
  document.addEventListener("htmx:afterRequest", (e) => {
    if (e.target !== page || !under) return;
    under--;
    restUntil = performance.now() + 10 * (performance.now() - began);
    if (!stream || stream.readyState !== EventSource.OPEN) return;
    state(e.detail.successful ? "live" : "lost");
  });

  // The middle part is taken out and put in again: what had the focus, or was open, has it again.
  let focused = null;
  const names = (el) => el.id ? "#" + CSS.escape(el.id) : el.getAttribute("href") ? el.tagName + '[href="' + CSS.escape(el.getAttribute("href")) + '"]' : el.name ? el.tagName + '[name="' + CSS.escape(el.name) + '"][value="' + CSS.escape(el.value) + '"]' : el.tagName;
  document.addEventListener("htmx:beforeSwap", (e) => {
    if (e.target !== page) return;
    if (held()) { // since it was asked for
      e.detail.shouldSwap = false;
      return refresh();
    }
    if (e.detail.xhr.status === 404) e.detail.shouldSwap = true;
    const at = document.activeElement;
    focused = page.contains(at) && at !== page ? { like: names(at) } : null;
    if (focused) focused.nth = [...page.querySelectorAll(focused.like)].indexOf(at);
    open = [...page.querySelectorAll("details")].map((d) => d.open);
  });
  document.addEventListener("htmx:afterSwap", (e) => {
    if (e.target !== page) return;
    page.querySelectorAll("details").forEach((d, i) => { d.open = !!open[i]; });
    if (focused) page.querySelectorAll(focused.like)[focused.nth]?.focus({ preventScroll: true });
    const headline = page.querySelector("#headline");
    if (headline && say.textContent !== headline.textContent.trim()) say.textContent = headline.textContent.trim();
    ready();
  });

  // The words beside the pause button.
  const box = document.getElementById("livebox");
  function state(name) {
    if (!box) return;
    const shown = document.getElementById("livestate");
    shown.textContent = stopped ? shown.dataset.off : shown.dataset[name];
    shown.className = stopped ? "off" : name;
  }
  function button() {
    const b = document.getElementById("livepause");
    b.textContent = stopped ? b.dataset.go : b.dataset.pause;
    b.setAttribute("aria-pressed", String(stopped));
  }
  function turn() {
    if (!stream) return;
    if (paused()) return stream.rest();
    stream.go();
    refresh();
  }
  if (box) {
    box.hidden = false;
    button();
    state("lost");
    document.getElementById("livepause").addEventListener("click", () => {
      stopped = !stopped;
      sessionStorage.setItem("comanda.paused", stopped ? "1" : "0");
      button();
      state("lost");
      turn();
    });
    document.addEventListener("visibilitychange", turn);
    window.addEventListener("pagehide", () => stream && stream.rest());
    window.addEventListener("pageshow", (e) => e.persisted && turn());
  }

  // The rail: how many are chosen, and all of them at once.
  function chosen() {
    const shown = document.getElementById("chosen");
    if (!shown) return;
    const n = page.querySelectorAll("td.pick input:checked").length;
    shown.textContent = n ? shown.dataset.some.replace("{n}", n) : shown.dataset.none;
    if (!n) refresh();
  }
  function ready() {
    const head = page.querySelector("table.rows th:first-child .sr");
    const picks = page.querySelectorAll("td.pick input");
    if (head && picks.length && !page.querySelector("#all")) {
      const label = document.createElement("label");
      const all = document.createElement("input");
      all.type = "checkbox";
      all.id = "all";
      label.append(all, head);
      page.querySelector("table.rows th:first-child").append(label);
      all.addEventListener("change", () => {
        page.querySelectorAll("td.pick input").forEach((p) => { p.checked = all.checked; });
        chosen();
      });
    }
    const print = document.getElementById("print");
    if (print) {
      print.hidden = false;
      print.onclick = () => window.print();
    }
  }
  page.addEventListener("change", (e) => { if (e.target.closest("td.pick")) chosen(); });
  ready();
})();
