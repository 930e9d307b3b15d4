// Where rows appear on the screen: a plane that is moved and magnified, or a globe that is turned.
// A camera has fit, drag, zoom, reveal, and place, which fills xs and ys in pixels and front with 1 for what faces us.

const MARGIN = 26, MOST_ZOOM = 400;
function bounds(arrays) {
  let low = Infinity, high = -Infinity;
  for (const array of arrays) for (const v of array) { if (v < low) low = v; if (v > high) high = v; }
  return [low, high];
}

// pairs: for every table, the two axes of its rows.
function makePlane(pairs) {
  const [left, right] = bounds(pairs.map(pair => pair[0])), [bottom, top] = bounds(pairs.map(pair => pair[1]));
  let size = [1, 1], home = 1, scale = 1, centre = [0, 0];
  const xOf = v => size[0] / 2 + (v - centre[0]) * scale, yOf = v => size[1] / 2 - (v - centre[1]) * scale;
  return {
    magnification: () => scale / home,
    fit(width, height) {
      const zoom = scale / home;
      size = [width, height];
      const across = (width - 2 * MARGIN) / Math.max(right - left, 1e-9), up = (height - 2 * MARGIN) / Math.max(top - bottom, 1e-9);
      home = Math.min(across, up);
      scale = home * zoom;
    },
    reset() { scale = home; centre = [(left + right) / 2, (bottom + top) / 2]; },
    drag(dx, dy) { centre = [centre[0] - dx / scale, centre[1] + dy / scale]; },
    zoom(factor, x, y) {
      const next = Math.max(0.5 * home, Math.min(MOST_ZOOM * home, scale * factor));
      const shift = 1 / scale - 1 / next;  // the point under the pointer stays there
      centre = [centre[0] + (x - size[0] / 2) * shift, centre[1] - (y - size[1] / 2) * shift];
      scale = next;
    },
    reveal([u, v], k) {
      const x = xOf(u[k]), y = yOf(v[k]);
      if (!(x > MARGIN && y > MARGIN && x < size[0] - MARGIN && y < size[1] - MARGIN)) centre = [u[k], v[k]];
    },
    place([u, v], xs, ys, front) {
      for (let k = 0; k < xs.length; k++) { xs[k] = xOf(u[k]); ys[k] = yOf(v[k]); front[k] = Number.isNaN(u[k]) ? 0 : 1; }
    },
  };
}

// A globe that first almost faces the point `focus`; the third axis is its pole.
function makeGlobe(focus) {
  let size = [1, 1], magnified = 1, view = [0, 1, 0, 0, 0, 1, 1, 0, 0];
  const radius = () => magnified * (Math.min(...size) / 2 - 14);
  const toView = (x, y, z) => [0, 3, 6].map(r => view[r] * x + view[r + 1] * y + view[r + 2] * z);
  function rotate(right, up) {
    const [cr, sr, cu, su] = [Math.cos(right), Math.sin(right), Math.cos(up), Math.sin(up)];
    const turn = [cr, 0, sr, su * sr, cu, -su * cr, -cu * sr, su, cu * cr];
    view = turn.map((_, k) => {
      const row = 3 * Math.floor(k / 3), column = k % 3;
      return turn[row] * view[column] + turn[row + 1] * view[column + 3] + turn[row + 2] * view[column + 6];
    });
  }
  function face(point) {
    const [x, y, z] = toView(...point);
    rotate(Math.atan2(-x, z), Math.atan2(y, Math.hypot(x, z)));
  }
  const camera = {
    magnification: () => magnified,
    fit(width, height) { size = [width, height]; },
    reset() {
      magnified = 1;
      view = [0, 1, 0, 0, 0, 1, 1, 0, 0];
      rotate(-Math.atan2(focus[1], focus[0]), 0);  // first about the pole, which stays upright
      rotate(0.26, Math.asin(Math.max(-0.9, Math.min(0.9, focus[2]))) - 0.26);
    },
    drag(dx, dy) { rotate(dx / radius(), dy / radius()); },
    zoom(factor) { magnified = Math.max(0.5, Math.min(20, magnified * factor)); },
    reveal([x, y, z], k) { if (toView(x[k], y[k], z[k])[2] < 0.2) face([x[k], y[k], z[k]]); },
    outline: () => ({ x: size[0] / 2, y: size[1] / 2, radius: radius(), toView }),
    place([x, y, z], xs, ys, front) {
      const r = radius(), [cx, cy] = [size[0] / 2, size[1] / 2];
      for (let k = 0; k < xs.length; k++) {
        xs[k] = cx + r * (view[0] * x[k] + view[1] * y[k] + view[2] * z[k]);
        ys[k] = cy - r * (view[3] * x[k] + view[4] * y[k] + view[5] * z[k]);
        front[k] = view[6] * x[k] + view[7] * y[k] + view[8] * z[k] >= 0 ? 1 : 0;  // NaN is not in front
      }
    },
  };
  camera.reset();
  return camera;
}

// Meridians and parallels every 30 degrees, as lists of points.
function graticule() {
  const lines = [], radians = Math.PI / 180;
  const add = pointAt => lines.push(Array.from({ length: 73 }, (_, k) => pointAt(5 * k * radians)));
  for (let r = -60; r <= 60; r += 30) {
    const c = Math.cos(r * radians), s = Math.sin(r * radians);
    add(t => [c * Math.cos(t), c * Math.sin(t), s]);
  }
  for (let a = 0; a < 180; a += 30) {
    const c = Math.cos(a * radians), s = Math.sin(a * radians);
    add(t => [Math.cos(t) * c, Math.cos(t) * s, Math.sin(t)]);
  }
  return lines;
}
