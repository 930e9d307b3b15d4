// One canvas: the rows of one table, what is marked and selected among them, and names.
const MOST_LABELS = 12, REACH = 14;  // the farthest that a dot may be from the pointer

function dotRadius(count, magnification) {
  const base = count > 20000 ? 1.25 : count > 5000 ? 1.7 : count > 1000 ? 2.2 : count > 150 ? 3 : 4.5;
  return Math.min(7, base * Math.max(1, magnification) ** 0.4);
}

function makeMap(canvas, table, app) {
  const { data } = app, context = canvas.getContext("2d", { alpha: false });
  const xs = new Float32Array(data.shown), ys = new Float32Array(data.shown), front = new Uint8Array(data.shown);
  const grid = graticule();
  let raster = null, unit = 1;

  function resize() {
    const box = canvas.getBoundingClientRect();
    unit = Math.min(2, window.devicePixelRatio || 1);
    const width = Math.max(1, Math.round(box.width * unit)), height = Math.max(1, Math.round(box.height * unit));
    if (raster && raster.visible[0] === width && raster.visible[1] === height) return;
    [canvas.width, canvas.height] = [width, height];
    raster = makeRaster(width, height);
  }

  function drawGlobe(theme) {
    const outline = app.camera.outline && app.camera.outline();
    if (!outline) return;
    const { x, y, radius, toView } = outline;
    context.lineWidth = 1;
    for (const line of grid) {
      const turned = line.map(point => toView(...point));
      for (const isFar of [true, false]) {
        context.strokeStyle = toCss(theme.soft, isFar ? 0.12 : 0.3);
        context.beginPath();
        for (let k = 0; k + 1 < turned.length; k++) {
          const [a, b] = [turned[k], turned[k + 1]];
          if (a[2] + b[2] < 0 !== isFar) continue;
          context.moveTo(x + radius * a[0], y - radius * a[1]);
          context.lineTo(x + radius * b[0], y - radius * b[1]);
        }
        context.stroke();
      }
    }
    context.strokeStyle = toCss(theme.line);
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.stroke();
  }

  function drawDots(theme) {
    const painted = app.painted[table], { marked } = app.state, raised = marked || (app.colour.kind === "groups" ? data.highlighted : null);
    const radius = dotRadius(data.shown, app.camera.magnification()) * unit;
    const opacity = data.shown > 5000 ? 0.6 : data.shown > 1000 ? 0.7 : 0.85;
    const isGlobe = Boolean(app.camera.outline);
    const small = makeBrush(raster, radius, marked ? 0.16 : opacity), large = makeBrush(raster, radius + unit, 1);
    const faded = makeBrush(raster, radius, 0.2);
    clearRaster(raster, theme.faint);
    const draw = (brush, k) => drawDisc(raster, brush, xs[k] * unit, ys[k] * unit, painted[3 * k], painted[3 * k + 1], painted[3 * k + 2]);
    if (isGlobe) for (let k = 0; k < data.shown; k++) if (!front[k]) draw(faded, k);
    for (let k = 0; k < data.shown; k++) if (front[k] && !(raised && raised[k])) draw(small, k);
    if (raised) for (let k = 0; k < data.shown; k++) if (front[k] && raised[k]) draw(large, k);
    showRaster(raster, context);
  }

  function drawSelection(theme) {
    const { selected } = app.state;
    if (selected < 0 || Number.isNaN(xs[selected])) return [];
    const near = neighboursOf(data.tables[table], data.numbers.length, selected).map(n => n.place).filter(k => k < data.shown);
    context.strokeStyle = toCss(theme.ink, 0.55);
    context.lineWidth = 1;
    context.beginPath();
    for (const k of near) { context.moveTo(xs[selected], ys[selected]); context.lineTo(xs[k], ys[k]); }
    context.stroke();
    context.strokeStyle = toCss(theme.ink);
    for (const k of [...near, selected]) {
      context.lineWidth = k === selected ? 2.5 : 1.25;
      context.beginPath();
      context.arc(xs[k], ys[k], k === selected ? 7 : 4.5, 0, 2 * Math.PI);
      context.stroke();
    }
    return [selected, ...near];
  }

  // Names beside dots, where they overlap no other name; the first of the candidates come first.
  function drawLabels(theme, candidates, width) {
    const taken = [];
    context.font = `600 13px ${getComputedStyle(document.body).fontFamily}`;
    context.textBaseline = "middle";
    for (const k of candidates) {
      if (taken.length === MOST_LABELS) return;
      if (!front[k] || !(xs[k] > 0 && xs[k] < width && ys[k] > 8)) continue;
      const name = data.name(k), text = name.length > 24 ? `${name.slice(0, 23)}…` : name;
      const extent = context.measureText(text).width, isLeft = xs[k] + extent + 12 > width;
      const start = isLeft ? xs[k] - 10 - extent : xs[k] + 10, box = [start - 2, start + extent + 2, ys[k]];
      if (start < 0 || taken.some(([a, b, y]) => Math.abs(y - box[2]) < 16 && box[0] < b && box[1] > a)) continue;
      taken.push(box);
      [context.lineWidth, context.lineJoin, context.strokeStyle] = [4, "round", toCss(theme.faint)];
      context.strokeText(text, start, ys[k]);
      context.fillStyle = toCss(theme.ink);
      context.fillText(text, start, ys[k]);
    }
  }

  return {
    canvas,
    draw(theme) {
      resize();
      const width = raster.visible[0] / unit, height = raster.visible[1] / unit;
      app.camera.fit(width, height);
      app.camera.place(app.axesOf(table), xs, ys, front);
      context.setTransform(1, 0, 0, 1, 0, 0);
      drawDots(theme);
      context.setTransform(unit, 0, 0, unit, 0, 0);
      drawGlobe(theme);
      const selection = drawSelection(theme);
      drawLabels(theme, selection.length ? selection : app.labelled(), width);
    },
    // The row nearest to a point of the canvas, or -1 if there is none within reach.
    pick(x, y) {
      let nearest = -1, least = REACH * REACH;
      for (let k = 0; k < xs.length; k++) {
        const square = (xs[k] - x) ** 2 + (ys[k] - y) ** 2;
        if (square < least && front[k]) { least = square; nearest = k; }
      }
      return nearest;
    },
  };
}
