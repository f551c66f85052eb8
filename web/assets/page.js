// What the pages do beyond what they show without a script: times in the viewer's zone, live parts, ticking all, keys.
"use strict";

const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });
// How far this browser's clock is ahead of the server's.
const ahead = Date.now() - Number(document.body.dataset.now);
const isExact = new URLSearchParams(location.search).get("times") === "exact";

// A distance in time as the server writes it; null where it writes the date.
function words(time) {
  const seconds = Math.round((Date.now() - ahead - time) / 1000), distance = Math.abs(seconds);
  if (isExact || distance >= 7 * 86400) return null;
  if (distance < 5) return seconds < 0 ? "now" : "just now";
  const length = distance < 60 ? `${distance} s`
    : distance < 3600 ? `${Math.floor(distance / 60)} min`
    : distance < 172800 ? `${Math.floor(distance / 3600)} h`
    : `${Math.floor(distance / 86400)} days`;
  return seconds < 0 ? `in ${length}` : `${length} ago`;
}

function localTimes(within) {
  for (const time of within.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime), text = words(at) ?? zone.format(at);
    if (time.textContent !== text) time.textContent = text;
    time.title = zone.format(at);
  }
  for (const text of within.querySelectorAll("li[data-time]")) {
    const at = new Date(text.dataset.time);
    const isDay = text.dataset.span === "week";
    text.textContent = isDay ? at.toLocaleDateString(undefined, { weekday: "short", day: "numeric" })
      : at.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
  }
}

// The number of problems: in the tab, in the navigation, and spoken, but not more often than every 30 seconds.
let saidAt = 0;

function tell(part) {
  const told = part.querySelector("[data-title]");
  if (!told) return;
  const count = Number(told.dataset.count), shown = document.querySelector("[data-problems]");
  document.title = document.title.replace(/^.* · /, `${told.dataset.title} · `);
  const icon = document.querySelector("link[rel=icon]"), href = count > 0 ? icon.dataset.alert : icon.dataset.calm;
  if (icon.getAttribute("href") !== href) icon.setAttribute("href", href);
  if (shown.textContent === String(count)) return;
  shown.textContent = count;
  shown.hidden = count === 0;
  if (Date.now() - saidAt < 30000) return;
  saidAt = Date.now();
  document.querySelector("[data-said]").textContent = told.querySelector("h1").textContent;
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
  // What somebody has unfolded stays so.
  const isKept = (name) => name === "open" && old.nodeName === "DETAILS";
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !isKept(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !isKept(name)) old.setAttribute(name, value);
  }
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
  tell(part);
}

const lost = document.querySelector(".lost");
let heardAt = Date.now();
const CUT = "The connection to this page was lost";

function heard() {
  heardAt = Date.now();
  if (lost) lost.hidden = true;
}

function lose(why) {
  if (!lost) return;
  lost.hidden = false;
  lost.querySelector("[data-why]").textContent = why;
  lost.querySelector("[data-age]").textContent = age();
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

// The streams of the parts. One that is closed is over, refused, or not looked at.
const streams = new Map();

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
    if (part.closest("[data-refresh]")) return; // which is loaded anew meanwhile, and tells what is wrong
    lose(CUT);
    if (events.readyState === EventSource.CLOSED) reloadSoon();
  };
  return events;
}

// Only while somebody looks: a browser has six connections to a server, for all its tabs together.
function listen() {
  for (const part of document.querySelectorAll("[data-live]")) {
    const events = streams.get(part), isClosed = !events || events.readyState === EventSource.CLOSED;
    if (document.hidden || isOver(part)) events?.close();
    else if (isClosed) streams.set(part, live(part));
  }
}

document.addEventListener("visibilitychange", listen);
listen();

// A part that is loaded anew with its page, as long as the page is looked at. If something in it is listened to, the
// rest is loaded anew more seldom.
const SELDOM = 5;

for (const part of document.querySelectorAll("[data-refresh]")) {
  let times = 0;
  const again = async () => {
    const isLive = ([live, events]) => events.readyState === EventSource.OPEN && part.contains(live);
    times = [...streams].some(isLive) ? times + 1 : 0;
    if (!document.hidden && times % SELDOM === 0) {
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
          listen(); // again, if what had seemed to be over goes on
        } else if (answer.status === 404) {
          location.reload(); // it is gone, and the page says so
          return;
        } else {
          throw new Error(answer.statusText);
        }
      } catch (error) {
        // `fetch` throws a TypeError where there is no answer at all.
        lose(error instanceof TypeError ? CUT : "SQL Server cannot be read");
      }
    }
    setTimeout(again, Number(part.dataset.refresh));
  };
  setTimeout(again, Number(part.dataset.refresh));
}

// A tick with Shift ticks all rows since the one before. The number of ticks is text: a counter is not read out.
const bulk = document.querySelector("[data-actions]");
if (bulk) {
  const ticks = [...document.querySelectorAll("input[name=id]")], all = document.querySelector("[data-all]");
  const label = bulk.querySelector(".ticked");
  label.classList.remove("ticked");
  let last = -1;
  const look = () => {
    const count = ticks.filter((tick) => tick.checked).length;
    label.textContent = `${count} ticked`;
    all.checked = count === ticks.length;
  };
  ticks.forEach((tick, index) => tick.addEventListener("click", (event) => {
    if (event.shiftKey && last >= 0) {
      for (let at = Math.min(last, index); at <= Math.max(last, index); at++) ticks[at].checked = tick.checked;
    }
    last = index;
    look();
  }));
  all.hidden = false;
  all.addEventListener("change", () => {
    ticks.forEach((tick) => (tick.checked = all.checked));
    look();
  });
  addEventListener("pageshow", look); // what was ticked before somebody came back is ticked again
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

// A file that is too large is not sent: the server ends the connection, and its answer may be lost.
for (const input of document.querySelectorAll("input[data-most]")) {
  const most = Number(input.dataset.most);
  input.addEventListener("change", () => {
    const isTooLarge = [...input.files].some((file) => file.size > most);
    input.setCustomValidity(isTooLarge ? `The file must be at most ${most / 1024} KiB.` : "");
    input.reportValidity();
  });
}

for (const button of document.querySelectorAll("[data-ask]")) {
  button.addEventListener("click", (event) => { if (!confirm(button.dataset.ask)) event.preventDefault(); });
}

// The first link of the next or the previous row of the page's lists gets the focus.
function go(step) {
  const rows = document.querySelectorAll("main tbody tr, .problems li, .why li, .entry");
  const links = [...rows].map((row) => row.querySelector("a[href]")).filter((link) => link?.offsetParent);
  const at = links.findIndex((link) => link.closest("tr, li").contains(document.activeElement));
  links[at < 0 ? 0 : Math.min(Math.max(at + step, 0), links.length - 1)]?.focus();
}

function help() {
  const dialog = document.createElement("dialog");
  const row = ([key, what]) => `<div><dt>${key}</dt><dd>${what}</dd></div>`;
  const known = [["/", "Find a job"], ["j", "Next row"], ["k", "Previous row"], ["Enter", "Open it"], ["?", "These keys"]];
  dialog.setAttribute("aria-labelledby", "keys");
  dialog.innerHTML = `<h2 id="keys">Keys</h2><dl>${known.map(row).join("")}</dl><form method="dialog"><button>Close</button></form>`;
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

const find = () => document.querySelector(".find input[type=search]")?.focus();
const keys = new Map([["/", find], ["j", () => go(1)], ["k", () => go(-1)], ["?", help]]);
document.addEventListener("keydown", (event) => {
  const isTyped = event.target.matches("input:not([type=checkbox]), textarea, select"), key = keys.get(event.key);
  if (!key || isTyped || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog")) return;
  event.preventDefault();
  key();
});

localTimes(document);
setInterval(() => { if (!document.hidden) localTimes(document); }, 1000);
