// The page of `noisegate start`: shows the state that `page.py` keeps, and sends answers.
//
// What the server says is always shown as text, never as markup.

"use strict";

// The index in the list of stages that each command begins; the schema is stage 0.
const STAGE_OF_COMMAND = { plan: 1, split: 2, ledger: 2, fit: 2, sample: 3, report: 3, verify: 3 };
const LAST_STAGE = 4;
const POLL_MILLISECONDS = 200;

// The number of the form that is shown: 0 for none yet, -1 once the interview has ended.
let shownForm = 0;

const byId = (id) => document.getElementById(id);

// Returns an element with attributes and children. An attribute that is false is left out,
// one that is true has no value; children are text or elements, or null for none.
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

// Returns a block of text that can be scrolled, by keyboard too.
function outputBlock(label, text, className = "") {
  return element("pre", { tabindex: 0, role: "region", "aria-label": label, class: className }, text);
}

// Sends an answer, or the wish to stop. Buttons stay disabled until the next form.
async function send(message) {
  document.querySelectorAll("button").forEach((button) => (button.disabled = true));
  await fetch("answer", { method: "POST", body: JSON.stringify(message) }).catch(() => null);
}

// --- Forms. ---

// Returns the elements of a question that is answered by choice or by typing.
function questionElements(form) {
  const descriptions = [form.help && "help", form.complaint && "error"].filter(Boolean).join(" ");
  const described = descriptions ? { "aria-describedby": descriptions } : {};
  const help = form.help ? element("p", { id: "help" }, form.help) : null;
  const error = form.complaint ? element("p", { id: "error", class: "error" }, form.complaint) : null;
  if (form.choices.length) return [choiceElement(form, described, help), error];
  return [element("h2", {}, element("label", { for: "answer" }, form.title)), help, ...inputElements(form, described), error];
}

// Returns radio buttons; the default is chosen, or else the first one.
function choiceElement(form, described, help) {
  const choices = form.choices.map((name, index) => {
    const isChosen = form.default ? name === form.default : index === 0;
    const radio = element("input", { type: "radio", name: "answer", value: name, checked: isChosen, "data-focus": isChosen });
    return element("label", {}, radio, name);
  });
  const legend = element("legend", {}, element("h2", {}, form.title));
  return element("fieldset", described, legend, help, ...choices);
}

// Returns a field for text, and a list of suggestions or null.
function inputElements(form, described) {
  const hasSuggestions = form.suggestions.length > 0;
  const input = element("input", {
    id: "answer",
    name: "answer",
    value: form.default ?? "",
    required: form.default === null,
    "data-focus": true,
    autocomplete: "off",
    spellcheck: "false",
    autocapitalize: "off",
    ...described,
    ...(form.complaint ? { "aria-invalid": "true" } : {}),
    ...(hasSuggestions ? { list: "near" } : {}),
  });
  const options = form.suggestions.map((name) => element("option", { value: name }));
  return [input, hasSuggestions ? element("datalist", { id: "near" }, ...options) : null];
}

// Returns the elements of a question that is answered by buttons.
function confirmationElements(form) {
  const elements = [element("h2", { tabindex: -1, "data-focus": true }, form.title)];
  if (form.complaint) elements.push(element("p", { class: "error" }, form.complaint));
  if (form.file !== null) {
    elements.push(element("p", {}, "Read it now: ", element("code", {}, form.file)));
    elements.push(outputBlock(form.file, form.file_text, "file"));
  }
  if (form.results !== null) elements.push(...resultElements(form));
  return elements;
}

// Returns links to the results, and the commands that repeat them.
function resultElements(form) {
  const items = form.results.map(([title, path]) => {
    const behaviour = path.endsWith(".csv") ? { download: true } : { target: "_blank", rel: "noopener" };
    const link = element("a", { href: encodeURIComponent(title), ...behaviour }, title);
    const isPrivate = title.startsWith("Private");
    const mark = isPrivate ? element("strong", { class: "error" }, " Private: do not share. ") : " ";
    return element("li", {}, link, mark, element("code", {}, path));
  });
  const summary = element("summary", {}, "To repeat this non-interactively");
  return [
    element("ul", {}, ...items),
    element("p", {}, "All lies in ", element("code", {}, form.folder), "."),
    element("details", {}, summary, outputBlock("Commands", form.commands.join("\n"))),
  ];
}

// Returns a form, which sends its answer with its number.
function formElement(form, number) {
  const elements = form.buttons ? confirmationElements(form) : questionElements(form);
  const buttons = (form.buttons ?? ["Next"]).map((title, index) =>
    element("button", { value: title, class: index ? "quiet" : "" }, title),
  );
  const node = element("form", {}, ...elements, element("div", {}, ...buttons));
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    const answer = form.buttons ? event.submitter.value : new FormData(node).get("answer");
    send({ number, answer });
  });
  return node;
}

// Returns the button that ends it all; behind a warning while a command runs.
function stopElement(isRunning) {
  const button = element("button", { class: "quiet", type: "button" }, "Stop");
  button.addEventListener("click", () => send({ stop: true }));
  if (!isRunning) return button;
  const warning = element("p", {}, "What a fit or a discovery has reserved stays spent.");
  return element("details", {}, element("summary", {}, "Stop …"), warning, button);
}

// --- The state. ---

// Returns what is going on, in a few words.
function statusText(state) {
  if (state.ended) return state.ended;
  if (state.form) return state.form.results !== null ? "Done." : "Waiting for your answer.";
  const command = state.printed.at(-1)?.command ?? "";
  const hasBegun = command.includes(" -") || state.printed.length > 1;
  return hasBegun ? `Running ${command.split(" -")[0]} …` : "Starting …";
}

// Returns the index of the stage that is reached.
function reachedStage(state) {
  const hasResults = state.form !== null && state.form.results !== null;
  if (hasResults || state.ended.startsWith("Ended")) return LAST_STAGE;
  const command = state.printed.at(-1)?.command ?? "";
  return STAGE_OF_COMMAND[command.split(" ")[1]] ?? 0;
}

function showStages(stage) {
  [...byId("stages").children].forEach((item, index) => {
    item.className = index < stage ? "done" : "";
    if (index === stage) item.setAttribute("aria-current", "step");
    else item.removeAttribute("aria-current");
  });
}

function showAnswers(answers) {
  const items = answers.flatMap(([question, text]) => [element("dt", {}, question), element("dd", {}, text || "–")]);
  byId("answers").hidden = !answers.length;
  byId("answers").lastChild.replaceChildren(...items);
}

// Shows commands with what they print, and paragraphs; only what is new is added, so that
// what a reader has opened or marked stays.
function showPrinted(printed) {
  const shown = byId("printed").children;
  printed.forEach(({ command, text }, index) => {
    if (index === shown.length) addPrinted(command, text, index);
    if (!command) return;
    const isLast = index === printed.length - 1;
    shown[index].hidden = !text && (index === 0 || !isLast);
    const output = shown[index].lastChild;
    if (output.textContent !== text) output.textContent = text;
    output.hidden = !text;
  });
}

// Adds a command or a paragraph; a command closes the one before.
function addPrinted(command, text, index) {
  if (!command) {
    byId("printed").append(element("p", {}, text));
    return;
  }
  if (index) byId("printed").children[index - 1].open = false;
  const summary = element("summary", {}, element("code", {}, command));
  byId("printed").append(element("details", { open: true }, summary, outputBlock(`Output of ${command}`, "")));
}

// Shows the form that is asked now, unless it is shown already: what was typed stays.
function showForm(state) {
  const isRunning = state.form === null;
  const current = state.form ? state.number : state.ended ? -1 : 0;
  if (current !== shownForm || !byId("stop").firstChild) {
    byId("ask").replaceChildren(...(state.form ? [formElement(state.form, state.number)] : []));
    byId("ask").querySelector("[data-focus]")?.focus();
    byId("stop").replaceChildren(stopElement(isRunning));
    shownForm = current;
  }
  byId("stop").hidden = Boolean(state.ended || state.form?.buttons);
}

function show(state) {
  const status = statusText(state);
  document.title = `${state.form ? state.form.title : status} – noisegate`;
  byId("status").textContent = status;
  showStages(reachedStage(state));
  showAnswers(state.answers);
  showPrinted(state.printed);
  showForm(state);
}

// Shows each state once, until the interview has ended. The server holds back its response
// until there is a new state, or some seconds are over.
async function follow() {
  let seenTurn = "";
  let ended = "";
  while (!ended) {
    try {
      const response = await fetch(`state?seen=${seenTurn}`);
      if (!response.ok) throw new Error(response.statusText);
      const state = await response.json();
      if (state.turn !== seenTurn) show(state);
      seenTurn = state.turn;
      ended = state.ended;
    } catch {
      ended = "noisegate has ended; its terminal says more. This page can be closed.";
      show({ form: null, number: 0, ended, answers: [], printed: [] });
    }
    await new Promise((done) => setTimeout(done, POLL_MILLISECONDS));
  }
}

follow();
