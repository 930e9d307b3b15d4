// Colours of rows by a column. All colours are CSS variables, so that they follow the theme, and print in light ones.
const CLASS_COLOURS = 13, RAMP_COLOURS = 5;

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const colour = name => {
    const digits = parseInt(style.getPropertyValue(`--${name}`).trim().slice(1), 16);
    return [digits >> 16, digits >> 8 & 255, digits & 255];
  };
  const series = (name, count) => Array.from({ length: count }, (_, k) => colour(`${name}-${k}`));
  return {
    faint: colour("faint"), ink: colour("ink"), soft: colour("soft"), line: colour("line"),
    one: colour("one"), two: colour("two"), group: colour("clump"),
    classes: series("class", CLASS_COLOURS), ramp: series("ramp", RAMP_COLOURS),
  };
}

const toCss = ([r, g, b], alpha = 1) => `rgb(${r} ${g} ${b} / ${alpha})`;

// The colour at a share from 0 to 1 along the ramp.
function alongRamp(ramp, share) {
  const at = Math.max(0, Math.min(1, share)) * (ramp.length - 1), left = Math.min(Math.floor(at), ramp.length - 2);
  return ramp[left].map((v, c) => Math.round(v + (ramp[left + 1][c] - v) * (at - left)));
}

// The range of a column that the ramp spans: all but the 2 percent at either end, which outliers would stretch.
function spanOf(columns) {
  const known = columns.flatMap(values => Array.from(values).filter(v => !Number.isNaN(v))).sort((a, b) => a - b);
  if (known.length === 0) return null;
  const at = share => known[Math.round(share * (known.length - 1))];
  const [low, high] = at(0.02) < at(0.98) ? [at(0.02), at(0.98)] : [known[0], known[known.length - 1]];
  return { low, high, below: known[0] < low, above: known[known.length - 1] > high };
}

// What rows can be coloured by: the groups, the row number, and the columns of the data.
function listColours(data, groupTitle) {
  const numbers = Float32Array.from(data.numbers.subarray(0, data.shown));
  const columns = data.tables[0].columns.map((column, c) => ({ ...column, perTable: data.tables.map(table => table.columns[c].values) }));
  return [
    { title: groupTitle, kind: "groups" },
    { title: "row number (frequency, if rows are sorted by it)", kind: "number", unit: "", isLogarithmic: true, perTable: data.tables.map(() => numbers) },
    ...columns,
  ].map(column => column.kind === "number" ? { ...column, span: spanOf(column.perTable) } : column);
}

// Red, green and blue of every row, one after the other.
function paintRows(data, column, table, theme) {
  const painted = new Uint8Array(3 * data.shown);
  const plain = table === 0 ? theme.one : theme.two;
  const values = column.perTable && column.perTable[table];
  const scale = column.isLogarithmic ? v => Math.log1p(v) : v => v;
  const low = column.span ? scale(column.span.low) : 0, width = column.span ? Math.max(scale(column.span.high) - low, 1e-12) : 1;
  const colourOf = {
    groups: k => data.highlighted[k] > 0 ? theme.group : plain,
    category: k => theme.classes[values[k]] || theme.soft,
    number: k => Number.isNaN(values[k]) ? theme.soft : alongRamp(theme.ramp, (scale(values[k]) - low) / width),
  }[column.kind];
  for (let k = 0; k < data.shown; k++) painted.set(colourOf(k), 3 * k);
  return painted;
}
