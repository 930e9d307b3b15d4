// The map and what surrounds it: one state, and one place that changes it.
function startMap(section) {
  const data = decodeMap(JSON.parse(byId("data").textContent));
  const app = {
    data,
    groupTitle: section.dataset.groups,
    tableTitles: section.dataset.tables.split("|"),
    state: { layout: 0, axes: [0, 1], colour: Number(section.dataset.colour), selected: -1, marked: null },
  };
  app.colours = listColours(data, app.groupTitle);
  const layoutOf = table => data.tables[table].layouts[app.state.layout];
  app.axesOf = table => layoutOf(table).kind === "axes" ? app.state.axes.map(a => layoutOf(table).axes[a]) : layoutOf(table).axes;
  app.caption = k => data.highlighted[k] ? `${data.name(k)} · group ${data.highlighted[k]}` : data.name(k);

  // The names to show while no row is selected: one of each highlighted group, or the first marked rows.
  app.labelled = () => {
    const { marked } = app.state, seen = new Set(), found = [];
    if (!marked && app.colour.kind !== "groups") return found;
    for (let k = 0; k < data.shown && found.length < 200; k++) {
      const group = data.highlighted[k];
      if (marked ? marked[k] : group > 0 && !seen.has(group)) { seen.add(group); found.push(k); }
    }
    return marked ? found : found.sort((a, b) => data.highlighted[a] - data.highlighted[b]);
  };

  let theme = null, isFrameRequested = false;
  app.redraw = () => {
    if (isFrameRequested) return;
    isFrameRequested = true;
    requestAnimationFrame(() => { isFrameRequested = false; maps.forEach(map => map.draw(theme)); });
  };

  function repaint() {
    theme = readTheme();
    app.colour = app.colours[app.state.colour];
    app.painted = data.tables.map((_, table) => paintRows(data, app.colour, table, theme));
    showLegend(theme);
  }

  function aim() {
    const axes = data.tables.map((_, table) => app.axesOf(table));
    const first = Math.max(0, data.highlighted.findIndex(group => group === 1));
    app.camera = layoutOf(0).kind === "globe" ? makeGlobe(axes[0].map(axis => axis[first])) : makePlane(axes);
    app.camera.reset();
    byId("axes").hidden = layoutOf(0).kind !== "axes" || layoutOf(0).axes.length < 3;
  }

  app.select = (k, { reveal = false } = {}) => {
    app.state.selected = k;
    showDetails(k);
    if (reveal) app.camera.reveal(app.axesOf(0), k);
    app.redraw();
  };

  app.mark = (rows, title) => {
    app.state.marked = null;
    byId("marks").replaceChildren();
    if (rows) {
      app.state.marked = new Uint8Array(data.shown);
      for (const k of rows) app.state.marked[k] = 1;
      byId("marks").append(`Marked: ${title} (${rows.length.toLocaleString("en")}) `, makeButton("Clear", () => app.mark(null, ""), "button small"));
    }
    app.redraw();
  };

  const option = (text, value) => makeElement("option", { text, value });
  const layouts = data.tables[0].layouts, choose = (id, options, chosen, change) => {
    byId(id).append(...options);
    byId(id).value = chosen;
    byId(id).addEventListener("change", () => { change(Number(byId(id).value)); app.redraw(); });
  };
  const showDetails = bindDetails(app), showLegend = bindLegend(app);
  const axisOptions = () => layouts[layouts.length - 1].axes.map((_, a) => option(`${a + 1}`, a));
  choose("colour", app.colours.map((column, c) => option(column.title, c)), app.state.colour, c => { app.state.colour = c; repaint(); });
  choose("layout", layouts.map((layout, l) => option(layout.title, l)), 0, l => { app.state.layout = l; aim(); });
  ["axis-x", "axis-y"].forEach((id, side) => choose(id, axisOptions(), side, a => { app.state.axes[side] = a; aim(); }));
  byId("layout").parentElement.hidden = layouts.length < 2;
  section.querySelectorAll("[data-needs-script]").forEach(element => { element.hidden = false; });
  byId("without-script").hidden = true;

  const maps = [...section.querySelectorAll("canvas")].map((canvas, table) => makeMap(canvas, table, app));
  maps.forEach(map => bindGestures(map, app));
  bindSearch(app);
  bindLists(app);
  repaint();
  aim();
  maps.forEach(map => new ResizeObserver(app.redraw).observe(map.canvas));
  for (const query of ["print", "(prefers-color-scheme: dark)"]) {
    // At once, since a printer does not wait for the next frame.
    matchMedia(query).addEventListener("change", () => { repaint(); maps.forEach(map => map.draw(theme)); });
  }
  window.addEventListener("scroll", hideTip, { passive: true });
  app.redraw();
}

startMap(byId("map"));
