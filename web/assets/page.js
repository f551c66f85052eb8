// What the pages do beyond what they show without a script: times in the viewer's zone, live parts, ticking all, keys.
"use strict";

const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });

function localTimes(within) {
  for (const time of within.querySelectorAll("time[datetime]:not([data-local])")) {
    time.dataset.local = "";
    time.textContent = zone.format(new Date(time.dateTime));
  }
  for (const text of within.querySelectorAll("svg text[data-time]")) {
    const at = new Date(text.dataset.time);
    const isDay = text.dataset.span === "week";
    text.textContent = isDay ? at.toLocaleDateString(undefined, { weekday: "short", day: "numeric" })
      : at.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
  }
}

// Makes `old` as `fresh` is, and leaves alone what is the same: the focus, a selection and a scroll position stay.
function become(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.dataset?.key !== fresh.dataset?.key) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.nodeName === "TIME" && old.getAttribute("datetime") === fresh.getAttribute("datetime")) return;
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  children(old, fresh);
}

function children(old, fresh) {
  const before = [...old.childNodes], after = [...fresh.childNodes];
  after.forEach((node, index) => (index < before.length ? become(before[index], node) : old.append(node)));
  before.slice(after.length).forEach((node) => node.remove());
}

function put(part, html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  children(part, fresh.content);
  localTimes(part);
}

const lost = document.querySelector(".lost");
let heardAt = Date.now();

function heard() {
  heardAt = Date.now();
  if (lost) lost.hidden = true;
}

function age() {
  const seconds = Math.round((Date.now() - heardAt) / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

// What the server has refused for good is not asked for again by the browser itself. The page is loaded anew, once for
// all its parts, and not in the background: there nothing listens, and who comes back to it begins to listen again.
let reload = null;

function reloadSoon() {
  reload ??= setTimeout(() => {
    reload = null;
    if (!document.hidden) location.reload();
  }, 10000);
}

const isOver = (part) => part.querySelector("[data-over]") !== null;

function live(part) {
  const events = new EventSource(part.dataset.live);
  events.onopen = () => {
    heard();
    clearTimeout(reload);
    reload = null;
  };
  events.onmessage = (event) => {
    heard();
    put(part, event.data);
    if (isOver(part)) {
      events.close();
      document.querySelector("[data-while-on] button")?.remove();
    }
  };
  events.onerror = () => {
    if (lost) { lost.hidden = false; lost.querySelector("[data-age]").textContent = age(); }
    if (events.readyState === EventSource.CLOSED) reloadSoon();
  };
  return events;
}

// Only while somebody looks: a browser has six connections to a server, for all its tabs together.
for (const part of document.querySelectorAll("[data-live]")) {
  let events = null;
  const look = () => {
    if (document.hidden || isOver(part)) {
      events?.close();
      events = null;
    } else {
      events ??= live(part);
    }
  };
  document.addEventListener("visibilitychange", look);
  look();
}

// A part that is loaded anew with its page, as long as the page is looked at.
for (const part of document.querySelectorAll("[data-refresh]")) {
  const again = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch(location.href, { headers: { accept: "text/html" } });
        if (answer.ok) {
          const page = new DOMParser().parseFromString(await answer.text(), "text/html");
          const fresh = page.getElementById(part.id);
          heard();
          // What stands around it depends on the state.
          if (!fresh?.dataset.refresh || fresh.dataset.state !== part.dataset.state) { location.reload(); return; }
          children(part, document.importNode(fresh, true));
          localTimes(part);
        } else if (answer.status === 404) {
          location.reload(); // it is gone, and the page says so
          return;
        } else {
          throw new Error(answer.statusText);
        }
      } catch {
        if (lost) { lost.hidden = false; lost.querySelector("[data-age]").textContent = age(); }
      }
    }
    setTimeout(again, Number(part.dataset.refresh));
  };
  setTimeout(again, Number(part.dataset.refresh));
}

const all = document.querySelector("[data-all]");
if (all) {
  all.hidden = false;
  const ticks = [...document.querySelectorAll("input[name=id]")];
  all.addEventListener("change", () => ticks.forEach((tick) => (tick.checked = all.checked)));
}

// Without a ticked job nothing can be done to the ticked ones.
const actions = document.querySelector("[data-actions]");
if (actions) {
  const form = actions.form;
  const look = () => {
    const isEmpty = form.elements.scope.value === "ticked" && !form.querySelector("input[name=id]:checked");
    for (const button of actions.querySelectorAll("button")) button.disabled = isEmpty;
  };
  form.addEventListener("change", look);
  addEventListener("pageshow", look); // what was ticked before somebody came back is ticked again
  look();
}

// Times to search by are in the zone of the times that are shown. They are sent in UTC.
for (const input of document.querySelectorAll("input[data-time]")) {
  const at = input.defaultValue && new Date(input.defaultValue);
  input.removeAttribute("value"); // with its Z it is none of such a field, and browsers say so
  input.value = "";
  input.type = "datetime-local";
  input.step = 1;
  input.value = at ? new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19) : "";
  input.closest("label").querySelector("[data-zone]").remove();
  input.form.addEventListener("formdata", ({ formData }) => {
    const text = formData.get(input.name);
    if (text) formData.set(input.name, new Date(text).toISOString().replace(/\.\d+/, ""));
  });
}

for (const button of document.querySelectorAll("[data-ask]")) {
  button.addEventListener("click", (event) => { if (!confirm(button.dataset.ask)) event.preventDefault(); });
}

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.ctrlKey && !event.metaKey && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.nodeName)) {
    event.preventDefault();
    document.querySelector(".find input[type=search]")?.focus();
  }
});

localTimes(document);
