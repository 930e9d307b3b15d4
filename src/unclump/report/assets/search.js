// Type-ahead search of a row by its name or its number: a combobox as ARIA describes it.
const MOST_HITS = 12;
const fold = text => text.normalize("NFKC").toLowerCase();

function bindSearch(app) {
  const { data } = app, input = byId("search"), list = byId("hits"), status = byId("hit-count");
  let folded = null, hits = [], active = -1;

  // Names that start with the text come first, then those that contain it, in the order of the rows.
  function find(text) {
    folded = folded || Array.from({ length: data.shown }, (_, k) => fold(data.name(k)));
    const wanted = fold(text.trim()), exact = [], first = [], inside = [];
    if (!wanted) return { hits: [], total: 0 };
    if (/^#?\d+$/.test(wanted)) {
      const k = data.place.get(Number(wanted.replace("#", "")));
      if (k !== undefined) exact.push(k);
    }
    folded.forEach((name, k) => {
      const at = name.indexOf(wanted);
      if (at < 0 || exact[0] === k) return;
      (name === wanted ? exact : at === 0 ? first : inside).push(k);
    });
    const all = [...exact, ...first, ...inside];
    return { hits: all.slice(0, MOST_HITS), total: all.length };
  }

  function setActive(next) {
    active = next;
    [...list.children].forEach((item, j) => item.setAttribute("aria-selected", String(j === active)));
    if (active < 0) input.removeAttribute("aria-activedescendant");
    else { input.setAttribute("aria-activedescendant", `hit-${active}`); list.children[active].scrollIntoView({ block: "nearest" }); }
  }

  function close() {
    list.hidden = true;
    list.replaceChildren();
    input.setAttribute("aria-expanded", "false");
    setActive(-1);
  }

  function choose(k) {
    close();
    input.value = data.name(k);
    status.textContent = "";
    app.select(k, { reveal: true });
  }

  function update() {
    const found = find(input.value);
    hits = found.hits;
    list.replaceChildren(...hits.map((k, j) => {
      const item = makeElement("li", { id: `hit-${j}` }, makeName(data.name(k)));
      if (data.hasNames) item.append(" ", makeElement("small", { className: "row", text: data.numbers[k] }));
      item.setAttribute("role", "option");
      item.addEventListener("pointerdown", event => event.preventDefault());  // the input keeps the focus
      item.addEventListener("click", () => choose(k));
      return item;
    }));
    list.hidden = hits.length === 0;
    input.setAttribute("aria-expanded", String(hits.length > 0));
    setActive(hits.length ? 0 : -1);
    const total = found.total.toLocaleString("en");
    status.textContent = !input.value.trim() ? "" : hits.length < found.total ? `${hits.length} of ${total} matches` : `${total} ${found.total === 1 ? "match" : "matches"}`;
  }

  input.addEventListener("input", update);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", event => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move && list.hidden) { event.preventDefault(); update(); }
    else if (move) { event.preventDefault(); setActive((active + move + hits.length) % hits.length); }
    else if (event.key === "Enter" && active >= 0) { event.preventDefault(); choose(hits[active]); }
    else if (event.key === "Escape" && !list.hidden) { event.preventDefault(); close(); }
  });
}
