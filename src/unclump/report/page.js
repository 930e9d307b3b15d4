"use strict";
// Names what is pointed at, and turns the globe. All text is set as text, never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tip = document.getElementById("tip");

  function show(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(x + 14, document.documentElement.clientWidth - box.width - 8));
    tip.style.left = `${left + window.scrollX}px`;
    tip.style.top = `${Math.max(8, y - box.height - 12) + window.scrollY}px`;
  }

  const hide = () => { tip.hidden = true; tip.textContent = ""; };

  const caption = (found, k) => found.clumps[k] < 0 ? found.names[k] : `${found.names[k]} · clump ${found.clumps[k] + 1}`;

  // The index of the place nearest to the pointer, or -1 where none is within reach. Places are x, y, x, y, ...
  function pointedAt(svg, event, places, seen) {
    const box = svg.getBoundingClientRect(), unit = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * unit, y = (event.clientY - box.top) * unit;
    let best = -1, reach = (14 * unit) ** 2;
    for (let k = 0; 2 * k < places.length; k++) {
      if (seen && !seen[k]) continue;
      const far = (places[2 * k] - x) ** 2 + (places[2 * k + 1] - y) ** 2;
      if (far < reach) { reach = far; best = k; }
    }
    return best;
  }

  function followPointer(svg, found, places, seen) {
    const ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    ring.setAttribute("class", "ring");
    ring.setAttribute("r", "6");
    ring.setAttribute("visibility", "hidden");
    svg.append(ring);
    const clear = () => { hide(); ring.setAttribute("visibility", "hidden"); };
    const point = event => {
      const k = pointedAt(svg, event, places(), seen && seen());
      if (k < 0) { clear(); return; }
      ring.setAttribute("cx", places()[2 * k]);
      ring.setAttribute("cy", places()[2 * k + 1]);
      ring.setAttribute("visibility", "visible");
      show(caption(found, k), event.clientX, event.clientY);
    };
    svg.addEventListener("pointermove", event => { if (event.buttons === 0 || event.pointerType !== "mouse") point(event); });
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", clear);
    return clear;
  }

  function lines() {
    const found = [], step = Math.PI / 36;
    const circle = place => found.push(Array.from({ length: 73 }, (_, k) => place(k * step)));
    for (let r = -60; r <= 60; r += 30) {
      const c = Math.cos(r * Math.PI / 180), s = Math.sin(r * Math.PI / 180);
      circle(t => [c * Math.cos(t), c * Math.sin(t), s]);
    }
    for (let a = 0; a < 180; a += 30) {
      const c = Math.cos(a * Math.PI / 180), s = Math.sin(a * Math.PI / 180);
      circle(t => [Math.cos(t) * c, Math.cos(t) * s, Math.sin(t)]);
    }
    return found;
  }

  function turnable(svg, found) {
    const middle = svg.viewBox.baseVal.width / 2, count = found.names.length, grid = lines();
    const part = name => svg.querySelector(`[data-part="${name}"]`);
    const places = new Float64Array(2 * count), seen = new Uint8Array(count);
    let view = found.view.slice(), waiting = false;

    const turned = ([x, y, z]) => [0, 3, 6].map(r => view[r] * x + view[r + 1] * y + view[r + 2] * z);

    function draw() {
      waiting = false;
      const paths = { far: [], "clump-far": [], near: [], clump: [], grid: [], "grid-far": [] };
      for (let k = 0; k < count; k++) {
        const [x, y, z] = turned(found.points.slice(3 * k, 3 * k + 3));
        places[2 * k] = middle + found.radius * x;
        places[2 * k + 1] = middle - found.radius * y;
        seen[k] = z >= 0;
        const name = found.clumps[k] < 0 ? (z < 0 ? "far" : "near") : (z < 0 ? "clump-far" : "clump");
        paths[name].push(`M${places[2 * k].toFixed(1)} ${places[2 * k + 1].toFixed(1)}h0`);
      }
      for (const line of grid) {
        const there = line.map(turned);
        for (let k = 0; k + 1 < there.length; k++) {
          const [a, b] = [there[k], there[k + 1]].map(p => [middle + found.radius * p[0], middle - found.radius * p[1]]);
          paths[there[k][2] + there[k + 1][2] < 0 ? "grid-far" : "grid"].push(
            `M${a[0].toFixed(1)} ${a[1].toFixed(1)}L${b[0].toFixed(1)} ${b[1].toFixed(1)}`);
        }
      }
      for (const [name, pieces] of Object.entries(paths)) part(name).setAttribute("d", pieces.join(""));
    }

    function turn(right, up) {
      const [cr, sr, cu, su] = [Math.cos(right), Math.sin(right), Math.cos(up), Math.sin(up)];
      const about = [cr, 0, sr, su * sr, cu, -su * cr, -cu * sr, su, cu * cr];
      view = about.map((_, k) => {
        const row = 3 * Math.floor(k / 3), column = k % 3;
        return about[row] * view[column] + about[row + 1] * view[column + 3] + about[row + 2] * view[column + 6];
      });
      if (!waiting) { waiting = true; requestAnimationFrame(draw); }
    }

    const clear = followPointer(svg, found, () => places, () => seen);
    let from = null;
    const each = action => { for (const other of globes) other(...action); };
    svg.addEventListener("pointerdown", event => {
      from = [event.clientX, event.clientY];
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", event => {
      if (!from) return;
      clear();
      const unit = svg.viewBox.baseVal.width / svg.getBoundingClientRect().width / found.radius;
      each([(event.clientX - from[0]) * unit, (event.clientY - from[1]) * unit]);
      from = [event.clientX, event.clientY];
    });
    for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { from = null; });
    svg.addEventListener("keydown", event => {
      const step = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[event.key];
      if (!step) return;
      event.preventDefault();
      clear();
      each(step);
    });
    draw();
    return turn;
  }

  const globes = [];  // before and after turn together
  document.querySelectorAll("[data-picture]").forEach(holder => {
    const found = data[Number(holder.dataset.picture)], svg = holder.querySelector("svg");
    if (found.kind === "globe") globes.push(turnable(svg, found));
    else followPointer(svg, found, () => found.places, null);
  });
  window.addEventListener("scroll", hide, { passive: true });
})();
