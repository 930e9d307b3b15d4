// The legend of the colours; a class can be clicked to mark its rows.
function bindLegend(app) {
  const { data } = app, legend = byId("legend");
  const swatch = colour => {
    const dot = makeElement("span", { className: "swatch" });
    dot.setAttribute("aria-hidden", "true");
    dot.style.background = toCss(colour);
    return dot;
  };

  function ramp(theme) {
    const bar = makeElement("span", { className: "ramp" });
    bar.setAttribute("aria-hidden", "true");
    bar.style.background = `linear-gradient(90deg, ${theme.ramp.map(colour => toCss(colour)).join(", ")})`;
    return bar;
  }

  function entries(column, theme) {
    if (column.kind === "groups") {
      const plain = data.tables.map((_, table) => makeElement("li", {}, swatch(table === 0 ? theme.one : theme.two), ["rows", "rows after"][table]));
      const isMarked = data.highlighted.some(group => group > 0);
      return isMarked ? [...plain, makeElement("li", {}, swatch(theme.group), app.groupTitle)] : plain;
    }
    if (column.kind === "number") {
      const { span, unit } = column;
      if (!span) return [makeElement("li", { text: "no row has a value" })];
      const low = `${span.below ? "≤ " : ""}${formatValue(span.low, unit)}`, high = `${span.above ? "≥ " : ""}${formatValue(span.high, unit)}`;
      return [makeElement("li", {}, low, ramp(theme), high), ...(column.isLogarithmic ? [makeElement("li", { text: "logarithmic" })] : [])];
    }
    return column.classes.map((name, code) => {
      const rows = [];
      column.perTable[0].forEach((value, k) => { if (value === code) rows.push(k); });
      const button = makeButton("", () => app.mark(rows, `${column.title}: ${name}`));
      button.append(makeName(name));
      return makeElement("li", {}, swatch(theme.classes[code] || theme.soft), button, makeElement("small", { className: "row", text: rows.length.toLocaleString("en") }));
    });
  }

  return theme => legend.replaceChildren(...entries(app.colour, theme));
}
