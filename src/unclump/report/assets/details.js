// The selected row: its values, and its nearest neighbours, each of which can be selected in turn.
function bindDetails(app) {
  const { data } = app, panel = byId("details"), hint = panel.cloneNode(true);

  const nameButton = k => {
    const button = makeButton("", () => app.select(k, { reveal: true }));
    button.append(makeName(data.name(k)));
    return button;
  };

  function valuesOf(k) {
    const list = makeElement("dl");
    const add = (title, text) => list.append(makeElement("div", {}, makeElement("dt", { text: title }), makeElement("dd", { text })));
    for (const column of app.colours.slice(2)) {
      const texts = column.perTable.map(values => column.kind === "category" ? column.classes[values[k]] : formatValue(values[k], column.unit));
      add(column.title, [...new Set(texts)].join(" → "));
    }
    if (data.highlighted[k]) add(app.groupTitle, `group ${data.highlighted[k]}`);
    return list;
  }

  function neighbourList(table, k, kept) {
    const near = neighboursOf(data.tables[table], data.numbers.length, k);
    if (near.length === 0) return makeElement("p", { className: "note", text: "This table has no such row, or the row has no direction." });
    return makeElement("ol", { className: "neighbours" }, ...near.map(({ place, degrees }) => {
      const name = place < data.shown ? nameButton(place) : makeName(data.name(place));
      const angle = makeElement("span", { className: "angle", text: formatDegrees(degrees) });
      return makeElement("li", { className: kept && kept.has(place) ? "kept" : "" }, name, angle);
    }));
  }

  function neighbourSections(k) {
    const titles = app.tableTitles, sets = data.tables.map(table => new Set(neighboursOf(table, data.numbers.length, k).map(n => n.place)));
    const both = sets.length > 1 ? new Set([...sets[0]].filter(place => sets[1].has(place))) : null;
    const lists = data.tables.map((_, table) => makeElement("div", {},
      makeElement("h4", { text: sets.length > 1 ? `Nearest rows ${titles[table].toLowerCase()}` : "Nearest rows" }),
      neighbourList(table, k, both)));
    if (both) lists.push(makeElement("p", { className: "note", text: `${both.size} of ${sets[0].size} neighbours are the same before and after; they are underlined twice.` }));
    return lists;
  }

  return function showDetails(k) {
    if (k < 0) { panel.replaceChildren(...hint.cloneNode(true).childNodes); return; }
    const title = makeElement("h3", {}, makeName(data.name(k)));
    if (data.hasNames) title.append(" ", makeElement("small", { className: "row", text: `row ${data.numbers[k]}` }));
    const reverse = rowsNear(data.tables[data.tables.length - 1], k);
    const mark = makeButton(`Mark the ${reverse.length.toLocaleString("en")} rows that have it as a neighbour`,
      () => app.mark(reverse, `rows that have ${data.name(k)} as a neighbour`), "button");
    panel.replaceChildren(title, valuesOf(k), ...neighbourSections(k), ...(reverse.length ? [mark] : []));
  };
}
