// Elements and the tip. Text is always set as textContent, never as HTML: names are not trusted.
const byId = id => document.getElementById(id);

function makeElement(tag, { text, ...properties } = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  if (text !== undefined) element.textContent = text;
  element.append(...children);
  return element;
}

const makeButton = (text, onclick, className = "link") => makeElement("button", { type: "button", text, className, onclick });
const makeName = text => makeElement("bdi", { className: "name", text });

function showTip(text, x, y) {
  const tip = byId("tip");
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = Math.max(8, Math.min(x + 14, document.documentElement.clientWidth - box.width - 8));
  tip.style.left = `${left + window.scrollX}px`;
  tip.style.top = `${Math.max(8, y - box.height - 12) + window.scrollY}px`;
}

function hideTip() {
  byId("tip").hidden = true;
  byId("tip").textContent = "";
}
