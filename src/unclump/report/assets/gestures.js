// Mouse, touch, wheel and keys on a map: move or turn it, magnify it, point at a row, select one.
const CLICK = 6;  // the farthest, in pixels, that a pointer moves in a click
const KEY_STEP = 40, KEY_ZOOM = 1.4;

function bindGestures(map, app) {
  const { canvas } = map, pointers = new Map();
  let travelled = 0;
  const at = event => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const middle = points => [0, 1].map(c => points.reduce((sum, p) => sum + p[c], 0) / points.length);
  const spread = points => points.length < 2 ? 1 : Math.max(1, Math.hypot(points[0][0] - points[1][0], points[0][1] - points[1][1]));

  function follow(event) {
    const before = [...pointers.values()];
    pointers.set(event.pointerId, at(event));
    const after = [...pointers.values()], from = middle(before), to = middle(after);
    travelled += Math.hypot(to[0] - from[0], to[1] - from[1]) + Math.abs(spread(after) - spread(before));
    if (travelled <= CLICK) return;
    app.camera.drag(to[0] - from[0], to[1] - from[1]);
    app.camera.zoom(spread(after) / spread(before), ...to);
    app.redraw();
  }

  function point(event) {
    const k = map.pick(...at(event));
    canvas.classList.toggle("over", k >= 0);
    if (k < 0) hideTip(); else showTip(app.caption(k), event.clientX, event.clientY);
  }

  canvas.addEventListener("pointerdown", event => {
    if (pointers.size === 0) travelled = 0;
    pointers.set(event.pointerId, at(event));
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => {
    if (pointers.has(event.pointerId)) { hideTip(); follow(event); } else point(event);
  });
  canvas.addEventListener("pointerup", event => {
    if (pointers.size === 1 && travelled <= CLICK) app.select(map.pick(...at(event)));
    pointers.delete(event.pointerId);
  });
  canvas.addEventListener("pointercancel", event => pointers.delete(event.pointerId));
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("wheel", event => {
    if (!event.ctrlKey && document.activeElement !== canvas) return;  // an unfocused map lets the page scroll
    event.preventDefault();
    hideTip();
    app.camera.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), ...at(event));
    app.redraw();
  }, { passive: false });
  canvas.addEventListener("keydown", event => {
    const centre = [canvas.clientWidth / 2, canvas.clientHeight / 2];
    const action = {
      ArrowLeft: () => app.camera.drag(KEY_STEP, 0), ArrowRight: () => app.camera.drag(-KEY_STEP, 0),
      ArrowUp: () => app.camera.drag(0, KEY_STEP), ArrowDown: () => app.camera.drag(0, -KEY_STEP),
      "+": () => app.camera.zoom(KEY_ZOOM, ...centre), "=": () => app.camera.zoom(KEY_ZOOM, ...centre),
      "-": () => app.camera.zoom(1 / KEY_ZOOM, ...centre), 0: () => app.camera.reset(),
      Enter: () => app.select(map.pick(...centre)), Escape: () => { app.select(-1); app.mark(null, ""); },
    }[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    hideTip();
    action();
    app.redraw();
  });
  canvas.parentElement.querySelectorAll("[data-zoom]").forEach(button => button.addEventListener("click", () => {
    const factor = Number(button.dataset.zoom);
    if (factor) app.camera.zoom(factor, canvas.clientWidth / 2, canvas.clientHeight / 2); else app.camera.reset();
    app.redraw();
  }));
}
