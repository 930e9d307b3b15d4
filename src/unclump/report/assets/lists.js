// The static lists become part of the map: a name selects its row, a group is marked as a whole.
function bindLists(app) {
  const { data } = app;
  const goToMap = () => byId("map").scrollIntoView({ block: "start" });
  document.querySelectorAll("[data-row]").forEach(name => {
    const k = data.place.get(Number(name.dataset.row));
    if (k === undefined) return;
    const button = makeButton("", () => { goToMap(); app.select(k, { reveal: true }); });
    button.title = "Show its neighbours";
    name.replaceWith(button);
    button.append(name);
  });
  document.querySelectorAll("[data-group]").forEach(cell => {
    const [table, group] = cell.dataset.group.split(" ").map(Number), rows = data.tables[table].groups[group];
    cell.append(" ", makeButton("Mark", () => { goToMap(); app.mark([...rows], `group ${group + 1}`); }, "button small"));
  });
}
