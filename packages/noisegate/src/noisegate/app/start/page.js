"use strict";

const at = (id) => document.getElementById(id);
const STAGES = { plan: 1, split: 2, ledger: 2, fit: 2, sample: 3, report: 3, verify: 3 };
let asked = 0;

// An element with its attributes, text and children: what is shown is always text, never markup.
function make(tag, attributes = {}, ...children) {
  const one = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== false) one.setAttribute(name, value === true ? "" : value);
  one.append(...children.filter((child) => child !== null));
  return one;
}

const output = (label, text, more = "") => make("pre", { tabindex: 0, role: "region", "aria-label": label, class: more }, text);

async function send(what) {
  document.querySelectorAll("button").forEach((button) => (button.disabled = true));
  await fetch("answer", { method: "POST", body: JSON.stringify(what) }).catch(() => null);
}

function field(ask) {
  const wrong = ask.complaint ? { "aria-invalid": "true" } : {};
  const described = [ask.says && "help", ask.complaint && "error"].filter(Boolean).join(" ");
  const shared = described ? { "aria-describedby": described } : {};
  const error = ask.complaint ? make("p", { id: "error", class: "error" }, ask.complaint) : null;
  const help = ask.says ? make("p", { id: "help" }, ask.says) : null;
  if (ask.choices.length) {
    const choices = ask.choices.map((name, i) => {
      const chosen = ask.default ? name === ask.default : i === 0;
      return make("label", {}, make("input", { type: "radio", name: "answer", value: name, checked: chosen, "data-focus": chosen }), name);
    });
    return [make("fieldset", shared, make("legend", {}, make("h2", {}, ask.asks)), help, ...choices), error];
  }
  const typed = {
    id: "answer", name: "answer", value: ask.default ?? "", required: ask.default === null, "data-focus": true,
    autocomplete: "off", spellcheck: "false", autocapitalize: "off", ...shared, ...wrong,
  };
  if (ask.near.length) typed.list = "near";
  const near = ask.near.length ? make("datalist", { id: "near" }, ...ask.near.map((name) => make("option", { value: name }))) : null;
  return [make("h2", {}, make("label", { for: "answer" }, ask.asks)), help, make("input", typed), near, error];
}

function offered(ask) {
  const files = ask.files.map(([name, path]) => {
    const how = path.endsWith(".csv") ? { download: true } : { target: "_blank", rel: "noopener" };
    const mark = name.startsWith("Private") ? make("strong", { class: "error" }, " Private: do not share. ") : " ";
    return make("li", {}, make("a", { href: encodeURIComponent(name), ...how }, name), mark, make("code", {}, path));
  });
  const again = make("details", {}, make("summary", {}, "To repeat this non-interactively"), output("Commands", ask.commands.join("\n")));
  return [make("ul", {}, ...files), make("p", {}, "All lies in ", make("code", {}, ask.folder), "."), again];
}

function form(ask, number) {
  const parts = ask.buttons ? [make("h2", { tabindex: -1, "data-focus": true }, ask.asks)] : field(ask);
  if (ask.buttons && ask.complaint) parts.push(make("p", { class: "error" }, ask.complaint));
  if (ask.text !== undefined) parts.push(make("p", {}, "Read it now: ", make("code", {}, ask.file)), output(ask.file, ask.text, "file"));
  if (ask.files) parts.push(...offered(ask));
  const buttons = (ask.buttons ?? ["Next"]).map((name, i) => make("button", { value: name, class: i ? "quiet" : "" }, name));
  const made = make("form", {}, ...parts, make("div", {}, ...buttons));
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    send({ number, answer: ask.buttons ? event.submitter.value : new FormData(made).get("answer") });
  });
  return made;
}

function stop(running) {
  const button = make("button", { class: "quiet", type: "button" }, "Stop");
  button.addEventListener("click", () => send({ stop: true }));
  if (!running) return button;
  return make("details", {}, make("summary", {}, "Stop …"), make("p", {}, "What a fit or a discovery has reserved stays spent."), button);
}

function show(state) {
  const last = state.printed.at(-1)?.[0] ?? "";
  const running = last.includes(" -") || state.printed.length > 1 ? `Running ${last.split(" -")[0]} …` : "Starting …";
  const status = state.ended || (state.ask?.files ? "Done." : state.ask ? "Waiting for your answer." : running);
  const stage = state.ask?.files || state.ended.startsWith("Ended") ? 4 : STAGES[last.split(" ")[1]] ?? 0;
  document.title = `${state.ask ? state.ask.asks : status} – noisegate`;
  at("status").textContent = status;
  [...at("stages").children].forEach((item, i) => {
    item.className = i < stage ? "done" : "";
    if (i === stage) item.setAttribute("aria-current", "step");
    else item.removeAttribute("aria-current");
  });
  at("answers").hidden = !state.answers.length;
  at("answers").lastChild.replaceChildren(...state.answers.flatMap(([asks, text]) => [make("dt", {}, asks), make("dd", {}, text || "–")]));
  state.printed.forEach(([command, text], i) => {
    const shown = at("printed").children;
    if (i === shown.length) {
      if (command && i) shown[i - 1].open = false;
      const summary = make("summary", {}, make("code", {}, command));
      at("printed").append(command ? make("details", { open: true }, summary, output(`Output of ${command}`, "")) : make("p", {}, text));
    }
    if (!command) return;
    shown[i].hidden = !text && (i === 0 || i < state.printed.length - 1);
    const live = shown[i].lastChild;
    if (live.textContent !== text) live.textContent = text;
    live.hidden = !text;
  });
  const now = state.ask ? state.number : state.ended ? -1 : 0;
  if (now !== asked || !at("stop").firstChild) {
    at("ask").replaceChildren(...(state.ask ? [form(state.ask, state.number)] : []));
    at("ask").querySelector("[data-focus]")?.focus();
    at("stop").replaceChildren(stop(!state.ask));
    asked = now;
  }
  at("stop").hidden = Boolean(state.ended || state.ask?.buttons);
}

async function follow() {
  for (let seen = "", ended = ""; !ended; ) {
    try {
      const answer = await fetch(`state?seen=${seen}`);
      if (!answer.ok) throw new Error(answer.statusText);
      const state = await answer.json();
      if (state.turn !== seen) show(state);
      ({ turn: seen, ended } = state);
    } catch {
      ended = "noisegate has ended; its terminal says more. This page can be closed.";
      show({ ask: null, ended, answers: [], printed: [] });
    }
    await new Promise((done) => setTimeout(done, 200));
  }
}

follow();
