"use strict";
// Labels the row under the pointer, and rotates the globe. Text is always set as textContent, never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tip = document.getElementById("tip");

  function showTip(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(x + 14, document.documentElement.clientWidth - box.width - 8));
    tip.style.left = `${left + window.scrollX}px`;
    tip.style.top = `${Math.max(8, y - box.height - 12) + window.scrollY}px`;
  }

  const hideTip = () => { tip.hidden = true; tip.textContent = ""; };

  const caption = ({ names, clumps }, k) => clumps[k] < 0 ? names[k] : `${names[k]} · clump ${clumps[k] + 1}`;

  // The index of the dot nearest to the pointer, or -1 if none is within 14 pixels. xy is x, y, x, y, ...
  function nearestDot(svg, event, xy, isFront) {
    const box = svg.getBoundingClientRect(), unit = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * unit, y = (event.clientY - box.top) * unit;
    let nearest = -1, nearestSquare = (14 * unit) ** 2;
    for (let k = 0; 2 * k < xy.length; k++) {
      if (isFront && !isFront[k]) continue;
      const square = (xy[2 * k] - x) ** 2 + (xy[2 * k + 1] - y) ** 2;
      if (square < nearestSquare) { nearestSquare = square; nearest = k; }
    }
    return nearest;
  }

  // Returns a function that removes the label. isFront is null where every dot can be pointed at.
  function labelDots(svg, picture, xy, isFront) {
    const ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    ring.setAttribute("class", "ring");
    ring.setAttribute("r", "6");
    ring.setAttribute("visibility", "hidden");
    svg.append(ring);
    const clear = () => { hideTip(); ring.setAttribute("visibility", "hidden"); };
    const label = event => {
      const k = nearestDot(svg, event, xy, isFront);
      if (k < 0) { clear(); return; }
      ring.setAttribute("cx", xy[2 * k]);
      ring.setAttribute("cy", xy[2 * k + 1]);
      ring.setAttribute("visibility", "visible");
      showTip(caption(picture, k), event.clientX, event.clientY);
    };
    svg.addEventListener("pointermove", event => { if (event.buttons === 0 || event.pointerType !== "mouse") label(event); });
    svg.addEventListener("pointerdown", label);
    svg.addEventListener("pointerleave", clear);
    return clear;
  }

  function graticule() {
    const lines = [], step = Math.PI / 36;
    const addCircle = pointAt => lines.push(Array.from({ length: 73 }, (_, k) => pointAt(k * step)));
    for (let r = -60; r <= 60; r += 30) {
      const c = Math.cos(r * Math.PI / 180), s = Math.sin(r * Math.PI / 180);
      addCircle(t => [c * Math.cos(t), c * Math.sin(t), s]);
    }
    for (let a = 0; a < 180; a += 30) {
      const c = Math.cos(a * Math.PI / 180), s = Math.sin(a * Math.PI / 180);
      addCircle(t => [Math.cos(t) * c, Math.cos(t) * s, Math.sin(t)]);
    }
    return lines;
  }

  // Returns a function that rotates this globe by two angles.
  function makeRotatable(svg, globe) {
    const centre = svg.viewBox.baseVal.width / 2, count = globe.names.length, grid = graticule();
    const part = name => svg.querySelector(`[data-part="${name}"]`);
    const xy = new Float64Array(2 * count), isFront = new Uint8Array(count);
    let view = globe.view.slice(), isFrameRequested = false;

    const toView = ([x, y, z]) => [0, 3, 6].map(r => view[r] * x + view[r + 1] * y + view[r + 2] * z);

    function draw() {
      isFrameRequested = false;
      const paths = { far: [], "clump-far": [], near: [], clump: [], grid: [], "grid-far": [] };
      for (let k = 0; k < count; k++) {
        const [x, y, z] = toView(globe.points.slice(3 * k, 3 * k + 3));
        xy[2 * k] = centre + globe.radius * x;
        xy[2 * k + 1] = centre - globe.radius * y;
        isFront[k] = z >= 0;
        const name = globe.clumps[k] < 0 ? (z < 0 ? "far" : "near") : (z < 0 ? "clump-far" : "clump");
        paths[name].push(`M${xy[2 * k].toFixed(1)} ${xy[2 * k + 1].toFixed(1)}h0`);
      }
      for (const line of grid) {
        const rotated = line.map(toView);
        for (let k = 0; k + 1 < rotated.length; k++) {
          const [a, b] = [rotated[k], rotated[k + 1]].map(p => [centre + globe.radius * p[0], centre - globe.radius * p[1]]);
          paths[rotated[k][2] + rotated[k + 1][2] < 0 ? "grid-far" : "grid"].push(
            `M${a[0].toFixed(1)} ${a[1].toFixed(1)}L${b[0].toFixed(1)} ${b[1].toFixed(1)}`);
        }
      }
      for (const [name, segments] of Object.entries(paths)) part(name).setAttribute("d", segments.join(""));
    }

    function rotate(right, up) {
      const [cr, sr, cu, su] = [Math.cos(right), Math.sin(right), Math.cos(up), Math.sin(up)];
      const rotation = [cr, 0, sr, su * sr, cu, -su * cr, -cu * sr, su, cu * cr];
      view = rotation.map((_, k) => {
        const row = 3 * Math.floor(k / 3), column = k % 3;
        return rotation[row] * view[column] + rotation[row + 1] * view[column + 3] + rotation[row + 2] * view[column + 6];
      });
      if (!isFrameRequested) { isFrameRequested = true; requestAnimationFrame(draw); }
    }

    const clear = labelDots(svg, globe, xy, isFront);
    let dragged = null;  // the last position of a drag
    const rotateAll = (right, up) => { for (const rotateGlobe of rotations) rotateGlobe(right, up); };
    svg.addEventListener("pointerdown", event => {
      dragged = [event.clientX, event.clientY];
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", event => {
      if (!dragged) return;
      clear();
      const unit = svg.viewBox.baseVal.width / svg.getBoundingClientRect().width / globe.radius;
      rotateAll((event.clientX - dragged[0]) * unit, (event.clientY - dragged[1]) * unit);
      dragged = [event.clientX, event.clientY];
    });
    for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { dragged = null; });
    svg.addEventListener("keydown", event => {
      const step = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[event.key];
      if (!step) return;
      event.preventDefault();
      clear();
      rotateAll(...step);
    });
    draw();
    return rotate;
  }

  const rotations = [];  // of all globes: before and after rotate together
  document.querySelectorAll("[data-picture]").forEach(holder => {
    const picture = data[Number(holder.dataset.picture)], svg = holder.querySelector("svg");
    if (picture.kind === "globe") rotations.push(makeRotatable(svg, picture));
    else labelDots(svg, picture, picture.xy, null);
  });
  window.addEventListener("scroll", hideTip, { passive: true });
})();
